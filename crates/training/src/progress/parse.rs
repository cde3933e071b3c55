//! Reads one line of a training program's output.
//!
//! Pure: no clock, no state. `tracker.rs` puts lines together.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::bars::find_bar;
use super::dictionaries::find_numbers;
use super::names::{Confidence, Role, role};
use super::sample::{Counter, Sample, is_metric_name, value_text};

/// A name and a number: `loss=0.5`, `Loss: 0.5`, `loss 0.5`, `Epoch [3/20]`, `step 10 of 50`.
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?x)
        \b ([A-Za-z][\w@./'-]*)
        ( \s*[=:\#]\s* | \s+ | \s*\[ )
        \[? \s* (?: [a-z.0-9]+\( )?
        ( [-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)? | [-+]?(?i:nan|inf(?:inity)?) )
        (?: \s* (?: / | \bof\b | \bout\ of\b ) \s* (\d+(?:\.\d+)?) )?
        \s* (%)?",
    )
});
/// A position without a name: `[640/60000 (1%)]`.
static POSITION: LazyLock<Regex> = LazyLock::new(|| compiled(r"\[\s*(\d+)\s*/\s*(\d+)[^\]]*\]"));
/// The round with which XGBoost and LightGBM begin a line.
static ROUND: LazyLock<Regex> = LazyLock::new(|| compiled(r"^\[(\d+)\]\s"));
/// The rank that launchers put before lines.
static RANK: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"^\[(?:rank|default|node)\s?(\d+)\]:?\s?"));
/// Colours, and movements of the cursor.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| compiled(r"\x1b\[[0-9;?]*[A-Za-z]"));

/// Words that belong to the name behind them: `Validation Loss`, `learning rate`.
const QUALIFIERS: &[&str] = &[
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "test",
    "eval",
    "evaluation",
    "dev",
    "avg",
    "average",
    "mean",
    "running",
    "total",
    "final",
    "best",
    "lm",
    "learning",
    "grad",
    "num",
    "max",
    "optimization",
];

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant")
}

/// Returns the numbers of a line. Lines of other ranks than the first have none.
pub fn parse_line(line: &str) -> Sample {
    let clean = ESCAPE.replace_all(line, "");
    let mut text = clean.trim();
    if let Some(found) = RANK.captures(text) {
        if &found[1] != "0" {
            return Sample::default();
        }
        text = text[found[0].len()..].trim_start();
    }
    // Most lines of most programs have no number.
    if !text.bytes().any(|byte| byte.is_ascii_digit()) && !text.contains(['=', ':']) {
        return Sample::default();
    }
    if let Some(numbers) = find_numbers(text) {
        return from_dictionary(numbers);
    }
    match find_bar(text) {
        Some((bar, rest)) => Sample { bar: Some(bar), ..from_text(&rest) },
        None => from_text(text),
    }
}

/// A name with its number, as it stands in a line.
struct Pair<'a> {
    name: String,
    role: Role,
    is_assigned: bool,
    is_labelled: bool,
    value: &'a str,
    total: Option<f64>,
    is_percent: bool,
}

fn from_text(text: &str) -> Sample {
    let mut pairs = Vec::new();
    let mut covered = Vec::new();
    let mut at = 0;
    while let Some(found) = PAIR.captures_at(text, at) {
        match pair(text, &found) {
            Some((pair, range)) => {
                at = range.end;
                covered.push(range);
                pairs.push(pair);
            }
            // The number may belong to a name further on.
            None => at = found.get(1).map_or(text.len(), |name| name.end()),
        }
    }
    let is_anchored = pairs.iter().any(Pair::is_anchor);
    let mut sample = Sample::default();
    for pair in pairs {
        pair.add_to(&mut sample, is_anchored);
    }
    let positions = POSITION.captures_iter(text).filter_map(|one| one.get(0).map(|all| (one, all)));
    let mut free = positions.filter(|(_, all)| {
        !covered.iter().any(|one| one.start < all.end() && all.start() < one.end)
    });
    if let Some((found, _)) = free.next().filter(|_| is_anchored) {
        sample.within_epoch = counter(&found[1], Some(&found[2]));
    }
    if sample.step.is_none() && !sample.metrics.is_empty() {
        sample.step = ROUND.captures(text).and_then(|found| counter(&found[1], None));
    }
    sample
}

fn counter(current: &str, total: Option<&str>) -> Option<Counter> {
    let total = total.and_then(|total| total.parse().ok());
    current.parse().ok().map(|current| Counter { current, total })
}

/// Reads a match, unless its number is part of something else: a time, an address, `5ms`.
fn pair<'a>(text: &'a str, found: &Captures<'a>) -> Option<(Pair<'a>, std::ops::Range<usize>)> {
    let (all, name, value) = (found.get(0)?, found.get(1)?, found.get(3)?);
    let number_end = found.get(4).map_or(value.end(), |total| total.end());
    let mut after = text[number_end..].chars();
    let is_cut = match after.next() {
        Some(':' | '.' | '-' | '/') => after.next().is_some_and(|next| next.is_ascii_digit()),
        Some(next) => next.is_alphanumeric() || next == '_',
        None => false,
    };
    if is_cut {
        return None;
    }
    let separator = found[2].trim();
    let name = qualified(&text[..name.start()], name.as_str());
    let pair = Pair {
        role: role(&name),
        name,
        is_assigned: separator == "=",
        is_labelled: separator == ":",
        value: value.as_str(),
        total: found.get(4).and_then(|total| total.as_str().parse().ok()),
        is_percent: found.get(5).is_some(),
    };
    Some((pair, all.start()..all.end()))
}

/// Puts the qualifiers that stand before a name in front of it.
fn qualified(before: &str, name: &str) -> String {
    let mut words = vec![name.to_lowercase()];
    let mut rest = before;
    while let Some(trimmed) = rest.strip_suffix(' ') {
        let start = trimmed
            .rfind(|letter: char| !letter.is_alphanumeric())
            .map_or(0, |at| at + trimmed[at..].chars().next().map_or(1, char::len_utf8));
        let word = trimmed[start..].to_lowercase();
        let is_letter = word.len() == 1 && trimmed[start..].starts_with(char::is_uppercase);
        if !is_letter && !QUALIFIERS.contains(&word.as_str()) {
            break;
        }
        words.push(word);
        rest = &trimmed[..start];
    }
    // A qualified counter is a counter: `Train Epoch: 3`.
    if matches!(role(&words[0]), Role::Epoch | Role::Step) {
        words.truncate(1);
    }
    words.reverse();
    words.join("_")
}

impl Pair<'_> {
    /// True if the pair makes its line one about training.
    fn is_anchor(&self) -> bool {
        match self.role {
            Role::Epoch | Role::Step | Role::Progress => true,
            Role::Metric(Confidence::Certain) => {
                self.is_assigned || self.is_labelled || self.is_real()
            }
            _ => false,
        }
    }

    /// Without a separator a metric has a fraction: `loss 0.5`, but not `loss 3 times`.
    fn is_real(&self) -> bool {
        self.value.contains(['.', 'e', 'n', 'N'])
    }

    fn add_to(self, sample: &mut Sample, is_anchored: bool) {
        let has_separator = self.is_assigned || self.is_labelled;
        let number: Option<f64> = self.value.parse().ok().filter(|number: &f64| number.is_finite());
        match self.role {
            Role::Epoch => sample.epoch = sample.epoch.or(self.counter()),
            Role::Step => sample.step = sample.step.or(self.counter()),
            Role::Epochs if has_separator => sample.epochs_total = number.filter(is_positive),
            Role::Steps if has_separator => sample.steps_total = number.filter(is_positive),
            Role::RemainingSeconds => sample.remaining_seconds = number.and_then(seconds),
            Role::Progress => sample.fraction = self.fraction().or(sample.fraction),
            Role::Metric(confidence) if is_anchored => {
                let is_metric = match confidence {
                    Confidence::Certain => has_separator || self.is_real(),
                    Confidence::Likely => has_separator,
                    Confidence::Unknown => self.is_assigned,
                };
                if is_metric && let Some(value) = self.metric_value() {
                    sample.set_metric(self.name, value);
                }
            }
            _ => {}
        }
    }

    fn counter(&self) -> Option<Counter> {
        let current = self.value.parse().ok().filter(|current: &f64| *current >= 0.0)?;
        Some(Counter { current, total: self.total })
    }

    fn fraction(&self) -> Option<f64> {
        let number: f64 = self.value.parse().ok()?;
        let fraction = match self.total {
            Some(total) => number / total,
            None if self.is_percent || number > 1.0 => number / 100.0,
            None => number,
        };
        (0.0..=1.0).contains(&fraction).then_some(fraction)
    }

    /// `9905/10000` is a share.
    fn metric_value(&self) -> Option<String> {
        if !is_metric_name(&self.name) {
            return None;
        }
        match self.total.filter(|total| *total > 0.0) {
            Some(total) => value_text(&format!("{:.4}", self.value.parse::<f64>().ok()? / total)),
            None => value_text(self.value),
        }
    }
}

fn is_positive(number: &f64) -> bool {
    *number > 0.0
}

pub(super) fn seconds(number: f64) -> Option<u64> {
    (0.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u64)
}

/// Reads the entries of a dictionary, if one of them is about training.
fn from_dictionary(numbers: Vec<(String, String)>) -> Sample {
    let mut sample = Sample::default();
    let is_anchor = |role: Role| {
        matches!(
            role,
            Role::Epoch | Role::Step | Role::Progress | Role::Metric(Confidence::Certain)
        )
    };
    if !numbers.iter().any(|(name, _)| is_anchor(role(name))) {
        return sample;
    }
    for (name, printed) in numbers {
        add_named(&mut sample, &name, &printed);
    }
    sample
}

/// Adds a number whose name says exactly what it is.
pub(super) fn add_named(sample: &mut Sample, name: &str, printed: &str) {
    let Ok(number) = printed.parse::<f64>() else { return };
    let finite = Some(number).filter(|number| number.is_finite());
    let current = finite.filter(|number| *number >= 0.0);
    match role(name) {
        Role::Epoch => sample.epoch = current.map(|current| Counter { current, total: None }),
        Role::Step => sample.step = current.map(|current| Counter { current, total: None }),
        Role::Epochs => sample.epochs_total = finite.filter(is_positive),
        Role::Steps => sample.steps_total = finite.filter(is_positive),
        Role::RemainingSeconds => sample.remaining_seconds = finite.and_then(seconds),
        Role::Progress => {
            let is_percent = number > 1.0 || name.contains("percent");
            let fraction = if is_percent { number / 100.0 } else { number };
            sample.fraction = Some(fraction).filter(|fraction| (0.0..=1.0).contains(fraction));
        }
        Role::Metric(_) => {
            if is_metric_name(name)
                && let Some(value) = value_text(printed)
            {
                sample.set_metric(name.to_owned(), value);
            }
        }
        Role::Setting => {}
    }
}

#[cfg(test)]
mod tests;
