//! Patterns that users give for the output of their own programs.

use reconcile::Object;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::parse::{add_named, parse_line};
use super::sample::Sample;
use crate::train_job::TrainJob;
use crate::value::{list, text};

/// Annotation of a TrainJob: regular expressions with named groups, one per line. They replace the
/// built-in formats. Groups `epoch`, `epochs`, `step`, `steps`, `progress` and `remaining_seconds`
/// have their meaning; every other group is a metric.
pub const PATTERN: &str = "training.setpoint.dev/progress-pattern";
/// Annotation of a TrainJob: `false` if its output is not to be read.
pub const FROM_OUTPUT: &str = "training.setpoint.dev/progress-from-output";

/// Limits of a pattern: its text, how many there are, and the memory that they take.
const PATTERN_BYTES_MAX: usize = 4_096;
const PATTERNS_MAX: usize = 16;
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Formats that are looked for in the output of a job.
#[derive(Clone, Debug)]
pub enum Formats {
    BuiltIn,
    Custom(Vec<Regex>),
}

impl Formats {
    /// Reads the annotation of a job. The error names the field.
    pub fn from_annotation(job: &Object) -> Result<Formats, String> {
        let Some(annotation) = job.value["metadata"]["annotations"][PATTERN].as_str() else {
            return Ok(Formats::BuiltIn);
        };
        let refused = |why: String| format!("metadata.annotations[{PATTERN}]: {why}");
        let lines: Vec<&str> = annotation.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            return Err(refused("it has no pattern".to_owned()));
        }
        if lines.len() > PATTERNS_MAX {
            return Err(refused(format!("it has more than {PATTERNS_MAX} patterns")));
        }
        let compiled = lines.into_iter().map(compile).collect::<Result<Vec<_>, String>>();
        compiled.map(Formats::Custom).map_err(refused)
    }

    pub fn parse(&self, line: &str) -> Sample {
        let patterns = match self {
            Formats::BuiltIn => return parse_line(line),
            Formats::Custom(patterns) => patterns,
        };
        let mut sample = Sample::default();
        for pattern in patterns {
            let Some(found) = pattern.captures(line) else { continue };
            for name in pattern.capture_names().flatten() {
                if let Some(value) = found.name(name) {
                    add_named(&mut sample, name, value.as_str().trim());
                }
            }
        }
        sample
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("a pattern has more than {PATTERN_BYTES_MAX} bytes"));
    }
    let compiled = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build();
    let compiled = compiled.map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{pattern:?} is not a regular expression: {reason}")
    })?;
    match compiled.capture_names().flatten().next() {
        Some(_) => Ok(compiled),
        None => Err(format!("{pattern:?} has no named group such as (?P<loss>[0-9.]+)")),
    }
}

/// Returns the totals that the arguments of a job name: `--epochs 20`, `--max-steps=500`.
pub fn totals_from_arguments(job: &TrainJob<'_>) -> Sample {
    let trainer = job.trainer();
    let words: Vec<&str> = ["command", "args"]
        .iter()
        .flat_map(|field| list(&trainer[*field]))
        .map(|word: &Value| text(word))
        .collect();
    let mut found = Sample::default();
    for (at, word) in words.iter().enumerate() {
        let Some(option) = word.strip_prefix("--") else { continue };
        let (name, value) = match option.split_once('=') {
            Some(pair) => pair,
            None => (option, words.get(at + 1).copied().unwrap_or_default()),
        };
        add_named(&mut found, &name.replace('-', "_"), value);
    }
    let Sample { epochs_total, steps_total, .. } = found;
    Sample { epochs_total, steps_total, ..Sample::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sample::Counter;
    use super::*;

    fn job(annotations: Value, args: Value) -> Object {
        Object::new(json!({"metadata": {"name": "a", "annotations": annotations},
            "spec": {"trainer": {"command": ["python", "a.py"], "args": args}}}))
    }

    #[test]
    fn named_groups_become_counters_and_metrics() {
        let pattern = r"(?P<epoch>\d+) of (?P<epochs>\d+) gave (?P<quality>\S+)";
        let job = job(json!({PATTERN: format!("{pattern}\n(?P<loss>[0-9.]+) lost")}), json!([]));
        let formats = Formats::from_annotation(&job).unwrap();
        let sample = formats.parse("3 of 20 gave 0.9");
        assert_eq!(sample.epoch, Some(Counter { current: 3.0, total: None }));
        assert_eq!(sample.epochs_total, Some(20.0));
        assert_eq!(sample.metrics, [("quality".to_owned(), "0.9".to_owned())]);
        assert_eq!(formats.parse("0.5 lost").metrics, [("loss".to_owned(), "0.5".to_owned())]);
        // Only the patterns count.
        assert!(formats.parse("epoch 1/2 loss=0.5").is_empty());
        assert!(formats.parse("3 of 20 gave up").metrics.is_empty());
    }

    #[test]
    fn a_pattern_that_cannot_be_used_is_refused_with_its_field() {
        for (pattern, reason) in [
            ("loss (", "unclosed group"),
            ("loss [0-9.]+", "has no named group"),
            ("", "it has no pattern"),
            ("(?P<a>x{1000}{1000}{1000})", "exceeds size limit"),
        ] {
            let error = Formats::from_annotation(&job(json!({PATTERN: pattern}), json!([])));
            let error = error.unwrap_err();
            assert!(error.starts_with(&format!("metadata.annotations[{PATTERN}]: ")), "{error}");
            assert!(error.to_lowercase().contains(reason), "{error}");
        }
    }

    #[test]
    fn totals_are_known_from_the_arguments() {
        let job = job(json!({}), json!(["--epochs", "20", "--max-steps=500", "--lr", "0.1"]));
        let totals = totals_from_arguments(&TrainJob::of(&job));
        assert_eq!((totals.epochs_total, totals.steps_total), (Some(20.0), Some(500.0)));
        assert!(totals.metrics.is_empty());
    }
}
