//! Objects of the older version as ones of the newer, and back, with nothing lost.

pub mod envelope;
