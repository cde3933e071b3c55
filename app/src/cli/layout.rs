//! Help that fits the terminal: clap wraps the descriptions of options, and this the examples and
//! what else stands below them.

use clap::Command;

/// What is said of an example stands beside it where there is this much room, else below it.
const BESIDE_MIN: usize = 28;
const BELOW_INDENT: usize = 6;

/// The same commands, with all texts as wide as a terminal.
pub fn lay_out(command: Command, width: usize) -> Command {
    let text = command.get_after_help().map(|text| wrap(&text.to_string(), width));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().into()).collect();
    let below = |command: Command, name: String| {
        command.mut_subcommand(name, |below| lay_out(below, width))
    };
    names.into_iter().fold(command, below).term_width(width)
}

/// Lines of one paragraph run on; those that are set in are examples, one each.
fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    for line in text.lines().chain([""]) {
        let is_plain = !line.is_empty() && !line.starts_with(' ');
        if is_plain {
            paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
            paragraph.push_str(line);
            continue;
        }
        lines.extend(fill(&std::mem::take(&mut paragraph), width));
        match line.trim_start() {
            "" => lines.push(String::new()),
            _ => lines.extend(example(line, width)),
        }
    }
    lines.join("\n").trim_end().to_owned()
}

/// A command, and what is said of it after a gap.
fn example(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let gap = line[indent..].find("  ").map(|at| at + indent);
    let Some(gap) = gap.filter(|_| length(line) > width) else { return vec![line.to_owned()] };
    let (left, said) = (&line[..gap], line[gap..].trim_start());
    let column = length(line) - length(said);
    if width < column + BESIDE_MIN {
        let room = width.saturating_sub(BELOW_INDENT);
        let below = fill(said, room).into_iter();
        let below = below.map(|text| format!("{:BELOW_INDENT$}{text}", ""));
        return [left.to_owned()].into_iter().chain(below).collect();
    }
    let said = fill(said, width - column);
    let place = |(at, text): (usize, &String)| match at {
        0 => format!("{left:column$}{text}"),
        _ => format!("{:column$}{text}", ""),
    };
    said.iter().enumerate().map(place).collect()
}

/// Words on lines that are no longer than there is room; none for no words.
fn fill(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::definition;

    #[test]
    fn paragraphs_run_on_and_examples_keep_their_columns() {
        let text = "Examples:\n  a one    what it does\n  b        much more than fits here, \
                    really\n\nIt is\nso.";
        let wrapped = "Examples:\n  a one    what it does\n  b        much more than fits here,\n\
                       \x20          really\n\nIt is so.";
        assert_eq!(wrap(text, 40), wrapped);
        let below = "  a long command    and what it does, which is much";
        assert_eq!(
            wrap(below, 30),
            "  a long command\n      and what it does, which\n      is much"
        );
    }

    #[test]
    fn every_help_fits_into_80_columns() {
        let mut wide = Vec::new();
        widest(&lay_out(definition(), 80), &mut wide);
        assert!(wide.is_empty(), "{wide:#?}");
    }

    fn widest(command: &Command, wide: &mut Vec<String>) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        wide.extend(text.lines().filter(|line| length(line) > 80).map(str::to_owned));
        command.get_subcommands().for_each(|below| widest(below, wide));
    }
}
