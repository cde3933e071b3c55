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

#[cfg(test)]
mod tests {
    use reconcile::Name;
    use serde_json::json;

    use super::*;

    const DEFINITION: Kind = Kind::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    const OLD: Kind = Kind::namespaced("example.com", "v1", "Widget", "widgets");
    const NEW: Kind = Kind::namespaced("example.com", "v2", "Widget", "widgets");

    fn definition() -> Value {
        let version = |name: &str, storage: bool| {
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        };
        json!({"metadata": {"name": "widgets.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets",
                "singular": "widget"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "/convert"}}}},
        }})
    }

    /// `size` is called `length` in v2.
    fn convert(object: &Value, desired: &str) -> Result<Value, String> {
        let mut converted = object.clone();
        converted["apiVersion"] = json!(desired);
        let spec = &object["spec"];
        converted["spec"] = match desired {
            "example.com/v2" => json!({"length": spec["size"]}),
            "example.com/v1" => json!({"size": spec["length"]}),
            other => return Err(format!("nobody knows {other}")),
        };
        Ok(converted)
    }

    #[tokio::test]
    async fn objects_are_converted_by_a_part_of_the_program() {
        let cluster = Cluster::start().await;
        cluster.answer(("n", "s"), |_, path, review| {
            let answer = reconcile::conversion::answer(&review, convert);
            Box::pin(async move { (path == "/convert").then_some(answer) })
        });
        cluster.install(DEFINITION, &definition()).await;
        let widget = json!({"apiVersion": "example.com/v2", "kind": "Widget",
            "metadata": {"namespace": "default", "name": "a"}, "spec": {"length": 3}});
        cluster.create(NEW, widget).await;
        let context = cluster.context();
        let name = Name::new("default", "a");
        for (kind, expected) in [(OLD, json!({"size": 3})), (NEW, json!({"length": 3}))] {
            let found = context.get_live(kind, &name).await.expect("read").expect("it is there");
            assert_eq!(found.value["spec"], expected);
        }
    }
}
