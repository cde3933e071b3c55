//! A worker that is frozen once it has started, so that others start from there.
//!
//! A Job starts one worker; whoever can freeze pods is asked to, by a PodSnapshot. The result is
//! what pods that may start from it are pointed to when they are made (`restore.rs`).
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/checkpoint_controller.go

pub mod identity;
mod job;
mod plan;
pub mod restore;
pub mod storage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{CachedObject, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::discovery_account;
use crate::kinds::{
    CHECKPOINT, JOB, PERSISTENT_VOLUME_CLAIM, POD, POD_SNAPSHOT, ROLE, ROLE_BINDING, SECRET,
    SERVICE_ACCOUNT,
};
use crate::pods::PullSecrets;
use crate::settings::Settings;
use crate::value::list;

pub const NAME: &str = "checkpoint";

/// On everything that was made for a checkpoint: its name.
pub const OWNER: &str = "nvidia.com/dynamo-snapshot-owner";
/// What those who freeze pods look for.
pub const SOURCE: &str = "nvidia.com/snapshot-is-checkpoint-source";
pub const ID: &str = "nvidia.com/snapshot-checkpoint-id";
pub const ARTIFACT_VERSION: &str = "nvidia.com/snapshot-artifact-version";
pub const TARGETS: &str = "nvidia.com/snapshot-target-containers";

pub struct Controller {
    settings: Arc<Settings>,
}

impl Controller {
    pub fn new(settings: Arc<Settings>) -> Controller {
        Controller { settings }
    }
}

/// What a checkpoint has.
#[derive(Default)]
pub struct Observed {
    pub job: Option<Arc<Object>>,
    /// The pod of the Job, as soon as there is one.
    pub pod: Option<Arc<Object>>,
    pub snapshot: Option<Arc<Object>>,
    pub discovery: discovery_account::Found,
    pub secrets: PullSecrets,
    /// Whether the claim that it is kept in is there, or none is needed.
    pub has_claim: bool,
    /// The Job that removes what one of this identity has left.
    pub cleanup: Option<Object>,
    /// Whether another one of the namespace is of the same identity, and so kept in one place.
    pub is_shared: bool,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = CHECKPOINT;
    const COUNTED_AS: Option<&'static str> = Some(crate::METRICS_PREFIX);

    fn watches(&self, watches: &mut Watches) {
        watches.children(JOB, CHECKPOINT);
        for kind in [SERVICE_ACCOUNT, ROLE, ROLE_BINDING] {
            watches.owned(kind, CHECKPOINT);
        }
        if self.settings.gates.checkpoints {
            watches.owned(POD_SNAPSHOT, CHECKPOINT);
        }
        watches.by(POD, |change| {
            let pod = change.object();
            // Only that there is one matters.
            let owner = pod.label(OWNER).filter(|_| change.old.is_none());
            let name = owner.map(|owner| Name::new(pod.name.namespace.clone(), owner));
            name.into_iter().collect()
        });
        watches.reads(SECRET);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        let find = |kind: Kind, name: &str| {
            context.cache(kind).get(&Name::new(object.name.namespace.clone(), name))
        };
        let job_name = Name::new(object.name.namespace.clone(), job::name(object));
        let job = context.owned_cache(JOB).get(&job_name);
        let job = job.as_ref().and_then(CachedObject::full).cloned();
        let pods = job.as_ref().map(|job| context.cache(POD).owned_by(&job.uid));
        let snapshot = match self.settings.gates.checkpoints {
            true => context.cache(POD_SNAPSHOT).get(&object.name),
            false => None,
        };
        let account = discovery_account::names_of(&object.name.name);
        let id = identity::hash(&object.value["spec"]["identity"]);
        Ok(Observed {
            has_claim: self.has_claim(context, object).await?,
            cleanup: self.cleanup(context, object, &id).await?,
            is_shared: self.is_shared(context, object, &id).await?,
            job,
            pod: pods.and_then(|pods| pods.into_iter().next()),
            snapshot,
            discovery: discovery_account::Found {
                account: find(SERVICE_ACCOUNT, &account[0]),
                role: find(ROLE, &account[1]),
                binding: find(ROLE_BINDING, &account[2]),
            },
            secrets: PullSecrets::of(&context.cache(SECRET).in_namespace(&object.name.namespace)),
        })
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(&self.settings, object, observed, now))
    }

    fn refused(
        &self,
        object: &Object,
        _: &Observed,
        error: &Error,
        now: Timestamp,
    ) -> Option<Plan> {
        plan::refused(object, error, now)
    }
}

impl Controller {
    /// Where this one is kept while it matters: until it is ready, and when it goes.
    fn storage(&self, object: &Object) -> Option<&storage::Storage> {
        let is_over = matches!(object.value["status"]["phase"].as_str(), Some("Ready" | "Failed"));
        self.settings.storage.as_ref().filter(|_| object.is_terminating() || !is_over)
    }

    /// The claim is nobody's, so it is not among those that are watched.
    async fn has_claim(&self, context: &Context, object: &Object) -> Result<bool, Error> {
        let storage = self.storage(object).filter(|_| !object.is_terminating());
        let Some(storage) = storage else { return Ok(true) };
        let name = Name::new(object.name.namespace.clone(), storage.claim.as_str());
        Ok(context.get_live(PERSISTENT_VOLUME_CLAIM, &name).await?.is_some())
    }

    async fn cleanup(
        &self,
        context: &Context,
        object: &Object,
        id: &str,
    ) -> Result<Option<Object>, Error> {
        if self.storage(object).is_none() {
            return Ok(None);
        }
        let name = Name::new(object.name.namespace.clone(), storage::cleanup_name(id));
        context.get_live(JOB, &name).await
    }

    /// Asked past the cache: what is removed is gone for whoever starts from it.
    async fn is_shared(&self, context: &Context, object: &Object, id: &str) -> Result<bool, Error> {
        if !object.is_terminating() || self.storage(object).is_none() {
            return Ok(false);
        }
        let requests = context.requests("observe", Default::default());
        let all = requests.read(&CHECKPOINT.collection(&object.name.namespace)).await?;
        Ok(list(&all["items"]).iter().any(|other| {
            other["metadata"]["uid"] != *object.uid
                && other["metadata"]["deletionTimestamp"].is_null()
                && identity::hash(&other["spec"]["identity"]) == id
        }))
    }
}
