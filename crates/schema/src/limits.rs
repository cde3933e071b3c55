//! How large a schema may be, and what its rules may cost.

/// Levels of nesting of one schema. Upstream has none but the depth of JSON it decodes; this one is
/// past every schema seen and keeps recursion shallow.
pub const DEPTH_MAX: usize = 128;

/// Nodes of one schema. The largest published schemas have about 20,000.
pub const NODES_MAX: usize = 200_000;

/// What one rule may be estimated to cost, times how often its node can occur.
pub(crate) const RULE_COST_MAX: u64 = 10_000_000;

/// What all rules of a schema may be estimated to cost.
pub(crate) const SCHEMA_COST_MAX: u64 = 100_000_000;

/// What a failed rule takes from what the rules of an object may touch: saying so is work, and is
/// kept until all rules have run.
pub(crate) const FAILURE_FUEL: u64 = 512;

/// How long a message made by a rule may be.
pub(crate) const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The largest request; a list without `maxItems` is costed as if it filled one.
pub(crate) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// Selectable fields of one version.
pub(crate) const SELECTABLE_FIELDS_MAX: usize = 8;

/// How many rules that cost much are named when the total is too high.
pub(crate) const EXPENSIVE_RULES_MAX: usize = 4;
