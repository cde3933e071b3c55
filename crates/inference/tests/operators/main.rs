//! The operators in a cluster: the real server, the real StatefulSets under them, played pods.

mod graphs;
mod models;
mod optional;
mod requests;
mod servers;
mod sets;
mod sets_simulation;
mod world;
