//! Admission: what the server adds to objects and refuses, beyond the rules of their kinds.
//!
//! Every plugin is a function over objects that its caller looked up; none reads the store. A
//! refusal is the text after `pods "x" is forbidden: `.
//!
//! Upstream: plugin/pkg/admission

pub mod default_class;
pub mod default_toleration_seconds;
pub mod limit_ranger;
pub mod pod_amounts;
pub mod priority;
pub mod resource_quota;
pub mod runtime_class;
pub mod service_account;
pub mod storage_in_use_protection;
pub mod taint_new_nodes;
pub mod volume_claim_resize;

/// Why an object is refused.
pub type Refusal = String;
