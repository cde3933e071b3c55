//! Amounts of resources as whole numbers: `100m` of cpu is 100 thousandths, `1Gi` is bytes.
//!
//! What is between two whole numbers counts as the greater one, as upstream rounds. What cannot be
//! read is nothing: the server has checked it.

use amounts::quantity::Quantity;
use serde_json::Value;

/// In whole units.
pub fn units(value: &Value) -> i64 {
    Quantity::read(value).map_or(0, |amount| amount.value())
}

/// In thousandths.
pub fn thousandths(value: &Value) -> i64 {
    Quantity::read(value).map_or(0, |amount| amount.milli_value())
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
