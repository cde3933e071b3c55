//! Where a user may choose how the built-in controllers behave.

/// The choices; the defaults are what Kubernetes does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {}
