//! Amounts of resources as whole numbers: `100m` of cpu is 100 thousandths, `1Gi` is bytes.
//!
//! What is between two whole numbers counts as the greater one, as upstream rounds.

use serde_json::Value;

const NANO: i128 = 1_000_000_000;

/// In whole units.
pub fn units(value: &Value) -> i64 {
    read(value).map_or(0, |nanos| round_up(nanos, NANO))
}

/// In thousandths.
pub fn thousandths(value: &Value) -> i64 {
    read(value).map_or(0, |nanos| round_up(nanos, NANO / 1_000))
}

fn round_up(nanos: i128, unit: i128) -> i64 {
    let whole = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0);
    i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
}

/// In billionths; what cannot be read is nothing.
fn read(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => parse(&number.to_string()),
        Value::String(text) => parse(text),
        _ => None,
    }
}

fn parse(text: &str) -> Option<i128> {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = scale(suffix)?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.saturating_mul(scale);
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.saturating_add(i128::from(digit.checked_sub(b'0')?) * place);
    }
    Some(if is_negative { -nanos } else { nanos })
}

/// How many billionths one of the suffix is.
fn scale(suffix: &str) -> Option<i128> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Some(NANO << (10 * (at + 1)));
    }
    let power = match suffix {
        "n" => 0,
        "u" => 3,
        "m" => 6,
        "" => 9,
        "k" => 12,
        "M" => 15,
        "G" => 18,
        "T" => 21,
        "P" => 24,
        "E" => 27,
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            9 + exponent.parse::<i32>().ok()?
        }
    };
    10_i128.checked_pow(u32::try_from(power).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_whole_and_rounded_up() {
        for (text, expected) in [
            (json!("1"), 1_000),
            (json!("100m"), 100),
            (json!("1.5"), 1_500),
            (json!("0.0001"), 1),
            (json!(2), 2_000),
            (json!("1e2"), 100_000),
            (json!("x"), 0),
            (json!(null), 0),
        ] {
            assert_eq!(thousandths(&text), expected, "{text}");
        }
        for (text, expected) in
            [("1Ki", 1_024), ("1.5Gi", 1_610_612_736), ("5M", 5_000_000), ("100m", 1), ("-1", -1)]
        {
            assert_eq!(units(&json!(text)), expected, "{text}");
        }
        assert_eq!(units(&json!("100E")), i64::MAX);
    }
}
