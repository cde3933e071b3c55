//! Random histories against a plain model, and the order that concurrent clients see.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::future::join_all;

use super::subject::{Numbers, Subject, bytes, create, delete, key, put, update};
use crate::{Error, KeyRange, Operation, PageRequest, Precondition, Retention, Revision};

/// What the store should hold: each state by its revision, and what was forgotten.
struct Model {
    states: BTreeMap<Revision, BTreeMap<String, (String, Revision)>>,
    compacted: Revision,
}

impl Model {
    fn head(&self) -> (Revision, &BTreeMap<String, (String, Revision)>) {
        let (revision, state) = self.states.last_key_value().expect("never empty");
        (*revision, state)
    }

    fn at(&self, revision: Revision) -> &BTreeMap<String, (String, Revision)> {
        let (_, state) = self.states.range(..=revision).next_back().expect("never empty");
        state
    }
}

const STEPS: usize = 250;

pub async fn a_random_history_equals_a_plain_map(subject: &Subject) {
    random_history(subject, 1, STEPS).await;
}

pub async fn a_random_history_with_little_memory_equals_a_plain_map(subject: &Subject) {
    subject.forget_recent().await;
    random_history(subject, 2, STEPS).await;
}

/// Random commits, reads, compactions and reopenings; every answer must be the model's.
pub(crate) async fn random_history(subject: &Subject, seed: u64, steps: usize) {
    let mut numbers = Numbers::new(seed);
    let start = subject.revision();
    let states = BTreeMap::from([(start, BTreeMap::new())]);
    let mut model = Model { states, compacted: Revision::ZERO };
    for step in 0..steps {
        match numbers.below(100) {
            0..60 => random_commit(subject, &mut model, &mut numbers, step).await,
            60..75 => random_read(subject, &model, &mut numbers).await,
            75..88 => random_page(subject, &model, &mut numbers).await,
            88..93 => random_replay(subject, &model, &mut numbers).await,
            93..97 => {
                let (head, _) = model.head();
                let before = Revision(head.0.saturating_sub(numbers.below(30)));
                subject.compact(before).await;
                model.compacted = model.compacted.max(before);
            }
            _ => {
                let recent = if numbers.below(2) == 0 { 1_500 } else { 1 << 20 };
                let retention = Retention { recent_bytes_max: recent, ..Default::default() };
                subject.reopen_with(retention).await;
            }
        }
    }
}

fn name(numbers: &mut Numbers) -> String {
    format!("k{:02}", numbers.below(15))
}

async fn random_commit(subject: &Subject, model: &mut Model, numbers: &mut Numbers, step: usize) {
    let mut state = model.head().1.clone();
    let mut operations: Vec<Operation> = Vec::new();
    let mut written = Vec::new();
    let mut holds = true;
    for part in 0..1 + numbers.below(3) {
        let name = name(numbers);
        if operations.iter().any(|operation| operation.key == key(&name)) {
            continue;
        }
        let current = state.get(&name).map(|(_, revision)| *revision);
        // Sometimes the precondition is wrong.
        let when = match (current, numbers.below(8)) {
            (Some(revision), 0) => Precondition::At(revision.before()),
            (None, 0) => Precondition::At(Revision(1)),
            (Some(revision), _) => Precondition::At(revision),
            (None, _) => Precondition::Absent,
        };
        holds &= when.expected() == current;
        let value = format!("{step}.{part}");
        let deletes = when != Precondition::Absent && numbers.below(4) == 0;
        match when {
            Precondition::At(revision) if deletes => {
                operations.push(delete(&name, revision));
                state.remove(&name);
            }
            when => {
                operations.push(put(&name, &value, when));
                written.push((name, value));
            }
        }
    }
    match subject.commit(operations).await {
        Ok(committed) => {
            assert!(holds, "a commit went through that must not");
            assert!(committed.revision > model.head().0);
            for (name, value) in written {
                state.insert(name, (value, committed.revision));
            }
            model.states.insert(committed.revision, state);
        }
        Err(Error::Conflict { key, current, .. }) => {
            assert!(!holds, "a commit was refused that must go through");
            let expected = model.head().1.get(key.as_str()).map(|(_, revision)| *revision);
            assert_eq!(current, expected);
        }
        Err(error) => panic!("{error}"),
    }
}

async fn random_read(subject: &Subject, model: &Model, numbers: &mut Numbers) {
    let name = name(numbers);
    let (head, state) = model.head();
    let found = subject.get(&name).await.map(|entry| (entry.value.clone(), entry.modified));
    let expected = state.get(&name).map(|(value, revision)| (bytes(value), *revision));
    assert_eq!(found, expected);
    let at = Revision(head.0.saturating_sub(numbers.below(40)));
    match subject.get_at(&name, at).await {
        Ok(entry) => {
            assert!(at >= model.compacted);
            let expected = model.at(at).get(&name).map(|(value, _)| bytes(value));
            assert_eq!(entry.map(|entry| entry.value.clone()), expected, "{name} at {at}");
        }
        Err(Error::Compacted { .. }) => assert!(at < model.compacted),
        Err(error) => panic!("{error}"),
    }
}

async fn random_page(subject: &Subject, model: &Model, numbers: &mut Numbers) {
    let (head, _) = model.head();
    let at = Revision(head.0.saturating_sub(numbers.below(20))).max(model.compacted);
    let range = KeyRange::between("k03", "k12");
    let limit = 1 + numbers.below(6) as usize;
    let page = subject.store().list(&range, PageRequest::first(limit), Some(at)).await;
    let page = page.expect("not compacted");
    let expected: Vec<_> = model.at(at).range("k03".to_owned().."k12".to_owned()).collect();
    let found: Vec<_> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    let first: Vec<_> = expected.iter().take(limit).map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, first);
    assert_eq!(page.remaining, expected.len() - first.len());
}

/// A watch from a past state leads to the present one.
async fn random_replay(subject: &Subject, model: &Model, numbers: &mut Numbers) {
    let (head, state) = model.head();
    let from = Revision(head.0.saturating_sub(numbers.below(40))).max(model.compacted);
    let mut replayed = model.at(from).clone();
    let mut watch = subject.watch(from).await;
    let expected = model.states.range(from.next()..).count();
    for _ in 0..expected {
        let batch = super::subject::next(&mut watch).await;
        for change in &batch.changes {
            let before = change.previous.as_ref().map(|entry| entry.modified);
            let name = change.key.as_str();
            assert_eq!(before, replayed.get(name).map(|(_, revision)| *revision));
            match &change.entry {
                Some(entry) => {
                    let value = String::from_utf8_lossy(&entry.value).into_owned();
                    replayed.insert(name.to_owned(), (value, entry.modified));
                }
                None => {
                    replayed.remove(name);
                }
            }
        }
    }
    assert_eq!(&replayed, state);
}

/// What one client asked and was told, with the revisions it knew before and after.
struct Call {
    known_before: Revision,
    answered: Answer,
    known_after: Revision,
}

enum Answer {
    Wrote { name: String, revision: Revision },
    Read { name: String, found: Option<Revision>, revision: Revision },
}

/// Clients write and read at once; afterwards every answer must fit the one order of revisions.
pub async fn concurrent_clients_see_one_order(subject: &Subject) {
    let start = subject.revision();
    let calls = Mutex::new(Vec::new());
    let client = async |client: u64| {
        let mut numbers = Numbers::new(client);
        for step in 0..30 {
            let name = format!("k{}", numbers.below(4));
            let known_before = subject.revision();
            let page = subject.list(KeyRange::single(&key(&name))).await;
            let found = page.entries.first().map(|entry| entry.modified);
            let read = Answer::Read { name: name.clone(), found, revision: page.revision };
            let known_after = subject.revision();
            calls.lock().expect("no panic").push(Call {
                known_before,
                answered: read,
                known_after,
            });
            let operation = match found {
                Some(revision) if step % 5 == 4 => delete(&name, revision),
                Some(revision) => update(&name, &format!("{client}.{step}"), revision),
                None => create(&name, &format!("{client}.{step}")),
            };
            let known_before = subject.revision();
            match subject.commit(vec![operation]).await {
                Ok(committed) => {
                    let wrote = Answer::Wrote { name, revision: committed.revision };
                    let known_after = subject.revision();
                    let call = Call { known_before, answered: wrote, known_after };
                    calls.lock().expect("no panic").push(call);
                }
                Err(Error::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    join_all((1..=6).map(client)).await;
    let batches = subject.changes(KeyRange::all(), start, subject.revision()).await;
    let log: BTreeMap<Revision, _> =
        batches.iter().map(|batch| (batch.revision, &batch.changes[0])).collect();
    let calls = calls.into_inner().expect("no panic");
    let writes = calls.iter().filter(|call| matches!(call.answered, Answer::Wrote { .. })).count();
    assert_eq!(log.len(), writes, "every write is in the log once");
    for call in &calls {
        match &call.answered {
            Answer::Wrote { name, revision } => {
                assert!(call.known_before < *revision && *revision <= call.known_after);
                assert_eq!(log[revision].key, key(name));
            }
            Answer::Read { name, found, revision } => {
                assert!(call.known_before <= *revision && *revision <= call.known_after);
                let of_key =
                    log.range(..=*revision).rev().find(|(_, change)| change.key == key(name));
                let expected = of_key
                    .and_then(|(_, change)| change.entry.as_ref().map(|entry| entry.modified));
                assert_eq!(*found, expected, "{name} at {revision}");
            }
        }
    }
}
