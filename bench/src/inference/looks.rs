//! How long looks at graphs took, as the operator counts them itself.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::api::client::Connection;
use crate::api::target::Target;

const BUCKETS: &str = "dynamo_operator_reconcile_duration_seconds_bucket{";
const KIND: &str = "resource_type=\"DynamoGraphDeployment\"";

/// How many looks took at most so many microseconds, at a moment. The greatest bound is infinite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looks(BTreeMap<u64, u64>);

impl Looks {
    pub async fn read(target: &Target, connection: &mut Connection) -> Result<Looks> {
        let answer = connection.send(target.request("GET", "/metrics", String::new())).await?;
        ensure!(answer.status == 200, "/metrics answers {}", answer.status);
        Ok(Looks::of(&String::from_utf8_lossy(&answer.body)))
    }

    fn of(text: &str) -> Looks {
        let mut all = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix(BUCKETS)) {
            let Some((labels, count)) = line.split_once("} ") else { continue };
            let bound = labels.split("le=\"").nth(1).and_then(|rest| rest.split('"').next());
            let bound = match bound {
                Some("+Inf") => Some(u64::MAX),
                bound => bound
                    .and_then(|bound| bound.parse::<f64>().ok())
                    .map(|seconds| (seconds * 1e6) as u64),
            };
            if let (true, Some(bound)) = (labels.contains(KIND), bound) {
                let count = count.trim().parse::<f64>().unwrap_or(0.0) as u64;
                *all.entry(bound).or_default() += count;
            }
        }
        Looks(all)
    }

    pub fn since(&self, before: &Looks) -> Looks {
        let of = |bound: &u64| before.0.get(bound).copied().unwrap_or(0);
        Looks(
            self.0.iter().map(|(bound, count)| (*bound, count.saturating_sub(of(bound)))).collect(),
        )
    }

    pub fn count(&self) -> u64 {
        self.0.values().last().copied().unwrap_or(0)
    }

    /// In seconds: within the bucket that it falls into, as if looks were spread evenly over it.
    pub fn percentile(&self, share: f64) -> f64 {
        let wanted = share * self.count() as f64;
        let (mut below, mut low) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            let (bound, count) = (*bound as f64 / 1e6, *count as f64);
            if count >= wanted && count > below {
                let high = if bound > 1e9 { low } else { bound };
                return low + (high - low) * (wanted - below) / (count - below);
            }
            (below, low) = (count, bound);
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_within_its_bucket() {
        let text = "\
dynamo_operator_reconcile_duration_seconds_bucket{resource_type=\"DynamoGraphDeployment\",le=\"0.005\"} 90
dynamo_operator_reconcile_duration_seconds_bucket{resource_type=\"DynamoGraphDeployment\",le=\"0.01\"} 100
dynamo_operator_reconcile_duration_seconds_bucket{resource_type=\"DynamoGraphDeployment\",le=\"+Inf\"} 100
dynamo_operator_reconcile_duration_seconds_bucket{resource_type=\"DynamoModel\",le=\"+Inf\"} 7
";
        let looks = Looks::of(text);
        assert_eq!(looks.count(), 100);
        assert!((looks.percentile(0.95) - 0.0075).abs() < 1e-9);
        assert_eq!(looks.since(&looks).count(), 0);
    }
}
