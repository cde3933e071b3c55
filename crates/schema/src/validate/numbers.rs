//! Bounds of numbers. Upstream compares an integer with the whole part of a bound only; here 1 is
//! less than 1.5, as the schema says.

use serde_json::{Number, Value};

use crate::node::Bounds;
use crate::number::{Decoded, decode, float_text, is_integer};

/// What is wrong with a number: its value and the end of the sentence, in upstream's order.
pub(super) fn check(number: &Number, bounds: &Bounds) -> Vec<(Value, String)> {
    let mut found = Vec::new();
    let decoded = decode(number);
    let mut wrong = |detail: String| found.push((Value::Number(number.clone()), detail));
    if let Some(factor) = bounds.multiple_of
        && !is_multiple(decoded, factor)
    {
        wrong(format!("a multiple of {}", bound_text(decoded, factor)));
    }
    if let Some(minimum) = bounds.minimum {
        let exclusive = bounds.exclusive_minimum;
        let text = bound_text(decoded, minimum);
        match compare(decoded, minimum) {
            Some(std::cmp::Ordering::Less) if !exclusive => {
                wrong(format!("greater than or equal to {text}"));
            }
            Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal) if exclusive => {
                wrong(format!("greater than {text}"));
            }
            _ => {}
        }
    }
    if let Some(maximum) = bounds.maximum {
        let exclusive = bounds.exclusive_maximum;
        let text = bound_text(decoded, maximum);
        match compare(decoded, maximum) {
            Some(std::cmp::Ordering::Greater) if !exclusive => {
                wrong(format!("less than or equal to {text}"));
            }
            Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal) if exclusive => {
                wrong(format!("less than {text}"));
            }
            _ => {}
        }
    }
    found
}

fn compare(number: Decoded, bound: f64) -> Option<std::cmp::Ordering> {
    match number {
        Decoded::Integer(integer) if is_integer(bound) => Some(integer.cmp(&(bound as i64))),
        number => number.as_float().partial_cmp(&bound),
    }
}

fn bound_text(number: Decoded, bound: f64) -> String {
    match number {
        Decoded::Integer(_) if is_integer(bound) => (bound as i64).to_string(),
        _ => float_text(bound),
    }
}

fn is_multiple(number: Decoded, factor: f64) -> bool {
    match number {
        Decoded::Integer(integer) if factor >= 1.0 && is_integer(factor) => {
            integer % (factor as i64) == 0
        }
        number if factor > 0.0 && factor < 1.0 => is_integer(1.0 / factor * number.as_float()),
        number if factor >= 1.0 => is_integer(number.as_float() / factor),
        // Nothing is a multiple of zero or less.
        _ => false,
    }
}
