//! Commits: conditional, atomic, ordered (ST-1 to ST-4).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use super::subject::{Subject, bytes, create, delete, keep, key, names, put, update};
use crate::{
    Commit, Error, KeyRange, Mutation, Operation, PageRequest, Precondition, Provenance, Revision,
    Timestamp,
};

fn expect_conflict(result: Result<crate::Committed, Error>, expected: Option<Revision>) {
    match result {
        Err(Error::Conflict { current, .. }) => assert_eq!(current, expected),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

pub async fn a_created_key_can_be_read(subject: &Subject) {
    subject.create("a", "one").await;
    assert_eq!(subject.get("a").await.expect("created").value, bytes("one"));
}

pub async fn creating_gives_the_key_its_first_revision(subject: &Subject) {
    let revision = subject.create("a", "one").await;
    let entry = subject.get("a").await.expect("created");
    assert_eq!((entry.created, entry.modified), (revision, revision));
    assert_eq!(entry.key, key("a"));
}

pub async fn an_update_keeps_the_revision_of_creation(subject: &Subject) {
    let first = subject.create("a", "one").await;
    let second = subject.update("a", "two", first).await;
    let entry = subject.get("a").await.expect("updated");
    assert_eq!((entry.created, entry.modified), (first, second));
    assert_eq!(entry.value, bytes("two"));
}

pub async fn a_deleted_key_is_absent(subject: &Subject) {
    let first = subject.create("a", "one").await;
    subject.delete("a", first).await;
    assert_eq!(subject.get("a").await, None);
}

pub async fn a_key_created_again_starts_a_new_life(subject: &Subject) {
    let first = subject.create("a", "one").await;
    subject.delete("a", first).await;
    let again = subject.create("a", "two").await;
    let entry = subject.get("a").await.expect("created again");
    assert_eq!((entry.created, entry.modified), (again, again));
}

pub async fn creating_what_exists_is_a_conflict_that_names_its_revision(subject: &Subject) {
    let first = subject.create("a", "one").await;
    expect_conflict(subject.commit(vec![create("a", "two")]).await, Some(first));
}

pub async fn an_update_at_an_old_revision_is_a_conflict(subject: &Subject) {
    let first = subject.create("a", "one").await;
    let second = subject.update("a", "two", first).await;
    expect_conflict(subject.commit(vec![update("a", "three", first)]).await, Some(second));
}

pub async fn an_update_of_an_absent_key_is_a_conflict(subject: &Subject) {
    expect_conflict(subject.commit(vec![update("a", "one", Revision(1))]).await, None);
}

pub async fn a_delete_at_an_old_revision_is_a_conflict(subject: &Subject) {
    let first = subject.create("a", "one").await;
    let second = subject.update("a", "two", first).await;
    expect_conflict(subject.commit(vec![delete("a", first)]).await, Some(second));
    assert!(subject.get("a").await.is_some());
}

pub async fn a_delete_of_an_absent_key_is_a_conflict(subject: &Subject) {
    let first = subject.create("a", "one").await;
    subject.delete("a", first).await;
    expect_conflict(subject.commit(vec![delete("a", first)]).await, None);
}

pub async fn an_update_at_a_revision_of_a_former_life_is_a_conflict(subject: &Subject) {
    let first = subject.create("a", "one").await;
    subject.delete("a", first).await;
    let again = subject.create("a", "two").await;
    expect_conflict(subject.commit(vec![update("a", "three", first)]).await, Some(again));
}

pub async fn a_conflict_changes_nothing(subject: &Subject) {
    let first = subject.create("a", "one").await;
    let _ = subject.commit(vec![create("a", "two")]).await;
    let entry = subject.get("a").await.expect("still there");
    assert_eq!((entry.value.clone(), entry.modified), (bytes("one"), first));
}

pub async fn a_conflict_takes_no_visible_revision(subject: &Subject) {
    let first = subject.create("a", "one").await;
    let mut watch = subject.watch(first).await;
    for _ in 0..5 {
        let _ = subject.commit(vec![create("a", "two")]).await;
    }
    let second = subject.create("b", "two").await;
    assert_eq!(super::subject::next(&mut watch).await.revision, second);
}

pub async fn several_keys_change_in_one_revision(subject: &Subject) {
    let committed = subject.commit(vec![create("a", "one"), create("b", "two")]).await;
    let revision = committed.expect("both are new").revision;
    for name in ["a", "b"] {
        let entry = subject.get(name).await.expect("created");
        assert_eq!((entry.created, entry.modified), (revision, revision));
    }
}

pub async fn one_conflict_among_several_keys_writes_none(subject: &Subject) {
    let first = subject.create("c", "one").await;
    let operations = vec![create("a", "x"), create("b", "x"), create("c", "x")];
    expect_conflict(subject.commit(operations).await, Some(first));
    assert_eq!(names(&subject.list(KeyRange::all()).await), ["c"]);
}

pub async fn create_update_and_delete_go_together(subject: &Subject) {
    let b = subject.create("b", "old").await;
    let c = subject.create("c", "old").await;
    let operations = vec![create("a", "new"), update("b", "new", b), delete("c", c)];
    let revision = subject.commit(operations).await.expect("all hold").revision;
    let page = subject.list(KeyRange::all()).await;
    assert_eq!(names(&page), ["a", "b"]);
    assert_eq!(page.entries[0].created, revision);
    assert_eq!((page.entries[1].created, page.entries[1].modified), (b, revision));
}

pub async fn a_kept_key_is_only_compared(subject: &Subject) {
    let guard = subject.create("guard", "x").await;
    let operations = vec![keep("guard", Precondition::At(guard)), create("a", "one")];
    subject.commit(operations).await.expect("the guard holds");
    assert_eq!(subject.get("guard").await.expect("kept").modified, guard);
    assert!(subject.get("a").await.is_some());
}

pub async fn a_kept_key_that_moved_stops_the_commit(subject: &Subject) {
    let guard = subject.create("guard", "x").await;
    let moved = subject.update("guard", "y", guard).await;
    let operations = vec![create("a", "one"), keep("guard", Precondition::At(guard))];
    expect_conflict(subject.commit(operations).await, Some(moved));
    assert_eq!(subject.get("a").await, None);
}

pub async fn a_key_kept_absent_must_be_absent(subject: &Subject) {
    let operations = vec![keep("guard", Precondition::Absent), create("a", "one")];
    subject.commit(operations).await.expect("the guard is absent");
    let guard = subject.create("guard", "x").await;
    let operations = vec![keep("guard", Precondition::Absent), create("b", "one")];
    expect_conflict(subject.commit(operations).await, Some(guard));
}

pub async fn revisions_grow_with_every_commit(subject: &Subject) {
    let mut last = subject.revision();
    for number in 0..20 {
        let revision = subject.create(&format!("k{number}"), "x").await;
        assert!(revision > last);
        last = revision;
    }
    assert!(subject.revision() >= last);
}

pub async fn an_unchanged_value_is_still_a_new_revision(subject: &Subject) {
    let first = subject.create("a", "same").await;
    let second = subject.update("a", "same", first).await;
    assert!(second > first);
    assert_eq!(subject.get("a").await.expect("there").modified, second);
}

pub async fn values_are_any_bytes(subject: &Subject) {
    let value: Bytes = (0..=255_u8).collect::<Vec<_>>().into();
    let mutation = Mutation::Put(value.clone());
    let operation = Operation { key: key("a"), mutation, when: Precondition::Absent };
    subject.commit(vec![operation]).await.expect("bytes are bytes");
    subject.reopen().await;
    assert_eq!(subject.get("a").await.expect("there").value, value);
}

pub async fn an_empty_value_is_not_an_absent_key(subject: &Subject) {
    let first = subject.create("a", "").await;
    assert_eq!(subject.get("a").await.expect("there").value, bytes(""));
    expect_conflict(subject.commit(vec![create("a", "x")]).await, Some(first));
    subject.reopen().await;
    assert_eq!(subject.get("a").await.expect("still there").value, bytes(""));
}

async fn race(subject: &Subject, operation: impl Fn(usize) -> Operation) -> usize {
    let attempts = (0..16).map(|number| subject.commit(vec![operation(number)]));
    let results = join_all(attempts).await;
    for result in &results {
        assert!(matches!(result, Ok(_) | Err(Error::Conflict { .. })), "{result:?}");
    }
    results.iter().filter(|result| result.is_ok()).count()
}

pub async fn of_racing_creates_exactly_one_wins(subject: &Subject) {
    assert_eq!(race(subject, |number| create("a", &number.to_string())).await, 1);
}

pub async fn of_racing_updates_exactly_one_wins(subject: &Subject) {
    let first = subject.create("a", "x").await;
    assert_eq!(race(subject, |number| update("a", &number.to_string(), first)).await, 1);
}

pub async fn of_racing_deletes_exactly_one_wins(subject: &Subject) {
    let first = subject.create("a", "x").await;
    assert_eq!(race(subject, |_| delete("a", first)).await, 1);
    assert_eq!(subject.get("a").await, None);
}

pub async fn a_counter_under_contention_loses_no_increment(subject: &Subject) {
    subject.create("counter", "0").await;
    let worker = async || {
        for _ in 0..5 {
            loop {
                let entry = subject.get("counter").await.expect("there");
                let text = String::from_utf8(entry.value.to_vec()).expect("a number");
                let number: u64 = text.parse().expect("a number");
                let next = (number + 1).to_string();
                match subject.commit(vec![update("counter", &next, entry.modified)]).await {
                    Ok(_) => break,
                    Err(Error::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    join_all((0..8).map(|_| worker())).await;
    assert_eq!(subject.get("counter").await.expect("there").value, bytes("40"));
}

pub async fn concurrent_commits_have_revisions_of_their_own(subject: &Subject) {
    let names: Vec<_> = (0..64).map(|number| format!("k{number:02}")).collect();
    let revisions = join_all(names.iter().map(|name| subject.create(name, "x"))).await;
    assert_eq!(revisions.iter().collect::<BTreeSet<_>>().len(), 64);
    for (name, revision) in names.iter().zip(revisions) {
        assert_eq!(subject.get(name).await.expect("created").modified, revision);
    }
}

pub async fn a_commit_begun_after_an_answer_has_a_larger_revision(subject: &Subject) {
    let worker = async |worker: usize| {
        let mut last = Revision::ZERO;
        for number in 0..10 {
            let known = subject.revision();
            let revision = subject.create(&format!("{worker}-{number}"), "x").await;
            assert!(revision > last && revision > known);
            last = revision;
        }
    };
    join_all((0..6).map(worker)).await;
}

pub async fn pairs_written_together_are_never_seen_apart(subject: &Subject) {
    let first = subject.commit(vec![create("p/a", "0"), create("p/b", "0")]).await;
    let mut revision = first.expect("both are new").revision;
    let write = async {
        for number in 1..60 {
            let value = number.to_string();
            let both = vec![update("p/a", &value, revision), update("p/b", &value, revision)];
            revision = subject.commit(both).await.expect("only we write").revision;
        }
    };
    let read = async {
        for _ in 0..60 {
            let page = subject.list(KeyRange::prefix("p/")).await;
            assert_eq!(page.entries[0].value, page.entries[1].value);
            assert_eq!(page.entries[0].modified, page.entries[1].modified);
        }
    };
    futures::future::join(write, read).await;
}

pub async fn transfers_keep_the_sum(subject: &Subject) {
    for account in 0..4 {
        subject.create(&format!("account/{account}"), "100").await;
    }
    let amount = |value: &Bytes| -> i64 {
        std::str::from_utf8(value).expect("text").parse().expect("a number")
    };
    let worker = async |worker: usize| {
        for step in 0..8 {
            let (from, to) = ((worker + step) % 4, (worker + step + 1) % 4);
            let (from, to) = (format!("account/{from}"), format!("account/{to}"));
            let a = subject.get(&from).await.expect("there");
            let b = subject.get(&to).await.expect("there");
            let operations = vec![
                update(&from, &(amount(&a.value) - 7).to_string(), a.modified),
                update(&to, &(amount(&b.value) + 7).to_string(), b.modified),
            ];
            match subject.commit(operations).await {
                Ok(_) | Err(Error::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    join_all((0..4).map(worker)).await;
    let page = subject.list(KeyRange::prefix("account/")).await;
    assert_eq!(page.entries.iter().map(|entry| amount(&entry.value)).sum::<i64>(), 400);
}

pub async fn a_dropped_caller_leaves_a_whole_write_or_none(subject: &Subject) {
    for number in 0..40_u64 {
        let (a, b) = (format!("a{number:03}"), format!("b{number:03}"));
        let commit = subject.commit(vec![create(&a, "x"), create(&b, "x")]);
        let patience = std::time::Duration::from_micros(number * 25);
        let _ = tokio::time::timeout(patience, commit).await;
    }
    // What was under way has ended when a later commit is answered and everything is read again.
    subject.create("last", "x").await;
    subject.reopen().await;
    let whole = |name: &str| subject.list(KeyRange::prefix(name));
    let (a, b) = (whole("a").await, whole("b").await);
    let suffixes = |page: &crate::Page| -> Vec<String> {
        page.entries.iter().map(|entry| entry.key.as_str()[1..].to_owned()).collect()
    };
    assert_eq!(suffixes(&a), suffixes(&b));
    for (a, b) in a.entries.iter().zip(&b.entries) {
        assert_eq!(a.modified, b.modified);
    }
}

pub async fn the_state_survives_reopening(subject: &Subject) {
    let a = subject.create("a", "one").await;
    subject.update("a", "two", a).await;
    let b = subject.create("b", "x").await;
    subject.delete("b", b).await;
    subject.create("c", "three").await;
    let before = subject.list(KeyRange::all()).await;
    subject.reopen().await;
    let after = subject.list(KeyRange::all()).await;
    assert_eq!(before.entries, after.entries);
    assert!(after.revision >= before.revision);
}

pub async fn revisions_go_on_growing_after_reopening(subject: &Subject) {
    let a = subject.create("a", "one").await;
    let last = subject.delete("a", a).await;
    subject.reopen().await;
    assert!(subject.revision() >= last);
    assert!(subject.create("b", "two").await > last);
}

pub async fn preconditions_hold_after_reopening(subject: &Subject) {
    let first = subject.create("a", "one").await;
    subject.reopen().await;
    expect_conflict(subject.commit(vec![create("a", "x")]).await, Some(first));
    subject.update("a", "two", first).await;
}

fn full_provenance() -> Provenance {
    Provenance {
        time: Timestamp(1_700_000_000_123_456),
        actor: "system:admin".into(),
        manager: "kubectl-client-side-apply".into(),
        request: "4f1f-22".into(),
        cause: Some(Revision(17)),
        reconcile: "deployment/default/web#3".into(),
    }
}

pub async fn provenance_is_kept_with_the_commit(subject: &Subject) {
    let operations = vec![create("a", "one")];
    let commit = Commit { operations, epoch: None, provenance: full_provenance() };
    let revision = subject.store().commit(commit).await.expect("new").revision;
    let batches = subject.changes(KeyRange::all(), revision.before(), revision).await;
    assert_eq!(*batches[0].provenance, full_provenance());
}

pub async fn provenance_survives_reopening(subject: &Subject) {
    let operations = vec![create("a", "one")];
    let commit = Commit { operations, epoch: None, provenance: full_provenance() };
    let revision = subject.store().commit(commit).await.expect("new").revision;
    subject.create("b", "later").await;
    subject.forget_recent().await;
    let batches = subject.changes(KeyRange::all(), revision.before(), revision).await;
    assert_eq!(*batches[0].provenance, full_provenance());
}

pub async fn a_closed_store_refuses_commits(subject: &Subject) {
    subject.create("a", "one").await;
    let store = subject.store();
    store.close().await;
    let result = store.commit(subject.commit_of(vec![create("b", "two")])).await;
    assert!(matches!(result, Err(Error::Stopped { .. })), "{result:?}");
    assert!(store.health().is_err());
}

pub async fn a_store_with_nothing_written_can_be_reopened(subject: &Subject) {
    subject.reopen().await;
    subject.reopen().await;
    let page = subject.page(PageRequest::all(), None).await;
    assert!(page.entries.is_empty());
    subject.commit(vec![put("a", "one", Precondition::Absent)]).await.expect("new");
    let entry: Option<Arc<crate::Entry>> = subject.get("a").await;
    assert!(entry.is_some());
}
