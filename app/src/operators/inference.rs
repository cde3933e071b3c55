//! The family of inference: graphs of model servers, and LeaderWorkerSet.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use async_trait::async_trait;
use inference::configuration::{Configuration, LeaderElection};
use inference::kinds::{
    ADAPTER, CHECKPOINT, CLUSTER_ROLE, COMPONENT, CONFIG_MAP, CONTROLLER_REVISION, DEPLOYMENT,
    ENDPOINT_SLICE, GRAPH, INGRESS, JOB, LEADER_WORKER_SET, MODEL, OPTIONAL,
    PERSISTENT_VOLUME_CLAIM, POD, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_GROUP, REQUEST, ROLE,
    ROLE_BINDING, SECRET, SERVICE, STATEFUL_SET,
};
use inference::namespace_scope::{self, Marker};
use inference::settings::{Gates, Settings};
use inference::{
    Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, WEBHOOK_SERVICE, admission, checkpoint,
    conversion, manifests,
};
use reconcile::conversion::Convert;
use reconcile::elsewhere::Namespaces;
use reconcile::{Context, Error, Kind};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::said::{Address, Lease, Only, Said};
use super::{Claim, Family, Home, Operator, Surroundings, Told};
use crate::config::{LogLevel, duration};
use crate::telemetry::Format;

const DYNAMO: &str = "dynamo";
const LEADER_WORKER_SETS: &str = "lws";

/// What this process was told at its start; else what is usual.
static SETTINGS: OnceLock<Settings> = OnceLock::new();
/// The same with what the operators found around them when they were started.
static FOUND: RwLock<Option<Arc<Settings>>> = RwLock::new(None);

fn settings() -> &'static Settings {
    SETTINGS.get_or_init(Settings::default)
}

/// What reviews are judged by.
fn found() -> Arc<Settings> {
    let found = FOUND.read().unwrap_or_else(PoisonError::into_inner).clone();
    found.unwrap_or_else(|| Arc::new(settings().clone()))
}

pub struct Inference;

#[async_trait]
impl Family for Inference {
    fn name(&self) -> &'static str {
        "inference"
    }

    fn home(&self) -> Home {
        Home {
            namespace: NAMESPACE,
            account: SERVICE_ACCOUNT,
            service: WEBHOOK_SERVICE,
            metrics_service: Some("dynamo-operator-controller-manager-metrics-service"),
            secret: "webhook-server-cert",
            labels: &[
                ("app.kubernetes.io/name", "dynamo-operator"),
                ("app.kubernetes.io/part-of", "dynamo-operator"),
                ("control-plane", "controller-manager"),
            ],
        }
    }

    fn operators(&self) -> &'static [Operator] {
        &[
            Operator {
                name: DYNAMO,
                lease: "dynamo.nvidia.com",
                metrics_prefix: "",
                needs: &[GRAPH, COMPONENT, ADAPTER, MODEL, REQUEST],
                uses: OPTIONAL,
                // Of these it may find another's under the same name, and has to see what it then
                // changes.
                reads: &[
                    CHECKPOINT,
                    CLUSTER_ROLE,
                    CONFIG_MAP,
                    DEPLOYMENT,
                    ENDPOINT_SLICE,
                    INGRESS,
                    POD,
                    POD_CLIQUE,
                    POD_CLIQUE_SCALING_GROUP,
                    ROLE,
                    ROLE_BINDING,
                    SECRET,
                    SERVICE,
                    inference::kinds::SERVICE_ACCOUNT,
                ],
                children: &[JOB, PERSISTENT_VOLUME_CLAIM],
                groups: &[api::dynamo::GROUP],
            },
            Operator {
                name: LEADER_WORKER_SETS,
                lease: "b8b2488c.x-k8s.io",
                metrics_prefix: "",
                needs: &[LEADER_WORKER_SET],
                uses: &[POD_GROUP],
                reads: &[POD, SERVICE, STATEFUL_SET],
                children: &[CONTROLLER_REVISION],
                groups: &[api::leader_worker_set::GROUP],
            },
        ]
    }

    fn manifests(&self, enabled: &[&str]) -> Vec<Value> {
        manifests::all(these(enabled))
    }

    fn accounts(&self, enabled: &[&str], namespace: &str) -> Vec<Value> {
        manifests::accounts(these(enabled), namespace)
    }

    fn controllers(&self, operator: &Operator) -> Vec<&'static str> {
        let enabled = these(&[operator.name]);
        let entries = inference::ALL.iter().filter(|entry| (entry.is_enabled)(enabled));
        entries.map(|entry| entry.name).collect()
    }

    fn start(&self, operator: &Operator, context: &Context, around: &Surroundings) -> JoinSet<()> {
        let usual = settings();
        let gates = Gates::without(&around.unknown).and(usual.allowed);
        let settings = Arc::new(Settings { gates, ..usual.clone() });
        let enabled = these(&[operator.name]);
        if enabled.dynamo {
            *FOUND.write().unwrap_or_else(PoisonError::into_inner) = Some(settings.clone());
        }
        inference::start(context, &Options { enabled, settings })
    }

    fn counted_as(&self) -> Option<&'static str> {
        Some(inference::METRICS_PREFIX)
    }

    async fn review(&self, context: &Context, path: &str, review: &Value) -> Option<Value> {
        let (settings, namespace) = (found(), namespace_scope::namespace_of(review));
        // Who works in one namespace works in it whatever it is called.
        let is_passing = settings.manages_roles && namespace.contains(namespace_scope::EPHEMERAL);
        if is_passing || context.elsewhere.has(namespace) {
            return admission::allow(path, review);
        }
        match path == admission::webhooks::RESTORE_POD {
            true => Some(checkpoint::restore::review(&settings, context, review).await),
            false => admission::review(&settings, path, review),
        }
    }

    fn read(&self, file: &str) -> Option<Result<Said, String>> {
        is_ours(file).then(|| Configuration::read(file).and_then(|read| said(&read)))
    }

    fn configure(&self, told: &Told<'_>) -> Result<(), String> {
        // Who works in one namespace reads no other.
        let ssh_secret_namespace = told.only.unwrap_or(told.namespace).to_owned();
        let mut chosen = Settings { ssh_secret_namespace, ..Settings::default() };
        if let Ok(exporter) = std::env::var("DCGM_METRICS_ENDPOINT_TEMPLATE") {
            chosen.exporter = exporter;
        }
        if let Ok(domain) = std::env::var("KUBERNETES_CLUSTER_DOMAIN")
            && !domain.is_empty()
        {
            chosen.cluster_domain = domain;
        }
        if let Some(file) = told.file.filter(|file| is_ours(file)) {
            let read = Configuration::read(file)?;
            for field in read.unheeded() {
                tracing::warn!(field, "the configuration says what is not heeded");
            }
            chosen = read.settings(chosen);
        }
        if let Some(user) = told.user {
            chosen.principal = user.to_owned();
        }
        if told.only.is_some() {
            (chosen.manages_roles, chosen.discovers_gpus) = (false, false);
        }
        SETTINGS.set(chosen).map_err(|_| "it was configured already".to_owned())
    }

    fn demands(&self, operator: &Operator) -> Vec<Kind> {
        if operator.name == DYNAMO { settings().demanded.clone() } else { Vec::new() }
    }

    async fn follow_others(&self, context: &Context, told: watch::Sender<Namespaces>) {
        namespace_scope::follow_marks(context, told).await;
    }

    fn claim(&self, context: &Context, only: &Only) -> Option<Arc<dyn Claim>> {
        Some(Arc::new(Marked(Marker {
            requests: context.requests(namespace_scope::MANAGER, Default::default()),
            environment: context.environment.clone(),
            namespace: only.namespace.clone(),
            version: settings().version.clone(),
            duration: only.lease,
            renew: only.renew,
        })))
    }

    fn converts(&self, path: &str) -> Option<Convert> {
        (path == conversion::PATH).then_some(conversion::convert as Convert)
    }
}

/// The lease that says so.
struct Marked(Marker);

#[async_trait]
impl Claim for Marked {
    async fn take(&self) -> Result<(), Error> {
        self.0.write().await
    }

    async fn keep(&self) -> Error {
        self.0.keep().await
    }

    async fn give_up(&self) -> Result<(), Error> {
        self.0.give_up().await
    }
}

/// Whether a file is for this family; one that cannot be read at all may be.
fn is_ours(file: &str) -> bool {
    let read: Result<Value, _> = serde_saphyr::from_str(file);
    let group = inference::configuration::API_VERSION.split('/').next().unwrap_or_default();
    read.map_or(true, |value| {
        let version = value["apiVersion"].as_str().unwrap_or_default();
        version.is_empty() || version.starts_with(group)
    })
}

/// What the file says of the process.
fn said(read: &Configuration) -> Result<Said, String> {
    let address = |host: &Option<String>, port: Option<u16>, field: &str| {
        let host = host.as_ref().filter(|host| !host.is_empty());
        let host = host.map(|host| host.parse()).transpose();
        let host = host.map_err(|_| format!("{field} must be an address such as 0.0.0.0"))?;
        Ok::<_, String>(Address { host, port })
    };
    let server = &read.server;
    let (metrics, health) = (&server.metrics, &server.health_probe);
    let time = |text: &str, field: &str| {
        duration::parse(text).ok_or_else(|| format!("{field} must be {}", duration::EXPECTED))
    };
    let scope = &read.namespace.scope;
    let lease = time(&scope.lease_duration, "namespace.scope.leaseDuration")?;
    let renew = time(&scope.lease_renew_interval, "namespace.scope.leaseRenewInterval")?;
    if renew >= lease {
        return Err("namespace.scope.leaseRenewInterval must be less than leaseDuration".to_owned());
    }
    let namespace = read.namespace.restricted.clone();
    Ok(Said {
        metrics: address(&metrics.bind_address, metrics.port, "server.metrics.bindAddress")?,
        health: address(&health.bind_address, health.port, "server.healthProbe.bindAddress")?,
        secure: address(&server.webhook.host, server.webhook.port, "server.webhook.host")?,
        elects: Some(read.leader_election.enabled),
        lease: elected_by(&read.leader_election),
        level: read.logging.level.as_deref().map(|level| match level {
            "debug" => LogLevel::Debug,
            "warn" => LogLevel::Warn,
            "error" => LogLevel::Error,
            _ => LogLevel::Info,
        }),
        format: Some(match read.logging.format.as_deref() {
            Some("console") => Format::Text,
            _ => Format::Json,
        }),
        only: read.is_restricted().then_some(Only { namespace, lease, renew }),
        mounted: read.server.webhook.mounted().map(PathBuf::from),
    })
}

/// The lease that a file names. It is read once: its name lives as long as the process.
fn elected_by(said: &LeaderElection) -> Option<Lease> {
    let is_said = said.enabled && !said.id.is_empty();
    let namespace = Some(said.namespace.clone()).filter(|namespace| !namespace.is_empty());
    is_said.then(|| Lease { operator: DYNAMO, name: said.id.clone().leak(), namespace })
}

fn these(enabled: &[&str]) -> Enabled {
    Enabled {
        dynamo: enabled.contains(&DYNAMO),
        leader_worker_set: enabled.contains(&LEADER_WORKER_SETS),
    }
}
