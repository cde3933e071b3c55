//! Equality and order of values. Numbers compare across types; values of different types are not
//! equal. Every part looked at burns fuel.

use std::cmp::Ordering;

use crate::declared::ListKind;
use crate::evaluate::{Failure, Fuel};
use crate::value::json::keys_of;
use crate::value::{List, Map, Opaque, Value};

/// What looking at two parts burns.
const COMPARISON: u64 = 16;

pub(crate) fn equal<'a>(
    fuel: &mut Fuel,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Result<bool, Failure> {
    fuel.burn(COMPARISON)?;
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::String(left), Value::String(right)) => {
            let (left, right) = (left.as_str(), right.as_str());
            fuel.burn(left.len().min(right.len()) as u64 / 8)?;
            left == right
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            fuel.burn(left.len().min(right.len()) as u64 / 8)?;
            left == right
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => left == right,
        (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::Type(left), Value::Type(right)) => left == right,
        (Value::List(left), Value::List(right)) => equal_lists(fuel, left, right)?,
        (Value::Map(left), Value::Map(right)) => equal_maps(fuel, left, right)?,
        (Value::Optional(left), Value::Optional(right)) => match (left, right) {
            (None, None) => true,
            (Some(left), Some(right)) => equal(fuel, left, right)?,
            _ => false,
        },
        (Value::Opaque(left), Value::Opaque(right)) => equal_opaque(left, right),
        _ => compare_numbers(left, right) == Some(Ordering::Equal),
    })
}

fn equal_lists<'a>(fuel: &mut Fuel, left: &List<'a>, right: &List<'a>) -> Result<bool, Failure> {
    if left.len() != right.len() {
        return Ok(false);
    }
    let kind = match (left.kind(), right.kind()) {
        (ListKind::Atomic, other) | (other, _) => other,
    };
    if *kind != ListKind::Atomic {
        return equal_unordered(fuel, kind, left, right);
    }
    for (left, right) in left.iter().zip(right.iter()) {
        if !equal(fuel, &left?, &right?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sets compare without order, lists of keyed objects by key.
fn equal_unordered<'a>(
    fuel: &mut Fuel,
    kind: &ListKind,
    left: &List<'a>,
    right: &List<'a>,
) -> Result<bool, Failure> {
    let right = right.to_vec()?;
    for (index, left) in left.iter().enumerate() {
        let left = left?;
        // Most lists are in the same order.
        let same_place = matches(fuel, kind, &left, &right[index])?;
        let mut found = same_place && equal(fuel, &left, &right[index])?;
        if !same_place {
            for right in &right {
                if matches(fuel, kind, &left, right)? {
                    found = equal(fuel, &left, right)?;
                    break;
                }
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two items are the same item: the same keys, or the same value.
pub(crate) fn matches<'a>(
    fuel: &mut Fuel,
    kind: &ListKind,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Result<bool, Failure> {
    match (keys_of(kind, left), keys_of(kind, right)) {
        (Some(left), Some(right)) => {
            fuel.burn(left.len() as u64)?;
            Ok(left == right)
        }
        _ => equal(fuel, left, right),
    }
}

fn equal_maps<'a>(fuel: &mut Fuel, left: &Map<'a>, right: &Map<'a>) -> Result<bool, Failure> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for key in left.keys() {
        fuel.burn(COMPARISON)?;
        let (Some(left), Some(right)) = (left.get(&key), right.get(&key)) else {
            return Ok(false);
        };
        if !equal(fuel, &left?, &right?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_opaque(left: &Opaque<'_>, right: &Opaque<'_>) -> bool {
    match (left, right) {
        (Opaque::Ip(left), Opaque::Ip(right)) => left == right,
        (Opaque::Cidr(left, length), Opaque::Cidr(right, other)) => {
            left == right && length == other
        }
        (Opaque::Url(left), Opaque::Url(right)) => left.source == right.source,
        (Opaque::Quantity(left), Opaque::Quantity(right)) => left.compare(right) == Ordering::Equal,
        (Opaque::Version(left), Opaque::Version(right)) => left.compare(right) == Ordering::Equal,
        (Opaque::Format(left), Opaque::Format(right)) => left.name == right.name,
        (Opaque::Decision(left), Opaque::Decision(right)) => left == right,
        _ => false,
    }
}

/// The order of two values of a kind that has one.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Failure> {
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::String(left), Value::String(right)) => Some(left.as_str().cmp(right.as_str())),
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        (Value::Timestamp(left), Value::Timestamp(right)) => Some(left.cmp(right)),
        (Value::Duration(left), Value::Duration(right)) => Some(left.cmp(right)),
        (Value::Double(left), _) if left.is_nan() => return Err(not_a_number()),
        (_, Value::Double(right)) if right.is_nan() => return Err(not_a_number()),
        _ => compare_numbers(left, right),
    };
    order.ok_or_else(Failure::no_such_overload)
}

fn not_a_number() -> Failure {
    Failure::evaluation("NaN values cannot be ordered")
}

fn compare_numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => compare_mixed(left, real(right)?),
        (None, Some(right)) => compare_mixed(right, real(left)?).map(Ordering::reverse),
        (None, None) => real(left)?.partial_cmp(&real(right)?),
    }
}

fn whole(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    }
}

fn real(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        _ => None,
    }
}

/// Exact where a whole number is too large to be a double.
fn compare_mixed(left: i128, right: f64) -> Option<Ordering> {
    if right.is_nan() {
        return None;
    }
    if right >= 1.0e30 {
        return Some(Ordering::Less);
    }
    if right <= -1.0e30 {
        return Some(Ordering::Greater);
    }
    let floor = right.floor();
    match left.cmp(&(floor as i128)) {
        Ordering::Equal if right > floor => Some(Ordering::Less),
        order => Some(order),
    }
}
