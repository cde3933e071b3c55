//! A past with much churn in it, and what must hold of it whatever happened while it was thinned
//! out. For the fault tests of every backend that asks a server.

use std::collections::BTreeMap;
use std::time::Duration;

use store::{
    Change, Commit, Entry, Environment, Key, KeyRange, Mutation, Operation, PageRequest,
    Precondition, Provenance, Retention, Revision, Store, System, Thinning, Timestamp,
};

const INTERVAL: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_secs(3_600);
/// Old enough, however many commits follow.
const BEGIN: Duration = Duration::from_secs(3 * 3_600);
const BETWEEN_MICROS: i64 = 100_000;
const KEYS: usize = 3;
/// Of so many commits one is of what somebody wanted.
const WANTED_EVERY: usize = 6;

fn is_churn(key: &Key, _: &bytes::Bytes, _: &bytes::Bytes) -> bool {
    key.as_str().starts_with("churn/")
}

/// Thins out at once, and again every few milliseconds.
pub fn retention() -> Retention {
    let thinning = Some(Thinning { after: AFTER, interval: INTERVAL, is_churn });
    Retention { interval: Duration::from_millis(20), thinning, ..Retention::default() }
}

/// What was under each key, and since when.
type State = BTreeMap<String, (String, Revision)>;

/// What was written, and what the keys held after each revision.
pub struct Past {
    time: Timestamp,
    written: usize,
    live: State,
    states: Vec<(Revision, State)>,
    /// Where the newest stretch begins.
    begin: usize,
}

impl Past {
    pub fn new() -> Past {
        let time = System.now().minus(BEGIN);
        Past { time, written: 0, live: BTreeMap::new(), states: Vec::new(), begin: 0 }
    }

    /// Writes a stretch, as if it were hours ago.
    pub async fn grow(&mut self, store: &dyn Store, commits: usize) {
        self.begin = self.states.len();
        for _ in 0..commits {
            self.written += 1;
            self.time = Timestamp(self.time.0 + BETWEEN_MICROS);
            let part = if self.written.is_multiple_of(WANTED_EVERY) { "wanted" } else { "churn" };
            let name = format!("{part}/{}", self.written % KEYS);
            let value = format!("value {}", self.written);
            let at = self.live.get(&name).map(|(_, revision)| *revision);
            let when = at.map_or(Precondition::Absent, Precondition::At);
            let key = Key::new(name.clone()).unwrap();
            let mutation = Mutation::Put(value.clone().into());
            let operations = vec![Operation { key, mutation, when }];
            let provenance = Provenance::of(self.time, "test");
            let commit = Commit { operations, epoch: None, provenance };
            let revision = store.commit(commit).await.unwrap().revision;
            self.live.insert(name, (value, revision));
            self.states.push((revision, self.live.clone()));
        }
    }

    /// Nothing that somebody wanted is missing at any revision of the newest stretch, of churn no
    /// read shows what came later, and each change tells of what is there before it.
    pub async fn check(&self, store: &dyn Store) {
        for (revision, state) in &self.states[self.begin..] {
            let page = store.list(&KeyRange::all(), PageRequest::all(), Some(*revision)).await;
            let entries = page.unwrap().entries;
            assert_eq!(entries.len(), state.len(), "at {revision}");
            for entry in entries {
                let (value, modified) = &state[entry.key.as_str()];
                if entry.key.as_str().starts_with("wanted/") {
                    assert_eq!((&entry.value[..], entry.modified), (value.as_bytes(), *modified));
                } else {
                    assert!(entry.modified <= *revision, "{} at {revision}", entry.key);
                    assert_eq!(Some(text(&entry)), self.value(&entry), "at {revision}");
                }
            }
        }
        let mut before = BTreeMap::new();
        for change in self.changes(store).await {
            let previous = match &change.entry {
                Some(entry) => before.insert(change.key.clone(), entry.clone()),
                None => before.remove(&change.key),
            };
            assert_eq!(change.previous, previous, "{}", change.key);
        }
        let live = store.list(&KeyRange::all(), PageRequest::all(), None).await.unwrap().entries;
        let live = live.iter().map(|entry| (entry.key.to_string(), (text(entry), entry.modified)));
        assert_eq!(live.collect::<BTreeMap<_, _>>(), self.live);
        assert!(before.into_values().all(|entry| self.live[entry.key.as_str()].0 == text(&entry)));
    }

    /// What was written where an entry says that it was.
    fn value(&self, entry: &Entry) -> Option<String> {
        let at = self.states.binary_search_by_key(&entry.modified, |(revision, _)| *revision);
        let (value, modified) = self.states[at.ok()?].1.get(entry.key.as_str())?;
        (*modified == entry.modified).then(|| value.clone())
    }

    async fn changes(&self, store: &dyn Store) -> Vec<Change> {
        let last = self.states.last().expect("something was written").0;
        let (mut after, mut all) = (Revision::ZERO, Vec::new());
        while after < last {
            let changes = store.changes(&KeyRange::all(), after, last).await.unwrap();
            all.extend(changes.batches.iter().flat_map(|batch| batch.changes.clone()));
            after = changes.through;
        }
        all
    }

    /// How much of the churn of the newest stretch is there.
    pub async fn churn_left(&self, store: &dyn Store) -> usize {
        let begin = self.states[self.begin].0;
        let of_stretch = |change: &Change| {
            let entry = change.entry.as_ref();
            change.key.as_str().starts_with("churn/")
                && entry.is_some_and(|entry| entry.modified >= begin)
        };
        self.changes(store).await.into_iter().filter(of_stretch).count()
    }

    /// How much of it there is when all that may go has gone, at most: the last of each key and
    /// interval, and the first of each key, which replaced none of it.
    pub fn churn_least(&self) -> usize {
        let commits = self.states.len() - self.begin;
        let span = i64::try_from(commits).unwrap_or(i64::MAX).saturating_mul(BETWEEN_MICROS);
        let intervals = span / i64::try_from(INTERVAL.as_micros()).unwrap_or(1) + 2;
        (usize::try_from(intervals).unwrap_or(usize::MAX) + 1) * KEYS
    }
}

fn text(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.value).into_owned()
}
