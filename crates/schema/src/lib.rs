//! Structural schemas of custom resources: checking them, and pruning, defaulting and validating
//! objects by them.
