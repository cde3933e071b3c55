//! How the components are, as the server tells it: in few words for everybody, in metrics, and with
//! all that is known at `/debug/tasks`.

use std::sync::Arc;

use apiserver::beside::Report;
use apiserver::tasks::Task;
use reconcile::Caches;
use reconcile::health::{Health, State};
use reconcile::metrics::{Metrics, Tally};

use crate::shutdown::Running;

/// Tells the server how the components are.
pub struct ComponentStates {
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub caches: Arc<Caches>,
    pub running: Running,
}

impl Report for ComponentStates {
    fn states(&self) -> Vec<(String, String)> {
        let states = self.health.all().into_iter();
        let told = states.map(|(name, state)| (format!("controller/{name}"), describe(&state)));
        told.collect()
    }

    fn metrics(&self) -> String {
        self.metrics.text()
    }

    fn tasks(&self) -> Vec<Task> {
        let running = self.running.states().into_iter().map(|(name, has_ended)| Task {
            kind: "task",
            name: name.to_owned(),
            state: (if has_ended { "ended" } else { "running" }).to_owned(),
            counts: Vec::new(),
        });
        let tallies = self.metrics.tallies();
        let controllers = self.health.all().into_iter().map(|(name, state)| Task {
            kind: "controller",
            name: name.to_owned(),
            state: match state {
                State::Failing(why) => format!("its last work failed: {why}"),
                state => describe(&state),
            },
            // One that had nothing to do yet has counted nothing.
            counts: counts(&tallies.get(name).copied().unwrap_or_default()),
        });
        let caches = self.caches.all().into_iter().map(|cache| Task {
            kind: "cache",
            name: format!("{}.{}", cache.kind.plural, cache.kind.api_version()),
            state: (if cache.is_ready() { "follows" } else { "is filled" }).to_owned(),
            counts: vec![("objects", cache.len() as u64), ("revision", cache.seen())],
        });
        running.chain(controllers).chain(caches).collect()
    }
}

fn counts(tally: &Tally) -> Vec<(&'static str, u64)> {
    let Tally { waiting, objects, reconciles, failures, writes, restarts } = *tally;
    vec![
        ("waiting", waiting),
        ("objects", objects),
        ("reconciles", reconciles),
        ("failures", failures),
        ("writes", writes),
        ("restarts", restarts),
    ]
}

/// Why a controller fails may name objects that not everybody may know of.
fn describe(state: &State) -> String {
    let text = match state {
        State::Starting => "starting",
        State::Running => "running",
        State::Standby => "another process leads",
        State::Failing(_) => "its last work failed; see the log",
    };
    text.to_owned()
}
