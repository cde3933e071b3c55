//! What a call costs when it is evaluated.

use crate::cost::{Cost, PATTERN, SCAN, scaled};
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::Value;

/// Counting characters is work too.
fn size(fuel: &mut Fuel, values: &[Value<'_>], index: usize) -> Result<u64, Failure> {
    let Some(value) = values.get(index) else { return Ok(1) };
    if let Value::String(text) = value {
        fuel.burn(text.as_str().len() as u64 / 16)?;
    }
    Ok(value.actual_size())
}

/// What is known before the call is made; paid first, so that nothing dear is begun in vain.
pub(crate) fn before(
    fuel: &mut Fuel,
    function: &Function,
    values: &[Value<'_>],
) -> Result<u64, Failure> {
    if function.cost == Cost::One {
        return Ok(1);
    }
    let is_text = |index: usize| matches!(values.get(index), Some(Value::String(_)));
    let is_bytes = |index: usize| matches!(values.get(index), Some(Value::Bytes(_)));
    let first = size(fuel, values, 0)?;
    Ok(match function.cost {
        Cost::One | Cost::Dyn | Cost::Logical | Cost::Conditional => 1,
        Cost::Fixed(cost) => cost,
        Cost::Join => 0,
        Cost::Compare | Cost::Order => scaled(first.min(size(fuel, values, 1)?), SCAN),
        Cost::Add if is_text(0) || is_bytes(0) => {
            scaled(first.saturating_add(size(fuel, values, 1)?), SCAN)
        }
        Cost::Add => 1,
        Cost::Member => match values.get(1) {
            Some(Value::List(list)) => list.len() as u64,
            _ => 1,
        },
        Cost::Contains => scaled(first, SCAN).saturating_mul(scaled(size(fuel, values, 1)?, SCAN)),
        Cost::Matches => {
            let pattern = scaled(size(fuel, values, 1)?, PATTERN);
            scaled(first + 1, SCAN).saturating_mul(pattern)
        }
        Cost::Affix | Cost::Rewrite | Cost::Quote | Cost::Format => scaled(first, SCAN),
        Cost::Scan(index) => scaled(size(fuel, values, index)?, SCAN),
        Cost::Replace | Cost::Split | Cost::ScanTwice => scaled(first, 2.0 * SCAN),
        Cost::ToString if is_bytes(0) => scaled(first, SCAN),
        Cost::ToBytes if is_text(0) => scaled(first, SCAN),
        Cost::ToString | Cost::ToBytes => 1,
        Cost::Traverse => traversal(fuel, &values[0])?,
        Cost::Size(index) => size(fuel, values, index)?.max(1),
        Cost::Sort => first.saturating_mul(u64::from(first.max(2).ilog2())).max(1),
        Cost::Square => first.saturating_mul(first).max(1),
        Cost::Range => match values {
            [Value::Int(count)] => u64::try_from(*count).unwrap_or(0).max(1),
            _ => 1,
        },
        Cost::Sets(factor) => {
            let product = first.saturating_mul(size(fuel, values, 1)?);
            product.saturating_mul(factor).saturating_add(1)
        }
        Cost::ParseIp if is_text(0) => scaled(first, SCAN),
        Cost::ParseIp => 1,
        Cost::ContainsIp | Cost::ContainsCidr => network(fuel, function.cost, values)?,
        Cost::Validate => scaled(size(fuel, values, 1)?, SCAN).max(1),
    })
}

/// The bytes of the prefix are compared; what is a string is parsed first.
fn network(fuel: &mut Fuel, cost: Cost, values: &[Value<'_>]) -> Result<u64, Failure> {
    let prefix = values[0].actual_size();
    let mut total = scaled(prefix * 2, SCAN);
    if cost == Cost::ContainsCidr {
        total += scaled(prefix, SCAN) + 1;
    }
    if matches!(values.get(1), Some(Value::String(_))) {
        total += scaled(size(fuel, values, 1)?, SCAN);
    }
    Ok(total)
}

/// What depends on the result.
pub(crate) fn after(function: &Function, result: &Value<'_>) -> u64 {
    match function.cost {
        Cost::Join => scaled(result.actual_size(), 2.0 * SCAN),
        _ => 0,
    }
}

/// Everything a value holds; values nest no deeper than JSON and expressions do.
fn traversal(fuel: &mut Fuel, value: &Value<'_>) -> Result<u64, Failure> {
    fuel.burn(12)?;
    let part = |length: usize| (length as f64 * SCAN) as u64;
    let mut total: u64 = 0;
    match value {
        Value::String(text) => return Ok(part(text.as_str().len())),
        Value::Bytes(bytes) => return Ok(part(bytes.len())),
        Value::List(list) => {
            for item in list.iter() {
                total = total.saturating_add(traversal(fuel, &item?)?);
            }
        }
        Value::Map(map) => {
            for key in map.keys() {
                total = total.saturating_add(traversal(fuel, &key)?);
                if let Some(value) = map.get(&key) {
                    total = total.saturating_add(traversal(fuel, &value?)?);
                }
            }
        }
        _ => return Ok(1),
    }
    Ok(total)
}
