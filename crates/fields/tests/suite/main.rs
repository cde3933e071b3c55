//! Server-side apply: cases as data, and laws that hold for all inputs.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod support;
