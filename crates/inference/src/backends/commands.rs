//! Putting flags into a command that a user wrote, whatever way it is written.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::{Framework, words};
use crate::value::{list, list_mut, text};

/// Characters that a shell would take for more than themselves.
const SPECIAL: &str = " \t\n'\"\\{}[]$`!";

/// Adds flags to the engine that a container starts.
pub fn inject(container: &mut Value, flags: &str, needs_shell: bool, framework: Framework) {
    if !starts_python(container) {
        return inject_into_text(container, flags, framework);
    }
    if needs_shell {
        let line = quoted(&words(container));
        container["command"] = json!(["sh", "-c"]);
        container["args"] = json!([format!("exec {line} {flags}")]);
        return;
    }
    list_mut(&mut container["args"]).extend(flags.split_whitespace().map(|flag| json!(flag)));
}

pub fn starts_python(container: &Value) -> bool {
    static PYTHON: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(.*/)?(python\d*(\.\d+)*)$").expect("the pattern must be one")
    });
    list(&container["command"]).first().is_some_and(|first| PYTHON.is_match(text(first)))
}

/// In the first argument that starts the engine, the flags follow its name.
fn inject_into_text(container: &mut Value, flags: &str, framework: Framework) {
    let name = framework.name();
    let pattern = format!(r"(python[0-9.]*\s+[^|&;]*{name}[^|&;]*?)(\s|$|[|&;])");
    let pattern = Regex::new(&pattern).expect("the pattern must be one");
    for argument in container["args"].as_array_mut().into_iter().flatten() {
        let before = text(argument);
        let put = |found: &Captures<'_>| format!("{} {flags}{}", &found[1], &found[2]);
        let after = pattern.replace_all(before, put);
        if after != before {
            *argument = json!(after);
            return;
        }
    }
}

/// Words as a shell reads them back.
pub fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    words.join(" ")
}

fn quote(word: &str) -> String {
    if !word.contains(|character| SPECIAL.contains(character)) {
        return word.to_owned();
    }
    let mut made = String::from("\"");
    for character in word.chars() {
        match character {
            '\\' | '"' | '$' | '`' => {
                made.push('\\');
                made.push(character);
            }
            '\'' => made.push_str("'\"'\"'"),
            other => made.push(other),
        }
    }
    made.push('"');
    made
}

/// Words in single quotes where they need any.
pub fn single_quoted(words: &[&str]) -> String {
    let is_safe =
        |character: char| character.is_ascii_alphanumeric() || "_@%+=:,./-".contains(character);
    let quote = |word: &&str| match !word.is_empty() && word.chars().all(is_safe) {
        true => (*word).to_owned(),
        false => format!("'{}'", word.replace('\'', "'\"'\"'")),
    };
    words.iter().map(quote).collect::<Vec<String>>().join(" ")
}
