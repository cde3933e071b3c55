//! History: changes between revisions, compaction, and what is older than memory (ST-12, ST-17).

use super::subject::{Subject, brief, bytes, create, delete, names, next, update};
use crate::{Error, KeyRange, PageRequest, Revision};

fn expect_compacted<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Compacted { .. })), "{result:?}");
}

/// `a` lives, changes and goes; `b` stays; the revisions of it all.
async fn a_small_past(subject: &Subject) -> Vec<Revision> {
    let a1 = subject.create("a", "1").await;
    let b1 = subject.create("b", "1").await;
    let a2 = subject.update("a", "2", a1).await;
    let b2 = subject.update("b", "2", b1).await;
    let a3 = subject.delete("a", a2).await;
    let c1 = subject.create("c", "1").await;
    vec![a1, b1, a2, b2, a3, c1]
}

async fn changes_in_brief(subject: &Subject, after: Revision, to: Revision) -> Vec<String> {
    let batches = subject.changes(KeyRange::all(), after, to).await;
    batches.iter().map(|batch| brief(batch)).collect()
}

pub async fn changes_between_two_revisions(subject: &Subject) {
    let start = subject.revision();
    let past = a_small_past(subject).await;
    let all = changes_in_brief(subject, start, past[5]).await;
    assert_eq!(all, ["a=1", "b=1", "a=2", "b=2", "-a", "c=1"]);
}

pub async fn changes_bounds_are_after_and_up_to(subject: &Subject) {
    let past = a_small_past(subject).await;
    assert_eq!(changes_in_brief(subject, past[1], past[3]).await, ["a=2", "b=2"]);
    assert_eq!(changes_in_brief(subject, past[4], past[5]).await, ["c=1"]);
}

pub async fn changes_of_a_range(subject: &Subject) {
    let start = subject.revision();
    let past = a_small_past(subject).await;
    let batches = subject.changes(KeyRange::prefix("b"), start, past[5]).await;
    assert_eq!(batches.iter().map(|batch| brief(batch)).collect::<Vec<_>>(), ["b=1", "b=2"]);
}

pub async fn changes_of_an_empty_stretch(subject: &Subject) {
    let past = a_small_past(subject).await;
    assert!(changes_in_brief(subject, past[3], past[3]).await.is_empty());
    let batches = subject.changes(KeyRange::prefix("none"), past[0], past[5]).await;
    assert!(batches.is_empty());
}

pub async fn changes_tell_what_was_before(subject: &Subject) {
    let start = subject.revision();
    let past = a_small_past(subject).await;
    for reopened in [false, true] {
        let batches = subject.changes(KeyRange::prefix("a"), start, past[5]).await;
        let before: Vec<_> = batches
            .iter()
            .map(|batch| batch.changes[0].previous.as_ref().map(|entry| entry.value.clone()))
            .collect();
        assert_eq!(before, [None, Some(bytes("1")), Some(bytes("2"))]);
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

pub async fn changes_of_the_future_are_refused(subject: &Subject) {
    let past = a_small_past(subject).await;
    let future = Revision(past[5].0 + 1_000_000);
    let result = subject.store().changes(&KeyRange::all(), past[5], future).await;
    assert!(matches!(result, Err(Error::Future { .. })), "{result:?}");
}

pub async fn a_compacted_revision_cannot_be_read(subject: &Subject) {
    let past = a_small_past(subject).await;
    subject.compact(past[3]).await;
    for revision in &past[..3] {
        expect_compacted(subject.get_at("a", *revision).await);
        expect_compacted(subject.get_at("none", *revision).await);
    }
    assert_eq!(subject.store().compacted(), past[3]);
}

pub async fn a_compacted_revision_cannot_be_listed(subject: &Subject) {
    let past = a_small_past(subject).await;
    subject.compact(past[3]).await;
    let store = subject.store();
    for revision in &past[..3] {
        expect_compacted(store.list(&KeyRange::all(), PageRequest::all(), Some(*revision)).await);
    }
}

pub async fn compacted_changes_are_refused(subject: &Subject) {
    let past = a_small_past(subject).await;
    subject.compact(past[3]).await;
    expect_compacted(subject.store().changes(&KeyRange::all(), past[0], past[5]).await);
    let later = changes_in_brief(subject, past[3].before(), past[5]).await;
    assert_eq!(later, ["b=2", "-a", "c=1"]);
}

pub async fn the_state_at_the_compacted_revision_is_unchanged(subject: &Subject) {
    let past = a_small_past(subject).await;
    let mut before = Vec::new();
    for revision in &past[2..] {
        before.push(subject.list_at(KeyRange::all(), *revision).await.entries);
    }
    subject.compact(past[2]).await;
    for reopened in [false, true] {
        for (revision, before) in past[2..].iter().zip(&before) {
            let after = subject.list_at(KeyRange::all(), *revision).await.entries;
            assert_eq!(&after, before, "at {revision}");
        }
        if !reopened {
            subject.forget_recent().await;
        }
    }
}

pub async fn live_keys_survive_compaction_unchanged(subject: &Subject) {
    let past = a_small_past(subject).await;
    let before = subject.list(KeyRange::all()).await;
    subject.compact(past[5]).await;
    assert_eq!(subject.list(KeyRange::all()).await.entries, before.entries);
    subject.reopen().await;
    assert_eq!(subject.list(KeyRange::all()).await.entries, before.entries);
    // And their preconditions still hold.
    subject.update("b", "3", past[3]).await;
}

pub async fn compacting_backwards_does_nothing(subject: &Subject) {
    let past = a_small_past(subject).await;
    subject.compact(past[4]).await;
    subject.compact(past[1]).await;
    assert_eq!(subject.store().compacted(), past[4]);
    expect_compacted(subject.get_at("a", past[2]).await);
}

pub async fn compacting_the_future_is_refused(subject: &Subject) {
    let past = a_small_past(subject).await;
    let result = subject.store().compact(Revision(past[5].0 + 1_000_000)).await;
    assert!(matches!(result, Err(Error::Future { .. })), "{result:?}");
    assert_eq!(subject.value_at("a", past[0]).await, Some(bytes("1")));
}

pub async fn compaction_survives_reopening(subject: &Subject) {
    let past = a_small_past(subject).await;
    subject.compact(past[3]).await;
    subject.reopen().await;
    assert_eq!(subject.store().compacted(), past[3]);
    expect_compacted(subject.get_at("a", past[2]).await);
    assert_eq!(subject.value_at("a", past[3]).await, Some(bytes("2")));
}

pub async fn a_page_cannot_go_on_after_compaction(subject: &Subject) {
    let past = a_small_past(subject).await;
    let first = subject.page(PageRequest::first(1), Some(past[3])).await;
    subject.compact(past[5]).await;
    let after = first.next.expect("b is there too");
    let store = subject.store();
    let rest = store.list(&KeyRange::all(), PageRequest::next(1, after), Some(past[3])).await;
    expect_compacted(rest);
}

pub async fn compaction_of_a_deleted_key_leaves_it_absent(subject: &Subject) {
    let past = a_small_past(subject).await;
    subject.compact(past[5]).await;
    assert_eq!(subject.get("a").await, None);
    subject.reopen().await;
    assert_eq!(subject.get("a").await, None);
    subject.create("a", "again").await;
}

pub async fn compacting_to_the_newest_keeps_the_live_state(subject: &Subject) {
    let past = a_small_past(subject).await;
    subject.compact(subject.revision()).await;
    assert_eq!(names(&subject.list_at(KeyRange::all(), past[5]).await), ["b", "c"]);
    let mut watch = subject.watch(past[5]).await;
    let later = subject.create("d", "1").await;
    assert_eq!(next(&mut watch).await.revision, later);
}

pub async fn compaction_again_and_again(subject: &Subject) {
    let mut last = subject.create("counter", "0").await;
    for number in 1..30 {
        let before = last;
        last = subject.update("counter", &number.to_string(), last).await;
        let temporary = subject.create("temporary", "x").await;
        subject.delete("temporary", temporary).await;
        subject.compact(last).await;
        expect_compacted(subject.get_at("counter", before).await);
        let value = subject.value_at("counter", last).await;
        assert_eq!(value, Some(bytes(&number.to_string())));
    }
    subject.reopen().await;
    assert_eq!(subject.get("counter").await.expect("there").modified, last);
    assert_eq!(subject.get("temporary").await, None);
}

/// More history than fits into the little memory left by `forget_recent`.
async fn a_long_past(subject: &Subject) -> Vec<Revision> {
    subject.forget_recent().await;
    let mut revisions = vec![subject.create("long", "0").await];
    for number in 1..80 {
        let last = revisions[number - 1];
        let mut operations = vec![update("long", &number.to_string(), last)];
        if number % 4 == 1 {
            operations.push(create(&format!("k{number:02}"), "x"));
        }
        if number % 8 == 2 {
            operations.push(delete(&format!("k{:02}", number - 1), last));
        }
        revisions.push(subject.commit(operations).await.expect("only we write").revision);
    }
    revisions
}

async fn expect_long_past(subject: &Subject, revisions: &[Revision]) {
    for (number, revision) in revisions.iter().enumerate() {
        let value = subject.value_at("long", *revision).await;
        assert_eq!(value, Some(bytes(&number.to_string())));
    }
}

pub async fn history_older_than_memory_is_read(subject: &Subject) {
    let revisions = a_long_past(subject).await;
    expect_long_past(subject, &revisions).await;
}

pub async fn history_older_than_memory_is_listed_in_pages(subject: &Subject) {
    let revisions = a_long_past(subject).await;
    for number in [0, 10, 11, 40, 79] {
        let at = Some(revisions[number]);
        let mut found = Vec::new();
        let mut request = PageRequest::first(3);
        loop {
            let page = subject.page(request, at).await;
            found.extend(names(&page).into_iter().map(str::to_owned));
            let Some(next) = page.next else { break };
            request = PageRequest::next(3, next);
        }
        let created = |key: &usize| key % 4 == 1 && *key <= number;
        let deleted = |key: &usize| key % 8 == 1 && *key < number;
        let mut expected: Vec<String> = (1..80)
            .filter(|key| created(key) && !deleted(key))
            .map(|key| format!("k{key:02}"))
            .collect();
        expected.push("long".to_owned());
        assert_eq!(found, expected, "at {number}");
    }
}

pub async fn changes_older_than_memory_are_whole(subject: &Subject) {
    let revisions = a_long_past(subject).await;
    let batches = subject.changes(KeyRange::prefix("long"), revisions[0], revisions[79]).await;
    assert_eq!(batches.len(), 79);
    for (number, batch) in batches.iter().enumerate() {
        assert_eq!(batch.revision, revisions[number + 1]);
        assert_eq!(brief(batch), format!("long={}", number + 1));
        let previous = batch.changes[0].previous.as_ref().expect("an update");
        assert_eq!((previous.modified, previous.created), (revisions[number], revisions[0]));
    }
}

pub async fn a_watch_starts_before_what_is_in_memory(subject: &Subject) {
    let revisions = a_long_past(subject).await;
    for start in [0, 30, 75] {
        let mut watch = subject.watch(revisions[start]).await;
        for revision in &revisions[start + 1..] {
            assert_eq!(next(&mut watch).await.revision, *revision);
        }
    }
    let mut watch = subject.watch(revisions[5]).await;
    let later = subject.create("later", "x").await;
    let mut last = Revision::ZERO;
    for _ in 6..=80 {
        last = next(&mut watch).await.revision;
    }
    assert_eq!(last, later);
}

pub async fn history_older_than_memory_survives_reopening(subject: &Subject) {
    let revisions = a_long_past(subject).await;
    subject.forget_recent().await;
    expect_long_past(subject, &revisions).await;
    subject.compact(revisions[40]).await;
    subject.forget_recent().await;
    expect_compacted(subject.get_at("long", revisions[39]).await);
    for (number, revision) in revisions.iter().enumerate().skip(40) {
        let value = subject.value_at("long", *revision).await;
        assert_eq!(value, Some(bytes(&number.to_string())));
    }
}

pub async fn a_long_history_is_given_in_stretches(subject: &Subject) {
    let first = subject.create("long", "0").await;
    let mut last = first;
    for number in 1..600 {
        last = subject.update("long", &number.to_string(), last).await;
    }
    for reopened in [false, true] {
        let batches = subject.changes(KeyRange::all(), first, last).await;
        assert_eq!(batches.len(), 599);
        assert!(batches.is_sorted_by(|a, b| a.revision < b.revision));
        if !reopened {
            subject.forget_recent().await;
        }
    }
}
