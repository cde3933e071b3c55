//! Amounts of resources: quantities, what a pod as a whole asks for, and what an object uses of a
//! quota. Pure rules over JSON, shared by the server, which charges, and by those who count.

pub mod pod;
pub mod quantity;
pub mod quota;
pub mod share;

pub use quantity::Quantity;
