//! The controllers against the real server, with played pods: what they come to, and on trial under
//! every fault that their own traces offer.
//!
//! One program, so that it is linked once.

mod cron_job;
mod daemon_set;
mod deployment;
mod garbage_collector;
mod greeter;
mod housekeeping;
mod identities;
mod job;
mod namespace;
mod node_lifecycle;
mod panics;
mod quotas_and_roles;
mod replica_set;
mod roles;
mod services;
mod simulation;
mod stateful_set;
mod volumes;
mod workloads;
