//! Machines that really boot, and images that are really brought in.

mod boots;
mod bridged;
mod console;
mod imports;
