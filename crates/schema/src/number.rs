//! Numbers as Go sees and prints them.
//!
//! JSON integers that fit are 64-bit integers, all else is a float, as in apimachinery's JSON.

use serde_json::{Number, Value};

/// The largest float all integers below which are exact.
const FLOAT_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// A number as Kubernetes decodes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decoded {
    Integer(i64),
    Float(f64),
}

pub(crate) fn decode(number: &Number) -> Decoded {
    match number.as_i64() {
        Some(integer) => Decoded::Integer(integer),
        None => Decoded::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

impl Decoded {
    pub(crate) fn as_float(self) -> f64 {
        match self {
            Decoded::Integer(integer) => integer as f64,
            Decoded::Float(float) => float,
        }
    }
}

/// Whether a float stands for an integer that JSON can carry exactly.
pub(crate) fn is_integer(float: f64) -> bool {
    float.is_finite() && float.abs() <= FLOAT_INTEGER_MAX && float.fract() == 0.0
}

/// Whether two JSON values are the same, 1 and 1.0 included.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (decode(left), decode(right)) {
            (Decoded::Integer(left), Decoded::Integer(right)) => left == right,
            (left, right) => left.as_float() == right.as_float(),
        },
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, one)| right.get(name).is_some_and(|two| same(one, two)))
        }
        (left, right) => left == right,
    }
}

/// A float as Go's `%v` prints it: shortest digits, an exponent from 21 digits and below 1e-4.
pub(crate) fn float_text(float: f64) -> String {
    if float == 0.0 || !float.is_finite() {
        return format!("{float}");
    }
    let exponent = float.abs().log10().floor();
    if (-4.0..21.0).contains(&exponent) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, power)) => {
            let (sign, power) = match power.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', power),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
        None => text,
    }
}

/// A value as an error shows it: strings quoted, floats as Go prints them, objects as JSON.
pub(crate) fn json_text(value: &Value) -> String {
    match value {
        Value::Number(number) => match decode(number) {
            Decoded::Integer(integer) => integer.to_string(),
            Decoded::Float(float) => float_text(float),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        let cases = [
            (1.0, "1"),
            (0.5, "0.5"),
            (-2.25, "-2.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (0.0, "0"),
        ];
        for (float, text) in cases {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn integers_beyond_exact_floats_are_not_integers() {
        assert!(is_integer(9_007_199_254_740_991.0));
        assert!(!is_integer(9_007_199_254_740_994.0));
        assert!(!is_integer(f64::NAN));
        assert!(!is_integer(1.5));
    }
}
