//! The operators against the real server, with the real Job controller and played pods.
//!
//! The rows of the feature table that are proven elsewhere: environments and objects of plugins
//! (36 to 54, 56) by `goldens/`, plans of JobSets and TrainJobs beside the code, HTTP status of
//! refusals and columns (1, 18, 70) by the tests of the program.

mod admission;
mod job_sets;
mod rights;
mod schemas;
mod simulation;
mod train_jobs;
mod world;
