//! The family of training: TrainJob with its runtimes, and JobSet.

use async_trait::async_trait;
use http::Method;
use reconcile::Context;
use serde_json::Value;
use tokio::task::JoinSet;
use training::admission::{self, webhooks};
use training::kinds::{
    CLUSTER_TRAINING_RUNTIME, CONFIG_MAP, COSCHEDULING_GROUP, JOB, JOB_SET, LIMIT_RANGE,
    PERSISTENT_VOLUME_CLAIM, RUNTIME_CLASS, SECRET, SERVICE, TRAIN_JOB, TRAINING_RUNTIME,
    VOLCANO_GROUP,
};
use training::plugin::{Groups, Settings, StatusServer};
use training::runtimes::{self, Choice};
use training::{Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, manifests, status_server};

use super::{Asked, Family, Home, Nodes, Operator, Surroundings};

const TRAINER: &str = "trainer";
const JOB_SETS: &str = "jobset";
/// The version of the trainer whose clients are served.
const VERSION: &str = "v2.3.0";

pub struct Training;

#[async_trait]
impl Family for Training {
    fn name(&self) -> &'static str {
        "training"
    }

    fn home(&self) -> Home {
        Home {
            namespace: NAMESPACE,
            account: SERVICE_ACCOUNT,
            service: webhooks::SERVICE,
            metrics_service: None,
            secret: "kubeflow-trainer-webhook-cert",
            labels: &[
                ("app.kubernetes.io/component", "manager"),
                ("app.kubernetes.io/name", "trainer"),
                ("app.kubernetes.io/part-of", "kubeflow"),
            ],
        }
    }

    fn operators(&self) -> &'static [Operator] {
        &[
            Operator {
                name: TRAINER,
                lease: "trainer.kubeflow.org",
                metrics_prefix: "",
                needs: &[TRAIN_JOB, TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME, JOB_SET],
                uses: &[COSCHEDULING_GROUP, VOLCANO_GROUP],
                reads: &[LIMIT_RANGE, RUNTIME_CLASS],
                children: &[CONFIG_MAP, SECRET],
                groups: &[api::training::GROUP],
            },
            Operator {
                name: JOB_SETS,
                lease: "jobset.x-k8s.io",
                metrics_prefix: "",
                needs: &[JOB_SET],
                uses: &[],
                reads: &[],
                children: &[JOB, PERSISTENT_VOLUME_CLAIM, SERVICE],
                groups: &[api::job_set::GROUP],
            },
        ]
    }

    fn manifests(&self, enabled: &[&str]) -> Vec<Value> {
        manifests::operators(these(enabled), VERSION)
    }

    fn first_objects(&self, enabled: &[&str], nodes: Nodes) -> Vec<Value> {
        let choice = match nodes {
            Nodes::Images => Choice::Shipped,
            Nodes::Processes => Choice::ShippedAndLocal,
        };
        match these(enabled).trainer {
            true => runtimes::manifests(choice),
            false => Vec::new(),
        }
    }

    fn controllers(&self, operator: &Operator) -> Vec<&'static str> {
        let enabled = these(&[operator.name]);
        let entries = training::ALL.iter().filter(|entry| (entry.is_enabled)(enabled));
        entries.map(|entry| entry.name).collect()
    }

    fn start(&self, operator: &Operator, context: &Context, around: &Surroundings) -> JoinSet<()> {
        let groups = Groups {
            coscheduling: !around.unknown.contains(&COSCHEDULING_GROUP),
            volcano: !around.unknown.contains(&VOLCANO_GROUP),
        };
        let status_server = around.entrance.as_ref().map(|entrance| StatusServer {
            url: entrance.url.clone(),
            authority_pem: entrance.authority_pem.clone(),
        });
        let enabled = these(&[operator.name]);
        let plugins = Settings { groups, status_server };
        let options = Options { enabled, plugins, reads_output: true, ..Options::default() };
        training::start(context, &options)
    }

    async fn review(&self, context: &Context, path: &str, review: &Value) -> Option<Value> {
        admission::review(context, path, review).await
    }

    fn is_for(&self, method: &Method, path: &str) -> bool {
        *method == Method::POST && status_server::job_of(path).is_some()
    }

    async fn respond(&self, context: &Context, asked: &Asked<'_>) -> (u16, Value) {
        match status_server::job_of(asked.path) {
            Some(job) => status_server::take(context, &job, asked.authorization, &asked.body).await,
            None => (404, Value::Null),
        }
    }
}

fn these(enabled: &[&str]) -> Enabled {
    Enabled { trainer: enabled.contains(&TRAINER), job_set: enabled.contains(&JOB_SETS) }
}
