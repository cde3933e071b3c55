//! Power loss: a recorded run is cut at every sync, with random parts of what was not synced yet,
//! and every image must open to a state that holds all that was acknowledged, and nothing torn.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use store::backends::embedded::simulated_disk::{Action, Blackout, Image, SimulatedDisk};
use store::backends::embedded::{Inline, Tuning, open_inline};
use store::contract::{Numbers, key};
use store::{
    Commit, Error, Key, KeyRange, Mutation, Operation, PageRequest, Precondition, Provenance,
    Retention, Revision, Store, System, Thinning, Timestamp,
};

const TUNING: Tuning = Tuning {
    segment_bytes_min: 16 << 10,
    segment_bytes_max: 64 << 10,
    snapshot_log_bytes_min: 24 << 10,
};

/// Half of the keys are churn, and all that was written is old.
const THINNING: Thinning = Thinning {
    after: std::time::Duration::ZERO,
    interval: std::time::Duration::from_secs(3_600),
    is_churn,
};

fn is_churn(key: &Key, _: &Bytes, _: &Bytes) -> bool {
    is_churn_name(key.as_str())
}

fn is_churn_name(name: &str) -> bool {
    name < "key-20"
}

type State = BTreeMap<String, (Bytes, Revision)>;

/// A run: what was done to the disk, and what the client knew when.
struct Run {
    trace: Vec<Action>,
    /// How long the trace was when each revision was acknowledged, from revision 0 on.
    acknowledged_at: Vec<usize>,
    states: Vec<State>,
    last: Image,
}

fn retention() -> Retention {
    Retention { recent_bytes_max: 8 << 10, ..Default::default() }
}

fn open(disk: &SimulatedDisk) -> Result<Arc<dyn Store>, Error> {
    open_inline(Arc::new(disk.clone()), retention(), Arc::new(System), TUNING)
}

fn operations(numbers: &mut Numbers, state: &State) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for _ in 0..1 + numbers.below(3) {
        let name = format!("key-{:02}", numbers.below(40));
        if operations.iter().any(|operation| operation.key == key(&name)) {
            continue;
        }
        let length = numbers.below(700) as usize;
        let value = Bytes::from(vec![numbers.draw() as u8; length]);
        let (mutation, when) = match state.get(&name) {
            Some((_, at)) if numbers.below(4) == 0 => (Mutation::Delete, Precondition::At(*at)),
            Some((_, at)) => (Mutation::Put(value), Precondition::At(*at)),
            None => (Mutation::Put(value), Precondition::Absent),
        };
        operations.push(Operation { key: key(&name), mutation, when });
    }
    operations
}

fn perform(state: &mut State, operations: &[Operation], revision: Revision) {
    for operation in operations {
        let name = operation.key.as_str().to_owned();
        match &operation.mutation {
            Mutation::Put(value) => drop(state.insert(name, (value.clone(), revision))),
            Mutation::Delete => drop(state.remove(&name)),
            Mutation::Keep => {}
        }
    }
}

async fn commit(store: &dyn Store, operations: Vec<Operation>) -> Result<Revision, Error> {
    let provenance = Provenance::of(Timestamp(0), "power");
    let committed = store.commit(Commit { operations, epoch: None, provenance }).await?;
    Ok(committed.revision)
}

/// Whether segments are thinned out while it runs.
#[derive(Clone, Copy, PartialEq)]
enum Upkeep {
    Compaction,
    CompactionAndThinning,
}

async fn record(commits: usize, upkeep: Upkeep) -> Run {
    let disk = SimulatedDisk::default();
    let environment = Arc::new(System);
    let inline = Inline::open(Arc::new(disk.clone()), retention(), environment, TUNING).unwrap();
    let store = inline.store.clone();
    let mut freed = 0;
    let mut numbers = Numbers::new(42);
    let mut state = State::new();
    let mut run = Run {
        trace: Vec::new(),
        acknowledged_at: vec![disk.trace_length()],
        states: vec![state.clone()],
        last: Image::default(),
    };
    for number in 0..commits {
        let operations = operations(&mut numbers, &state);
        let revision = commit(&*store, operations.clone()).await.unwrap();
        perform(&mut state, &operations, revision);
        assert_eq!(revision.0 as usize, run.states.len());
        run.acknowledged_at.push(disk.trace_length());
        run.states.push(state.clone());
        if number % 100 == 99 {
            store.compact(Revision(revision.0 - 80)).await.unwrap();
        }
        if number % 40 == 39 && upkeep == Upkeep::CompactionAndThinning {
            freed += inline.thin(&THINNING, Timestamp(1)).unwrap();
        }
    }
    assert_eq!(freed > 50 << 10, upkeep == Upkeep::CompactionAndThinning, "{freed} bytes freed");
    run.trace = disk.trace();
    run.last = disk.image();
    run
}

async fn live(store: &dyn Store) -> State {
    let page = store.list(&KeyRange::all(), PageRequest::all(), None).await.unwrap();
    let pair = |entry: &Arc<store::Entry>| {
        (entry.key.as_str().to_owned(), (entry.value.clone(), entry.modified))
    };
    page.entries.iter().map(pair).collect()
}

/// Opens an image and compares it with what must be there after `position` actions.
async fn check(run: &Run, image: Image, position: usize) -> SimulatedDisk {
    let acknowledged = run.acknowledged_at.iter().filter(|at| **at <= position).count();
    let floor = acknowledged.saturating_sub(1);
    let disk = SimulatedDisk::with(image);
    let store = open(&disk).unwrap_or_else(|error| panic!("after action {position}: {error}"));
    let head = store.revision().0 as usize;
    assert!((floor..=floor + 1).contains(&head), "{head} after {position}, {floor} acknowledged");
    assert_eq!(live(&*store).await, run.states[head], "after action {position}");
    // History in the window is still whole too.
    let oldest = store.compacted().max(Revision(head.saturating_sub(3) as u64));
    for revision in oldest.0..=head as u64 {
        let at = Some(Revision(revision));
        let page = store.list(&KeyRange::all(), PageRequest::all(), at).await.unwrap();
        assert_eq!(page.entries.len(), run.states[revision as usize].len());
    }
    check_oldest(run, &*store).await;
    store.close().await;
    disk
}

/// At the beginning of the window, where churn has gone: all else is as it was, and of churn there
/// is nothing that came later.
async fn check_oldest(run: &Run, store: &dyn Store) {
    let oldest = store.compacted();
    let page = store.list(&KeyRange::all(), PageRequest::all(), Some(oldest)).await.unwrap();
    let state = &run.states[oldest.0 as usize];
    assert_eq!(page.entries.len(), state.len());
    for entry in &page.entries {
        let (value, modified) = &state[entry.key.as_str()];
        if is_churn_name(entry.key.as_str()) {
            assert!(entry.modified <= *modified, "{} at {oldest}", entry.key);
        } else {
            assert_eq!((&entry.value, entry.modified), (value, *modified), "{}", entry.key);
        }
    }
}

/// The store goes on after a power loss, and a second opening finds the same.
async fn check_goes_on(run: &Run, disk: &SimulatedDisk) {
    let store = open(disk).unwrap();
    let head = store.revision();
    assert_eq!(live(&*store).await, run.states[head.0 as usize]);
    let put = Mutation::Put("x".into());
    let operation = Operation { key: key("after"), mutation: put, when: Precondition::Absent };
    assert_eq!(commit(&*store, vec![operation]).await.unwrap(), head.next());
    store.close().await;
    assert_eq!(open(disk).unwrap().revision(), head.next());
}

fn full() -> bool {
    std::env::var_os("SETPOINT_TEST_FULL").is_some()
}

#[tokio::test]
async fn every_image_of_a_power_loss_opens_to_what_was_acknowledged() {
    lose_power(record(2_000, Upkeep::Compaction).await, 2_000).await;
}

#[tokio::test]
async fn a_power_loss_while_history_is_thinned_out_loses_nothing_that_was_acknowledged() {
    lose_power(record(800, Upkeep::CompactionAndThinning).await, 800).await;
}

async fn lose_power(run: Run, images_min: usize) {
    let images_each = if full() { 8 } else { 1 };
    let mut numbers = Numbers::new(1);
    let mut blackout = Blackout::default();
    let mut images = 0;
    for (position, action) in run.trace.iter().enumerate() {
        // Every step of putting a file in the place of another counts, not its syncs alone.
        let is_step = matches!(action, Action::Create { .. } | Action::Rename { .. });
        let is_sync = is_step || matches!(action, Action::Sync { .. } | Action::SyncDirectory);
        // Just before a sync is when the most is at stake.
        for _ in 0..if is_sync { images_each } else { 0 } {
            let image = blackout.image(&mut || numbers.draw());
            let disk = check(&run, image.clone(), position).await;
            images += 1;
            if images % 16 == 0 {
                images += check_crash_in_recovery(&run, image, &disk, position, &mut numbers).await;
                check_goes_on(&run, &disk).await;
            }
        }
        blackout.perform(action);
        if is_sync {
            for _ in 0..images_each {
                let image = blackout.image(&mut || numbers.draw());
                check(&run, image, position + 1).await;
                images += 1;
            }
        }
    }
    println!("{images} images of {} actions", run.trace.len());
    assert!(images >= if full() { 15 * images_min } else { images_min });
}

/// The power goes again while the store is being opened.
async fn check_crash_in_recovery(
    run: &Run,
    image: Image,
    recovered: &SimulatedDisk,
    position: usize,
    numbers: &mut Numbers,
) -> usize {
    let mut blackout = Blackout::after(image);
    let mut images = 0;
    for action in recovered.trace() {
        blackout.perform(&action);
        check(run, blackout.image(&mut || numbers.draw()), position).await;
        images += 1;
    }
    images
}

#[tokio::test]
async fn a_flipped_bit_is_refused_or_outside_of_what_is_served() {
    let run = record(400, Upkeep::Compaction).await;
    let mut numbers = Numbers::new(3);
    let names: Vec<String> = run.last.names().map(str::to_owned).collect();
    let (mut refused, mut cut) = (0, 0);
    for _ in 0..if full() { 5_000 } else { 600 } {
        let mut image = run.last.clone();
        let name = &names[numbers.below(names.len() as u64) as usize];
        let bytes = image.file_mut(name).unwrap();
        let at = numbers.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << numbers.below(8);
        let disk = SimulatedDisk::with(image);
        match open(&disk) {
            Err(Error::Corrupt { file, .. } | Error::NewerFormat { file, .. }) => {
                assert_eq!(&file, name);
                assert!(disk.trace().is_empty(), "nothing may be changed");
                refused += 1;
            }
            Err(Error::Foreign { .. }) => refused += 1,
            Err(error) => panic!("{name} at {at}: {error}"),
            Ok(store) => {
                let head = store.revision().0 as usize;
                // The very last write looks like one that never completed.
                assert!(head + 1 >= run.states.len() - 1, "{name} at {at}: {head}");
                assert_eq!(live(&*store).await, run.states[head], "{name} at {at}");
                cut += 1;
            }
        }
    }
    println!("{refused} refused, {cut} opened");
    assert!(refused > 50 && cut > 50);
}
