//! What an expression may cost at most, and what it does cost. Both read the same table: each
//! function names the formula of its cost.
//!
//! Upstream: github.com/google/cel-go checker/cost.go, interpreter/runtimecost.go;
//! staging/src/k8s.io/apiserver/pkg/cel/library/cost.go

mod actual;
mod calls;
mod estimate;

pub(crate) use crate::cost::actual::{after, before};
pub(crate) use crate::cost::estimate::estimate;

/// The most one rule may be estimated to cost.
pub const RULE_COST_MAX: u64 = 10_000_000;
/// The most all rules of a schema may be estimated to cost together.
pub const SCHEMA_COST_MAX: u64 = 100_000_000;

/// Passing over a string costs this per character.
const SCAN: f64 = 0.1;
/// A regular expression has a part about every four characters.
const PATTERN: f64 = 0.25;

/// The formula of a function's cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    One,
    Fixed(u64),
    /// `dyn(x)`: sizes pass through.
    Dyn,
    Logical,
    Conditional,
    Compare,
    Order,
    Add,
    Member,
    Contains,
    Matches,
    /// `startsWith`, `endsWith`
    Affix,
    /// One pass over an argument.
    Scan(usize),
    ScanTwice,
    /// One pass that makes a string of the same size.
    Rewrite,
    Replace,
    Split,
    Join,
    Quote,
    Format,
    ToString,
    ToBytes,
    /// All items of a list, and the characters of their strings.
    Traverse,
    /// One for each item.
    Size(usize),
    Sort,
    /// Each item with each other.
    Square,
    /// As many as the argument says.
    Range,
    /// Each item with each of another list.
    Sets(u64),
    ParseIp,
    ContainsIp,
    ContainsCidr,
    Validate,
}

/// Between what and what the cost of one evaluation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    pub min: u64,
    pub max: u64,
}

impl Estimate {
    pub(crate) const fn exactly(cost: u64) -> Estimate {
        Estimate { min: cost, max: cost }
    }

    /// The cost of a rule that runs so many times at most.
    pub fn times(self, count: u64) -> Estimate {
        Estimate { min: self.min.saturating_mul(count), max: self.max.saturating_mul(count) }
    }

    /// The cost of both.
    pub fn plus(self, other: Estimate) -> Estimate {
        Estimate {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    fn multiply(self, other: Estimate) -> Estimate {
        Estimate {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    fn scale(self, factor: f64) -> Estimate {
        Estimate { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    fn union(self, other: Estimate) -> Estimate {
        Estimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// A part of a size, rounded up.
fn scaled(size: u64, factor: f64) -> u64 {
    let product = (size as f64 * factor).ceil();
    if product >= u64::MAX as f64 { u64::MAX } else { product as u64 }
}
