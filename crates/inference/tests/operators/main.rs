//! The operators in a cluster: the real server, the real StatefulSets under them, played pods.

mod bad_input;
mod checkpoint_trials;
mod graph_trials;
mod graphs;
mod model_trials;
mod models;
mod optional;
mod oracles;
mod requests;
mod rights;
mod servers;
mod sets;
mod sets_simulation;
mod world;
