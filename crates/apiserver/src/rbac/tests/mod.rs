//! Decisions and escalations as data.

mod decision_cases;
pub(super) mod decisions;
mod escalation;
