//! kubectl at home: what its user sees.

mod basics;
pub mod run;
