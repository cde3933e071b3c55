//! The table that is printed: what, how much, and how that compares with the aim.

use std::time::Duration;

/// What a figure should be.
#[derive(Clone, Copy)]
pub enum Aim {
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// Prints a line for each figure as it is known.
pub struct Report;

impl Report {
    pub fn begin() -> Report {
        println!("{:44} {:>14} {:>14} {:>8}  remark", "what", "figure", "aim", "ratio");
        Report
    }

    /// A figure in a unit; a ratio above one is better than the aim.
    pub fn row(&mut self, what: &str, (figure, unit): (f64, &str), aim: Aim, remark: &str) {
        let written = |value: f64| format!("{} {unit}", number(value));
        let (aim, ratio) = match aim {
            Aim::None => (String::new(), String::new()),
            Aim::AtMost(most) => (format!("<= {}", written(most)), ratio(most / figure)),
            Aim::AtLeast(least) => (format!(">= {}", written(least)), ratio(figure / least)),
        };
        let line = format!("{what:44} {:>14} {aim:>14} {ratio:>8}  {remark}", written(figure));
        println!("{}", line.trim_end());
    }

    /// What could not be measured, and why.
    pub fn missing(&mut self, what: &str, why: &str) {
        println!("{what:44} {:>14}  {why}", "-");
    }
}

fn ratio(ratio: f64) -> String {
    if ratio.is_finite() { format!("{ratio:.2}") } else { String::new() }
}

fn number(value: f64) -> String {
    match value.abs() {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

pub fn millis(duration: Duration) -> (f64, &'static str) {
    (duration.as_secs_f64() * 1e3, "ms")
}

pub fn micros(duration: Duration) -> (f64, &'static str) {
    (duration.as_secs_f64() * 1e6, "us")
}
