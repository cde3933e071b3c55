//! Functions on strings. Positions count characters.

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{Text, Value, characters};

type Outcome<'a> = Result<Value<'a>, Failure>;

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "contains",
        overloads: &["string.contains(string) bool"],
        cost: Cost::Contains,
        call: contains,
    },
    Function {
        name: "startsWith",
        overloads: &["string.startsWith(string) bool"],
        cost: Cost::Affix,
        call: starts_with,
    },
    Function {
        name: "endsWith",
        overloads: &["string.endsWith(string) bool"],
        cost: Cost::Affix,
        call: ends_with,
    },
    Function {
        name: "charAt",
        overloads: &["string.charAt(int) string"],
        cost: Cost::One,
        call: char_at,
    },
    Function {
        name: "lowerAscii",
        overloads: &["string.lowerAscii() string"],
        cost: Cost::Rewrite,
        call: |fuel, values| rewrite(fuel, values, |text| text.to_ascii_lowercase()),
    },
    Function {
        name: "upperAscii",
        overloads: &["string.upperAscii() string"],
        cost: Cost::Rewrite,
        call: |fuel, values| rewrite(fuel, values, |text| text.to_ascii_uppercase()),
    },
    Function {
        name: "trim",
        overloads: &["string.trim() string"],
        cost: Cost::Rewrite,
        call: |fuel, values| rewrite(fuel, values, |text| text.trim().to_owned()),
    },
    Function {
        name: "substring",
        overloads: &["string.substring(int) string", "string.substring(int, int) string"],
        cost: Cost::Rewrite,
        call: substring,
    },
    Function {
        name: "replace",
        overloads: &[
            "string.replace(string, string) string",
            "string.replace(string, string, int) string",
        ],
        cost: Cost::Replace,
        call: replace,
    },
    Function {
        name: "split",
        overloads: &["string.split(string) list(string)", "string.split(string, int) list(string)"],
        cost: Cost::Split,
        call: split,
    },
    Function {
        name: "join",
        overloads: &["list(string).join() string", "list(string).join(string) string"],
        cost: Cost::Join,
        call: join,
    },
    Function {
        name: "strings.quote",
        overloads: &["strings.quote(string) string"],
        cost: Cost::Quote,
        call: quote,
    },
];

fn one<'v>(values: &'v [Value<'_>], index: usize) -> Result<&'v str, Failure> {
    values.get(index).and_then(Value::as_str).ok_or_else(Failure::no_such_overload)
}

fn number(values: &[Value<'_>], index: usize) -> Result<i64, Failure> {
    match values.get(index) {
        Some(Value::Int(value)) => Ok(*value),
        _ => Err(Failure::no_such_overload()),
    }
}

fn contains<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, part) = (one(values, 0)?, one(values, 1)?);
    fuel.burn((text.len() + part.len()) as u64)?;
    Ok(Value::Bool(text.contains(part)))
}

fn starts_with<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(one(values, 0)?.starts_with(one(values, 1)?)))
}

fn ends_with<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(one(values, 0)?.ends_with(one(values, 1)?)))
}

pub(crate) fn out_of_range(index: i64) -> Failure {
    Failure::evaluation(format!("index out of range: {index}"))
}

fn char_at<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, index) = (one(values, 0)?, number(values, 1)?);
    fuel.burn(text.len() as u64 / 8)?;
    let length = characters(text) as i64;
    if index < 0 || index > length {
        return Err(out_of_range(index));
    }
    let found = text.chars().nth(index as usize);
    Ok(Value::text(found.map(String::from).unwrap_or_default()))
}

fn rewrite<'a>(fuel: &mut Fuel, values: &[Value<'a>], change: fn(&str) -> String) -> Outcome<'a> {
    let text = one(values, 0)?;
    fuel.burn(text.len() as u64)?;
    Ok(Value::text(change(text)))
}

fn substring<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, start) = (one(values, 0)?, number(values, 1)?);
    fuel.burn(text.len() as u64)?;
    let length = characters(text) as i64;
    let end = if values.len() > 2 { number(values, 2)? } else { length };
    if start < 0 || start > length {
        return Err(out_of_range(start));
    }
    if end < 0 || end > length {
        return Err(out_of_range(end));
    }
    if start > end {
        let message = format!("invalid substring range. start: {start}, end: {end}");
        return Err(Failure::evaluation(message));
    }
    let (start, end) = (byte_of(text, start as usize), byte_of(text, end as usize));
    Ok(match &values[0] {
        Value::String(Text::Borrowed(text)) => Value::borrowed(&text[start..end]),
        _ => Value::text(&text[start..end]),
    })
}

/// Where the character of this index begins.
fn byte_of(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte)
}

fn replace<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, from, to) = (one(values, 0)?, one(values, 1)?, one(values, 2)?);
    let count = if values.len() > 3 { number(values, 3)? } else { -1 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let places = if from.is_empty() { text.chars().count() + 1 } else { text.len() / from.len() };
    let grown = places.min(count).saturating_mul(to.len());
    fuel.burn((text.len() as u64).saturating_add(grown as u64))?;
    Ok(Value::text(text.replacen(from, to, count)))
}

fn split<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator) = (one(values, 0)?, one(values, 1)?);
    let count = if values.len() > 2 { number(values, 2)? } else { -1 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    fuel.burn(text.len() as u64)?;
    if count == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let parts: Vec<&str> = if separator.is_empty() {
        split_characters(text, count)
    } else {
        text.splitn(count, separator).collect()
    };
    fuel.burn_items(parts.len())?;
    Ok(Value::list(parts.into_iter().map(Value::text).collect()))
}

fn split_characters(text: &str, count: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() + 1 == count {
            parts.push(rest);
            return parts;
        }
        let (head, tail) = rest.split_at(first.len_utf8());
        parts.push(head);
        rest = tail;
    }
    parts
}

fn join<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let Some(Value::List(list)) = values.first() else { return Err(Failure::no_such_overload()) };
    let separator = if values.len() > 1 { one(values, 1)? } else { "" };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        let text = item.as_str().ok_or_else(Failure::no_such_overload)?;
        fuel.burn((text.len() + separator.len()) as u64 + 1)?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::text(joined))
}

fn quote<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let text = one(values, 0)?;
    fuel.burn(text.len() as u64 * 2)?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(Value::text(quoted))
}

/// `indexOf` and `lastIndexOf` of a string in a string.
pub(crate) fn position(
    fuel: &mut Fuel,
    values: &[Value<'_>],
    search: fn(&str, &str) -> Option<usize>,
) -> Result<i64, Failure> {
    let (text, part) = (one(values, 0)?, one(values, 1)?);
    fuel.burn((text.len() + part.len()) as u64)?;
    let length = characters(text) as i64;
    let is_last = search("aa", "a") == Some(1);
    let offset = if values.len() > 2 { number(values, 2)? } else { -1 };
    if values.len() > 2 && (offset < 0 || offset > length) {
        return Err(out_of_range(offset));
    }
    let (window, before) = match (offset, is_last) {
        (-1, _) => (text, 0),
        (_, false) => {
            let start = byte_of(text, offset as usize);
            (&text[start..], offset)
        }
        // The last match that begins at the offset or before it.
        (_, true) => {
            let end = byte_of(text, offset as usize).saturating_add(part.len()).min(text.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end));
            (&text[..end.unwrap_or(text.len())], 0)
        }
    };
    Ok(match search(window, part) {
        Some(byte) => before + characters(&window[..byte]) as i64,
        None => -1,
    })
}
