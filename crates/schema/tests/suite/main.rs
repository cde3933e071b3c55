//! Schemas as data: cases, rules, large inputs and properties.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod large;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rules;
