//! What the API server asks a node for: the output of containers.

pub mod logs;
mod notify;
