//! Reading the signatures of the tables.

use crate::types::Type;

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) receiver: Option<Type>,
    pub(crate) parameters: Vec<Type>,
    pub(crate) result: Type,
    /// How many type parameters it has.
    pub(crate) unknowns: u32,
}

impl Signature {
    /// Reads `receiver.name(parameters) result`. The tables are constants; a malformed one fails
    /// the first test that looks a function up.
    pub(crate) fn parse(name: &str, text: &str) -> Signature {
        let opening = format!("{name}(");
        let start = text.find(&opening).expect("a signature names its function");
        let receiver = text[..start].trim_end_matches('.');
        let (inside, result) =
            split_closing(&text[start + opening.len()..]).expect("a signature closes its list");
        let mut letters = Vec::new();
        let mut read = |text: &str| read_type(text.trim(), &mut letters);
        let receiver = (!receiver.is_empty()).then(|| read(receiver));
        let parameters = split_commas(inside).into_iter().map(&mut read).collect();
        let result = read(result);
        let unknowns = letters.len() as u32;
        Signature { receiver, parameters, result, unknowns }
    }
}

/// What is before the parenthesis that closes the list, and what follows it.
fn split_closing(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => return Some((&text[..index], &text[index + 1..])),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn split_commas(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

fn read_type(text: &str, letters: &mut Vec<char>) -> Type {
    let inner = |name: &str| {
        let rest = text.strip_prefix(name)?.strip_prefix('(')?;
        rest.strip_suffix(')')
    };
    if let Some(items) = inner("list") {
        return Type::list(read_type(items.trim(), letters));
    }
    if let Some(inside) = inner("optional") {
        return Type::optional(read_type(inside.trim(), letters));
    }
    if let Some(inside) = inner("map") {
        let parts = split_commas(inside);
        let keys = read_type(parts[0].trim(), letters);
        return Type::map(keys, read_type(parts[1].trim(), letters));
    }
    match text {
        "timestamp" => return Type::Timestamp,
        "duration" => return Type::Duration,
        "null" => return Type::Null,
        _ => {}
    }
    let mut characters = text.chars();
    if let (Some(letter @ 'A'..='Z'), None) = (characters.next(), characters.next()) {
        let index = letters.iter().position(|known| *known == letter).unwrap_or_else(|| {
            letters.push(letter);
            letters.len() - 1
        });
        return Type::Unknown(index as u32);
    }
    Type::named(text).expect("a signature uses known types")
}
