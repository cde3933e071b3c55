//! Real lines of many programs, and what is read from them.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// Writes a sample as one line.
fn shown(sample: &Sample) -> String {
    let mut text = String::new();
    let counters =
        [("epoch", sample.epoch), ("step", sample.step), ("within", sample.within_epoch)];
    for (name, counter) in counters {
        match counter {
            Some(Counter { current, total: Some(total) }) => {
                let _ = write!(text, "{name} {current}/{total}; ");
            }
            Some(Counter { current, total: None }) => {
                let _ = write!(text, "{name} {current}; ");
            }
            None => {}
        }
    }
    if let Some(bar) = &sample.bar {
        let _ = write!(text, "bar {:?} {}/{}; ", bar.description, bar.current, bar.total);
    }
    for (name, number) in [
        ("fraction", sample.fraction),
        ("epochs", sample.epochs_total),
        ("steps", sample.steps_total),
    ] {
        if let Some(number) = number {
            let _ = write!(text, "{name} {number}; ");
        }
    }
    for (name, value) in &sample.metrics {
        let _ = write!(text, "{name}={value} ");
    }
    text.trim_end().to_owned()
}

/// `lines.txt` has a line of output and below it, after `=> `, what is read from it.
#[test]
fn lines_of_real_programs_are_read_as_the_table_says() {
    let table = include_str!("lines.txt");
    let mut line = "";
    let (mut wrong, mut count) = (String::new(), 0);
    for row in table.lines().filter(|row| !row.is_empty() && !row.starts_with("## ")) {
        let Some(expected) = row.strip_prefix("=>") else {
            line = row;
            continue;
        };
        count += 1;
        // Control characters are written as Rust writes them.
        let input = line.replace("\\t", "\t").replace("\\x1b", "\x1b");
        let found = shown(&parse_line(&input));
        if found != expected.trim() {
            let _ = writeln!(wrong, "{line}\n=> {found}\nnot {}\n", expected.trim());
        }
    }
    assert_eq!(wrong, "");
    assert!(count > 60, "{count} rows");
}

proptest! {
    #[test]
    fn no_text_ends_the_parser_or_makes_a_value_that_the_api_refuses(line in "\\PC{0,300}") {
        check(&line);
    }

    #[test]
    fn pieces_of_real_lines_in_any_order_do_not_either(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12)
    ) {
        check(&pieces.concat());
    }
}

const PIECES: &[&str] = &[
    "loss",
    "=",
    ": ",
    " ",
    "0.5",
    "1e400",
    "-",
    "nan",
    "inf",
    "epoch",
    "/",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    ",",
    "%|",
    "|",
    "12/50",
    "[00:03<00:10",
    "99999999999999999999",
    "é",
    "█",
    "\u{1b}[A",
    "[rank 0] ",
    "tensor(",
    ")",
    "step ",
    "progress",
    "%",
    "{'loss': ",
    "0",
    "\u{0}",
    "of",
];

fn check(line: &str) {
    let sample = parse_line(line);
    for (name, value) in &sample.metrics {
        assert!((1..=64).contains(&name.len()), "{name:?}");
        assert!((1..=64).contains(&value.len()), "{value:?}");
    }
    let counters = [sample.epoch, sample.step, sample.within_epoch];
    for counter in counters.into_iter().flatten() {
        let fraction = counter.fraction(None);
        assert!(fraction.is_none_or(|fraction| (0.0..=1.0).contains(&fraction)), "{fraction:?}");
    }
    assert!(sample.fraction.is_none_or(|fraction| (0.0..=1.0).contains(&fraction)));
}
