//! The operators against the real server, with the real Job controller and played pods.
//!
//! `rows.txt` says which test shows which row of the feature table, here, beside the code, in
//! `goldens/`, or in the tests of the program.

mod admission;
mod examples;
mod job_sets;
mod oracles;
mod rights;
mod schemas;
mod simulation;
mod train_jobs;
mod world;
