//! Operators that work in one namespace alone say so by a Lease in it; those that work everywhere
//! else leave such namespaces to them, until the lease is gone or has not been renewed in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reconcile::elsewhere::Namespaces;
use reconcile::follow::{Sink, follow};
use reconcile::handover::Place;
use reconcile::leader::LEASE;
use reconcile::plan::Target;
use reconcile::requests::Requests;
use reconcile::{Context, Environment, Error, Kind, Name, Object};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub const LEASE_NAME: &str = "dynamo-operator-namespace-scope";
/// Namespaces with this in their names are nobody's: an operator of all others leaves them alone.
pub const EPHEMERAL: &str = "ephemeral";
/// Who writes it.
pub const MANAGER: &str = "dynamo-operator-namespace-scope";
/// How long a lease holds that does not say it.
const USUAL_SECONDS: u64 = 30;

/// A namespace that is to be ours alone.
#[derive(Clone)]
pub struct Marker {
    pub requests: Requests,
    pub environment: Arc<dyn Environment>,
    pub namespace: String,
    /// Of this program.
    pub version: String,
    pub duration: Duration,
    pub renew: Duration,
}

impl Marker {
    /// Keeps the lease; returns when it could not be renewed so often that others may have taken
    /// the namespace back.
    pub async fn keep(&self) -> Error {
        let mut failures = 0;
        loop {
            match self.write().await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    let why = error.chain();
                    tracing::warn!(lease = LEASE_NAME, failures, error = %why, "not renewed");
                    if failures >= self.failures_max() {
                        return error;
                    }
                }
            }
            tokio::time::sleep(self.renew).await;
        }
    }

    /// One less than fit into its time.
    fn failures_max(&self) -> u64 {
        let renew = self.renew.as_secs().max(1);
        (self.duration.as_secs() / renew).saturating_sub(1).max(1)
    }

    /// Takes the namespace, or goes on having it.
    pub async fn write(&self) -> Result<(), Error> {
        let now = self.environment.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let name = Name::new(self.namespace.as_str(), LEASE_NAME);
        let mut spec = json!({
            "holderIdentity": format!("namespace-restricted-operator-{}", self.version),
            "leaseDurationSeconds": self.duration.as_secs(),
            "renewTime": now,
        });
        match self.requests.get(LEASE, &name).await? {
            Some(live) => {
                let patch = json!({"spec": spec});
                self.requests.patch(&Target::of(LEASE, &live), &patch).await?;
            }
            None => {
                spec["acquireTime"] = spec["renewTime"].clone();
                let lease = json!({"apiVersion": LEASE.api_version(), "kind": LEASE.kind,
                    "metadata": {"namespace": self.namespace, "name": LEASE_NAME}, "spec": spec});
                self.requests.create(LEASE, &lease).await?;
            }
        }
        Ok(())
    }

    /// Gives the namespace back at once.
    pub async fn give_up(&self) -> Result<(), Error> {
        let name = Name::new(self.namespace.as_str(), LEASE_NAME);
        let Some(live) = self.requests.get(LEASE, &name).await? else { return Ok(()) };
        let gone = self.requests.delete(&Target::of(LEASE, &live), &Default::default()).await;
        match gone {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Tells which namespaces others have, until everything is to stop.
pub async fn follow_marks(context: &Context, told: watch::Sender<Namespaces>) {
    let marks = Arc::new(Marks::default());
    let server = (context.client.clone(), Place::Elsewhere);
    let following = follow(marks.clone(), server, context.environment.clone());
    let telling = async {
        loop {
            let next = marks.tell(&told, Instant::now());
            match next {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, marks.changed.notified()).await;
                }
                None => marks.changed.notified().await,
            }
        }
    };
    tokio::select! {
        () = context.stopping() => {}
        () = following => {}
        () = telling => {}
    }
}

/// The leases that there are, by namespace.
struct Marks {
    /// Of this name, wherever it is.
    name: Name,
    held: Mutex<BTreeMap<String, Mark>>,
    changed: Notify,
}

#[derive(Clone, Debug, PartialEq)]
struct Mark {
    revision: u64,
    /// By our own clock: when it must have been renewed.
    until: Instant,
}

impl Default for Marks {
    fn default() -> Marks {
        let (held, changed) = (Mutex::default(), Notify::new());
        Marks { name: Name::new("", LEASE_NAME), held, changed }
    }
}

impl Marks {
    /// Says which namespaces are taken; returns when that ends for one of them by itself.
    fn tell(&self, told: &watch::Sender<Namespaces>, now: Instant) -> Option<Instant> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let live = held.iter().filter(|(_, mark)| mark.until > now);
        let taken: BTreeSet<String> = live.clone().map(|(name, _)| name.clone()).collect();
        told.send_if_modified(|known| {
            let differs = **known != taken;
            if differs {
                tracing::info!(namespaces = ?taken, "left to operators of their own");
                *known = Arc::new(taken);
            }
            differs
        });
        live.map(|(_, mark)| mark.until).min()
    }

    fn note(&self, held: &mut BTreeMap<String, Mark>, lease: &Object) {
        let namespace = lease.name.namespace.to_string();
        // What was listed again was not renewed for that.
        if held.get(&namespace).is_some_and(|mark| mark.revision == lease.revision) {
            return;
        }
        let seconds = lease.value["spec"]["leaseDurationSeconds"].as_u64();
        let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(USUAL_SECONDS));
        held.insert(namespace, Mark { revision: lease.revision, until });
    }

    fn update(&self, change: impl FnOnce(&mut BTreeMap<String, Mark>)) {
        change(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }
}

impl Sink for Marks {
    fn kind(&self) -> Kind {
        LEASE
    }

    fn only(&self) -> Option<&Name> {
        Some(&self.name)
    }

    fn reset(&self, objects: Vec<Object>, _: u64) {
        self.update(|held| {
            held.retain(|namespace, _| {
                objects.iter().any(|lease| *lease.name.namespace == **namespace)
            });
            objects.iter().for_each(|lease| self.note(held, lease));
        });
    }

    fn put(&self, object: Object) {
        self.update(|held| self.note(held, &object));
    }

    fn remove(&self, last: &Object) {
        self.update(|held| {
            held.remove(&*last.name.namespace);
        });
    }

    fn advance(&self, _: u64) {}
}

/// The namespace that a review is about.
pub fn namespace_of(review: &Value) -> &str {
    review["request"]["namespace"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(namespace: &str, revision: u64) -> Object {
        Object::new(json!({"metadata": {"namespace": namespace, "name": LEASE_NAME,
            "resourceVersion": revision.to_string()}, "spec": {"leaseDurationSeconds": 30}}))
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_taken_while_its_lease_is_renewed() {
        let marks = Marks::default();
        let (told, taken) = watch::channel(Namespaces::default());
        let names = || taken.borrow().iter().cloned().collect::<Vec<String>>();
        marks.put(lease("a", 1));
        assert!(marks.tell(&told, Instant::now()).is_some());
        assert_eq!(names(), ["a"]);
        tokio::time::advance(Duration::from_secs(20)).await;
        // A list shows it again; that is no renewal.
        marks.reset(vec![lease("a", 1), lease("b", 2)], 2);
        tokio::time::advance(Duration::from_secs(15)).await;
        marks.tell(&told, Instant::now());
        assert_eq!(names(), ["b"]);
        marks.put(lease("a", 3));
        marks.remove(&lease("b", 4));
        marks.tell(&told, Instant::now());
        assert_eq!(names(), ["a"]);
    }
}
