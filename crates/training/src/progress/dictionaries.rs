//! Flat dictionaries of numbers: JSON lines, and Python's own form, which the Trainer of Hugging
//! Face prints: `{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 0.3}`.

use serde_json::Value;

/// Entries of one dictionary at most.
const ENTRIES_MAX: usize = 128;

/// Finds the dictionary that ends a line, and returns its numbers as they are written.
pub fn find_numbers(line: &str) -> Option<Vec<(String, String)>> {
    let text = line[line.find('{')?..].trim_end();
    if !text.ends_with('}') {
        return None;
    }
    json(text).or_else(|| python(text))
}

fn json(text: &str) -> Option<Vec<(String, String)>> {
    let Value::Object(entries) = serde_json::from_str(text).ok()? else { return None };
    let mut numbers = Vec::new();
    for (name, value) in entries {
        match value {
            // Loggers put what belongs together one level deeper.
            Value::Object(inner) => {
                let inner = inner.into_iter().map(|(key, value)| (key, number(&value)));
                numbers.extend(inner.filter_map(|(key, value)| Some((key, value?))));
            }
            value => numbers.extend(number(&value).map(|value| (name, value))),
        }
    }
    numbers.truncate(ENTRIES_MAX);
    Some(numbers)
}

fn number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if is_number(text) => Some(text.clone()),
        _ => None,
    }
}

/// Reads `{'name': 1.5, "other": '2'}`. Values that are no numbers are left out.
fn python(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut numbers = Vec::new();
    while !rest.is_empty() && numbers.len() < ENTRIES_MAX {
        let (name, after) = quoted(rest)?;
        let after = after.trim_start().strip_prefix(':')?.trim_start();
        let (value, after) = match quoted(after) {
            Some(found) => found,
            None => plain(after),
        };
        if is_number(value) {
            numbers.push((name.to_owned(), value.to_owned()));
        }
        rest = match after.trim_start() {
            "" => "",
            after => after.strip_prefix(',')?.trim_start(),
        };
    }
    Some(numbers)
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..].split_once(quote)
}

/// A value without quotes, until the comma that ends it.
fn plain(text: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return (unwrapped(text[..at].trim()), &text[at..]),
            _ => {}
        }
    }
    (unwrapped(text.trim()), "")
}

/// Reads `tensor(0.5)` and `np.float64(0.5)` as 0.5.
fn unwrapped(value: &str) -> &str {
    let inner = value.split_once('(').map(|(_, inner)| inner);
    let number = inner.and_then(|inner| inner.split([',', ')']).next());
    number.map_or(value, str::trim)
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[(&str, &str)]) {
        let found = find_numbers(line).unwrap_or_default();
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn numbers_are_read_from_json_and_from_python() {
        check("{'loss': 0.5, 'epoch': 0.3}", &[("loss", "0.5"), ("epoch", "0.3")]);
        check("{'loss': '0.5', 'name': 'a, b'}", &[("loss", "0.5")]);
        check("{'loss': tensor(0.25, device='cuda:0'), 'n': 3}", &[("loss", "0.25"), ("n", "3")]);
        check("{'loss': nan}", &[("loss", "nan")]);
        check("2026-01-01 INFO {\"loss\": 0.5, \"ok\": true}", &[("loss", "0.5")]);
        check(r#"{"event": "step", "metrics": {"loss": 1e-3}}"#, &[("loss", "0.001")]);
    }

    #[test]
    fn text_that_is_no_dictionary_is_left_alone() {
        for line in ["{", "{}}", "{'a' 1}", "{a: 1}", "f'{x}'", "{'a': 1} and more", "}{", "{'a"] {
            check(line, &[]);
        }
    }
}
