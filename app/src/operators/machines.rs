//! The family of virtual machines: Wukong and its snapshots.

use async_trait::async_trait;
use machines::kinds::{
    ATTACHMENT, CLAIM, DATA_VOLUME, INSTANCE, MACHINE, POLICY, RESTORE, SERVICE, SNAPSHOT,
    STORAGE_CLASS, WUKONG, WUKONG_SNAPSHOT,
};
use machines::{
    Bridges, Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, WEBHOOK_SERVICE, admission, manifests,
};
use reconcile::Context;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Family, Home, Nodes, Operator, Surroundings};

pub struct Machines;

#[async_trait]
impl Family for Machines {
    fn name(&self) -> &'static str {
        "machines"
    }

    fn home(&self) -> Home {
        Home {
            namespace: NAMESPACE,
            account: SERVICE_ACCOUNT,
            service: WEBHOOK_SERVICE,
            metrics_service: None,
            secret: "webhook-server-cert",
            labels: &[
                ("app.kubernetes.io/name", "novasphere"),
                ("control-plane", "controller-manager"),
            ],
        }
    }

    fn operators(&self) -> &'static [Operator] {
        &[Operator {
            name: "wukong",
            lease: "b80af5bb.novasphere.dev",
            metrics_prefix: "",
            needs: &[WUKONG, WUKONG_SNAPSHOT],
            // It finds out itself what there is, and begins anew when there is more.
            uses: &[],
            reads: &[
                ATTACHMENT,
                DATA_VOLUME,
                INSTANCE,
                MACHINE,
                POLICY,
                RESTORE,
                SNAPSHOT,
                STORAGE_CLASS,
            ],
            children: &[CLAIM, SERVICE],
            groups: &[api::wukong::GROUP, api::add_ons::IMPORTER],
        }]
    }

    fn manifests(&self, _: &[&str]) -> Vec<Value> {
        manifests::all()
    }

    /// Where pods are processes, machines are ours too; any other cluster has add-ons for them.
    fn first_objects(&self, _: &[&str], nodes: Nodes) -> Vec<Value> {
        match nodes {
            Nodes::Images => Vec::new(),
            Nodes::Processes => manifests::provider(),
        }
    }

    fn controllers(&self, _: &Operator) -> Vec<&'static str> {
        machines::ALL.iter().map(|entry| entry.name).collect()
    }

    fn start(&self, _: &Operator, context: &Context, around: &Surroundings) -> JoinSet<()> {
        let bridges = match around.nodes {
            Nodes::Images => Bridges::ByPolicy,
            Nodes::Processes => Bridges::ByNode,
        };
        let options = Options { enabled: Enabled::default(), bridges, ..Options::default() };
        machines::start(context, &options)
    }

    async fn review(&self, context: &Context, path: &str, review: &Value) -> Option<Value> {
        admission::review(context, path, review).await
    }
}
