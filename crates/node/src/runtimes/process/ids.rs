//! Ranges of user and group ids for pods: 65,536 for each, so that the root of a pod is an ordinary
//! user of the host that owns nothing there.
//!
//! A range is recorded with the pod, because its containers share one, also after a restart.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Ids of one pod.
pub const COUNT: u32 = 1 << 16;
/// The first id: where neither users, services nor other runtimes have theirs.
const FIRST: u32 = 0x1000_0000;
/// Ends before the ids of virtual machines.
const RANGES: u32 = (0x7000_0000 - FIRST) / COUNT;
const FILE: &str = "ids.json";

/// Ids of the host that the ids from 0 on of a pod are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRange {
    pub first: u32,
}

impl IdRange {
    /// Returns the range of a pod; takes one that is free if it has none.
    pub fn of_pod(directory: &Path, pod: &str) -> io::Result<IdRange> {
        let pods = directory.join("pods");
        if let Some(range) = read(&pods.join(pod)) {
            return Ok(range);
        }
        let mut used = BTreeSet::new();
        for entry in fs::read_dir(&pods)? {
            used.extend(read(&entry?.path()).map(|range| range.first));
        }
        let start = reconcile::names::digest(&[pod]);
        let start = start
            .bytes()
            .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let ranges = (0..RANGES).map(|next| (start % RANGES + next) % RANGES);
        let mut firsts = ranges.map(|range| FIRST + range * COUNT);
        let first = firsts.find(|first| !used.contains(first));
        let range = IdRange { first: first.ok_or_else(|| io::Error::other("no ids are left"))? };
        fs::create_dir_all(pods.join(pod))?;
        let draft = pods.join(pod).join("ids.draft");
        fs::write(&draft, serde_json::to_vec(&range)?)?;
        fs::rename(&draft, pods.join(pod).join(FILE))?;
        Ok(range)
    }
}

fn read(pod: &Path) -> Option<IdRange> {
    serde_json::from_slice(&fs::read(pod.join(FILE)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::process::tests::directory;

    #[test]
    fn every_pod_has_ids_of_its_own_and_keeps_them() {
        let directory = directory("ids");
        fs::create_dir_all(directory.0.join("pods")).unwrap();
        let of = |pod: &str| IdRange::of_pod(&directory.0, pod).unwrap();
        let (one, two) = (of("one"), of("two"));
        assert_ne!(one, two);
        assert_eq!(of("one"), one);
        assert!(one.first >= FIRST && one.first % COUNT == 0 && one.first < 0x7000_0000);
        // As if another had taken it first.
        fs::rename(directory.0.join("pods/one"), directory.0.join("pods/other")).unwrap();
        assert_ne!(of("one"), one);
    }
}
