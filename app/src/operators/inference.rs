//! The family of inference: graphs of model servers, and LeaderWorkerSet.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use async_trait::async_trait;
use inference::kinds::{ADAPTER, COMPONENT, GRAPH, LEADER_WORKER_SET, MODEL, OPTIONAL, REQUEST};
use inference::settings::{Gates, Settings};
use inference::{
    Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, WEBHOOK_SERVICE, admission, checkpoint,
    conversion, manifests,
};
use reconcile::Context;
use reconcile::conversion::Convert;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Family, Home, Operator, Surroundings};

const DYNAMO: &str = "dynamo";
const LEADER_WORKER_SETS: &str = "lws";

/// What reviews are judged by: what the operators found around them when they were started.
static SETTINGS: LazyLock<RwLock<Arc<Settings>>> = LazyLock::new(Default::default);

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
                children: &[],
                groups: &[],
            },
            Operator {
                name: LEADER_WORKER_SETS,
                lease: "b8b2488c.x-k8s.io",
                metrics_prefix: "",
                needs: &[LEADER_WORKER_SET],
                uses: &[],
                children: &[],
                groups: &[],
            },
        ]
    }

    fn manifests(&self, enabled: &[&str]) -> Vec<Value> {
        manifests::all(these(enabled))
    }

    fn controllers(&self, operator: &Operator) -> Vec<&'static str> {
        let enabled = these(&[operator.name]);
        let entries = inference::ALL.iter().filter(|entry| (entry.is_enabled)(enabled));
        entries.map(|entry| entry.name).collect()
    }

    fn start(&self, operator: &Operator, context: &Context, around: &Surroundings) -> JoinSet<()> {
        let gates = Gates::without(&around.unknown);
        let exporter = std::env::var("DCGM_METRICS_ENDPOINT_TEMPLATE").ok();
        let plain = Settings::default();
        let exporter = exporter.unwrap_or_else(|| plain.exporter.clone());
        let settings = Arc::new(Settings { gates, exporter, ..plain });
        let enabled = these(&[operator.name]);
        if enabled.dynamo {
            *SETTINGS.write().unwrap_or_else(PoisonError::into_inner) = settings.clone();
        }
        inference::start(context, &Options { enabled, settings })
    }

    fn counted_as(&self) -> Option<&'static str> {
        Some(inference::METRICS_PREFIX)
    }

    async fn review(&self, context: &Context, path: &str, review: &Value) -> Option<Value> {
        let settings = SETTINGS.read().unwrap_or_else(PoisonError::into_inner).clone();
        match path == admission::webhooks::RESTORE_POD {
            true => Some(checkpoint::restore::review(&settings, context, review).await),
            false => admission::review(&settings, path, review),
        }
    }

    fn converts(&self, path: &str) -> Option<Convert> {
        (path == conversion::PATH).then_some(conversion::convert as Convert)
    }
}

fn these(enabled: &[&str]) -> Enabled {
    Enabled {
        dynamo: enabled.contains(&DYNAMO),
        leader_worker_set: enabled.contains(&LEADER_WORKER_SETS),
    }
}
