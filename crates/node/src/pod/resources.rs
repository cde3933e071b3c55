//! What a container may use, as `resourceFieldRef` asks for it.
//!
//! Upstream: pkg/api/v1/resource/helpers.go (ExtractContainerResourceValue)

use amounts::Quantity;
use serde_json::Value;

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
    Some((held.saturating_add(divisor - 1) / divisor).to_string())
}

/// A quantity in billionths.
pub fn quantity(quantity: &Value) -> Option<i128> {
    Quantity::read(quantity).map(|quantity| quantity.billionths())
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
        assert_eq!(quantity(&json!("1e9")), quantity(&json!("1G")));
        assert_eq!(quantity(&json!("5E-1")), Some(500_000_000));
    }
}
