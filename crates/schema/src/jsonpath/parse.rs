//! From text to steps.

use serde_json::Value;

use super::{Comparison, End, Step};

/// How deep unions and filters may be nested.
const DEPTH_MAX: usize = 16;

pub(super) fn steps(text: &str, depth: usize) -> Result<Vec<Step>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("must not be nested deeper than {DEPTH_MAX} levels"));
    }
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("[?(") {
            let (step, after) = filter(after, depth)?;
            found.push(step);
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("..") {
            if found.last() == Some(&Step::Recursive) {
                return Err("invalid multiple recursive descent".to_owned());
            }
            found.push(Step::Recursive);
            rest = after;
            if rest.starts_with(is_alphanumeric) {
                let (step, after) = field(rest);
                found.push(step);
                rest = after;
            }
            continue;
        }
        let after = &rest[first.len_utf8()..];
        rest = match first {
            '\r' | '\n' => return Err("unclosed action".to_owned()),
            ' ' | '@' | '$' => after,
            '[' => {
                let end = after.find([']', '\n']).filter(|end| after[*end..].starts_with(']'));
                let end = end.ok_or("unterminated array")?;
                bracket(&after[..end], depth, &mut found)?;
                &after[end + 1..]
            }
            '"' | '\'' => {
                let (text, after) = quoted(rest, first)?;
                found.push(Step::Literal(Value::String(text)));
                after
            }
            '.' => {
                let (step, after) = field(after);
                found.push(step);
                after
            }
            '+' | '-' | '0'..='9' => {
                let (value, after) = number(rest)?;
                found.push(Step::Literal(value));
                after
            }
            _ if is_alphanumeric(first) => {
                let end = rest.find(is_terminator).unwrap_or(rest.len());
                found.push(match &rest[..end] {
                    "true" => Step::Literal(Value::Bool(true)),
                    "false" => Step::Literal(Value::Bool(false)),
                    other => return Err(format!("unrecognized identifier {other}")),
                });
                &rest[end..]
            }
            other => {
                let code = u32::from(other);
                return Err(format!("unrecognized character in action: U+{code:04X} '{other}'"));
            }
        };
    }
    Ok(found)
}

fn is_alphanumeric(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn is_terminator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// A name up to the next terminator; a backslash makes any character a part of it.
fn field(text: &str) -> (Step, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            _ if is_terminator(character) => {
                end = at;
                break;
            }
            _ => name.push(character),
        }
    }
    let step = if &text[..end] == "*" { Step::Wildcard } else { Step::Field(name) };
    (step, &text[end..])
}

fn bracket(text: &str, depth: usize, found: &mut Vec<Step>) -> Result<(), String> {
    let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    if let Some(key) = key.filter(|key| !key.contains('\'')) {
        found.push(Step::Field(key.replace('\\', "")));
        return Ok(());
    }
    if text.contains(',') {
        let parts = text.split(',').map(|part| steps(&format!("[{}]", part.trim()), depth + 1));
        found.push(Step::Union(parts.collect::<Result<_, _>>()?));
        return Ok(());
    }
    found.push(slice(if text == "*" { ":" } else { text })?);
    Ok(())
}

fn slice(text: &str) -> Result<Step, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let shaped = |part: &&str| {
        part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() > 3 || !parts.iter().all(shaped) {
        return Err(format!("invalid array index {text}"));
    }
    let bound = |at: usize| match parts.get(at).copied().filter(|part| !part.is_empty()) {
        None => Ok(None),
        Some(part) => match part.parse::<i64>() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("array index {part} is not a number")),
        },
    };
    let end = match (parts.len(), bound(1)?) {
        (1, _) => End::Single,
        (_, Some(end)) => End::Before(end),
        (_, None) => End::Open,
    };
    Ok(Step::Slice { start: bound(0)?, end, stride: bound(2)? })
}

fn filter(text: &str, depth: usize) -> Result<(Step, &str), String> {
    let mut quote = None;
    let mut escaped = false;
    let mut end = None;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            ('\n', _) => break,
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if character == open && !escaped => quote = None,
            (')', None) => {
                end = Some(at);
                break;
            }
            _ => {}
        }
        escaped = character == '\\';
    }
    let end = end.ok_or("unterminated filter")?;
    let after = text[end + 1..].strip_prefix(']').ok_or("unclosed array expect ]")?;
    let inside = &text[..end];
    let is_operator = |character: char| matches!(character, '!' | '<' | '>' | '=');
    let operator_at = inside.find(is_operator).filter(|at| *at > 0);
    let Some(at) = operator_at else {
        let left = steps(inside, depth + 1)?;
        return Ok((Step::Filter { left, comparison: None }, after));
    };
    let (left, rest) = inside.split_at(at);
    let right_at = rest.find(|character| !is_operator(character)).unwrap_or(rest.len());
    let comparison = match &rest[..right_at] {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterEqual,
        other => return Err(format!("unrecognized filter operator {other}")),
    };
    let right = steps(&rest[right_at..], depth + 1)?;
    let left = steps(left, depth + 1)?;
    Ok((Step::Filter { left, comparison: Some((comparison, right)) }, after))
}

fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\n' => break,
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, other)) => value.push(other),
                None => break,
            },
            _ if character == quote => return Ok((value, &text[at + 1..])),
            _ => value.push(character),
        }
    }
    Err("unterminated quoted string".to_owned())
}

fn number(text: &str) -> Result<(Value, &str), String> {
    let signed = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = signed.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(signed.len());
    let end = text.len() - signed.len() + digits;
    let shown = &text[..end];
    let plain = shown.strip_prefix('+').unwrap_or(shown);
    let value = match (plain.parse::<i64>(), plain.parse::<f64>()) {
        (Ok(integer), _) => Value::from(integer),
        (_, Ok(float)) if digits > 0 => Value::from(float),
        _ => return Err(format!("cannot parse number {shown}")),
    };
    Ok((value, &text[end..]))
}
