//! Writes and reads of one reconcile, each with its cause.
//!
//! The cause travels in headers, because a controller knows nothing but `kube::Client`; a server
//! that does not know them ignores them.

use std::borrow::Cow;
use std::sync::Arc;

use futures::AsyncBufRead;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::Error;
use crate::defects::{Defect, is_planted};
use crate::follow::METADATA_ONLY;
use crate::handover::{self, Answer, Place};
use crate::kind::Kind;
use crate::object::{Name, Object};
use crate::plan::{Deletion, Target};

/// The revision whose change a write reacts to.
pub const CAUSE_HEADER: &str = "x-setpoint-cause";
/// The reconcile that writes.
pub const RECONCILE_HEADER: &str = "x-setpoint-reconcile";
/// The term of the leader that writes: `group=number`.
pub const EPOCH_HEADER: &str = "x-setpoint-epoch";

/// The type of the body of an apply.
const APPLY: &str = "application/apply-patch+yaml";
/// Objects deleted by one request.
const DELETE_PAGE_OBJECTS_MAX: usize = 1_000;

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
    pub place: Place,
    /// The field manager.
    pub manager: &'static str,
    pub origin: Origin,
    /// Whether writers only want to know the revision that they made.
    pub is_brief: bool,
}

impl Requests {
    /// The same for writers who do not look at what the server answers but at its revision: whole
    /// objects need not be sent back.
    pub fn brief(&self) -> Requests {
        Requests { is_brief: true, ..self.clone() }
    }

    /// An object as the server has it now; `None` if there is none.
    pub async fn get(&self, kind: Kind, name: &Name) -> Result<Option<Object>, Error> {
        let path = kind.path(&name.namespace, &name.name);
        let answer = self.send(Method::GET, &path, "", None).await;
        match answer.map_err(|source| Error::request(format!("read {kind} {name}"), source)) {
            Ok(answer) => Ok(Some(answer.object())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same for those who may list but not get.
    pub async fn find(&self, kind: Kind, name: &Name) -> Result<Option<Object>, Error> {
        match self.get(kind, name).await {
            Err(error) if error.code() == Some(403) => {}
            answer => return answer,
        }
        let collection = kind.collection(&name.namespace);
        let path = format!("{collection}?fieldSelector=metadata.name%3D{}", name.name);
        let mut list = self.read(&path).await?;
        Ok(list["items"].get_mut(0).map(|item| Object::new(item.take())))
    }

    /// Reads any path.
    pub async fn read(&self, path: &str) -> Result<Value, Error> {
        self.read_as(path, "application/json").await
    }

    /// Reads any path in a form that is asked for: metadata, discovery.
    pub async fn read_as(&self, path: &str, accept: &str) -> Result<Value, Error> {
        let request = Request::get(path).header("accept", accept).body(Vec::new());
        let answer = match request.map_err(kube::Error::HttpError) {
            Ok(request) => self.client.request(request).await,
            Err(error) => Err(error),
        };
        answer.map_err(|source| Error::request(format!("read {path}"), source))
    }

    /// Opens a stream of bytes at any path, such as the log of a container.
    pub async fn stream(&self, path: &str) -> Result<impl AsyncBufRead + use<>, Error> {
        // Pieces that are compressed one by one would only grow.
        let request = Request::get(path).header("accept-encoding", "identity").body(Vec::new());
        let stream = match request.map_err(kube::Error::HttpError) {
            Ok(request) => self.client.request_stream(request).await,
            Err(error) => Err(error),
        };
        stream.map_err(|source| Error::request(format!("read {path}"), source))
    }

    pub async fn create(&self, kind: Kind, object: &Value) -> Result<Object, Error> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("{}?fieldManager={}", kind.collection(namespace), self.manager);
        let body = Some(Cow::Borrowed(object));
        let answer = self.send(Method::POST, &path, "application/json", body).await;
        let what = || format!("create {kind} {}", Object::new(object.clone()).name);
        answer.map(Answer::object).map_err(|source| Error::request(what(), source))
    }

    /// Posts to any path: bindings, evictions, reviews.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let body = Some(Cow::Borrowed(body));
        let answer = self.send(Method::POST, path, "application/json", body).await;
        answer
            .map(Answer::value)
            .map_err(|source| Error::request(format!("post to {path}"), source))
    }

    /// Server-side apply; fields that others own are taken over.
    pub async fn apply(&self, kind: Kind, object: &Value) -> Result<Object, Error> {
        self.apply_part(kind, object, "").await
    }

    /// The same of a part of an object, such as its status.
    pub async fn apply_part(
        &self,
        kind: Kind,
        object: &Value,
        subresource: &str,
    ) -> Result<Object, Error> {
        self.apply_at(kind, object, (subresource, "&force=true")).await
    }

    /// Server-side apply of a part that leaves fields of other managers alone: one that is applied
    /// with another value is a conflict.
    pub async fn apply_own_part(
        &self,
        kind: Kind,
        object: &Value,
        subresource: &str,
    ) -> Result<Object, Error> {
        self.apply_at(kind, object, (subresource, "")).await
    }

    async fn apply_at(
        &self,
        kind: Kind,
        object: &Value,
        (subresource, force): (&str, &str),
    ) -> Result<Object, Error> {
        let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let mut path = kind.path(meta("namespace"), meta("name"));
        if !subresource.is_empty() {
            path = format!("{path}/{subresource}");
        }
        let path = format!("{path}?fieldManager={}{force}", self.manager);
        let mut object = object.clone();
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        let answer = self.send(Method::PATCH, &path, APPLY, Some(Cow::Borrowed(&object))).await;
        let what = || format!("apply {kind} {}/{}", meta("namespace"), meta("name"));
        answer.map(Answer::object).map_err(|source| Error::request(what(), source))
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
        let answer = self.send(Method::PATCH, &path, body_type, Some(Cow::Owned(patch))).await;
        let what = || format!("patch {target}");
        answer.map(Answer::object).map_err(|source| Error::request(what(), source))
    }

    /// Replaces an object that was seen, or a part of it, if it still says what it said.
    pub async fn replace(&self, target: &Target, object: &Value) -> Result<Object, Error> {
        self.replace_by(target, object.clone()).await
    }

    /// The same by an object that nobody else needs.
    pub async fn replace_by(&self, target: &Target, mut object: Value) -> Result<Object, Error> {
        object["apiVersion"] = json!(target.kind.api_version());
        object["kind"] = json!(target.kind.kind);
        object["metadata"]["uid"] = json!(target.uid);
        if let Some(revision) = target.revision {
            object["metadata"]["resourceVersion"] = json!(revision.to_string());
        }
        let path = format!("{}?fieldManager={}", target_path(target), self.manager);
        let body = Some(Cow::Owned(object));
        let answer = self.send(Method::PUT, &path, "application/json", body).await;
        let what = || format!("replace {target}");
        answer.map(Answer::object).map_err(|source| Error::request(what(), source))
    }

    /// Deletes every object of a kind in a namespace, a page at a time.
    pub async fn delete_collection(&self, kind: Kind, namespace: &str) -> Result<(), Error> {
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background"});
        let mut next = String::new();
        loop {
            let collection = kind.collection(namespace);
            let path = format!("{collection}?limit={DELETE_PAGE_OBJECTS_MAX}{next}");
            let body = Some(Cow::Borrowed(&body));
            let answer = self.send(Method::DELETE, &path, "application/json", body).await;
            let what = || format!("delete every {kind} in {namespace}");
            let answer = answer.map_err(|source| Error::request(what(), source))?.object().value;
            next = match answer["metadata"]["continue"].as_str() {
                None | Some("") => return Ok(()),
                Some(token) => format!("&continue={}", escape(token)),
            };
        }
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
        let body = Some(Cow::Owned(body));
        let answer = self.send(Method::DELETE, &path, "application/json", body).await;
        let answer = answer.map_err(|source| Error::request(format!("delete {target}"), source))?;
        let answer = answer.object();
        Ok((answer.value["kind"] == target.kind.kind).then_some(answer))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body_type: &str,
        body: Option<Cow<'_, Value>>,
    ) -> Result<Answer, kube::Error> {
        // What a deletion or an apply says is read from its text.
        let is_given = self.place == Place::InProcess
            && (body_type != APPLY && matches!(method, Method::POST | Method::PUT | Method::PATCH));
        let is_asked = is_given || body_type == APPLY || method == Method::DELETE;
        // A deletion answers with the object or with a status.
        let answers_object = matches!(method, Method::POST | Method::PUT | Method::PATCH);
        let mut request = Request::builder().method(method).uri(path);
        if !body_type.is_empty() {
            request = request.header("content-type", body_type);
        }
        if answers_object && self.is_brief {
            request = request.header("accept", METADATA_ONLY);
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
        if is_given {
            let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
            return handover::send(&self.client, request, body.map(Cow::into_owned)).await;
        }
        let body = body.as_deref().map(serde_json::to_vec).transpose();
        let body = body.map_err(kube::Error::SerdeError)?.unwrap_or_default();
        let request = request.body(body).map_err(kube::Error::HttpError)?;
        if self.place == Place::InProcess && is_asked {
            return handover::send(&self.client, request, None).await;
        }
        self.client.request(request).await.map(Answer::Parsed)
    }
}

fn target_path(target: &Target) -> String {
    let path = target.kind.path(&target.name.namespace, &target.name.name);
    if target.subresource.is_empty() { path } else { format!("{path}/{}", target.subresource) }
}

/// A continue token may hold anything.
pub fn escape(token: &str) -> String {
    let mut escaped = String::new();
    for byte in token.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
