//! Operations of the kernel on the pod network: by this process, which needs the privilege, or by
//! the helper of a rootless network.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use super::claim;
use super::flows::{self, RemovedTargets};
use super::links::{Links, Way};
use super::pods::{self, Whose};
use super::records::Record;
use super::rootless::Rootless;
use super::rootless::wire::{Reply, Request};
use super::services::Table;
use super::{Marks, Range, nftables, ruleset};

/// The process that changes the pod network.
#[derive(Clone, Debug)]
pub enum Kernel {
    Direct,
    Rootless(Arc<Rootless>),
}

impl Kernel {
    /// Creates the anchor and takes the range. Fails without the privilege.
    pub fn claim(&self, marks: &Marks, wanted: Option<Range>, begin: u32) -> io::Result<Range> {
        let Kernel::Rootless(rootless) = self else {
            return claim::claim(marks, wanted, begin);
        };
        match rootless.request(&Request::Claim { marks: marks.clone(), wanted, begin })? {
            Reply::Range(range) => Ok(range),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Creates what is missing of a pod's network.
    pub fn make_pod(
        &self,
        (marks, range): (&Marks, Range),
        record: &Record,
        (file, whose): (&Path, Whose),
    ) -> io::Result<()> {
        let Kernel::Rootless(rootless) = self else {
            return pods::make((marks, range), record, (file, whose));
        };
        let (marks, record, file) = (marks.clone(), record.clone(), file.to_owned());
        rootless.perform(&Request::MakePod { marks, range, record, file })
    }

    pub fn remove_pod(&self, marks: &Marks, uid: &str, address: Ipv4Addr) -> io::Result<()> {
        let Kernel::Rootless(rootless) = self else {
            return pods::remove(marks, uid, address);
        };
        let (marks, uid) = (marks.clone(), uid.to_owned());
        rootless.perform(&Request::RemovePod { marks, uid, address })
    }

    /// Removes what carries the node's mark and belongs to no pod.
    pub fn remove_strays(&self, marks: &Marks, pods: &BTreeMap<String, Record>) {
        let Kernel::Rootless(rootless) = self else {
            return pods::remove_strays(marks, pods);
        };
        let (marks, pods) = (marks.clone(), pods.clone());
        if let Err(error) = rootless.perform(&Request::RemoveStrays { marks, pods }) {
            tracing::warn!(%error, "stray pod networks not removed");
        }
    }

    pub fn has_pod(&self, marks: &Marks, address: Ipv4Addr) -> bool {
        let Kernel::Rootless(rootless) = self else {
            return pods::is_made(marks, address);
        };
        let request = Request::HasPod { marks: marks.clone(), address };
        matches!(rootless.request(&request), Ok(Reply::Is(true)))
    }

    /// Replaces the rules of services. Flows to targets that are gone are forgotten.
    pub fn replace_rules(
        &self,
        (marks, range): (&Marks, Range),
        before: &Table,
        wanted: &Table,
    ) -> io::Result<()> {
        if let Kernel::Rootless(rootless) = self {
            let (marks, before, wanted) = (marks.clone(), before.clone(), wanted.clone());
            return rootless.perform(&Request::ReplaceRules { marks, range, before, wanted });
        }
        ruleset::apply(marks, range, wanted)?;
        // After the rules: packets that arrive meanwhile follow them.
        if let Err(error) = flows::delete_flows(&RemovedTargets::between(before, wanted)) {
            tracing::warn!(%error, "deleting flows to removed endpoints failed");
        }
        Ok(())
    }

    /// Removes everything that belongs to no pod.
    pub fn close(&self, marks: &Marks, range: Range) -> io::Result<()> {
        if let Kernel::Rootless(rootless) = self {
            rootless.close();
            return Ok(());
        }
        nftables::remove(&marks.table)?;
        let mut links = Links::open()?;
        links.remove_route((range.network, range.length), Way::Nowhere)?;
        links.remove(&marks.anchor)
    }
}
