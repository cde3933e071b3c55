//! The training operators inside this process: installed, asked before their objects are written,
//! and run.

use std::sync::Arc;

use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::webhooks::within::Part;
use async_trait::async_trait;
use reconcile::Context;
use serde_json::Value;
use training::runtimes::Choice;
use training::{Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, admission, manifests};

use crate::definitions;

pub const NAME: &str = "training";
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

/// Installs what the operators need, and runs them until everything is to stop.
pub async fn run(installer: Context, context: Context, also: Vec<Value>) {
    let enabled = Enabled::default();
    definitions::install(&installer, &also).await;
    let all = manifests::all(enabled, Choice::ShippedAndLocal, VERSION);
    definitions::install(&installer, &all).await;
    if *context.stop.borrow() {
        return;
    }
    let options = Options { enabled, ..Options::default() };
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
