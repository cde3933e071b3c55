//! What users do to a cluster in a test, in the namespace `default`, and what they wait for.

use std::sync::Arc;

use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Name, Object};
use serde_json::Value;

use crate::cluster::until;

/// Users who may do everything.
#[derive(Clone)]
pub struct Users {
    pub context: Context,
}

impl Users {
    pub async fn create(&self, kind: Kind, object: Value) -> Object {
        self.try_create(kind, object).await.expect("created")
    }

    pub async fn try_create(&self, kind: Kind, object: Value) -> Result<Object, Error> {
        self.context.requests("test", Default::default()).create(kind, &object).await
    }

    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) -> Object {
        self.try_patch(kind, name, patch).await.expect("changed")
    }

    pub async fn try_patch(&self, kind: Kind, name: &str, patch: Value) -> Result<Object, Error> {
        let found = self.get(kind, name).await.expect("it is there");
        let requests = self.context.requests("test", Default::default());
        requests.patch(&Target::of(kind, &found), &patch).await
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        let found = self.get(kind, name).await.expect("it is there");
        let requests = self.context.requests("test", Default::default());
        requests.delete(&Target::of(kind, &found), &Default::default()).await.expect("deleted");
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<Object> {
        let namespace = if kind.namespaced { "default" } else { "" };
        self.context.get_live(kind, &Name::new(namespace, name)).await.expect("readable")
    }

    /// Waits until something holds of an object.
    pub async fn until(&self, kind: Kind, name: &str, holds: impl Fn(&Value) -> bool) -> Object {
        until(&self.context, kind, |all| all.iter().any(|one| is(one, name) && holds(&one.value)))
            .await;
        let found = self.context.cache(kind).all().into_iter().find(|one| is(one, name));
        Object::new(found.expect("it was there").value.clone())
    }

    pub async fn until_gone(&self, kind: Kind, name: &str) {
        until(&self.context, kind, |all| !all.iter().any(|one| is(one, name))).await;
    }

    /// Why there are events about objects of a name.
    pub async fn reasons(&self, name: &str) -> Vec<String> {
        let requests = self.context.requests("test", Default::default());
        let all = requests.read("/api/v1/namespaces/default/events").await.expect("readable");
        let all = all["items"].as_array().cloned().unwrap_or_default();
        let own = all.iter().filter(|event| event["involvedObject"]["name"] == name);
        own.filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect()
    }
}

fn is(object: &Arc<Object>, name: &str) -> bool {
    &*object.name.name == name
}
