//! Watches: ordered, unique, atomic, reliable, resumable (ST-5 to ST-12, ST-17, ST-20).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};

use super::subject::{Numbers, Subject, brief, create, delete, next, try_next, update};
use crate::{Batch, Error, Key, KeyRange, Retention, Revision, Watch};

/// Some life: creations, updates, deletions, several keys at once.
async fn live_a_little(subject: &Subject) -> Vec<Revision> {
    let a = subject.create("a", "1").await;
    let b = subject.create("b", "1").await;
    let a2 = subject.update("a", "2", a).await;
    let both = vec![update("a", "3", a2), delete("b", b), create("c", "1")];
    let both = subject.commit(both).await.expect("all hold").revision;
    let gone = subject.delete("a", both).await;
    let again = subject.create("a", "4").await;
    vec![a, b, a2, both, gone, again]
}

const A_LITTLE: [&str; 6] = ["a=1", "b=1", "a=2", "a=3 -b c=1", "-a", "a=4"];

async fn take(watch: &mut Watch, count: usize) -> Vec<Arc<Batch>> {
    let mut batches = Vec::new();
    for _ in 0..count {
        batches.push(next(watch).await);
    }
    batches
}

fn in_brief(batches: &[Arc<Batch>]) -> Vec<String> {
    batches.iter().map(|batch| brief(batch)).collect()
}

pub async fn a_watch_from_the_beginning_replays_everything(subject: &Subject) {
    let start = subject.revision();
    let revisions = live_a_little(subject).await;
    let batches = take(&mut subject.watch(start).await, 6).await;
    assert_eq!(in_brief(&batches), A_LITTLE);
    assert_eq!(batches.iter().map(|batch| batch.revision).collect::<Vec<_>>(), revisions);
}

pub async fn a_watch_from_now_sees_what_comes(subject: &Subject) {
    subject.create("before", "x").await;
    let mut watch = subject.watch(subject.revision()).await;
    let (batches, _) = join(take(&mut watch, 6), live_a_little(subject)).await;
    assert_eq!(in_brief(&batches), A_LITTLE);
}

pub async fn a_watch_replays_then_follows(subject: &Subject) {
    let start = subject.revision();
    subject.create("before", "x").await;
    let mut watch = subject.watch(start).await;
    live_a_little(subject).await;
    let batches = take(&mut watch, 7).await;
    assert_eq!(brief(&batches[0]), "before=x");
    assert_eq!(in_brief(&batches[1..]), A_LITTLE);
}

pub async fn a_watch_sees_its_range_only(subject: &Subject) {
    let mut watch = subject.watch_range(KeyRange::prefix("pods/"), subject.revision()).await;
    for name in ["pod", "pods", "pods/a", "services/a", "pods/b", "pods0"] {
        subject.create(name, "x").await;
    }
    assert_eq!(in_brief(&take(&mut watch, 2).await), ["pods/a=x", "pods/b=x"]);
}

pub async fn a_commit_of_several_keys_comes_as_one(subject: &Subject) {
    let mut watch = subject.watch(subject.revision()).await;
    let names: Vec<_> = (0..20).map(|number| format!("k{number:02}")).collect();
    let operations = names.iter().map(|name| create(name, "x")).collect();
    let revision = subject.commit(operations).await.expect("all are new").revision;
    let batch = next(&mut watch).await;
    assert_eq!((batch.revision, batch.changes.len()), (revision, 20));
}

pub async fn a_commit_half_in_range_comes_in_half(subject: &Subject) {
    let mut watch = subject.watch_range(KeyRange::prefix("in/"), subject.revision()).await;
    let operations = vec![create("in/a", "x"), create("out/b", "x"), create("in/c", "x")];
    subject.commit(operations).await.expect("all are new");
    assert_eq!(brief(&*next(&mut watch).await), "in/a=x in/c=x");
}

pub async fn a_creation_has_no_previous(subject: &Subject) {
    let mut watch = subject.watch(subject.revision()).await;
    subject.create("a", "1").await;
    assert_eq!(next(&mut watch).await.changes[0].previous, None);
}

pub async fn an_update_carries_the_previous_entry(subject: &Subject) {
    let first = subject.create("a", "1").await;
    let before = subject.get("a").await;
    let mut watch = subject.watch(first).await;
    subject.update("a", "2", first).await;
    assert_eq!(next(&mut watch).await.changes[0].previous, before);
}

pub async fn a_deletion_carries_the_last_entry(subject: &Subject) {
    let first = subject.create("a", "1").await;
    let second = subject.update("a", "2", first).await;
    let before = subject.get("a").await;
    let mut watch = subject.watch(second).await;
    subject.delete("a", second).await;
    let batch = next(&mut watch).await;
    assert_eq!(batch.changes[0].entry, None);
    assert_eq!(batch.changes[0].previous, before);
}

pub async fn a_former_life_is_not_the_previous_of_a_creation(subject: &Subject) {
    let first = subject.create("a", "1").await;
    let gone = subject.delete("a", first).await;
    let mut watch = subject.watch(gone).await;
    let again = subject.create("a", "2").await;
    let batch = next(&mut watch).await;
    assert_eq!(batch.changes[0].previous, None);
    assert_eq!(batch.changes[0].entry.as_ref().map(|entry| entry.created), Some(again));
}

pub async fn a_watch_carries_provenance(subject: &Subject) {
    let mut watch = subject.watch(subject.revision()).await;
    subject.create("a", "1").await;
    assert_eq!(*next(&mut watch).await.provenance, subject.provenance());
}

pub async fn a_watch_from_a_future_revision_waits_for_it(subject: &Subject) {
    let first = subject.create("k00", "x").await;
    let mut watch = subject.watch(Revision(first.0 + 5)).await;
    let mut seen = None;
    for number in 1..400 {
        let revision = subject.create(&format!("k{number:02}"), "x").await;
        if revision.0 > first.0 + 5 {
            seen = Some(revision);
            break;
        }
    }
    assert_eq!(Some(next(&mut watch).await.revision), seen);
}

pub async fn revisions_never_go_back_in_a_watch(subject: &Subject) {
    let mut watch = subject.watch(subject.revision()).await;
    let write = async |worker: usize| {
        for number in 0..25 {
            subject.create(&format!("{worker}-{number}"), "x").await;
        }
    };
    let read = async {
        let batches = take(&mut watch, 100).await;
        assert!(batches.is_sorted_by(|a, b| a.revision < b.revision));
    };
    join(join_all((0..4).map(write)), read).await;
}

pub async fn two_watches_see_the_same(subject: &Subject) {
    let start = subject.revision();
    let mut early = subject.watch(start).await;
    live_a_little(subject).await;
    let mut late = subject.watch(start).await;
    assert_eq!(take(&mut early, 6).await, take(&mut late, 6).await);
}

pub async fn waiting_for_the_next_can_be_given_up(subject: &Subject) {
    let mut watch = subject.watch(subject.revision()).await;
    for number in 0..20_u64 {
        // Given up at a random moment: before, during or after the change arrives.
        let (_, revision) = join(
            tokio::time::timeout(Duration::from_micros(number * 10), std::future::pending::<()>()),
            subject.create(&format!("k{number:02}"), "x"),
        )
        .await;
        if let Ok(batch) = tokio::time::timeout(Duration::from_micros(number), watch.next()).await {
            assert_eq!(batch.expect("the watch goes on").revision, revision);
        } else {
            assert_eq!(next(&mut watch).await.revision, revision);
        }
    }
}

pub async fn the_position_follows_what_was_delivered(subject: &Subject) {
    let start = subject.revision();
    let revisions = live_a_little(subject).await;
    let mut watch = subject.watch(start).await;
    assert_eq!(watch.position(), start);
    for revision in revisions {
        next(&mut watch).await;
        assert!(watch.position() >= revision);
    }
    assert_eq!(watch.position(), subject.revision());
}

pub async fn the_position_passes_what_does_not_match(subject: &Subject) {
    let mut watch = subject.watch_range(KeyRange::prefix("none/"), subject.revision()).await;
    let last = subject.create("other", "x").await;
    let waited = tokio::time::timeout(Duration::from_millis(300), watch.next()).await;
    assert!(waited.is_err(), "nothing matches");
    assert_eq!(watch.position(), last);
}

pub async fn the_position_never_goes_back(subject: &Subject) {
    let mut watch = subject.watch_range(KeyRange::prefix("in/"), subject.revision()).await;
    let mut position = watch.position();
    for number in 0..30 {
        subject
            .create(&format!("{}/{number}", if number % 3 == 0 { "in" } else { "out" }), "x")
            .await;
        if number % 3 == 0 {
            let batch = next(&mut watch).await;
            assert!(batch.revision > position, "a bookmark was wrong");
        }
        assert!(watch.position() >= position && watch.position() <= subject.revision());
        position = watch.position();
    }
}

pub async fn a_watch_can_be_resumed_at_every_revision(subject: &Subject) {
    let start = subject.revision();
    let revisions = live_a_little(subject).await;
    let whole = take(&mut subject.watch(start).await, 6).await;
    for (position, revision) in revisions.iter().enumerate() {
        let rest = take(&mut subject.watch(*revision).await, 5 - position).await;
        assert_eq!(rest, whole[position + 1..]);
    }
}

pub async fn a_watch_can_be_resumed_after_reopening(subject: &Subject) {
    let start = subject.revision();
    let revisions = live_a_little(subject).await;
    subject.reopen().await;
    let batches = take(&mut subject.watch(start).await, 6).await;
    assert_eq!(in_brief(&batches), A_LITTLE);
    let mut watch = subject.watch(revisions[2]).await;
    let later = subject.create("later", "x").await;
    assert_eq!(take(&mut watch, 4).await[3].revision, later);
}

/// The values of a range, kept up to date by a watch.
#[derive(Default, PartialEq, Debug)]
struct Mirror(BTreeMap<Key, Revision>);

impl Mirror {
    fn of(page: &crate::Page) -> Mirror {
        let pair = |entry: &Arc<crate::Entry>| (entry.key.clone(), entry.modified);
        Mirror(page.entries.iter().map(pair).collect())
    }

    fn follow(&mut self, batch: &Batch) {
        for change in &batch.changes {
            let previous = change.previous.as_ref().map(|entry| entry.modified);
            assert_eq!(self.0.get(&change.key).copied(), previous, "what was before must fit");
            match &change.entry {
                Some(entry) => self.0.insert(change.key.clone(), entry.modified),
                None => self.0.remove(&change.key),
            };
        }
    }
}

async fn churn(subject: &Subject, seed: u64, steps: usize) {
    let mut numbers = Numbers::new(seed);
    for step in 0..steps {
        // A store in memory answers at once; give others a turn.
        tokio::task::yield_now().await;
        let name = format!("c{}", numbers.below(12));
        let entry = subject.get(&name).await;
        let operation = match &entry {
            Some(entry) if numbers.below(3) == 0 => delete(&name, entry.modified),
            Some(entry) => update(&name, &step.to_string(), entry.modified),
            None => create(&name, &step.to_string()),
        };
        match subject.commit(vec![operation]).await {
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn a_list_and_a_watch_from_it_are_the_state(subject: &Subject) {
    churn(subject, 1, 30).await;
    let page = subject.list(KeyRange::all()).await;
    let mut mirror = Mirror::of(&page);
    let mut watch = subject.watch(page.revision).await;
    churn(subject, 2, 60).await;
    let last = subject.create("last", "x").await;
    while watch.position() < last {
        mirror.follow(&*next(&mut watch).await);
    }
    assert_eq!(mirror, Mirror::of(&subject.list(KeyRange::all()).await));
}

pub async fn a_watch_begun_under_load_misses_nothing(subject: &Subject) {
    let observe = async {
        for _ in 0..10 {
            let page = subject.list(KeyRange::all()).await;
            let mut mirror = Mirror::of(&page);
            let mut watch = subject.watch(page.revision).await;
            for _ in 0..5 {
                mirror.follow(&*next(&mut watch).await);
            }
            let then = subject.list_at(KeyRange::all(), watch.position()).await;
            assert_eq!(mirror, Mirror::of(&then));
        }
    };
    tokio::select! {
        () = observe => {}
        _ = join(churn(subject, 3, usize::MAX), churn(subject, 4, usize::MAX)) => {}
    }
}

fn expect_compacted<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Compacted { .. })), "{result:?}");
}

pub async fn a_watch_behind_a_compaction_ends(subject: &Subject) {
    let start = subject.revision();
    let mut watch = subject.watch(start).await;
    let revisions = live_a_little(subject).await;
    subject.compact(revisions[4]).await;
    expect_compacted(try_next(&mut watch).await);
    expect_compacted(try_next(&mut watch).await);
}

pub async fn a_watch_up_to_date_survives_a_compaction(subject: &Subject) {
    let revisions = live_a_little(subject).await;
    let mut watch = subject.watch(revisions[5]).await;
    subject.compact(revisions[5]).await;
    let later = subject.create("later", "x").await;
    assert_eq!(next(&mut watch).await.revision, later);
}

pub async fn a_watch_from_a_compacted_revision_is_refused(subject: &Subject) {
    let start = subject.revision();
    let revisions = live_a_little(subject).await;
    subject.compact(revisions[4]).await;
    for after in [start, revisions[0], revisions[2]] {
        let watch = subject.store().watch(KeyRange::all(), after).await;
        expect_compacted(watch.map(|_| ()));
    }
}

pub async fn the_change_at_the_compacted_revision_is_still_delivered(subject: &Subject) {
    let revisions = live_a_little(subject).await;
    let whole = take(&mut subject.watch(revisions[2]).await, 3).await;
    subject.compact(revisions[3]).await;
    for reopened in [false, true] {
        let mut watch = subject.watch(revisions[3].before()).await;
        assert_eq!(take(&mut watch, 3).await, whole);
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

pub async fn a_deletion_at_the_compacted_revision_still_has_its_entry(subject: &Subject) {
    let first = subject.create("a", "1").await;
    let before = subject.get("a").await;
    let gone = subject.delete("a", first).await;
    subject.create("later", "x").await;
    subject.compact(gone).await;
    for reopened in [false, true] {
        let batch = next(&mut subject.watch(gone.before()).await).await;
        assert_eq!((batch.revision, &batch.changes[0].previous), (gone, &before));
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

pub async fn a_slow_watcher_holds_nobody_up(subject: &Subject) {
    let start = subject.revision();
    let slow: Vec<_> = join_all((0..20).map(|_| subject.watch(start))).await;
    let mut fast = subject.watch(start).await;
    for number in 0..200 {
        let revision = subject.create(&format!("k{number}"), "x").await;
        assert_eq!(next(&mut fast).await.revision, revision);
    }
    drop(slow);
}

pub async fn a_slow_watcher_is_ended_or_served_whole(subject: &Subject) {
    let retention = Retention { recent_bytes_max: 2_000, bytes_max: 2_000, ..Default::default() };
    subject.reopen_with(retention).await;
    let start = subject.revision();
    let mut slow = subject.watch(start).await;
    let mut revisions = Vec::new();
    for number in 0..60 {
        revisions.push(subject.create(&format!("k{number}"), "x").await);
    }
    for (position, revision) in revisions.iter().enumerate() {
        match try_next(&mut slow).await {
            Ok(batch) => assert_eq!(batch.revision, *revision, "a gap at {position}"),
            Err(Error::Compacted { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn a_hundred_watchers_see_every_change_of_a_burst(subject: &Subject) {
    let start = subject.revision();
    let watches = join_all((0..100).map(|_| subject.watch(start))).await;
    let read = async |mut watch: Watch| {
        let batches = take(&mut watch, 300).await;
        batches.iter().map(|batch| batch.revision).collect::<Vec<_>>()
    };
    let write = async |worker: usize| {
        for number in 0..75 {
            subject.create(&format!("{worker}-{number}"), "x").await;
        }
    };
    let (seen, _) =
        join(join_all(watches.into_iter().map(read)), join_all((0..4).map(write))).await;
    assert!(seen[0].is_sorted_by(|a, b| a < b));
    assert!(seen.iter().all(|revisions| *revisions == seen[0]));
}

pub async fn a_watch_ends_when_the_store_is_closed(subject: &Subject) {
    let mut watch = subject.watch(subject.revision()).await;
    let store = subject.store();
    let (ended, ()) = join(try_next(&mut watch), store.close()).await;
    assert!(matches!(ended, Err(Error::Stopped { .. })), "{ended:?}");
}

pub async fn watch_compact_and_reconnect_never_lose_a_change(subject: &Subject) {
    // The watcher stops and resumes at random, the history is compacted behind it at random: it
    // must see every change, or be told to list again.
    let write = async {
        churn(subject, 5, 150).await;
        subject.create("last", "x").await
    };
    let compact = async {
        let mut numbers = Numbers::new(11);
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1 + numbers.below(8))).await;
            let head = subject.revision();
            subject.compact(Revision(head.0.saturating_sub(numbers.below(12)))).await;
        }
    };
    let (done, is_done) = tokio::sync::watch::channel(Revision::ZERO);
    let observe = async {
        let mut numbers = Numbers::new(13);
        let (mut relists, mut resumes) = (0, 0);
        loop {
            relists += 1;
            let page = subject.list(KeyRange::all()).await;
            let mut mirror = Mirror::of(&page);
            let mut position = page.revision;
            'resume: loop {
                resumes += 1;
                let watch = subject.store().watch(KeyRange::all(), position).await;
                let mut watch = match watch {
                    Ok(watch) => watch,
                    Err(Error::Compacted { .. }) => break 'resume,
                    Err(error) => panic!("{error}"),
                };
                for _ in 0..numbers.below(9) {
                    match tokio::time::timeout(Duration::from_millis(20), watch.next()).await {
                        Ok(Ok(batch)) => mirror.follow(&batch),
                        Ok(Err(Error::Compacted { .. })) => break 'resume,
                        Ok(Err(error)) => panic!("{error}"),
                        Err(_) => {}
                    }
                    position = watch.position();
                }
                let last = *is_done.borrow();
                if last > Revision::ZERO && position >= last {
                    let live = subject.list(KeyRange::all()).await;
                    assert_eq!(mirror, Mirror::of(&live), "{relists} lists, {resumes} watches");
                    return;
                }
            }
        }
    };
    let work = async {
        let (last, ()) = join(write, compact).await;
        done.send_replace(last);
    };
    join(work, observe).await;
}
