//! What types and fields are, in words: a table written by hand for those that people look up, and
//! for the rest a sentence made from the names.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::facts::{Field, Shape, Type};

/// By type, then by field; the empty field is the type itself and `*` is any type.
static TABLE: LazyLock<HashMap<(&str, &str), &str>> =
    LazyLock::new(|| parse(include_str!("descriptions.txt")));

fn parse(text: &'static str) -> HashMap<(&'static str, &'static str), &'static str> {
    let mut table = HashMap::new();
    let mut of = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            of = name;
        } else if let Some(text) = line.strip_prefix("= ") {
            table.insert((of, ""), text);
        } else if let Some((field, text)) = line.split_once(": ") {
            table.insert((of, field), text);
        }
    }
    table
}

pub fn of_type(of: &Type) -> String {
    let name = of.short_name();
    if let Some(text) = TABLE.get(&(name, "")) {
        return (*text).to_owned();
    }
    match name.strip_suffix("List") {
        Some(one) if of.field("items").is_some() => format!("A list of {one} objects."),
        _ => sentence(&part_of(name)),
    }
}

/// `PodSpec` is the spec of a pod, `VolumeSource` a source of a volume.
fn part_of(name: &str) -> String {
    for (end, what) in [
        ("Spec", "what is wanted of"),
        ("Status", "what was last observed of"),
        ("Condition", "one aspect of the state of"),
        ("Template", "what is made from"),
        ("Strategy", "how to go about"),
        ("Source", "where to get"),
        ("Reference", "which object is meant by"),
        ("Selector", "which objects are meant by"),
    ] {
        if let Some(rest) = name.strip_suffix(end).filter(|rest| !rest.is_empty()) {
            return format!("{what} {}", words(rest));
        }
    }
    words(name)
}

pub fn of_field(of: &Type, field: &Field) -> String {
    let known = TABLE.get(&(of.short_name(), field.name)).or(TABLE.get(&("*", field.name)));
    if let Some(text) = known {
        return (*text).to_owned();
    }
    let (name, owner) = (words(field.name), words(of.short_name()));
    match field.shape {
        Shape::Boolean => format!("Whether {name} is on, for this {owner}."),
        Shape::List(_) => format!("The list of {name} of this {owner}."),
        Shape::Map(_) => format!("The {name} of this {owner}, by name."),
        Shape::Time | Shape::MicroTime => format!("The time of {name} of this {owner}."),
        Shape::Integer32 | Shape::Integer64 | Shape::Double => {
            format!("The number for {name} of this {owner}.")
        }
        Shape::Quantity => format!("The amount for {name} of this {owner}, such as 500m or 1Gi."),
        _ => format!("The {name} of this {owner}."),
    }
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), characters.as_str())
}

/// `ownerReferences` as `owner references`; short forms in capitals stay as they are.
fn words(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut text = String::with_capacity(name.len() + 4);
    for (at, character) in characters.iter().enumerate() {
        let is_upper = |at: usize| characters.get(at).is_some_and(|one| one.is_ascii_uppercase());
        let is_lower = |at: usize| characters.get(at).is_some_and(|one| one.is_ascii_lowercase());
        let begins = is_upper(at) && at > 0 && (!is_upper(at - 1) || is_lower(at + 1));
        if begins {
            text.push(' ');
        }
        if is_upper(at)
            && (is_lower(at + 1) || at + 1 == characters.len() && !is_upper(at.max(1) - 1))
        {
            text.push(character.to_ascii_lowercase());
        } else {
            text.push(*character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts;

    #[test]
    fn names_become_words() {
        let cases = [
            ("ownerReferences", "owner references"),
            ("PodSpec", "pod spec"),
            ("podIP", "pod IP"),
            ("hostIPC", "host IPC"),
            ("CSINode", "CSI node"),
            ("name", "name"),
        ];
        for (name, expected) in cases {
            assert_eq!(words(name), expected);
        }
    }

    #[test]
    fn every_entry_of_the_table_is_about_something_that_exists() {
        let is_stale = |(of, field): &&(&str, &str)| {
            let mut types = facts::types().iter();
            !types.any(|one| {
                let is_meant = *of == "*" || one.short_name() == *of;
                is_meant && (field.is_empty() || one.field(field).is_some())
            })
        };
        let stale: Vec<_> = TABLE.keys().filter(is_stale).collect();
        assert!(stale.is_empty(), "{stale:?}");
        assert!(TABLE.len() > 500);
    }

    #[test]
    fn everything_has_a_sentence() {
        for of in facts::types() {
            assert!(of_type(of).ends_with('.'), "{}", of.name);
            for field in of.fields {
                assert!(of_field(of, field).ends_with('.'), "{} {}", of.name, field.name);
            }
        }
    }

    #[test]
    fn every_kind_is_described_by_hand() {
        let is_plain = |kind: &&facts::Kind| !TABLE.contains_key(&(kind.kind, ""));
        let plain: Vec<_> = facts::kinds().iter().filter(is_plain).map(|kind| kind.kind).collect();
        assert!(plain.len() < 12, "{plain:?}");
    }
}
