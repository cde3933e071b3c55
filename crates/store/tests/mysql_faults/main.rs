//! The mysql backend against real servers that fail.
//!
//! What was acknowledged is in the log at its revision; what was refused is not; a watch sees every
//! revision once and in order. More rounds run when `SETPOINT_TEST_FULL` is set.

#[cfg(test)]
mod contents;
#[cfg(test)]
mod cuts;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod support;
#[cfg(test)]
#[path = "../thinned/mod.rs"]
mod thinned;
#[cfg(test)]
mod thinning;
#[cfg(test)]
mod tls;
