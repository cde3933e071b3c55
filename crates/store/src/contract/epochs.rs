//! Fencing: a leader whose term is over writes nothing any more (CT-9 stands on this).

use futures::future::join_all;

use super::subject::{Subject, create, update};
use crate::{Commit, Committed, Epoch, Error, KeyRange, Operation};

async fn commit(
    subject: &Subject,
    group: &str,
    number: u64,
    operation: Operation,
) -> Result<Committed, Error> {
    let epoch = Some(Epoch { group: group.into(), number });
    let provenance = subject.provenance();
    subject.store().commit(Commit { operations: vec![operation], epoch, provenance }).await
}

fn expect_fenced(result: Result<Committed, Error>) {
    assert!(matches!(result, Err(Error::Fenced { .. })), "{result:?}");
}

pub async fn a_first_epoch_is_accepted(subject: &Subject) {
    commit(subject, "leader", 1, create("a", "x")).await.expect("the first");
}

pub async fn the_same_epoch_goes_on(subject: &Subject) {
    for name in ["a", "b", "c"] {
        commit(subject, "leader", 5, create(name, "x")).await.expect("the same leader");
    }
}

pub async fn a_newer_epoch_takes_over(subject: &Subject) {
    commit(subject, "leader", 5, create("a", "x")).await.expect("the first");
    commit(subject, "leader", 9, create("b", "x")).await.expect("the next");
    commit(subject, "leader", 9, create("c", "x")).await.expect("the next");
}

pub async fn an_older_epoch_is_fenced(subject: &Subject) {
    commit(subject, "leader", 5, create("a", "x")).await.expect("the first");
    commit(subject, "leader", 6, create("b", "x")).await.expect("the next");
    expect_fenced(commit(subject, "leader", 5, create("c", "x")).await);
    expect_fenced(commit(subject, "leader", 1, create("c", "x")).await);
}

pub async fn a_fenced_commit_writes_nothing(subject: &Subject) {
    commit(subject, "leader", 2, create("a", "x")).await.expect("the first");
    expect_fenced(commit(subject, "leader", 1, create("b", "x")).await);
    assert_eq!(subject.list(KeyRange::all()).await.entries.len(), 1);
    commit(subject, "leader", 2, create("b", "x")).await.expect("it was not written");
}

pub async fn groups_are_fenced_apart(subject: &Subject) {
    commit(subject, "controllers", 9, create("a", "x")).await.expect("one group");
    commit(subject, "trainer", 1, create("b", "x")).await.expect("another group");
    expect_fenced(commit(subject, "controllers", 8, create("c", "x")).await);
}

pub async fn commits_without_an_epoch_are_not_fenced(subject: &Subject) {
    commit(subject, "leader", 9, create("a", "x")).await.expect("a leader");
    subject.create("b", "x").await;
}

pub async fn a_conflicting_commit_does_not_raise_the_epoch(subject: &Subject) {
    commit(subject, "leader", 3, create("a", "x")).await.expect("the first");
    let result = commit(subject, "leader", 7, create("a", "x")).await;
    assert!(matches!(result, Err(Error::Conflict { .. })), "{result:?}");
    commit(subject, "leader", 4, create("b", "x")).await.expect("7 never came to power");
}

pub async fn epochs_survive_reopening(subject: &Subject) {
    commit(subject, "leader", 5, create("a", "x")).await.expect("the first");
    subject.reopen().await;
    expect_fenced(commit(subject, "leader", 4, create("b", "x")).await);
    commit(subject, "leader", 5, create("b", "x")).await.expect("the same");
}

pub async fn of_two_leaders_the_newer_wins_whoever_is_faster(subject: &Subject) {
    let writer = async |number: u64| {
        let mut accepted = Vec::new();
        for step in 0..20 {
            let name = format!("{number}-{step}");
            match commit(subject, "leader", number, create(&name, "x")).await {
                Ok(committed) => accepted.push(committed.revision),
                Err(Error::Fenced { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        accepted
    };
    let accepted = join_all([writer(1), writer(2)]).await;
    let first_of_two = accepted[1].first().expect("the newer is never fenced");
    assert_eq!(accepted[1].len(), 20);
    assert!(accepted[0].iter().all(|revision| revision < first_of_two));
}

pub async fn a_fenced_commit_says_who_is_current(subject: &Subject) {
    let first = commit(subject, "leader", 12, create("a", "x")).await.expect("the first");
    match commit(subject, "leader", 3, update("a", "y", first.revision)).await {
        Err(Error::Fenced { group, offered, current }) => {
            assert_eq!((group.as_str(), offered, current), ("leader", 3, 12));
        }
        other => panic!("{other:?}"),
    }
}
