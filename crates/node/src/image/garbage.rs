//! Images that this node pulled and that nobody uses go when the file system that they are on is
//! nearly full, the longest unused first. What others put there is never touched: only what is in
//! our own record is looked at.
//!
//! Upstream: pkg/kubelet/images/image_gc_manager.go

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{ImageName, ImageStore};

/// How often it is looked.
pub const PERIOD: Duration = Duration::from_secs(5 * 60);
/// Above this images go, until no more than that is used.
const HIGH_PERCENT: u64 = 85;
const LOW_PERCENT: u64 = 80;
/// What was used more lately stays: its pod may be about to start.
pub const AGE_MIN: Duration = Duration::from_secs(2 * 60);
/// Images that are remembered; of more the longest unused are somebody else's.
const KNOWN_MAX: usize = 10_000;
const RECORD: &str = "images.json";

/// How full a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub used: u64,
    pub capacity: u64,
}

impl Usage {
    fn percent(self) -> u64 {
        self.used.saturating_mul(100) / self.capacity.max(1)
    }
}

/// What this node pulled, with when it was last used, in seconds.
#[derive(Debug)]
pub struct Garbage {
    file: PathBuf,
    known: Mutex<BTreeMap<String, i64>>,
}

impl Garbage {
    pub fn open(directory: &Path) -> Garbage {
        let file = directory.join(RECORD);
        let text = fs::read(&file).unwrap_or_default();
        let known = serde_json::from_slice(&text).unwrap_or_default();
        Garbage { file, known: Mutex::new(known) }
    }

    /// An image is here because of us.
    pub fn pulled(&self, name: &ImageName, now: Timestamp) {
        let mut known = self.lock();
        known.insert(name.full(), now.as_second());
        while known.len() > KNOWN_MAX {
            let Some(oldest) = oldest(&known).first().cloned() else { break };
            known.remove(&oldest);
        }
        self.keep(&known);
    }

    /// Removes what may go, if there is need; the names of what went.
    pub async fn collect(
        &self,
        store: &dyn ImageStore,
        in_use: &BTreeSet<String>,
        (now, age_min): (Timestamp, Duration),
    ) -> Vec<String> {
        let candidates = self.candidates(in_use, (now, age_min));
        let mut removed = Vec::new();
        if store.usage().await.is_none_or(|usage| usage.percent() <= HIGH_PERCENT) {
            return removed;
        }
        for full in candidates {
            let Ok(name) = ImageName::parse(&full) else { continue };
            if let Err(error) = store.remove(&name).await {
                tracing::debug!(image = full, error, "not removed");
                continue;
            }
            tracing::info!(image = full, "removed: its file system is nearly full");
            self.forget(&full);
            removed.push(full);
            if store.usage().await.is_none_or(|usage| usage.percent() <= LOW_PERCENT) {
                break;
            }
        }
        removed
    }

    /// What is not used and was not lately, the longest unused first. Notes what is used.
    fn candidates(
        &self,
        in_use: &BTreeSet<String>,
        (now, age_min): (Timestamp, Duration),
    ) -> Vec<String> {
        let mut known = self.lock();
        for (_, used) in known.iter_mut().filter(|(name, _)| in_use.contains(*name)) {
            *used = now.as_second();
        }
        let age = i64::try_from(age_min.as_secs()).unwrap_or(i64::MAX);
        let latest = now.as_second().saturating_sub(age);
        let may_go = |name: &String| known.get(name).is_some_and(|used| *used <= latest);
        oldest(&known).into_iter().filter(|name| may_go(name) && !in_use.contains(name)).collect()
    }

    fn forget(&self, name: &str) {
        let mut known = self.lock();
        known.remove(name);
        self.keep(&known);
    }

    fn keep(&self, known: &BTreeMap<String, i64>) {
        let written = serde_json::to_vec(known).map(|bytes| fs::write(&self.file, bytes));
        if !matches!(written, Ok(Ok(()))) {
            tracing::debug!(file = %self.file.display(), "it is not kept which images were pulled");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn oldest(known: &BTreeMap<String, i64>) -> Vec<String> {
    let mut names: Vec<(&i64, &String)> = known.iter().map(|(name, used)| (used, name)).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::image::{Credentials, Found};

    /// A store of a hundred bytes.
    #[derive(Default)]
    struct Small(Mutex<BTreeMap<String, u64>>);

    #[async_trait]
    impl ImageStore for Small {
        async fn find(&self, _: &ImageName) -> Result<Option<Found>, String> {
            Ok(None)
        }

        async fn pull(&self, _: &ImageName, _: Option<&Credentials>) -> Result<(), String> {
            Ok(())
        }

        async fn load(&self, _: &Path) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }

        async fn remove(&self, name: &ImageName) -> Result<(), String> {
            self.0.lock().unwrap().remove(&name.full()).map(drop).ok_or("none".to_owned())
        }

        async fn usage(&self) -> Option<Usage> {
            let used = self.0.lock().unwrap().values().sum();
            Some(Usage { used, capacity: 100 })
        }
    }

    #[tokio::test]
    async fn what_we_pulled_and_nobody_uses_goes_when_room_is_short() {
        let name = format!("setpoint-garbage-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let store = Small::default();
        let garbage = Garbage::open(&directory);
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let image = |name: &str| ImageName::parse(&format!("example.com/{name}:1")).unwrap();
        for (name, bytes, pulled) in [
            ("foreign", 50, None),
            ("old", 10, Some(1)),
            ("used", 10, Some(0)),
            ("new", 5, Some(990)),
        ] {
            store.0.lock().unwrap().insert(image(name).full(), bytes);
            if let Some(seconds) = pulled {
                garbage.pulled(&image(name), at(seconds));
            }
        }
        let in_use: BTreeSet<String> = [image("used").full()].into();
        let now = (at(1_000), AGE_MIN);
        assert_eq!(garbage.collect(&store, &in_use, now).await, [""; 0], "there is room");
        store.0.lock().unwrap().insert(image("more").full(), 20);
        // The record outlives us.
        let garbage = Garbage::open(&directory);
        assert_eq!(garbage.collect(&store, &in_use, now).await, [image("old").full()]);
        store.0.lock().unwrap().insert(image("again").full(), 10);
        // Nothing that may go is left: neither what is used, nor what is others', nor what is new.
        assert_eq!(garbage.collect(&store, &in_use, now).await, [""; 0]);
        let later = (at(2_000), AGE_MIN);
        assert_eq!(garbage.collect(&store, &in_use, later).await, [image("new").full()]);
        assert!(store.0.lock().unwrap().contains_key(&image("foreign").full()));
        let _ = fs::remove_dir_all(directory);
    }
}
