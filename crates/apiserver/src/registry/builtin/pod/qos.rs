//! The quality of service that a pod's requests and limits earn it.

pub use amounts::pod::quality as class;
