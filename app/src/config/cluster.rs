//! How the cluster behaves where a user may choose.

use std::time::Duration;

use anyhow::Result;
use apiserver::profile::Profile;
use controllers::options::Match;

use super::section::Section;
use super::{Remarks, duration};

/// How often a node that renews no lease reports.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// The choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub profile: Profile,
    pub deployment_match: Match,
    pub scheduler_policy: Policy,
    pub heartbeat_interval: Duration,
}

/// Which node a pod gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The best of those that it fits, as kube-scheduler has it.
    #[default]
    Default,
    /// The first that is ready.
    FirstReady,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            profile: Profile::default(),
            deployment_match: Match::default(),
            scheduler_policy: Policy::default(),
            heartbeat_interval: HEARTBEAT,
        }
    }
}

impl Cluster {
    pub fn read(root: &mut Section<'_>, remarks: &mut Remarks) -> Result<Cluster> {
        let profile = root.read("profile", "kubernetes or mission", |text| match text {
            "kubernetes" => Some(Profile::Kubernetes),
            "mission" => Some(Profile::Mission),
            _ => None,
        })?;
        let profile = profile.unwrap_or_default();
        let mut deployment = root.section("deployment")?;
        let matching = deployment.read("match", "owners, adopt or labels", |text| match text {
            "owners" => Some(Match::Owners),
            "adopt" => Some(Match::Adopt),
            "labels" => Some(Match::Labels),
            _ => None,
        })?;
        deployment.finish(remarks);
        let mut scheduler = root.section("scheduler")?;
        let policy = scheduler.read("policy", "default or first-ready", |text| match text {
            "default" => Some(Policy::Default),
            "first-ready" => Some(Policy::FirstReady),
            _ => None,
        })?;
        scheduler.finish(remarks);
        let heartbeat = root.read("heartbeat_interval", duration::EXPECTED, |text| {
            duration::parse(text).filter(|interval| !interval.is_zero())
        })?;
        let by_profile = match profile {
            Profile::Kubernetes => Match::Owners,
            // The documents know a Deployment's pods by their labels; adopted, they stay ours.
            Profile::Mission => Match::Adopt,
        };
        Ok(Cluster {
            profile,
            deployment_match: matching.unwrap_or(by_profile),
            scheduler_policy: policy.unwrap_or_default(),
            heartbeat_interval: heartbeat.unwrap_or(HEARTBEAT),
        })
    }
}
