//! Evaluating a checked expression over borrowed JSON, with every step paid from a budget.
//!
//! Two meters run. *Cost* counts as upstream's tracker does, so that a rule is stopped where it
//! would be stopped there. *Fuel* counts the bytes and items really touched or made, because some
//! operations are cheap by upstream's figures whatever their size; it bounds time and memory.
//!
//! Upstream: github.com/google/cel-go interpreter/runtimecost.go

mod machine;

use std::fmt;

use serde_json::Value as Json;

use crate::authorizer::{Authorizer, Resource};
use crate::check::Checked;
use crate::compile::Scope;
use crate::value::Value;

/// The most one evaluation may cost.
pub const CALL_COST_MAX: u64 = 1_000_000;
/// The most all rules of one object may cost together.
pub const OBJECT_COST_MAX: u64 = 10_000_000;
/// The bytes and items one evaluation may touch or make.
pub(crate) const FUEL_MAX: u64 = 64 * 1024 * 1024;

/// What is left to spend.
#[derive(Debug, Clone)]
pub struct Budget {
    /// The most one evaluation may cost.
    pub call_max: u64,
    /// What is left for all evaluations that share this budget.
    pub remaining: u64,
    /// What the last evaluation cost.
    pub spent: u64,
}

impl Default for Budget {
    /// The budget of the rules of one object.
    fn default() -> Budget {
        Budget::new(CALL_COST_MAX, OBJECT_COST_MAX)
    }
}

impl Budget {
    pub fn new(call_max: u64, remaining: u64) -> Budget {
        Budget { call_max, remaining, spent: 0 }
    }
}

/// The variables of one evaluation.
#[derive(Clone, Default)]
pub struct Bindings<'a> {
    bound: Vec<(&'a str, Binding<'a>)>,
}

/// What a variable is bound to.
#[derive(Clone)]
pub enum Binding<'a> {
    Json(&'a Json),
    /// A variable of the optional kind that has no value.
    Absent,
    Authorizer(&'a dyn Authorizer),
    /// The authorizer's check of this resource.
    ResourceCheck(&'a dyn Authorizer, Resource),
}

impl<'a> Bindings<'a> {
    /// `self` and, on update, `oldSelf`.
    pub fn rule(value: &'a Json, old: Option<&'a Json>) -> Bindings<'a> {
        let old = old.map_or(Binding::Absent, Binding::Json);
        Bindings::default().with("self", Binding::Json(value)).with("oldSelf", old)
    }

    #[must_use]
    pub fn with(mut self, name: &'a str, binding: Binding<'a>) -> Bindings<'a> {
        self.bound.push((name, binding));
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Binding<'a>> {
        self.bound.iter().rev().find(|(bound, _)| *bound == name).map(|(_, binding)| binding)
    }
}

/// Why an evaluation gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: Box<str>,
}

/// What kind of failure it is, for whoever words the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The expression itself failed: a missing key, a division by zero, a malformed value.
    Evaluation,
    /// No operator or function takes values of these types.
    NoSuchOverload,
    /// This evaluation cost more than one may.
    CallCost,
    /// The shared budget is used up; no further rules are run.
    ObjectCost,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<Box<str>>) -> Failure {
        Failure { kind, message: message.into() }
    }

    pub(crate) fn evaluation(message: impl Into<Box<str>>) -> Failure {
        Failure::new(FailureKind::Evaluation, message)
    }

    pub(crate) fn no_such_overload() -> Failure {
        Failure::new(FailureKind::NoSuchOverload, "no such overload")
    }

    pub(crate) fn call_cost() -> Failure {
        let message = "operation cancelled: actual cost limit exceeded";
        Failure::new(FailureKind::CallCost, message)
    }

    pub(crate) fn object_cost() -> Failure {
        let message = "validation failed due to running out of cost budget, no further validation \
                       rules will be run";
        Failure::new(FailureKind::ObjectCost, message)
    }

    /// Whether no operator may absorb it.
    pub fn is_budget(&self) -> bool {
        matches!(self.kind, FailureKind::CallCost | FailureKind::ObjectCost)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// What one evaluation may still touch or make.
#[derive(Debug)]
pub(crate) struct Fuel {
    left: u64,
}

impl Fuel {
    pub(crate) fn full() -> Fuel {
        Fuel { left: FUEL_MAX }
    }

    pub(crate) fn burn(&mut self, amount: u64) -> Result<(), Failure> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Failure::call_cost()),
        }
    }

    /// For a list of so many items that is made.
    pub(crate) fn burn_items(&mut self, items: usize) -> Result<(), Failure> {
        const ITEM: u64 = 16;
        self.burn((items as u64).saturating_mul(ITEM))
    }
}

pub(crate) fn evaluate<'a>(
    checked: &'a Checked,
    scope: &'a Scope,
    bindings: &Bindings<'a>,
    budget: &mut Budget,
) -> Result<Value<'a>, Failure> {
    if budget.remaining == 0 {
        return Err(Failure::object_cost());
    }
    let limit = budget.call_max.min(budget.remaining);
    let mut machine = machine::Machine::new(checked, scope, bindings, limit);
    let outcome = machine.run();
    budget.spent = machine.cost;
    let exhausted = budget.remaining < machine.cost;
    budget.remaining = budget.remaining.saturating_sub(machine.cost);
    match outcome {
        // The limit was what is left for the object, not what one call may cost.
        Err(failure) if failure.is_budget() && exhausted => Err(Failure::object_cost()),
        other => other,
    }
}
