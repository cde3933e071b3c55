//! Leader election by a Lease, with terms that the store checks.
//!
//! A lease alone is not mutual exclusion: a leader that was paused may wake up late and write.
//! Every write therefore carries the leader's term. Taking the lease is itself a write in the new
//! term, so from that revision on the store refuses the old one.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Error;
use crate::environment::Environment;
use crate::handover::Place;
use crate::kind::Kind;
use crate::object::{Name, Object};
use crate::plan::Target;
use crate::requests::{Epoch, Origin, Requests};

pub const LEASE: Kind = Kind::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// The namespace of the leases of built-in components; their terms are known by the lease alone.
pub const NAMESPACE: &str = "kube-system";
/// How long a lease is good for after it was renewed.
const LEASE_SECONDS: u64 = 15;
/// How long a leader goes on without having renewed.
const RENEW_SECONDS_MAX: u64 = 10;
const RETRY: Duration = Duration::from_secs(2);
/// How long giving a lease up may take.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// Whether this process may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// There is no election: this process is the only one.
    Alone,
    /// With the term in which it led last: what it had begun then must not pass for the work of
    /// somebody without a term.
    Follower(Option<Epoch>),
    Leader(Epoch),
}

impl Term {
    /// The same after the lease was lost.
    pub fn lost(&self) -> Term {
        match self {
            Term::Alone => Term::Follower(None),
            Term::Follower(epoch) => Term::Follower(epoch.clone()),
            Term::Leader(epoch) => Term::Follower(Some(epoch.clone())),
        }
    }
}

/// Who stands for election, and for what.
#[derive(Clone)]
pub struct Candidate {
    pub client: kube::Client,
    pub environment: Arc<dyn Environment>,
    /// The lease, and where it is.
    pub lease: &'static str,
    pub namespace: Arc<str>,
    /// This process, unlike any other.
    pub identity: String,
}

/// What a candidate knows of the lease.
#[derive(Default)]
struct Seen {
    revision: u64,
    /// When this process first saw that revision, by its own clock.
    since: Option<Instant>,
}

/// Stands for election for ever; tells the term through the channel. The caller drops it.
pub async fn campaign(candidate: Candidate, term: watch::Sender<Term>) {
    let mut seen = Seen::default();
    let mut renewed: Option<Instant> = None;
    loop {
        let attempt = tokio::time::timeout(RETRY, take_or_renew(&candidate, &mut seen)).await;
        match attempt {
            Ok(Ok(Some(epoch))) => {
                renewed = Some(Instant::now());
                tell(&term, Term::Leader(epoch), candidate.lease);
            }
            Ok(Ok(None)) => {
                renewed = None;
                let lost = term.borrow().lost();
                tell(&term, lost, candidate.lease);
            }
            Ok(Err(error)) => {
                tracing::debug!(lease = candidate.lease, error = %error.chain(), "not renewed");
            }
            Err(_) => tracing::debug!(lease = candidate.lease, "renewing takes too long"),
        }
        let limit = Duration::from_secs(RENEW_SECONDS_MAX);
        if renewed.is_none_or(|at| at.elapsed() >= limit) {
            let lost = term.borrow().lost();
            tell(&term, lost, candidate.lease);
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Lets others lead at once. To be called when nothing is written any more.
pub async fn give_up(candidates: &[Candidate]) {
    let give_up = candidates.iter().map(|candidate| async move {
        let lease = candidate.lease;
        match tokio::time::timeout(RELEASE_MAX, release(candidate)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(lease, error = %error.chain(), "not given up"),
            Err(_) => tracing::warn!(lease, "giving up takes too long"),
        }
    });
    futures::future::join_all(give_up).await;
}

/// Gives the lease up, if this process holds it, so that another need not wait until it ends. To be
/// called when nothing is written any more.
pub async fn release(candidate: &Candidate) -> Result<(), Error> {
    let name = Name::new(&*candidate.namespace, candidate.lease);
    let Some(lease) = requests(candidate, None).get(LEASE, &name).await? else { return Ok(()) };
    if lease.value["spec"]["holderIdentity"] != candidate.identity.as_str() {
        return Ok(());
    }
    let transitions = lease.value["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
    // A name that is empty is not allowed; none is.
    let spec = json!({"holderIdentity": null, "leaseDurationSeconds": 1});
    write(candidate, &lease, &spec, epoch(candidate, transitions)).await.map(|_| ())
}

fn tell(term: &watch::Sender<Term>, new: Term, lease: &str) {
    term.send_if_modified(|held| {
        let is_new = *held != new;
        if is_new {
            tracing::info!(lease, term = ?new, "leadership changed");
            *held = new;
        }
        is_new
    });
}

/// The term, if this process holds the lease after this.
async fn take_or_renew(candidate: &Candidate, seen: &mut Seen) -> Result<Option<Epoch>, Error> {
    let name = Name::new(&*candidate.namespace, candidate.lease);
    let now = candidate.environment.now();
    let Some(lease) = requests(candidate, None).get(LEASE, &name).await? else {
        let epoch = epoch(candidate, 0);
        let lease = new_lease(candidate, now);
        return match requests(candidate, Some(&epoch)).create(LEASE, &lease).await {
            Ok(_) => Ok(Some(epoch)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        };
    };
    let transitions = lease.value["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
    if lease.value["spec"]["holderIdentity"] == candidate.identity.as_str() {
        let spec = json!({"renewTime": microseconds(now)});
        return write(candidate, &lease, &spec, epoch(candidate, transitions)).await;
    }
    if !is_expired(&lease, seen) {
        return Ok(None);
    }
    let spec = json!({
        "holderIdentity": candidate.identity,
        "leaseDurationSeconds": LEASE_SECONDS,
        "acquireTime": microseconds(now),
        "renewTime": microseconds(now),
        "leaseTransitions": transitions + 1,
    });
    write(candidate, &lease, &spec, epoch(candidate, transitions + 1)).await
}

/// A lease that nobody changed for its whole duration, by our own clock: others' clocks may differ.
fn is_expired(lease: &Object, seen: &mut Seen) -> bool {
    if lease.value["spec"]["holderIdentity"].as_str().unwrap_or_default().is_empty() {
        return true;
    }
    if seen.revision != lease.revision || seen.since.is_none() {
        *seen = Seen { revision: lease.revision, since: Some(Instant::now()) };
    }
    let seconds = lease.value["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(LEASE_SECONDS);
    seen.since.is_some_and(|since| since.elapsed() >= Duration::from_secs(seconds))
}

async fn write(
    candidate: &Candidate,
    lease: &Object,
    spec: &Value,
    epoch: Epoch,
) -> Result<Option<Epoch>, Error> {
    let target = Target::unchanged(LEASE, lease);
    let mut whole = lease.value.clone();
    for (field, value) in spec.as_object().into_iter().flatten() {
        whole["spec"][field] = value.clone();
    }
    match requests(candidate, Some(&epoch)).replace(&target, &whole).await {
        Ok(_) => Ok(Some(epoch)),
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Terms count from 1, so that none is mistaken for no term.
fn epoch(candidate: &Candidate, transitions: u64) -> Epoch {
    let group = match &*candidate.namespace {
        NAMESPACE => candidate.lease.into(),
        namespace => format!("{namespace}/{}", candidate.lease).into(),
    };
    Epoch { group, number: transitions + 1 }
}

fn requests(candidate: &Candidate, epoch: Option<&Epoch>) -> Requests {
    let origin = Origin { epoch: epoch.cloned(), ..Origin::default() };
    Requests {
        client: candidate.client.clone(),
        place: Place::Elsewhere,
        manager: "leader-election",
        origin,
        is_brief: true,
    }
}

fn new_lease(candidate: &Candidate, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": &*candidate.namespace, "name": candidate.lease},
        "spec": {
            "holderIdentity": candidate.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": microseconds(now),
            "renewTime": microseconds(now),
            "leaseTransitions": 0,
        },
    })
}

fn microseconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
