//! What a LeaderWorkerSet asks for, read once.

use amounts::share::{self, Round};
use reconcile::Object;
use serde_json::Value;

use crate::value::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup {
    /// Workers are made when their leader is.
    LeaderCreated,
    /// Workers are made when their leader is ready.
    LeaderReady,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// A pod that goes or begins again takes its whole group with it.
    Group,
    /// The same, but only once every pod of the group has started.
    GroupAfterStart,
    /// Every pod for itself.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subdomain {
    Shared,
    UniquePerReplica,
}

pub struct Spec<'a> {
    pub set: &'a Object,
    pub replicas: i64,
    /// Pods of a group, with its leader.
    pub size: i64,
    pub startup: Startup,
    pub restart: Restart,
    pub rollout: Rollout,
}

/// How far an update may go at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Groups below it are left as they are.
    pub partition: i64,
    pub unavailable_max: i64,
    /// Never more than there are replicas.
    pub surge_max: i64,
}

impl<'a> Spec<'a> {
    pub fn of(set: &'a Object) -> Spec<'a> {
        let spec = &set.value["spec"];
        let template = &spec["leaderWorkerTemplate"];
        let replicas = spec["replicas"].as_i64().unwrap_or(1).max(0);
        let startup = match spec["startupPolicy"].as_str() {
            Some("LeaderReady") => Startup::LeaderReady,
            _ => Startup::LeaderCreated,
        };
        let restart = match template["restartPolicy"].as_str() {
            Some("None" | "Default") => Restart::Nothing,
            Some("RecreateGroupAfterStart") => Restart::GroupAfterStart,
            _ => Restart::Group,
        };
        Spec {
            set,
            replicas,
            size: template["size"].as_i64().unwrap_or(1).max(1),
            startup,
            restart,
            rollout: Rollout::read(&spec["rolloutStrategy"], replicas),
        }
    }

    pub fn name(&self) -> &'a str {
        &self.set.name.name
    }

    pub fn subdomain(&self) -> Subdomain {
        subdomain(&self.set.value["spec"])
    }
}

pub fn subdomain(spec: &Value) -> Subdomain {
    match text(&spec["networkConfig"]["subdomainPolicy"]) {
        "UniquePerReplica" => Subdomain::UniquePerReplica,
        _ => Subdomain::Shared,
    }
}

impl Rollout {
    fn read(strategy: &Value, replicas: i64) -> Rollout {
        let rolling = &strategy["rollingUpdateConfiguration"];
        let surge = share::of(&rolling["maxSurge"], replicas, Round::Up, 0);
        let surge_max = surge.clamp(0, replicas);
        let unavailable = share::of(&rolling["maxUnavailable"], replicas, Round::Down, 1);
        // A small percentage of few replicas is none, and nothing would ever be updated.
        let unavailable_max = if surge_max == 0 { unavailable.max(1) } else { unavailable.max(0) };
        let partition = rolling["partition"].as_i64().unwrap_or(0).max(0);
        Rollout { partition, unavailable_max, surge_max }
    }
}
