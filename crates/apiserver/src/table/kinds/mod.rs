//! The kinds that have columns of their own, by what they are about.

mod admission;
mod autoscaling;
mod batch;
mod cluster;
mod config;
mod devices;
mod events;
mod networking;
mod nodes;
mod pods;
mod policy;
mod rbac;
mod services;
mod storage;
mod workloads;

use super::Printer;

/// Pods first: nothing is listed as often.
pub static ALL: &[&[Printer]] = &[
    pods::PRINTERS,
    workloads::PRINTERS,
    batch::PRINTERS,
    services::PRINTERS,
    config::PRINTERS,
    nodes::PRINTERS,
    events::PRINTERS,
    storage::PRINTERS,
    networking::PRINTERS,
    rbac::PRINTERS,
    policy::PRINTERS,
    autoscaling::PRINTERS,
    admission::PRINTERS,
    devices::PRINTERS,
    cluster::PRINTERS,
];
