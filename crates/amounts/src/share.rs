//! A number, or a percentage of a total: how far an update may go at once.

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    Up,
    Down,
}

/// What the value means for a total; `absent` where it says nothing that can be understood.
pub fn of(value: &Value, total: i64, round: Round, absent: i64) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match (value.as_i64(), percent) {
        (Some(number), _) => number,
        (None, Some(percent)) => {
            let hundredths = total.saturating_mul(percent);
            match round {
                Round::Up => hundredths.saturating_add(99).div_euclid(100),
                Round::Down => hundredths.div_euclid(100),
            }
        }
        (None, None) => absent,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_are_rounded_as_asked() {
        let cases = [
            (json!(3), Round::Up, 3),
            (json!("25%"), Round::Up, 3),
            (json!("25%"), Round::Down, 2),
            (json!("0%"), Round::Up, 0),
            (json!("100%"), Round::Down, 10),
            (json!(null), Round::Up, 7),
            (json!("many"), Round::Up, 7),
        ];
        for (value, round, expected) in cases {
            assert_eq!(of(&value, 10, round, 7), expected, "{value}");
        }
    }
}
