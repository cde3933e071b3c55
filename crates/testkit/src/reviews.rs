//! Operators in a test: what they need is installed as parts of the program install it, and they
//! are asked before their objects are written.

use std::pin::Pin;
use std::sync::Arc;

use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::local::local_client;
use apiserver::webhooks::within::Part;
use async_trait::async_trait;
use reconcile::{Context, Kind};
use serde_json::Value;

use crate::cluster::Cluster;

pub type Answer = Pin<Box<dyn Future<Output = Option<Value>> + Send>>;

/// Answers reviews that are sent to a path, of conversions too.
pub type Answers = fn(Context, String, Value) -> Answer;

struct Asked {
    service: (&'static str, &'static str),
    context: Context,
    answers: Answers,
}

#[async_trait]
impl Part for Asked {
    fn service(&self) -> (&str, &str) {
        self.service
    }

    async fn review(&self, path: &str, review: &Value) -> Option<Value> {
        (self.answers)(self.context.clone(), path.to_owned(), review.clone()).await
    }

    async fn convert(&self, path: &str, review: &Value) -> Option<Value> {
        self.review(path, review).await
    }
}

impl Cluster {
    /// Has reviews for a service answered in this process.
    pub fn answer(&self, service: (&'static str, &'static str), answers: Answers) {
        let context = self.context();
        self.server.webhook_client.within.add(Arc::new(Asked { service, context, answers }));
    }

    /// Applies an object as a part of the program does.
    pub async fn install(&self, kind: Kind, object: &Value) {
        let mut user = User::component("system:setpoint");
        user.groups.push(GROUP_MASTERS.into());
        let context = self.context_of(local_client(&self.server, user));
        let requests = context.requests("setpoint", Default::default());
        requests.apply(kind, object).await.expect("a simulation must be set up");
    }
}
