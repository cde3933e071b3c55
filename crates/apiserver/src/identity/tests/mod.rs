//! Tests of several files together.

mod peers;
mod tls;
mod tokens;
mod users;
