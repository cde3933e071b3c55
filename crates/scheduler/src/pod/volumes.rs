//! The volumes of a pod that restrict where it can run.

use std::sync::Arc;

use serde_json::Value;

use crate::labels::{list, text};

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub name: Arc<str>,
    /// Whether it is made for this pod and goes with it.
    pub is_ephemeral: bool,
}

/// A disk that is named in the pod itself and cannot be attached twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    pub identity: String,
    pub is_read_only: bool,
    /// Whether it may be attached twice if nobody writes.
    pub shares_reading: bool,
}

impl Disk {
    pub fn conflicts(&self, other: &Disk) -> bool {
        let may_share = self.shares_reading && self.is_read_only && other.is_read_only;
        self.identity == other.identity && !may_share
    }
}

pub fn claims(pod: &str, spec: &Value) -> Vec<Claim> {
    let claims = list(&spec["volumes"]).filter_map(|volume| {
        if !volume["ephemeral"].is_null() {
            let name = format!("{pod}-{}", text(&volume["name"])).into();
            return Some(Claim { name, is_ephemeral: true });
        }
        match text(&volume["persistentVolumeClaim"]["claimName"]) {
            "" => None,
            name => Some(Claim { name: name.into(), is_ephemeral: false }),
        }
    });
    claims.collect()
}

pub fn disks(spec: &Value) -> Vec<Disk> {
    let disks = list(&spec["volumes"]).filter_map(|volume| {
        let disk = |kind: &str, parts: &[&str], shares_reading: bool| {
            let source = &volume[kind];
            (!source.is_null()).then(|| {
                let parts: Vec<String> = parts.iter().map(|it| source[it].to_string()).collect();
                let is_read_only = source["readOnly"] == Value::Bool(true);
                let identity = format!("{kind} {}", parts.join(" "));
                Disk { identity, is_read_only, shares_reading }
            })
        };
        disk("gcePersistentDisk", &["pdName"], true)
            .or_else(|| disk("awsElasticBlockStore", &["volumeID"], false))
            .or_else(|| disk("iscsi", &["iqn", "lun"], true))
            .or_else(|| disk("rbd", &["monitors", "pool", "image"], true))
    });
    disks.collect()
}
