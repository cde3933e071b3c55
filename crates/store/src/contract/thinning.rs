//! Churn that is old may go; whatever somebody wanted stays, and so does every key's last write.
//!
//! In these cases keys below `churn/` are churn, all others are not.

use std::time::Duration;

use bytes::Bytes;

use super::subject::{Subject, brief, bytes, create, next, update};
use crate::{Key, KeyRange, Retention, Revision, Thinning};

const AFTER: Duration = Duration::from_secs(3_600);
const INTERVAL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);
/// So much that a backend with large files has several.
const FILLING_BYTES: usize = 450 << 10;
const FILLINGS: usize = 12;

fn is_churn(key: &Key, _before: &Bytes, _after: &Bytes) -> bool {
    key.as_str().starts_with("churn/")
}

async fn thinning(subject: &Subject) {
    let thinning = Some(Thinning { after: AFTER, interval: INTERVAL, is_churn });
    let interval = Duration::from_millis(20);
    let age_max = Duration::from_secs(24 * 3_600);
    let retention = Retention { interval, thinning, age_max, ..Retention::default() };
    subject.begin_with(retention).await;
}

/// What was written, in order.
struct Past {
    first: Revision,
    spec: Vec<Revision>,
    churn: Vec<Revision>,
}

/// Ten changes of a status within a minute for each of a spec; in a second minute the same.
async fn a_busy_past(subject: &Subject) -> Past {
    let first = subject.create("spec", "0").await;
    let mut past = Past { first, spec: vec![first], churn: Vec::new() };
    past.churn.push(subject.create("churn/status", "0").await);
    for minute in 0..2_usize {
        for number in 1..=10 {
            let value = format!("{minute}.{number}");
            let last = past.churn[past.churn.len() - 1];
            let mut operations = vec![update("churn/status", &value, last)];
            if number == 5 {
                operations.push(create(&format!("both-{minute}"), "kept"));
            }
            let committed = subject.commit(operations).await.expect("only we write");
            past.churn.push(committed.revision);
        }
        let last = past.spec[past.spec.len() - 1];
        past.spec.push(subject.update("spec", &minute.to_string(), last).await);
        subject.environment.advance(INTERVAL);
    }
    past
}

/// Time passes, until what is old has been thinned out: of each minute the last is left.
async fn wait(subject: &Subject, past: &Past) {
    grow_old(subject).await;
    thinned(subject, past).await;
}

async fn grow_old(subject: &Subject) {
    // A backend that keeps history in files looks at whole ones, and writes one again only where
    // that frees much of it.
    let filling = "x".repeat(FILLING_BYTES);
    for _ in 0..FILLINGS {
        subject.put("churn/filling", &filling).await;
    }
    subject.environment.advance(AFTER + INTERVAL);
}

async fn thinned(subject: &Subject, past: &Past) {
    let thinned = async {
        while churn_left(subject, past).await.len() > 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, thinned).await.expect("nothing was thinned out");
}

async fn churn_left(subject: &Subject, past: &Past) -> Vec<(Revision, String)> {
    let last = past.spec[past.spec.len() - 1];
    let range = KeyRange::prefix("churn/status");
    let batches = subject.changes(range, past.first, last).await;
    batches.iter().map(|batch| (batch.revision, brief(batch))).collect()
}

pub async fn of_old_churn_the_last_of_each_interval_is_left(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    wait(subject, &past).await;
    let left = churn_left(subject, &past).await;
    let has = |at: usize, value: &str| left.contains(&(past.churn[at], value.to_owned()));
    assert!(has(0, "churn/status=0"), "a creation is never churn: {left:?}");
    assert!(has(10, "churn/status=0.10") && has(20, "churn/status=1.10"), "{left:?}");
}

pub async fn a_change_after_churn_that_has_gone_tells_of_what_is_left(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    wait(subject, &past).await;
    for reopened in [false, true] {
        let last = past.spec[past.spec.len() - 1];
        let batches = subject.changes(KeyRange::prefix("churn/status"), Revision::ZERO, last).await;
        let mut before = None;
        for change in batches.iter().flat_map(|batch| &batch.changes) {
            assert_eq!(change.previous, before, "{}", change.key);
            before = change.entry.clone();
        }
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

pub async fn what_is_not_churn_stays_readable_at_every_revision(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    wait(subject, &past).await;
    for reopened in [false, true] {
        for (number, revision) in past.spec.iter().enumerate() {
            let value = number.saturating_sub(1).to_string();
            assert_eq!(subject.value_at("spec", *revision).await, Some(bytes(&value)));
        }
        // Written together with churn that has gone.
        for (minute, at) in [(0, 5), (1, 15)] {
            let name = format!("both-{minute}");
            assert_eq!(subject.value_at(&name, past.churn[at]).await, Some(bytes("kept")));
            assert_eq!(subject.value_at(&name, past.churn[at - 1]).await, None);
        }
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

/// A read in the past may show an older value where churn is missing, and never a later one.
pub async fn no_read_of_the_past_shows_what_came_later(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    wait(subject, &past).await;
    for reopened in [false, true] {
        for revision in &past.churn {
            let entry = subject.get_at("churn/status", *revision).await.expect("kept");
            let entry = entry.expect("it was there");
            assert!(entry.modified <= *revision, "{} at {revision}", entry.modified);
            assert_eq!(entry.created, past.churn[0]);
        }
        for at in [0, 10, 20] {
            let value = subject.get_at("churn/status", past.churn[at]).await.expect("kept");
            assert_eq!(value.map(|entry| entry.modified), Some(past.churn[at]));
        }
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

pub async fn the_live_state_and_its_preconditions_are_as_before(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    let before = subject.list(KeyRange::prefix("churn/status")).await.entries;
    wait(subject, &past).await;
    assert_eq!(subject.list(KeyRange::prefix("churn/status")).await.entries, before);
    subject.reopen().await;
    assert_eq!(subject.list(KeyRange::prefix("churn/status")).await.entries, before);
    let last = past.churn[past.churn.len() - 1];
    subject.update("churn/status", "on", last).await;
}

pub async fn a_watch_over_churn_that_has_gone_has_no_gap(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    wait(subject, &past).await;
    for reopened in [false, true] {
        let mut watch = subject.watch_range(KeyRange::prefix("spec"), past.first.before()).await;
        for revision in &past.spec {
            assert_eq!(next(&mut watch).await.revision, *revision);
        }
        let range = KeyRange::prefix("churn/status");
        let mut watch = subject.watch_range(range, past.churn[3]).await;
        let mut seen = past.churn[3];
        while seen < past.churn[20] {
            let batch = next(&mut watch).await;
            assert!(batch.revision > seen);
            seen = batch.revision;
        }
        assert_eq!(seen, past.churn[20]);
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

pub async fn young_churn_stays(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    grow_old(subject).await;
    let mut young = vec![subject.create("churn/young", "0").await];
    for number in 1..10 {
        let last = young[young.len() - 1];
        young.push(subject.update("churn/young", &number.to_string(), last).await);
    }
    thinned(subject, &past).await;
    for (number, revision) in young.iter().enumerate() {
        let value = subject.value_at("churn/young", *revision).await;
        assert_eq!(value, Some(bytes(&number.to_string())));
    }
}

/// What is read meanwhile is never what came later, nor an error.
pub async fn reads_while_churn_goes_are_right(subject: &Subject) {
    thinning(subject).await;
    let past = a_busy_past(subject).await;
    grow_old(subject).await;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    let read = async {
        while !is_over.load(order) {
            for revision in &past.churn {
                let entry = subject.get_at("churn/status", *revision).await.expect("it is kept");
                let entry = entry.expect("it was there");
                assert!(entry.modified <= *revision, "{} at {revision}", entry.modified);
                tokio::task::yield_now().await;
            }
        }
    };
    let go = async {
        thinned(subject, &past).await;
        is_over.store(true, order);
    };
    tokio::join!(read, go);
}
