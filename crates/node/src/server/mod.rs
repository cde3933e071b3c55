//! What the API server asks a node for: the output of containers, programs beside them, connections
//! to their ports.

pub mod logs;
mod notify;
pub mod streams;
