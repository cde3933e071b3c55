//! What a JobSet wants, read once.

use reconcile::{Object, conditions};
use serde_json::Value;

use crate::value::{list, text};

/// Who `managedBy` says when it is us.
pub const CONTROLLER: &str = "jobset.sigs.k8s.io/jobset-controller";

pub const COMPLETED: &str = "Completed";
pub const FAILED: &str = "Failed";
pub const SUSPENDED: &str = "Suspended";
pub const RESTARTING: &str = "RestartingJobSet";
pub const STARTUP_IN_PROGRESS: &str = "StartupPolicyInProgress";
pub const STARTUP_COMPLETED: &str = "StartupPolicyCompleted";

pub struct Spec<'a> {
    pub set: &'a Object,
    pub jobs: Vec<ReplicatedJob<'a>>,
    pub is_suspended: bool,
    /// How often everything has begun again.
    pub restarts: i64,
    /// How often of those counts towards the most that are allowed.
    pub restarts_counted: i64,
}

/// Jobs that are alike.
pub struct ReplicatedJob<'a> {
    pub name: &'a str,
    pub replicas: i64,
    pub group: &'a str,
    /// The template of its Jobs.
    pub template: &'a Value,
    pub depends_on: Vec<Dependency<'a>>,
    /// How many Jobs come before its first, of all and of its group.
    pub first_global: i64,
    pub first_in_group: i64,
}

pub struct Dependency<'a> {
    pub name: &'a str,
    pub until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Ready,
    Complete,
}

impl<'a> Spec<'a> {
    pub fn of(set: &'a Object) -> Spec<'a> {
        let (spec, status) = (&set.value["spec"], &set.value["status"]);
        let mut jobs: Vec<ReplicatedJob<'a>> = Vec::new();
        for one in list(&spec["replicatedJobs"]) {
            let group = one["groupName"].as_str().unwrap_or("default");
            let first_global = jobs.iter().map(|job| job.replicas).sum();
            let before = jobs.iter().filter(|job| job.group == group);
            let first_in_group = before.map(|job| job.replicas).sum();
            jobs.push(ReplicatedJob {
                name: text(&one["name"]),
                replicas: one["replicas"].as_i64().unwrap_or(1).max(0),
                group,
                template: &one["template"],
                depends_on: list(&one["dependsOn"]).iter().map(dependency).collect(),
                first_global,
                first_in_group,
            });
        }
        Spec {
            set,
            jobs,
            is_suspended: spec["suspend"] == true,
            restarts: status["restarts"].as_i64().unwrap_or(0),
            restarts_counted: status["restartsCountTowardsMax"].as_i64().unwrap_or(0),
        }
    }

    pub fn name(&self) -> &'a str {
        &self.set.name.name
    }

    pub fn value(&self) -> &'a Value {
        &self.set.value["spec"]
    }

    pub fn is_managed_elsewhere(&self) -> bool {
        self.value()["managedBy"].as_str().is_some_and(|by| by != CONTROLLER)
    }

    pub fn is_finished(&self) -> bool {
        let status = &self.set.value["status"];
        conditions::is_true(status, COMPLETED) || conditions::is_true(status, FAILED)
    }

    pub fn replicas(&self) -> i64 {
        self.jobs.iter().map(|job| job.replicas).sum()
    }

    pub fn group_replicas(&self, group: &str) -> i64 {
        self.jobs.iter().filter(|job| job.group == group).map(|job| job.replicas).sum()
    }

    pub fn starts_in_order(&self) -> bool {
        self.value()["startupPolicy"]["startupPolicyOrder"] == "InOrder"
    }

    /// The domain of its pods, if they have names.
    pub fn subdomain(&self) -> Option<&'a str> {
        let network = &self.value()["network"];
        let is_on = network["enableDNSHostnames"].as_bool().unwrap_or(true);
        let named = network["subdomain"].as_str().filter(|name| !name.is_empty());
        is_on.then(|| named.unwrap_or(self.name()))
    }

    pub fn job_name(&self, job: &ReplicatedJob<'_>, index: i64) -> String {
        format!("{}-{}-{index}", self.name(), job.name)
    }
}

fn dependency(value: &Value) -> Dependency<'_> {
    let until = if value["status"] == "Complete" { Until::Complete } else { Until::Ready };
    Dependency { name: text(&value["name"]), until }
}
