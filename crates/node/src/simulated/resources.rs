//! What a simulated node has: `cpu=64,memory=512Gi,nvidia.com/gpu=8`.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Quantities by resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources(pub BTreeMap<String, String>);

impl Default for Resources {
    fn default() -> Resources {
        let usual =
            [("cpu", "32"), ("memory", "256Gi"), ("pods", "110"), ("ephemeral-storage", "1Ti")];
        Resources(usual.map(|(name, amount)| (name.to_owned(), amount.to_owned())).into())
    }
}

impl FromStr for Resources {
    type Err = String;

    /// What is not named is as usual.
    fn from_str(text: &str) -> Result<Resources, String> {
        let mut resources = Resources::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, amount) = part
                .split_once('=')
                .ok_or_else(|| format!("expected NAME=AMOUNT such as cpu=64, found {part:?}"))?;
            if !is_quantity(amount) {
                return Err(format!(
                    "{amount:?} is no amount of {name}; expected one such as 64, 500m or 512Gi"
                ));
            }
            resources.0.insert(name.trim().to_owned(), amount.to_owned());
        }
        Ok(resources)
    }
}

/// Digits with at most one point, then a suffix of quantities. The server checks the rest.
fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 14] =
        ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let is_number = digits.starts_with(|digit: char| digit.is_ascii_digit())
        && digits.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
        && digits.matches('.').count() <= 1;
    is_number && SUFFIXES.contains(&&text[digits.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_and_the_rest_is_as_usual() {
        let read: Resources = "cpu=64,nvidia.com/gpu=8".parse().unwrap();
        assert_eq!(read.0["cpu"], "64");
        assert_eq!(read.0["nvidia.com/gpu"], "8");
        assert_eq!(read.0["pods"], "110");
        for wrong in ["cpu", "cpu=", "cpu=many", "memory=1..2Gi", "memory=5Xi"] {
            assert!(wrong.parse::<Resources>().is_err(), "{wrong}");
        }
    }
}
