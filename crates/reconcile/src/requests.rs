//! Writes and reads of one reconcile, each with its cause.
//!
//! The cause travels in headers, because a controller knows nothing but `kube::Client`; a server
//! that does not know them ignores them.

use std::sync::Arc;

use http::{Method, Request};
use serde_json::{Value, json};

use crate::Error;
use crate::defects::{Defect, is_planted};
use crate::kind::Kind;
use crate::object::{Name, Object};
use crate::plan::{Deletion, Target};

/// The revision whose change a write reacts to.
pub const CAUSE_HEADER: &str = "x-setpoint-cause";
/// The reconcile that writes.
pub const RECONCILE_HEADER: &str = "x-setpoint-reconcile";
/// The term of the leader that writes: `group=number`.
pub const EPOCH_HEADER: &str = "x-setpoint-epoch";

/// Why a write is made.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub cause: Option<u64>,
    pub reconcile: String,
    pub epoch: Option<Epoch>,
}

/// A leader's term. A server of ours refuses writes of an older one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    pub group: Arc<str>,
    pub number: u64,
}

/// A client that says who writes and why.
#[derive(Clone)]
pub struct Requests {
    pub client: kube::Client,
    /// The field manager.
    pub manager: &'static str,
    pub origin: Origin,
}

impl Requests {
    /// An object as the server has it now; `None` if there is none.
    pub async fn get(&self, kind: Kind, name: &Name) -> Result<Option<Object>, Error> {
        let path = kind.path(&name.namespace, &name.name);
        let answer = self.send(Method::GET, &path, "", None).await;
        match answer.map_err(|source| Error::request(format!("read {kind} {name}"), source)) {
            Ok(value) => Ok(Some(Object::new(value))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create(&self, kind: Kind, object: &Value) -> Result<Object, Error> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("{}?fieldManager={}", kind.collection(namespace), self.manager);
        let answer = self.send(Method::POST, &path, "application/json", Some(object)).await;
        let what = || format!("create {kind} {}", Object::new(object.clone()).name);
        answer.map(Object::new).map_err(|source| Error::request(what(), source))
    }

    /// Posts to any path: bindings, evictions, reviews.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let answer = self.send(Method::POST, path, "application/json", Some(body)).await;
        answer.map_err(|source| Error::request(format!("post to {path}"), source))
    }

    /// Server-side apply; fields that others own are taken over.
    pub async fn apply(&self, kind: Kind, object: &Value) -> Result<Object, Error> {
        let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let path = kind.path(meta("namespace"), meta("name"));
        let path = format!("{path}?fieldManager={}&force=true", self.manager);
        let mut object = object.clone();
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        let body_type = "application/apply-patch+yaml";
        let answer = self.send(Method::PATCH, &path, body_type, Some(&object)).await;
        let what = || format!("apply {kind} {}/{}", meta("namespace"), meta("name"));
        answer.map(Object::new).map_err(|source| Error::request(what(), source))
    }

    /// A merge patch of an object that was seen, if it is still the one.
    pub async fn patch(&self, target: &Target, patch: &Value) -> Result<Object, Error> {
        let mut patch = patch.clone();
        if !target.uid.is_empty() {
            patch["metadata"]["uid"] = json!(target.uid);
        }
        if let Some(revision) = target.revision {
            patch["metadata"]["resourceVersion"] = json!(revision.to_string());
        }
        let path = format!("{}?fieldManager={}", target_path(target), self.manager);
        let body_type = "application/merge-patch+json";
        let answer = self.send(Method::PATCH, &path, body_type, Some(&patch)).await;
        let what = || format!("patch {target}");
        answer.map(Object::new).map_err(|source| Error::request(what(), source))
    }

    /// Writes an object that was seen as a whole, if it is still as it was seen.
    pub async fn update(&self, target: &Target, object: &Value) -> Result<Object, Error> {
        let mut object = object.clone();
        object["metadata"]["uid"] = json!(target.uid);
        if let Some(revision) = target.revision {
            object["metadata"]["resourceVersion"] = json!(revision.to_string());
        }
        let path = format!("{}?fieldManager={}", target_path(target), self.manager);
        let answer = self.send(Method::PUT, &path, "application/json", Some(&object)).await;
        let what = || format!("update {target}");
        answer.map(Object::new).map_err(|source| Error::request(what(), source))
    }

    /// Deletes an object that was seen. The answer is the object, if it still goes through its
    /// finalizers or its grace period.
    pub async fn delete(
        &self,
        target: &Target,
        options: &Deletion,
    ) -> Result<Option<Object>, Error> {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if !is_planted(Defect::DeleteWithoutUid) {
            body["preconditions"]["uid"] = json!(target.uid);
        }
        if let Some(revision) = target.revision {
            body["preconditions"]["resourceVersion"] = json!(revision.to_string());
        }
        if let Some(seconds) = options.grace_seconds {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(propagation) = options.propagation {
            body["propagationPolicy"] = json!(propagation.name());
        }
        let path = target_path(target);
        let answer = self.send(Method::DELETE, &path, "application/json", Some(&body)).await;
        let answer = answer.map_err(|source| Error::request(format!("delete {target}"), source))?;
        Ok((answer["kind"] == target.kind.kind).then(|| Object::new(answer)))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let mut request = Request::builder().method(method).uri(path);
        if !body_type.is_empty() {
            request = request.header("content-type", body_type);
        }
        if let Some(cause) = self.origin.cause {
            request = request.header(CAUSE_HEADER, cause);
        }
        if !self.origin.reconcile.is_empty() {
            request = request.header(RECONCILE_HEADER, &self.origin.reconcile);
        }
        if let Some(epoch) = &self.origin.epoch {
            request = request.header(EPOCH_HEADER, format!("{}={}", epoch.group, epoch.number));
        }
        let body = body.map(serde_json::to_vec).transpose().map_err(kube::Error::SerdeError)?;
        let request = request.body(body.unwrap_or_default()).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

fn target_path(target: &Target) -> String {
    let path = target.kind.path(&target.name.namespace, &target.name.name);
    if target.subresource.is_empty() { path } else { format!("{path}/{}", target.subresource) }
}
