//! Thresholds of the signals, and which of them a reading falls below.

use super::Resource;
use super::ranking::Candidate;
use super::signals::{Amount, Signals};

const MEBIBYTE: u64 = 1 << 20;
const GIBIBYTE: u64 = 1 << 30;
/// Upper bound of a threshold of the disk that is a percentage: a node with a large disk is not
/// short of space while so much is free.
const DISK_SHARE_MAX: u64 = 10 * GIBIBYTE;

/// Amount below which a resource is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    Amount(u64),
    /// Share of the capacity.
    Percent(u8),
}

impl Threshold {
    /// Reads `100Mi` or `5%`.
    pub fn parse(text: &str) -> Option<Threshold> {
        match text.strip_suffix('%') {
            Some(number) => {
                let percent: u8 = number.trim().parse().ok()?;
                (percent <= 100).then_some(Threshold::Percent(percent))
            }
            None => {
                let quantity = amounts::Quantity::parse(text).ok()?;
                Some(Threshold::Amount(u64::try_from(quantity.value()).ok()?))
            }
        }
    }

    fn amount(self, capacity: u64) -> u64 {
        match self {
            Threshold::Amount(amount) => amount,
            Threshold::Percent(percent) => capacity / 100 * u64::from(percent),
        }
    }
}

/// Hard eviction thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub memory: Threshold,
    pub disk: Threshold,
    pub inodes: Threshold,
    pub pids: Threshold,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            memory: Threshold::Amount(100 * MEBIBYTE),
            disk: Threshold::Percent(5),
            inodes: Threshold::Percent(5),
            pids: Threshold::Amount(256),
        }
    }
}

/// A resource of which less is left than its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub resource: Resource,
    pub threshold: u64,
    pub available: u64,
}

impl Thresholds {
    /// Returns the resources that are short, memory first.
    pub fn shortages(&self, signals: &Signals) -> Vec<Shortage> {
        let disk = |capacity| match self.disk {
            Threshold::Percent(_) => self.disk.amount(capacity).min(DISK_SHARE_MAX),
            Threshold::Amount(amount) => amount,
        };
        let short = |resource, left: Option<Amount>, threshold: &dyn Fn(u64) -> u64| {
            let Amount { available, capacity } = left?;
            let threshold = threshold(capacity);
            (available < threshold).then_some(Shortage { resource, threshold, available })
        };
        let found = [
            short(Resource::Memory, signals.memory, &|it| self.memory.amount(it)),
            short(Resource::Disk, signals.disk, &disk),
            short(Resource::Disk, signals.inodes, &|it| self.inodes.amount(it)),
            short(Resource::Pids, signals.pids, &|it| self.pids.amount(it)),
        ];
        found.into_iter().flatten().collect()
    }
}

impl Shortage {
    /// Returns the message of a pod that is evicted for it.
    pub fn message(&self, chosen: &Candidate) -> String {
        let Shortage { resource, threshold, available } = self;
        let name = resource.name();
        let mut message = format!(
            "The node was low on resource: {name}. Threshold quantity: {}, available: {}. ",
            print(*resource, *threshold),
            print(*resource, *available)
        );
        if chosen.usage > chosen.request {
            message.push_str(&format!(
                "The pod was using {}, request is {}, has larger consumption of {name}. ",
                print(*resource, chosen.usage),
                print(*resource, chosen.request)
            ));
        }
        message
    }
}

/// Prints bytes as a quantity, and counts as they are.
fn print(resource: Resource, amount: u64) -> String {
    match resource {
        Resource::Pids => amount.to_string(),
        _ if amount == 0 => "0".to_owned(),
        _ if amount.is_multiple_of(MEBIBYTE) => format!("{}Mi", amount / MEBIBYTE),
        _ => format!("{}Ki", amount / 1024),
    }
}
