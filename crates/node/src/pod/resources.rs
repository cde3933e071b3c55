//! What a container may use, as `resourceFieldRef` asks for it.
//!
//! Upstream: pkg/api/v1/resource/helpers.go (ExtractContainerResourceValue)

use serde_json::Value;

/// Suffixes and how many billionths one of them is.
const SUFFIXES: [(&str, i128); 15] = [
    ("Ki", 1_000_000_000 << 10),
    ("Mi", 1_000_000_000 << 20),
    ("Gi", 1_000_000_000 << 30),
    ("Ti", 1_000_000_000 << 40),
    ("Pi", 1_000_000_000 << 50),
    ("Ei", 1_000_000_000 << 60),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", 1_000_000_000_000),
    ("M", 1_000_000_000_000_000),
    ("G", 1_000_000_000_000_000_000),
    ("T", 1_000_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000_000_000_000),
];
const ONE: i128 = 1_000_000_000;

/// The amount, in whole divisors, rounded up. A limit that is not set is what the node has.
pub fn amount(reference: &Value, container: &Value, capacity: &Value) -> Option<String> {
    let (kind, resource) = reference["resource"].as_str()?.split_once('.')?;
    let set = &container["resources"][kind][resource];
    let held = match (kind, set.is_null()) {
        ("limits", true) => quantity(&capacity[resource]),
        (_, true) => Some(0),
        (_, false) => quantity(set),
    };
    let divisor = quantity(&reference["divisor"]).filter(|divisor| *divisor > 0).unwrap_or(ONE);
    let held = held.unwrap_or(0);
    Some(((held + divisor - 1) / divisor).to_string())
}

/// A quantity in billionths.
pub fn quantity(quantity: &Value) -> Option<i128> {
    let text = match quantity {
        Value::Number(number) => number.to_string(),
        other => other.as_str()?.to_owned(),
    };
    let found = SUFFIXES.iter().find_map(|(name, of)| Some((text.strip_suffix(name)?, *of)));
    let (digits, unit) = found.unwrap_or((&text, ONE));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 9)?;
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    number.checked_mul(unit).map(|billionths| billionths / 10_i128.pow(places))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_in_divisors_rounded_up() {
        let container = json!({"resources": {"limits": {"cpu": "1500m", "memory": "64Mi"},
            "requests": {"cpu": 2}}});
        let capacity = json!({"ephemeral-storage": "10Ki"});
        let told = |resource: &str, divisor: &str| {
            let reference = json!({"resource": resource, "divisor": divisor});
            amount(&reference, &container, &capacity).unwrap()
        };
        assert_eq!(told("limits.cpu", "0"), "2");
        assert_eq!(told("limits.cpu", "1m"), "1500");
        assert_eq!(told("limits.memory", "1Mi"), "64");
        assert_eq!(told("limits.memory", "1"), "67108864");
        assert_eq!(told("requests.cpu", ""), "2");
        assert_eq!(told("limits.ephemeral-storage", "0"), "10240");
        assert_eq!(told("requests.memory", "0"), "0");
        assert_eq!(quantity(&json!("0.5")), Some(500_000_000));
        assert_eq!(quantity(&json!("many")), None);
    }
}
