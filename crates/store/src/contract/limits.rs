//! Limits and odd input: the same on every backend.

use bytes::Bytes;

use super::subject::{Subject, create, delete, keep, key, names};
use crate::{
    COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, Commit, Committed, Epoch, Error, KEY_BYTES_MAX, Key,
    KeyRange, Mutation, Operation, Precondition, Provenance, Revision, VALUE_BYTES_MAX,
};

fn expect_invalid(result: Result<Committed, Error>) {
    assert!(matches!(result, Err(Error::Invalid { .. })), "{result:?}");
}

fn expect_too_large(result: Result<Committed, Error>) {
    assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
}

fn put(name: &str, value: Bytes, when: Precondition) -> Operation {
    Operation { key: key(name), mutation: Mutation::Put(value), when }
}

fn filled(byte: u8, length: usize) -> Bytes {
    Bytes::from(vec![byte; length])
}

pub async fn a_commit_without_operations_is_refused(subject: &Subject) {
    expect_invalid(subject.commit(vec![]).await);
}

pub async fn a_commit_that_only_compares_is_refused(subject: &Subject) {
    let revision = subject.create("a", "x").await;
    expect_invalid(subject.commit(vec![keep("a", Precondition::At(revision))]).await);
}

pub async fn a_key_named_twice_is_refused(subject: &Subject) {
    expect_invalid(subject.commit(vec![create("a", "x"), create("a", "y")]).await);
    assert_eq!(subject.get("a").await, None);
}

pub async fn deleting_what_must_be_absent_is_refused(subject: &Subject) {
    let when = Precondition::Absent;
    let operation = Operation { key: key("a"), mutation: Mutation::Delete, when };
    expect_invalid(subject.commit(vec![operation]).await);
}

pub async fn the_largest_value_is_stored(subject: &Subject) {
    let value = filled(7, VALUE_BYTES_MAX);
    let operation = put("a", value.clone(), Precondition::Absent);
    subject.commit(vec![operation]).await.expect("within the limit");
    subject.reopen().await;
    assert_eq!(subject.get("a").await.expect("stored").value, value);
}

pub async fn the_largest_value_can_replace_the_largest(subject: &Subject) {
    let first = put("a", filled(1, VALUE_BYTES_MAX), Precondition::Absent);
    let first = subject.commit(vec![first]).await.expect("within the limit").revision;
    let second = put("a", filled(2, VALUE_BYTES_MAX), Precondition::At(first));
    let second = subject.commit(vec![second]).await.expect("within the limit").revision;
    let third = subject.commit(vec![delete("a", second)]).await.expect("deletable").revision;
    subject.forget_recent().await;
    assert_eq!(subject.value_at("a", first).await, Some(filled(1, VALUE_BYTES_MAX)));
    assert_eq!(subject.value_at("a", second).await, Some(filled(2, VALUE_BYTES_MAX)));
    assert_eq!(subject.value_at("a", third).await, None);
}

pub async fn a_larger_value_is_refused(subject: &Subject) {
    let operation = put("a", filled(7, VALUE_BYTES_MAX + 1), Precondition::Absent);
    expect_too_large(subject.commit(vec![operation]).await);
    assert_eq!(subject.get("a").await, None);
}

pub async fn values_that_are_too_large_together_are_refused(subject: &Subject) {
    let half = filled(7, COMMIT_BYTES_MAX / 2);
    let put = |name| put(name, half.clone(), Precondition::Absent);
    expect_too_large(subject.commit(vec![put("a"), put("b")]).await);
    assert!(subject.list(KeyRange::all()).await.entries.is_empty());
}

pub async fn as_many_operations_as_allowed_are_one_commit(subject: &Subject) {
    let operation = |number: usize| create(&format!("k{number:03}"), "x");
    let operations: Vec<_> = (0..COMMIT_OPERATIONS_MAX).map(operation).collect();
    let revision = subject.commit(operations).await.expect("within the limit").revision;
    let page = subject.list(KeyRange::all()).await;
    assert_eq!(page.entries.len(), COMMIT_OPERATIONS_MAX);
    assert!(page.entries.iter().all(|entry| entry.modified == revision));
}

pub async fn more_operations_are_refused(subject: &Subject) {
    let operation = |number: usize| create(&format!("k{number:03}"), "x");
    let operations = (0..COMMIT_OPERATIONS_MAX + 1).map(operation).collect();
    expect_too_large(subject.commit(operations).await);
}

pub async fn the_longest_key_is_stored(subject: &Subject) {
    let longest = "k".repeat(KEY_BYTES_MAX);
    let almost = "k".repeat(KEY_BYTES_MAX - 1);
    let revision = subject.create(&longest, "longest").await;
    subject.create(&almost, "almost").await;
    subject.reopen().await;
    assert_eq!(names(&subject.list(KeyRange::all()).await), [almost.as_str(), longest.as_str()]);
    subject.delete(&longest, revision).await;
    assert_eq!(names(&subject.list(KeyRange::all()).await), [almost.as_str()]);
}

pub async fn keys_are_bytes_not_words(subject: &Subject) {
    // Upper case, accents and trailing spaces are other keys, whatever a collation may think.
    let all = ["A", "a", "a ", "aa", "á", "ä"];
    for name in all {
        subject.create(name, name).await;
    }
    subject.reopen().await;
    assert_eq!(names(&subject.list(KeyRange::all()).await), all);
}

pub async fn keys_may_contain_wildcards_and_quotes(subject: &Subject) {
    let all = ["!%_", "\"", "%", "'; DROP TABLE k3; --", "\\", "_"];
    for name in all {
        subject.create(name, name).await;
    }
    subject.reopen().await;
    assert_eq!(names(&subject.list(KeyRange::all()).await), all);
    assert_eq!(names(&subject.list(KeyRange::prefix("%")).await), ["%"]);
    assert_eq!(names(&subject.list(KeyRange::prefix("_")).await), ["_"]);
}

pub async fn keys_may_end_in_a_zero_byte(subject: &Subject) {
    let all = ["a", "a\0", "a\0b", "a#"];
    for name in all {
        subject.create(name, name).await;
    }
    subject.reopen().await;
    assert_eq!(names(&subject.list(KeyRange::all()).await), all);
    let single = subject.list(KeyRange::single(&key("a"))).await;
    assert_eq!(names(&single), ["a"]);
}

pub async fn keys_may_be_in_any_script(subject: &Subject) {
    let all = ["pods/ns/東京", "pods/ns/🦀", "pods/ns/\u{10ffff}"];
    for name in all {
        subject.create(name, name).await;
    }
    subject.reopen().await;
    assert_eq!(names(&subject.list(KeyRange::prefix("pods/ns/")).await), all);
    assert!(Key::new("").is_err());
}

pub async fn a_provenance_that_is_too_long_is_refused(subject: &Subject) {
    let provenance = Provenance::of(subject.provenance().time, "u".repeat(2_000));
    let commit = Commit { operations: vec![create("a", "x")], epoch: None, provenance };
    expect_too_large(subject.store().commit(commit).await);
}

pub async fn an_epoch_without_a_group_is_refused(subject: &Subject) {
    let epoch = Some(Epoch { group: "".into(), number: 1 });
    let provenance = subject.provenance();
    let commit = Commit { operations: vec![create("a", "x")], epoch, provenance };
    expect_invalid(subject.store().commit(commit).await);
}

pub async fn a_refused_commit_leaves_nothing(subject: &Subject) {
    let revision = subject.create("a", "x").await;
    expect_too_large(
        subject
            .commit(vec![
                create("b", "x"),
                put("c", filled(1, VALUE_BYTES_MAX + 1), Precondition::Absent),
            ])
            .await,
    );
    expect_invalid(subject.commit(vec![create("b", "x"), create("b", "x")]).await);
    assert_eq!(names(&subject.list(KeyRange::all()).await), ["a"]);
    assert_eq!(subject.get("a").await.expect("there").modified, revision);
    assert_ne!(revision, Revision::ZERO);
}
