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
/// The bytes and items all evaluations that share a budget may touch or make: less than a second of
/// whatever they do.
const FUEL_MAX: u64 = 48 * 1024 * 1024;
/// What one evaluation may burn of it, so that one rule does not use up what others need.
const CALL_FUEL_MAX: u64 = FUEL_MAX / 2;
/// What an evaluation burns whatever it does: setting it up is work too.
const CALL_FUEL_MIN: u64 = 32;

/// What is left to spend.
#[derive(Debug, Clone)]
pub struct Budget {
    /// The most one evaluation may cost.
    pub call_max: u64,
    /// What is left for all evaluations that share this budget.
    pub remaining: u64,
    /// What the last evaluation cost.
    pub spent: u64,
    /// The bytes and items that all evaluations may still touch or make.
    fuel: u64,
}

impl Default for Budget {
    /// The budget of the rules of one object.
    fn default() -> Budget {
        Budget::new(CALL_COST_MAX, OBJECT_COST_MAX)
    }
}

impl Budget {
    pub fn new(call_max: u64, remaining: u64) -> Budget {
        Budget { call_max, remaining, spent: 0, fuel: FUEL_MAX }
    }

    /// Whether nothing may be evaluated any more.
    pub fn is_spent(&self) -> bool {
        self.remaining == 0 || self.fuel == 0
    }

    /// For work that an evaluation causes its caller, in bytes touched or made.
    pub fn burn(&mut self, amount: u64) {
        self.fuel = self.fuel.saturating_sub(amount);
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
    /// What another expression resulted in.
    Value(Value<'a>),
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
    pub(crate) fn of(left: u64) -> Fuel {
        Fuel { left }
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn burn(&mut self, amount: u64) -> Result<(), Failure> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Failure::call_cost())
            }
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
    budget.burn(CALL_FUEL_MIN);
    if budget.is_spent() {
        return Err(Failure::object_cost());
    }
    let limit = budget.call_max.min(budget.remaining);
    let fuel = budget.fuel.min(CALL_FUEL_MAX);
    let mut machine = machine::Machine::new(checked, scope, bindings, (limit, Fuel::of(fuel)));
    let outcome = machine.run();
    budget.spent = machine.cost;
    budget.burn(fuel - machine.fuel.left());
    let exhausted = budget.remaining < machine.cost || budget.fuel == 0;
    budget.remaining = budget.remaining.saturating_sub(machine.cost);
    match outcome {
        // The limit was what is left for the object, not what one call may cost.
        Err(failure) if failure.is_budget() && exhausted => Err(Failure::object_cost()),
        other => other,
    }
}
