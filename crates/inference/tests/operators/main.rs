//! The operators in a cluster: the real server, the real StatefulSets under them, played pods.

mod graph_trials;
mod graphs;
mod models;
mod servers;
mod sets;
mod world;
