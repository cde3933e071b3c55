//! Every key, its default and what it means, read from the example: the comments above a key are
//! what is said of it.

use serde::Serialize;

use super::EXAMPLE;

/// What the example only shows as a comment, because there is no default to show.
const MORE: [(&str, &str, &str); 5] = [
    ("controllers.NAME.workers", "", "Objects that this controller works on at once."),
    ("controllers.NAME.per_second", "", "Reconciles that are begun in a second."),
    ("controllers.NAME.backoff", "", "Before the first retry; doubled each time."),
    ("controllers.NAME.backoff_max", "", "The longest time before a retry."),
    (
        "pod_environment.NAME",
        "",
        "Variable of every pod that runs as a process. Without a value it has that of the server.",
    ),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub key: String,
    pub default: String,
    pub meaning: String,
}

/// As a table of Markdown.
pub fn table() -> String {
    let mut text = String::from("| key | default | meaning |\n|---|---|---|\n");
    for Row { key, default, meaning } in rows() {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let meaning = meaning.replace('|', "\\|");
        text.push_str(&format!("| `{key}` | {default} | {meaning} |\n"));
    }
    text
}

/// All keys, in the order of the example.
pub fn rows() -> Vec<Row> {
    let more = MORE.iter().map(|(key, default, meaning)| Row {
        key: (*key).to_owned(),
        default: (*default).to_owned(),
        meaning: (*meaning).to_owned(),
    });
    of(EXAMPLE).into_iter().chain(more).collect()
}

fn of(example: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    // The groups around a line: how far they are indented, their keys, what is said of them.
    let mut around: Vec<(usize, &str, String)> = Vec::new();
    let mut comment = String::new();
    for line in example.lines() {
        let (content, indent) = (line.trim(), line.len() - line.trim_start().len());
        if content.is_empty() {
            comment.clear();
        } else if let Some(said) = content.strip_prefix('#') {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(&said.split_whitespace().collect::<Vec<_>>().join(" "));
        } else if let Some(item) = content.strip_prefix("- ") {
            if let Some(list) = rows.last_mut() {
                item.clone_into(&mut list.default);
            }
        } else if let Some((key, value)) = content.split_once(':') {
            around.retain(|(other, ..)| *other < indent);
            let meaning = std::mem::take(&mut comment);
            let value = value.trim();
            let is_list = value.is_empty()
                && example.contains(&format!(
                    "{line}\n{line_indent}- ",
                    line_indent = " ".repeat(indent + 2)
                ));
            if value.is_empty() && !is_list {
                around.push((indent, key, meaning));
                continue;
            }
            let path: Vec<&str> = around.iter().map(|(_, key, _)| *key).chain([key]).collect();
            let of_group = around.last().map(|(.., said)| said.clone()).unwrap_or_default();
            let meaning = if meaning.is_empty() { of_group } else { meaning };
            let default = value.trim_matches('"').to_owned();
            rows.push(Row { key: path.join("."), default, meaning });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_defaults_and_the_words_above_them() {
        let text =
            "# All.\na:\n  # One.\n  # Two.\n  b: 5s\n  c:\n    - x\n\n# Left out.\n\nd: \"\"\n";
        let row = |key: &str, default: &str, meaning: &str| Row {
            key: key.to_owned(),
            default: default.to_owned(),
            meaning: meaning.to_owned(),
        };
        assert_eq!(
            of(text),
            [row("a.b", "5s", "One. Two."), row("a.c", "x", "All."), row("d", "", "")]
        );
    }
}
