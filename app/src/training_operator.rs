//! The training operators inside this process: installed, asked before their objects are written,
//! and run.

use std::sync::Arc;

use apiserver::beside::Respond;
use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::webhooks::within::Part;
use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use reconcile::Context;
use serde_json::Value;
use training::plugin::{Settings, StatusServer};
use training::runtimes::Choice;
use training::{Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, admission, manifests, status_server};

use crate::definitions;

pub const NAME: &str = "training";
/// Where pods find this server; their node fills it in.
const SERVER_OF_PODS: &str = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)";
/// The version of the trainer whose clients are served.
const VERSION: &str = "v2.3.0";

/// Who the operators are.
pub fn user() -> User {
    User::service_account(NAMESPACE, SERVICE_ACCOUNT, "")
}

/// Who installs what they need: a part of this program, so that what it writes may call others.
pub fn installer() -> User {
    let mut user = User::component("system:setpoint");
    user.groups.push(GROUP_MASTERS.into());
    user
}

/// What the operators are given besides.
pub struct Needs {
    /// What is installed before anything of theirs.
    pub also: Vec<Value>,
    /// The certificates of the cluster's authority.
    pub authority_pem: Arc<str>,
}

/// Installs what the operators need, and runs them until everything is to stop.
pub async fn run(installer: Context, context: Context, needs: Needs) {
    let Needs { also, authority_pem } = needs;
    let enabled = Enabled::default();
    definitions::install(&installer, &also).await;
    let all = manifests::all(enabled, Choice::ShippedAndLocal, VERSION);
    definitions::install(&installer, &all).await;
    if *context.stop.borrow() {
        return;
    }
    let status_server = Some(StatusServer { url: SERVER_OF_PODS.to_owned(), authority_pem });
    let plugins = Settings { status_server, ..Settings::default() };
    let options = Options { enabled, plugins };
    let mut running = training::start(&context, &options);
    while running.join_next().await.is_some() {}
}

/// Answers the server's questions about training objects.
pub struct Reviewer(pub Context);

impl Reviewer {
    pub fn shared(context: Context) -> Arc<Reviewer> {
        Arc::new(Reviewer(context))
    }
}

#[async_trait]
impl Part for Reviewer {
    fn service(&self) -> (&str, &str) {
        (NAMESPACE, admission::webhooks::SERVICE)
    }

    async fn review(&self, path: &str, review: &Value) -> Option<Value> {
        admission::review(&self.0, path, review).await
    }
}

/// Takes what trainers report of their progress.
pub struct Reports(pub Context);

#[async_trait]
impl Respond for Reports {
    fn is_for(&self, method: &Method, path: &str) -> bool {
        *method == Method::POST && status_server::job_of(path).is_some()
    }

    async fn answer(&self, path: &str, authorization: Option<&str>, body: Bytes) -> (u16, Value) {
        match status_server::job_of(path) {
            Some(job) => status_server::take(&self.0, &job, authorization, &body).await,
            None => (404, Value::Null),
        }
    }
}
