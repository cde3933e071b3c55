//! Plans as data.
