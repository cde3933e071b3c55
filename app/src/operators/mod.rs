//! The operators of this program: one table of their families, and the two ways to run them, in
//! the process of our own server (`embedded.rs`) and against any cluster (`standalone.rs`).
//!
//! | file | |
//! |---|---|
//! | `training.rs`, `inference.rs`, `machines.rs` | a family: what it installs, runs and answers |
//! | `choice.rs` | which operators are enabled |
//! | `embedded.rs` | beside our own server, asked without a connection |
//! | `standalone.rs` | against any cluster: election, certificates, listeners |
//! | `claims.rs` | a namespace that a process has for itself |
//! | `confined.rs` | what an installation for one namespace needs |
//! | `cluster.rs` | which cluster, and as whom |
//! | `installation.rs` | where a process of ours lives on a cluster, and its manifests |
//! | `certificates.rs` | the authority and the certificate that all replicas share |
//! | `mounted.rs` | certificates that others make |
//! | `listeners.rs` | health, metrics, and what servers and pods ask |
//! | `readiness.rs` | what is waited for
//! | `said.rs` | what the file of a family says of its process |
//! | `missing.rs` | what a cluster does not know, and what to do about it |

mod certificates;
pub mod choice;
mod claims;
pub mod cluster;
mod confined;
pub mod embedded;
mod first_objects;
mod inference;
pub mod installation;
mod listeners;
mod machines;
mod missing;
mod mounted;
mod readiness;
pub mod said;
pub mod standalone;
pub mod training;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use reconcile::caches::DeclaredReads;
use reconcile::conversion::Convert;
use reconcile::elsewhere::Namespaces;
use reconcile::resource_metrics::Reviewed;
use reconcile::{Context, Kind};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Every family, one line each.
pub const ALL: &[&dyn Family] = &[&training::Training, &inference::Inference, &machines::Machines];

/// Operators that are installed, asked and answered for together.
#[async_trait]
pub trait Family: Send + Sync {
    /// As `--components` and the configuration call it.
    fn name(&self) -> &'static str;

    /// Where its processes live unless somebody says otherwise, and as whom.
    fn home(&self) -> Home;

    fn operators(&self) -> &'static [Operator];

    /// What must be there before its operators run: definitions, roles, what makes a server ask.
    fn manifests(&self, enabled: &[&str]) -> Vec<Value>;

    /// What a namespace needs besides, if its operators work in no other.
    fn accounts(&self, _enabled: &[&str], _namespace: &str) -> Vec<Value> {
        Vec::new()
    }

    /// Objects of its own kinds that every installation begins with.
    fn first_objects(&self, _enabled: &[&str], _nodes: Nodes) -> Vec<Value> {
        Vec::new()
    }

    /// The names under which an operator tells how it is.
    fn controllers(&self, operator: &Operator) -> Vec<&'static str>;

    /// Reads a file that it is configured by; `None` if the file is not for it.
    fn read(&self, _file: &str) -> Option<Result<said::Said, String>> {
        None
    }

    /// Takes in what this process was told. Called once, before anything is run or answered.
    fn configure(&self, _told: &Told<'_>) -> Result<(), String> {
        Ok(())
    }

    /// What the cluster must know besides, because this process was told to use it.
    fn demands(&self, _operator: &Operator) -> Vec<Kind> {
        Vec::new()
    }

    /// Says which namespaces have operators of their own, until everything is to stop.
    async fn follow_others(&self, _context: &Context, _told: watch::Sender<Namespaces>) {}

    /// Says on a cluster that one namespace has an operator of its own; `None` if nobody of the
    /// family would heed it.
    fn claim(&self, _context: &Context, _only: &said::Only) -> Option<Arc<dyn Claim>> {
        None
    }

    /// Runs one of its operators until everything is to stop.
    fn start(&self, operator: &Operator, context: &Context, around: &Surroundings) -> JoinSet<()>;

    /// Answers an AdmissionReview that was sent to a path; `None` if there is nothing at the path.
    async fn review(&self, context: &Context, path: &str, review: &Value) -> Option<Value>;

    /// Before the names of what is counted of its answers, where users know them.
    fn counted_as(&self) -> Option<&'static str> {
        None
    }

    /// Who converts what is sent to a path.
    fn converts(&self, _path: &str) -> Option<Convert> {
        None
    }

    /// Whether it answers a request of a pod, whose credential is for that alone.
    fn is_for(&self, _method: &Method, _path: &str) -> bool {
        false
    }

    /// Answers one with a status code and JSON.
    async fn respond(&self, _context: &Context, _request: &Asked<'_>) -> (u16, Value) {
        (404, Value::Null)
    }
}

/// A namespace that a process has for itself.
#[async_trait]
pub trait Claim: Send + Sync {
    /// Takes it.
    async fn take(&self) -> Result<(), reconcile::Error>;

    /// Keeps it; returns when others may have taken it back.
    async fn keep(&self) -> reconcile::Error;

    async fn give_up(&self) -> Result<(), reconcile::Error>;
}

/// What a process knows of itself.
pub struct Told<'a> {
    pub file: Option<&'a str>,
    /// The user that it is.
    pub user: Option<&'a str>,
    /// The namespace that its leases, certificates and keys are in.
    pub namespace: &'a str,
    /// The namespace that it works in, if that is one.
    pub only: Option<&'a str>,
}

/// One operator of a family.
#[derive(Debug)]
pub struct Operator {
    /// As `--enable` calls it.
    pub name: &'static str,
    /// Of several processes that run it, the one that holds this lease does the work.
    pub lease: &'static str,
    /// Put before the names of what it counts.
    pub metrics_prefix: &'static str,
    /// What the cluster must know for it to run.
    pub needs: &'static [Kind],
    /// What it makes use of where the cluster knows it.
    pub uses: &'static [Kind],
    /// Kinds besides these of which it reads any object in full, whoever made it.
    pub reads: &'static [Kind],
    /// Kinds that many controllers of a cluster create, of which it reads only its own objects.
    /// Of the others a process that runs no other reader holds the identity alone.
    pub children: &'static [Kind],
    /// The groups whose objects control those.
    pub groups: &'static [&'static str],
}

impl Operator {
    /// Everything that it reads through caches.
    pub fn declared_reads(&self) -> DeclaredReads {
        let full = [self.needs, self.uses, self.reads].concat();
        DeclaredReads {
            operator: self.name,
            full: full.into_iter().collect(),
            owned: self.children.iter().copied().collect(),
            groups: self.groups.iter().copied().collect(),
        }
    }

    /// A context in which the operator reads what it has declared.
    pub fn reading(&self, context: Context) -> Context {
        let caches = Arc::new(context.caches.declaring(self.declared_reads()));
        Context { caches, ..context }
    }
}

/// Where a family lives on a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    pub namespace: &'static str,
    pub account: &'static str,
    /// The service by which servers and pods reach it.
    pub service: &'static str,
    /// That by which what it counts is read, where users know one.
    pub metrics_service: Option<&'static str>,
    /// Where its authority and its certificate are kept.
    pub secret: &'static str,
    pub labels: &'static [(&'static str, &'static str)],
}

/// What nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Images, on machines of others.
    Images,
    /// What this machine has, too.
    Processes,
}

/// What an operator finds around it.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Whose the cluster is.
    pub nodes: Nodes,
    /// Where pods reach this process, if they do.
    pub entrance: Option<Entrance>,
    /// Of the kinds that it can do without: those that the cluster does not know.
    pub unknown: Vec<Kind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// `https://host:port`.
    pub url: String,
    /// The certificates that its own is to be believed by.
    pub authority_pem: Arc<str>,
}

/// What a pod asks.
pub struct Asked<'a> {
    pub path: &'a str,
    pub authorization: Option<&'a str>,
    pub body: Bytes,
}

/// Answers any kind of review with what a family has at the path.
pub async fn answer(
    family: &dyn Family,
    context: &Context,
    path: &str,
    review: &Value,
) -> Option<Value> {
    if review["kind"] != "ConversionReview" {
        let began = Instant::now();
        let answered = family.review(context, path, review).await;
        if let (Some(prefix), Some(answered)) = (family.counted_as(), &answered) {
            let counts = context.metrics.by_resource(prefix);
            counts.reviewed(&reviewed(review, answered, began.elapsed()));
        }
        return answered;
    }
    let convert = family.converts(path)?;
    Some(reconcile::conversion::answer(review, convert))
}

/// What is counted of an answer.
fn reviewed<'a>(review: &'a Value, answered: &'a Value, took: Duration) -> Reviewed<'a> {
    let (request, response) = (&review["request"], &answered["response"]);
    let refusal = (response["allowed"] != true)
        .then(|| response["status"]["reason"].as_str().unwrap_or("Forbidden"));
    Reviewed {
        kind: request["kind"]["kind"].as_str().unwrap_or_default(),
        operation: request["operation"].as_str().unwrap_or_default(),
        took,
        refusal,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use reconcile::leader::Term;
    use reconcile::{Caches, environment};

    use super::*;

    /// A context of a cluster that answers nothing.
    fn context(reads: &[DeclaredReads]) -> Context {
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        let client = kube::Client::new(silent, "default");
        let environment = Arc::new(environment::System);
        Context {
            caches: Arc::new(Caches::new(client.clone(), environment.clone()).for_operators(reads)),
            client,
            environment,
            metrics: Arc::default(),
            health: Arc::default(),
            recorder: Arc::default(),
            tuning: Default::default(),
            elsewhere: Default::default(),
            term: watch::channel(Term::Alone).1,
            stop: watch::channel(false).1,
        }
    }

    /// Every controller subscribes to what it reads before it waits for the first list.
    #[tokio::test(start_paused = true)]
    async fn every_operator_declares_what_its_controllers_read() {
        for family in ALL {
            for operator in family.operators() {
                let reads = operator.declared_reads();
                let both = reads.full.intersection(&reads.owned).count();
                assert_eq!(both, 0, "{} declares a kind twice", operator.name);
                for unknown in [Vec::new(), operator.uses.to_vec()] {
                    let context = operator.reading(context(std::slice::from_ref(&reads)));
                    let nodes = Nodes::Images;
                    let around = Surroundings { nodes, entrance: None, unknown };
                    let mut running = family.start(operator, &context, &around);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    running.shutdown().await;
                    assert_eq!(context.caches.undeclared_reads(), [], "{}", operator.name);
                }
            }
        }
    }

    #[test]
    fn a_kind_that_an_operator_reads_in_full_is_held_in_full_by_all_of_them() {
        let all: Vec<&Operator> = ALL.iter().flat_map(|family| family.operators()).collect();
        let full: BTreeSet<Kind> =
            all.iter().flat_map(|operator| operator.declared_reads().full).collect();
        for kind in [::inference::kinds::SERVICE, ::inference::kinds::SECRET] {
            assert!(full.contains(&kind), "{kind}");
        }
        let reads: Vec<DeclaredReads> =
            all.iter().map(|operator| operator.declared_reads()).collect();
        let partial = reconcile::caches::partial_kinds(&reads);
        assert!(partial.keys().all(|kind| !full.contains(kind)), "{partial:?}");
    }
}
