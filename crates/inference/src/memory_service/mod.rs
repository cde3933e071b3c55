//! Pods that hold weights for each other: when one of them ends, what rests on it goes too.

pub mod cascade;
pub mod replacement;
#[cfg(test)]
mod tests;
