//! `cargo xtask recording FILE`: runs `setpoint demo` and writes what it printed, when it printed
//! it, as an animated SVG. Browsers play it without a script.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo, check};

const PROMPT: &str = "$ setpoint demo";
/// Time for which the last line stays before the recording starts over.
const HOLD: Duration = Duration::from_secs(6);
const LINE_HEIGHT: usize = 20;
const COLUMN_WIDTH: f64 = 8.43;
const MARGIN: usize = 16;
const COLUMNS_MIN: usize = 80;

/// A line of output and the time after which it was printed.
struct Line {
    after: Duration,
    text: String,
}

/// Records a program, by default the one that it builds in release mode.
pub fn run(file: &Path, program: Option<&Path>) -> Result<()> {
    let program = match program {
        Some(program) => program.to_owned(),
        None => {
            check(&mut cargo(&["build", "--release", "--locked", "--package", "setpoint"]))?;
            workspace::target_directory()?.join("release/setpoint")
        }
    };
    let lines = record(Command::new(program).args(["demo", "--color", "always"]))?;
    fs::write(file, draw(&lines)).with_context(|| format!("could not write {}", file.display()))
}

/// Runs a command to its end and returns its lines in the order in which they came.
fn record(command: &mut Command) -> Result<Vec<Line>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("could not run the demo")?;
    let start = now();
    let (sender, receiver) = mpsc::channel();
    let follow = |stream: Box<dyn Read + Send>| {
        let sender = sender.clone();
        thread::spawn(move || {
            for text in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = sender.send(Line { after: start.elapsed(), text });
            }
        })
    };
    let output = child.stdout.take().context("the output must be a pipe")?;
    let errors = child.stderr.take().context("the errors must be a pipe")?;
    let readers = [follow(Box::new(output)), follow(Box::new(errors))];
    drop(sender);
    let mut lines: Vec<Line> = receiver.iter().collect();
    readers.into_iter().for_each(|reader| drop(reader.join()));
    lines.sort_by_key(|line| line.after);
    match child.wait().context("could not wait for the demo")?.success() {
        true => Ok(lines),
        false => bail!("the demo failed"),
    }
}

/// Draws a terminal in which each line appears at its time.
fn draw(lines: &[Line]) -> String {
    let last = lines.last().map_or(Duration::ZERO, |line| line.after);
    let total = (last + HOLD).as_secs_f64();
    let columns = lines.iter().map(|line| plain(&line.text).chars().count()).max();
    let columns = columns.unwrap_or_default().max(COLUMNS_MIN);
    let width = MARGIN * 2 + (columns as f64 * COLUMN_WIDTH) as usize;
    let height = MARGIN * 2 + (lines.len() + 1) * LINE_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"Recording of setpoint \
         demo\">\n<style>\ntext{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;\
         fill:#d6deeb;white-space:pre}}\n.g{{fill:#7fdb8f}}.y{{fill:#f2cc60}}.r{{fill:#ff7b72}}\
         .d{{fill:#8b98a9}}\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let at = line.after.as_secs_f64() / total * 100.0;
        let _ = writeln!(
            svg,
            "@keyframes l{number}{{0%,{at:.2}%{{opacity:0}}{:.2}%,100%{{opacity:1}}}}\
             .l{number}{{animation:l{number} {total:.1}s infinite}}",
            at + 0.01
        );
    }
    let _ = write!(
        svg,
        "@media (prefers-reduced-motion:reduce){{text{{animation:none!important}}}}\n</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#10151f\"/>\n"
    );
    let y = |row: usize| MARGIN + (row + 1) * LINE_HEIGHT - 5;
    let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{}\" class=\"d\">{PROMPT}</text>", y(0));
    for (number, line) in lines.iter().enumerate() {
        let spans = spans(&line.text);
        let y = y(number + 1);
        let _ = writeln!(svg, "<text class=\"l{number}\" x=\"{MARGIN}\" y=\"{y}\">{spans}</text>");
    }
    svg + "</svg>\n"
}

/// Text with its escape sequences for colours turned into spans.
fn spans(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut out = escape(parts.next().unwrap_or_default());
    for part in parts {
        let (code, rest) = split_code(part);
        let class = match code {
            "32" => Some("g"),
            "33" => Some("y"),
            "31" => Some("r"),
            "2" | "90" => Some("d"),
            _ => None,
        };
        match class {
            Some(class) => {
                let _ = write!(out, "<tspan class=\"{class}\">{}</tspan>", escape(rest));
            }
            None => out += &escape(rest),
        }
    }
    out
}

fn plain(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + split_code(part).1)
}

/// Splits what follows an escape character into the code of a colour and the text behind it.
fn split_code(part: &str) -> (&str, &str) {
    part.strip_prefix('[').and_then(|part| part.split_once('m')).unwrap_or(("", part))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[expect(clippy::disallowed_methods, reason = "the recording shows real times")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_appear_at_their_times_in_their_colours() {
        let line = |millis, text: &str| Line {
            after: Duration::from_millis(millis),
            text: text.to_owned(),
        };
        let svg = draw(&[line(0, "a < b"), line(4000, "\x1b[32mok\x1b[0m done")]);
        assert!(svg.contains(">a &lt; b</text>"), "{svg}");
        assert!(svg.contains("<tspan class=\"g\">ok</tspan> done"), "{svg}");
        assert!(svg.contains("@keyframes l1{0%,40.00%{opacity:0}"), "{svg}");
        assert!(!svg.contains('\x1b'), "{svg}");
    }

    #[test]
    fn both_streams_are_recorded_and_a_failure_is_an_error() {
        let lines = record(Command::new("sh").args(["-c", "echo a; echo b >&2"])).unwrap();
        let mut texts: Vec<_> = lines.into_iter().map(|line| line.text).collect();
        texts.sort();
        assert_eq!(texts, ["a", "b"]);
        assert!(record(Command::new("false").arg("")).is_err());
    }
}
