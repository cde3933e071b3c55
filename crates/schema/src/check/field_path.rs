//! Paths of fields in a schema: `.spec.foo['a.b']`, for `fieldPath` and selectable fields.
//!
//! Upstream: ValidFieldPath of apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go

use crate::node::Node;

/// Whether keys in brackets may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brackets {
    Allowed,
    Refused,
}

/// The path in the form of errors, if it is one of the schema.
pub(crate) fn normalized(text: &str, node: &Node) -> Option<String> {
    resolve(text, node, Brackets::Allowed).ok().map(|(path, _)| path)
}

/// The path in the form of errors, and the schema it leads to.
///
/// # Errors
/// What is wrong with the path, as the end of a sentence.
pub(crate) fn resolve<'n>(
    text: &str,
    node: &'n Node,
    brackets: Brackets,
) -> Result<(String, &'n Node), String> {
    let mut tokens = tokens(text).into_iter();
    let mut node = node;
    let mut path = String::new();
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            "[" if brackets == Brackets::Refused => {
                return Err("array notation is not allowed".to_owned());
            }
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let name = unquote(quoted)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => name,
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        node = step(node, &name, &mut path)?;
    }
    Ok((path, node))
}

fn step<'n>(node: &'n Node, name: &str, path: &mut String) -> Result<&'n Node, String> {
    let unknown = || "does not refer to a valid field".to_owned();
    if !node.properties.is_empty() {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        return node.properties.get(name).map(|child| &**child).ok_or_else(unknown);
    }
    let child = node.additional_schema().ok_or_else(unknown)?;
    path.push_str(&format!("[{name}]"));
    Ok(child)
}

/// Delimiters one by one, quoted strings whole, and what is between.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => quoted_end(rest),
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}

fn quoted_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let close = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
    close.map_or(text.len(), |at| at + 1)
}

fn unquote(quoted: &str) -> Result<String, String> {
    let inside = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let Some(inside) = inside else {
        return Err(format!("expected single quoted string but got {quoted}"));
    };
    let mut text = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        text.push(match characters.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\'') => '\'',
            Some('\\') => '\\',
            Some(other) => {
                return Err(format!("invalid string literal: invalid escape char \\{other}"));
            }
            None => return Err("invalid string literal: invalid escape char \\".to_owned()),
        });
    }
    Ok(text)
}
