//! The language as its users see it: corpus, costs, hostile and random input.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod costs;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod random;
