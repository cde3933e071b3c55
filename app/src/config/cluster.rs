//! How the cluster behaves where a user may choose.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use apiserver::admission::external_ips::ExternalIps;
use apiserver::admission::pod_security::Level;
use apiserver::profile::Profile;
use apiserver::webhooks::addresses::LoopbackWebhooks;
use controllers::options::Match;
use hypervisor::images::Reach;
use node::network::DOMAIN;
use node::network::services::MetadataAccess;
use node::pressure::{Threshold, Thresholds};
use reconcile::Tuning;

use super::section::Section;
use super::{Remarks, duration};

/// How often a node that renews no lease reports.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// More than this many of one controller at once only wait for each other.
const WORKERS_MAX: u64 = 1_024;
const PER_SECOND_MAX: u64 = 1_000_000;

/// The choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub profile: Profile,
    pub deployment_match: Match,
    pub scheduler_policy: Policy,
    pub heartbeat_interval: Duration,
    /// `network.domain`: of the names that DNS answers for.
    pub domain: String,
    /// `network.external_ips`: policy for external addresses of Services.
    pub external_ips: ExternalIps,
    /// `pod_security.default`: level of namespaces without a label; by default the components
    /// decide.
    pub pod_security: Option<PodSecurityDefault>,
    /// `webhooks.loopback`: policy for webhook URLs on this host; by default the command decides.
    pub loopback_webhooks: Option<LoopbackWebhooks>,
    /// `network.metadata`: access of pods and guests to the metadata service of a cloud.
    pub metadata: MetadataAccess,
    /// `machines.images`: where images of machines may be read from.
    pub images: Reach,
    /// Every port that a container names is reached by some port of its machine.
    pub publish_container_ports: bool,
    /// `eviction`: amounts of resources below which this node evicts pods.
    pub eviction: Thresholds,
    /// `controllers`: what is said of each, by name.
    pub tunings: BTreeMap<&'static str, Tuning>,
}

/// Pod Security level of namespaces without a label of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSecurityDefault {
    Privileged,
    Baseline,
    Restricted,
}

impl PodSecurityDefault {
    /// Returns the level to enforce; `None` allows everything.
    pub fn level(self) -> Option<Level> {
        match self {
            PodSecurityDefault::Privileged => None,
            PodSecurityDefault::Baseline => Some(Level::Baseline),
            PodSecurityDefault::Restricted => Some(Level::Restricted),
        }
    }
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
            domain: DOMAIN.to_owned(),
            external_ips: ExternalIps::default(),
            loopback_webhooks: None,
            pod_security: None,
            metadata: MetadataAccess::default(),
            images: Reach::default(),
            publish_container_ports: false,
            eviction: Thresholds::default(),
            tunings: BTreeMap::new(),
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
        let publish = root.flag("publish_container_ports")?;
        let network = Network::read(root.section("network")?, remarks)?;
        let mut webhooks = root.section("webhooks")?;
        let expected = "auto, allow or deny";
        let loopback_webhooks = webhooks.read("loopback", expected, |text| match text {
            "auto" => Some(None),
            "allow" => Some(Some(LoopbackWebhooks::Allow)),
            "deny" => Some(Some(LoopbackWebhooks::Deny)),
            _ => None,
        })?;
        webhooks.finish(remarks);
        let mut machines = root.section("machines")?;
        let images = machines.read("images", "others or everything", |text| match text {
            "others" => Some(Reach::Others),
            "everything" => Some(Reach::Everything),
            _ => None,
        })?;
        machines.finish(remarks);
        let eviction = read_eviction(root.section("eviction")?, remarks)?;
        let pod_security = read_pod_security(root.section("pod_security")?, remarks)?;
        let tunings = read_tunings(root.section("controllers")?, remarks)?;
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
            domain: network.domain,
            metadata: network.metadata,
            external_ips: network.external_ips,
            loopback_webhooks: loopback_webhooks.flatten(),
            pod_security,
            images: images.unwrap_or_default(),
            publish_container_ports: publish.unwrap_or(false),
            eviction,
            tunings,
        })
    }
}

fn read_eviction(mut section: Section<'_>, remarks: &mut Remarks) -> Result<Thresholds> {
    let usual = Thresholds::default();
    let mut read = |key, usual| {
        let threshold = section.read(key, "an amount or a share, as 100Mi or 5%", Threshold::parse);
        threshold.map(|threshold| threshold.unwrap_or(usual))
    };
    let thresholds = Thresholds {
        memory: read("memory_available", usual.memory)?,
        disk: read("disk_available", usual.disk)?,
        inodes: read("inodes_free", usual.inodes)?,
        pids: read("pids_available", usual.pids)?,
    };
    section.finish(remarks);
    Ok(thresholds)
}

/// Settings of the section `network`.
struct Network {
    domain: String,
    external_ips: ExternalIps,
    metadata: MetadataAccess,
}

impl Network {
    fn read(mut network: Section<'_>, remarks: &mut Remarks) -> Result<Network> {
        let domain = network.read("domain", "a domain name, as cluster.local", |text| {
            let is_label = |label: &str| {
                let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
                let is_known = |it: char| is_plain(it) || it == '-';
                label.len() < 64 && label.starts_with(is_plain) && label.chars().all(is_known)
            };
            (text.len() < 128 && text.split('.').all(is_label)).then(|| text.to_owned())
        })?;
        let external_ips = network.read("external_ips", "deny or allow", |text| match text {
            "deny" => Some(ExternalIps::Deny),
            "allow" => Some(ExternalIps::Allow),
            _ => None,
        })?;
        let metadata = network.read("metadata", "blocked or allowed", |text| match text {
            "blocked" => Some(MetadataAccess::Blocked),
            "allowed" => Some(MetadataAccess::Allowed),
            _ => None,
        })?;
        network.finish(remarks);
        Ok(Network {
            domain: domain.unwrap_or_else(|| DOMAIN.to_owned()),
            external_ips: external_ips.unwrap_or_default(),
            metadata: metadata.unwrap_or_default(),
        })
    }
}

fn read_pod_security(
    mut section: Section<'_>,
    remarks: &mut Remarks,
) -> Result<Option<PodSecurityDefault>> {
    let expected = "auto, privileged, baseline or restricted";
    let level = section.read("default", expected, |text| match text {
        "auto" => Some(None),
        "privileged" => Some(Some(PodSecurityDefault::Privileged)),
        "baseline" => Some(Some(PodSecurityDefault::Baseline)),
        "restricted" => Some(Some(PodSecurityDefault::Restricted)),
        _ => None,
    })?;
    section.finish(remarks);
    Ok(level.flatten())
}

fn read_tunings(
    mut controllers: Section<'_>,
    remarks: &mut Remarks,
) -> Result<BTreeMap<&'static str, Tuning>> {
    let mut tunings = BTreeMap::new();
    for entry in controllers::ALL {
        let mut one = controllers.section(entry.name)?;
        let whole = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
        let time = |text: &str| duration::parse(text).filter(|time| !time.is_zero());
        let tuning = Tuning {
            workers_max: whole(one.number("workers", 1, WORKERS_MAX)?).map(|count| count as usize),
            per_second_max: whole(one.number("per_second", 1, PER_SECOND_MAX)?),
            backoff_first: one.read("backoff", duration::EXPECTED, time)?,
            backoff_max: one.read("backoff_max", duration::EXPECTED, time)?,
        };
        one.finish(remarks);
        if tuning != Tuning::default() {
            tunings.insert(entry.name, tuning);
        }
    }
    controllers.finish(remarks);
    Ok(tunings)
}
