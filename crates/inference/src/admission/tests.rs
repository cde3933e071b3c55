//! Questions and answers, as data.
