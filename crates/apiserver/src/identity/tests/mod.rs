//! Tests of several files together.

mod tls;
mod tokens;
mod users;
