//! The built-in kinds that are special: one row each.
//!
//! Every file has the rules of one kind or of a small family: what its fields mean when left out,
//! what is refused, what may change.

use super::strategy::{Plain, Strategy};

pub mod pod;
pub mod pod_spec;

pub mod config_map;
pub mod namespace;
pub mod persistent_volume_claim;
pub mod secret;
pub mod service;

mod difference;

type Row = (&'static str, &'static str, &'static dyn Strategy);

/// By group and kind.
static TABLE: &[Row] = &[
    ("", "ConfigMap", &config_map::ConfigMap),
    ("", "Namespace", &namespace::Namespace),
    ("", "PersistentVolumeClaim", &persistent_volume_claim::PersistentVolumeClaim),
    ("", "Pod", &pod::Pod),
    ("", "Secret", &secret::Secret),
    ("", "Service", &service::Service),
];

/// The strategy of a kind; those without a row need nothing.
pub fn strategy(group: &str, kind: &str) -> &'static dyn Strategy {
    let row = TABLE.iter().find(|row| row.0 == group && row.1 == kind);
    row.map_or(&Plain, |row| row.2)
}
