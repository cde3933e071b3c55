//! What a controller is given: caches, a client, the clock.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Error;
use crate::cache::Cache;
use crate::caches::Caches;
use crate::defects::{Defect, is_planted};
use crate::elsewhere::Elsewhere;
use crate::environment::Environment;
use crate::health::Health;
use crate::kind::Kind;
use crate::leader::Term;
use crate::metrics::Metrics;
use crate::notices::Recorder;
use crate::object::{Name, Object};
use crate::owned_cache::OwnedCache;
use crate::requests::{Origin, Requests};
use crate::tuning::Tuning;

/// Shared by the controllers of one process.
#[derive(Clone)]
pub struct Context {
    pub client: kube::Client,
    pub caches: Arc<Caches>,
    pub environment: Arc<dyn Environment>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub recorder: Arc<Recorder>,
    /// Whether this process may write, and in which term.
    pub term: watch::Receiver<Term>,
    /// True from when everything is to stop.
    pub stop: watch::Receiver<bool>,
    /// What is asked of this controller in particular.
    pub tuning: Tuning,
    /// Namespaces that are left to others.
    pub elsewhere: Elsewhere,
}

impl Context {
    /// The cache of a kind that the controller reads in full.
    pub fn cache(&self, kind: Kind) -> Arc<Cache> {
        self.caches.of(kind)
    }

    /// The cache of a kind of which the controller reads only the objects of its own in full.
    pub fn owned_cache(&self, kind: Kind) -> Arc<OwnedCache> {
        self.caches.owned(kind)
    }

    /// An object as the server has it now, past the cache: for decisions that cannot be undone.
    pub async fn get_live(&self, kind: Kind, name: &Name) -> Result<Option<Object>, Error> {
        self.requests("observe", Origin::default()).get(kind, name).await
    }

    /// A client for the writes of one reconcile.
    pub fn requests(&self, manager: &'static str, origin: Origin) -> Requests {
        let epoch = match &*self.term.borrow() {
            Term::Leader(_) if is_planted(Defect::NoTerm) => None,
            Term::Leader(epoch) => Some(epoch.clone()),
            Term::Follower(epoch) => epoch.clone(),
            Term::Alone => None,
        };
        let origin = Origin { epoch, ..origin };
        let (client, place) = (self.client.clone(), self.caches.place());
        Requests { client, place, manager, origin, is_brief: false }
    }

    /// Returns when everything is to stop.
    pub async fn stopping(&self) {
        let mut stop = self.stop.clone();
        // Whoever could say so being gone means the same.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
