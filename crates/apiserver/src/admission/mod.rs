//! Admission: what the server adds to objects and refuses, beyond the rules of their kinds.
//!
//! Every plugin is a function over objects that its caller looked up; none reads the store.
