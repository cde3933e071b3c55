//! Progress and metrics of a TrainJob, derived from the output of its first rank.
//!
//! | file | |
//! |---|---|
//! | `parse.rs` | one line to numbers: `names.rs`, `bars.rs`, `dictionaries.rs`, `sample.rs` |
//! | `pattern.rs` | patterns that users give by annotation |
//! | `tracker.rs` | numbers of many lines to progress, remaining time and metrics |
//! | `lines.rs` | bytes to lines, within a limit |
//! | `log.rs` | the pod of the first rank, and its log |
//! | `publish.rs` | writes to `status.trainerStatus`, except fields that the job itself reports |
//! | `follow.rs` | one job from its first line to its end |
//! | `component.rs` | the jobs that are followed at once |
//!
//! Everything above `log.rs` is pure. No reconciler waits for any of it.

mod bars;
mod component;
mod dictionaries;
mod follow;
mod lines;
mod log;
mod names;
mod parse;
mod pattern;
mod publish;
mod sample;
mod tracker;

pub use component::{Candidates, NAME, run};
pub use pattern::{FROM_OUTPUT, PATTERN};
