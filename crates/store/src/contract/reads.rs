//! Reads: of now, of the past, in pages (ST-2, ST-12).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;

use super::subject::{Numbers, Subject, bytes, create, key, names};
use crate::{Entry, Error, KeyRange, PageRequest, Revision};

pub async fn an_absent_key_is_none(subject: &Subject) {
    assert_eq!(subject.get("a").await, None);
}

pub async fn a_key_is_read_as_it_was(subject: &Subject) {
    let first = subject.create("a", "one").await;
    let second = subject.update("a", "two", first).await;
    let third = subject.update("a", "three", second).await;
    for (revision, value) in [(first, "one"), (second, "two"), (third, "three")] {
        let entry = subject.get_at("a", revision).await.expect("readable").expect("there");
        assert_eq!(entry.value, bytes(value));
        assert_eq!((entry.created, entry.modified), (first, revision));
    }
}

pub async fn a_key_did_not_exist_before_it_was_created(subject: &Subject) {
    let before = subject.create("other", "x").await;
    subject.create("a", "one").await;
    assert_eq!(subject.value_at("a", before).await, None);
}

pub async fn a_key_does_not_exist_after_it_was_deleted(subject: &Subject) {
    let first = subject.create("a", "one").await;
    let deleted = subject.delete("a", first).await;
    let again = subject.create("a", "two").await;
    assert_eq!(subject.value_at("a", first).await, Some(bytes("one")));
    assert_eq!(subject.value_at("a", deleted).await, None);
    assert_eq!(subject.value_at("a", again).await, Some(bytes("two")));
}

pub async fn an_empty_store_lists_nothing(subject: &Subject) {
    let page = subject.list(KeyRange::all()).await;
    assert!(page.entries.is_empty() && page.next.is_none());
    assert_eq!(page.remaining, 0);
}

pub async fn a_list_is_in_key_order(subject: &Subject) {
    for name in ["m", "a/b", "z", "a", "a/", "b"] {
        subject.create(name, "x").await;
    }
    let page = subject.list(KeyRange::all()).await;
    assert_eq!(names(&page), ["a", "a/", "a/b", "b", "m", "z"]);
}

pub async fn a_list_holds_its_range_only(subject: &Subject) {
    for name in ["a", "b", "c", "d", "e"] {
        subject.create(name, "x").await;
    }
    assert_eq!(names(&subject.list(KeyRange::between("b", "d")).await), ["b", "c"]);
    assert_eq!(names(&subject.list(KeyRange::single(&key("c"))).await), ["c"]);
    assert!(subject.list(KeyRange::between("d", "b")).await.entries.is_empty());
    assert!(subject.list(KeyRange::between("x", "z")).await.entries.is_empty());
}

pub async fn a_prefix_ends_where_the_next_begins(subject: &Subject) {
    for name in ["pods", "pods/a", "pods/b", "pods0", "podsx/c", "poda"] {
        subject.create(name, "x").await;
    }
    assert_eq!(names(&subject.list(KeyRange::prefix("pods/")).await), ["pods/a", "pods/b"]);
}

pub async fn a_list_names_its_revision(subject: &Subject) {
    let first = subject.create("a", "one").await;
    assert_eq!(subject.list(KeyRange::all()).await.revision, first);
    let second = subject.create("b", "two").await;
    // Also of a range in which nothing changed.
    assert_eq!(subject.list(KeyRange::prefix("a")).await.revision, second);
}

pub async fn a_list_is_not_older_than_an_acknowledged_write(subject: &Subject) {
    let worker = async |worker: usize| {
        for number in 0..12 {
            let name = format!("{worker}/{number:02}");
            let revision = subject.create(&name, "x").await;
            let page = subject.list(KeyRange::prefix(&format!("{worker}/"))).await;
            assert!(page.revision >= revision);
            assert_eq!(page.entries.len(), number + 1);
        }
    };
    join_all((0..4).map(worker)).await;
}

async fn create_many(subject: &Subject, count: usize) {
    for start in (0..count).step_by(50) {
        let operation = |number: usize| create(&format!("k{number:04}"), &number.to_string());
        let operations = (start..count.min(start + 50)).map(operation).collect();
        subject.commit(operations).await.expect("all are new");
    }
}

pub async fn a_limit_cuts_the_list_and_says_what_remains(subject: &Subject) {
    create_many(subject, 10).await;
    let page = subject.page(PageRequest::first(4), None).await;
    assert_eq!(names(&page), ["k0000", "k0001", "k0002", "k0003"]);
    assert_eq!(page.next, Some(key("k0003")));
    assert_eq!(page.remaining, 6);
}

async fn all_pages(subject: &Subject, limit: usize) -> Vec<Arc<Entry>> {
    let mut page = subject.page(PageRequest::first(limit), None).await;
    let at = Some(page.revision);
    let mut entries = std::mem::take(&mut page.entries);
    while let Some(next) = page.next {
        page = subject.page(PageRequest::next(limit, next), at).await;
        assert_eq!(Some(page.revision), at);
        entries.append(&mut page.entries);
    }
    entries
}

pub async fn pages_together_are_the_list(subject: &Subject) {
    create_many(subject, 103).await;
    let whole = subject.list(KeyRange::all()).await.entries;
    for limit in [1, 7, 50, 102, 103, 104, 1_000] {
        assert_eq!(all_pages(subject, limit).await, whole);
    }
}

pub async fn a_page_that_ends_exactly_at_the_end_is_the_last(subject: &Subject) {
    create_many(subject, 6).await;
    let first = subject.page(PageRequest::first(3), None).await;
    let after = first.next.expect("three more");
    let second = subject.page(PageRequest::next(3, after), Some(first.revision)).await;
    assert_eq!((second.entries.len(), second.next, second.remaining), (3, None, 0));
}

pub async fn pages_stay_at_their_revision_while_writes_go_on(subject: &Subject) {
    create_many(subject, 20).await;
    let whole = subject.list(KeyRange::all()).await;
    let first = subject.page(PageRequest::first(5), None).await;
    for number in 0..20 {
        subject.put(&format!("k{number:04}"), "changed").await;
        subject.create(&format!("k{number:04}-later"), "x").await;
    }
    let mut entries = first.entries;
    let mut next = first.next;
    while let Some(after) = next {
        let page = subject.page(PageRequest::next(5, after), Some(first.revision)).await;
        entries.extend(page.entries);
        next = page.next;
    }
    assert_eq!(entries, whole.entries);
}

pub async fn pages_stay_at_their_revision_while_keys_are_deleted(subject: &Subject) {
    create_many(subject, 20).await;
    let whole = subject.list(KeyRange::all()).await;
    let first = subject.page(PageRequest::first(7), None).await;
    for number in 0..20 {
        subject.remove(&format!("k{number:04}")).await;
    }
    assert!(subject.list(KeyRange::all()).await.entries.is_empty());
    let after = first.next.expect("more");
    let rest = subject.page(PageRequest::next(100, after), Some(first.revision)).await;
    let entries: Vec<_> = first.entries.into_iter().chain(rest.entries).collect();
    assert_eq!(entries, whole.entries);
}

pub async fn a_list_of_the_past_is_what_it_was(subject: &Subject) {
    subject.create("a", "1").await;
    subject.create("b", "1").await;
    let then = subject.list(KeyRange::all()).await;
    subject.put("a", "2").await;
    subject.remove("b").await;
    subject.create("c", "1").await;
    let past = subject.list_at(KeyRange::all(), then.revision).await;
    assert_eq!(past.entries, then.entries);
    assert_eq!(past.revision, then.revision);
}

pub async fn a_list_of_the_past_sees_deleted_keys_and_not_later_ones(subject: &Subject) {
    subject.create("b", "1").await;
    let revision = subject.create("d", "1").await;
    subject.remove("b").await;
    for name in ["a", "c", "e"] {
        subject.create(name, "later").await;
    }
    let past = subject.list_at(KeyRange::all(), revision).await;
    assert_eq!(names(&past), ["b", "d"]);
    let part = subject.list_at(KeyRange::between("c", "z"), revision).await;
    assert_eq!(names(&part), ["d"]);
}

pub async fn a_list_at_the_newest_revision_is_the_live_list(subject: &Subject) {
    create_many(subject, 5).await;
    let live = subject.list(KeyRange::all()).await;
    let at = subject.list_at(KeyRange::all(), live.revision).await;
    assert_eq!((at.entries, at.revision), (live.entries, live.revision));
}

pub async fn a_list_before_the_first_write_is_empty(subject: &Subject) {
    let before = subject.revision();
    subject.create("a", "x").await;
    assert!(subject.list_at(KeyRange::all(), before).await.entries.is_empty());
}

pub async fn a_revision_that_does_not_exist_yet_is_refused(subject: &Subject) {
    let revision = subject.create("a", "x").await;
    let future = Revision(revision.0 + 1_000_000);
    let got = subject.get_at("a", future).await;
    assert!(matches!(got, Err(Error::Future { .. })), "{got:?}");
    let store = subject.store();
    let listed = store.list(&KeyRange::all(), PageRequest::all(), Some(future)).await;
    assert!(matches!(listed, Err(Error::Future { .. })), "{listed:?}");
}

pub async fn a_page_after_a_key_that_is_gone_goes_on_behind_it(subject: &Subject) {
    create_many(subject, 6).await;
    subject.remove("k0002").await;
    let page = subject.page(PageRequest::next(2, key("k0002")), None).await;
    assert_eq!(names(&page), ["k0003", "k0004"]);
}

/// Writes at random and remembers the state after every commit.
async fn write_and_remember(subject: &Subject) -> Vec<(Revision, BTreeMap<String, String>)> {
    let mut numbers = Numbers::new(7);
    let mut state = BTreeMap::new();
    let mut past = vec![(subject.revision(), state.clone())];
    for step in 0..60 {
        let name = format!("k{}", numbers.below(8));
        let revision = if state.contains_key(&name) && numbers.below(3) == 0 {
            state.remove(&name);
            subject.remove(&name).await
        } else {
            state.insert(name.clone(), step.to_string());
            subject.put(&name, &step.to_string()).await
        };
        past.push((revision, state.clone()));
    }
    past
}

async fn expect_past(subject: &Subject, past: &[(Revision, BTreeMap<String, String>)]) {
    for (revision, state) in past {
        let page = subject.list_at(KeyRange::all(), *revision).await;
        let found: BTreeMap<String, String> = page
            .entries
            .iter()
            .map(|entry| {
                let value = String::from_utf8_lossy(&entry.value).into_owned();
                (entry.key.as_str().to_owned(), value)
            })
            .collect();
        assert_eq!(&found, state, "at revision {revision}");
        assert_eq!(page.remaining, 0);
        for name in ["k0", "k5"] {
            let value = subject.value_at(name, *revision).await;
            assert_eq!(value, state.get(name).map(|value| bytes(value)));
        }
    }
}

pub async fn every_past_state_can_be_read(subject: &Subject) {
    let past = write_and_remember(subject).await;
    expect_past(subject, &past).await;
}

pub async fn every_past_state_can_be_read_after_reopening(subject: &Subject) {
    let past = write_and_remember(subject).await;
    subject.reopen().await;
    expect_past(subject, &past).await;
}

pub async fn two_thousand_keys_are_listed_whole(subject: &Subject) {
    create_many(subject, 2_000).await;
    subject.reopen().await;
    let page = subject.list(KeyRange::all()).await;
    assert_eq!(page.entries.len(), 2_000);
    for (number, entry) in page.entries.iter().enumerate() {
        assert_eq!(entry.key.as_str(), format!("k{number:04}"));
        assert_eq!(entry.value, bytes(&number.to_string()));
    }
}

pub async fn remaining_is_right_in_the_past_too(subject: &Subject) {
    create_many(subject, 10).await;
    let then = subject.revision();
    for number in [1, 4, 8] {
        subject.remove(&format!("k{number:04}")).await;
    }
    subject.create("k0000-later", "x").await;
    let page = subject.page(PageRequest::first(3), Some(then)).await;
    assert_eq!(names(&page), ["k0000", "k0001", "k0002"]);
    assert_eq!(page.remaining, 7);
    let page = subject.page(PageRequest::first(3), None).await;
    assert_eq!(page.remaining, 5);
}
