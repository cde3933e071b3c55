//! The audit log: who asked for what, when, from where, and what came of it, as audit.k8s.io/v1 has
//! it. Off unless somebody opens a log.
//!
//! A request is noted when it comes (`Heard`), and becomes one line when its answer begins. Bodies
//! are written only where that is asked for, and never those of Secrets, tokens and the like.
//!
//! Upstream: apiserver/pkg/apis/audit/v1/types.go, apiserver/pkg/audit

mod log;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::header::USER_AGENT;
use http::request::Parts;
use serde_json::{Map, Value, json};
use store::Timestamp;

pub use log::{Log, Writer, open};

use crate::answer::Answer;
use crate::authenticate::Identified;
use crate::identity::User;
use crate::request::path::{Path, Target};
use crate::request::route::Route;
use crate::secrets_at_rest::kinds::is_confidential_resource;
use crate::status::Error;
use crate::timestamp;

/// A larger body is left out, and that is said.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Resources beside the confidential kinds whose bodies are not written.
const CONFIDENTIAL: [&str; 2] = ["tokenreviews", "selfsubjectreviews"];
const CONFIDENTIAL_SUBRESOURCE: &str = "token";
const DECISION: &str = "authorization.k8s.io/decision";
const OMITTED: &str = "audit.setpoint.dev/omitted";

/// What is written of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Who, what, when and the code of the answer.
    #[default]
    Metadata,
    /// What was sent as well.
    Request,
}

/// Of which requests something is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    /// Those that may change something.
    Writes,
}

/// What is written, and of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub level: Level,
    pub scope: Scope,
}

/// Who came by a socket has an address.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// The log of a server, if it has one.
#[derive(Default)]
pub struct Audit(OnceLock<(Policy, Log)>);

/// A request that will be told of.
#[derive(Debug)]
pub struct Heard {
    level: Level,
    received: Timestamp,
    uri: String,
    verb: String,
    target: Option<Target>,
    is_long: bool,
    agent: String,
    peer: Option<IpAddr>,
    identified: OnceLock<Identified>,
    body: OnceLock<Bytes>,
    annotations: Annotations,
}

/// Annotations that admission adds to the audit event of a request.
#[derive(Clone, Debug, Default)]
pub struct Annotations(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Annotations {
    /// Adds an annotation. Later values of the same name are ignored, as upstream has it.
    pub fn add(&self, name: &'static str, value: impl Into<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name).or_insert_with(|| value.into());
    }

    fn all(&self) -> BTreeMap<&'static str, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How a request ended.
struct Outcome<'a> {
    id: &'a str,
    at: Timestamp,
    code: u16,
    failure: Option<&'a Error>,
}

impl Audit {
    /// From now on requests are written there; only the first log counts.
    pub fn set(&self, policy: Policy, log: Log) {
        let _ = self.0.set((policy, log));
    }

    /// Notes a request, if it is one to be told of.
    pub fn hear(&self, parts: &Parts, route: &Route, now: Timestamp) -> Option<Arc<Heard>> {
        let (policy, _) = self.0.get()?;
        let target = match &route.path {
            Path::Resource(target) => Some(target.clone()),
            _ => None,
        };
        let verb = match (&target, &route.verb) {
            (Some(_), Ok(verb)) => (*verb).to_owned(),
            _ => parts.method.as_str().to_ascii_lowercase(),
        };
        let is_read = matches!(verb.as_str(), "get" | "list" | "watch" | "head" | "options");
        if policy.scope == Scope::Writes && is_read {
            return None;
        }
        let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        Some(Arc::new(Heard {
            level: policy.level,
            received: now,
            // Over HTTP/2 the address is whole.
            uri: parts.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned(),
            verb,
            target,
            is_long: route.is_long_running(),
            agent: agent.unwrap_or_default().to_owned(),
            peer: parts.extensions.get::<Peer>().map(|peer| peer.0),
            identified: OnceLock::new(),
            body: OnceLock::new(),
            annotations: Annotations::default(),
        }))
    }

    /// Writes what came of a request.
    pub fn tell(&self, heard: &Heard, id: &str, at: Timestamp, answer: &Result<Answer, Error>) {
        let Some((_, log)) = self.0.get() else { return };
        let (code, failure) = match answer {
            Ok(answer) => (answer.code, None),
            Err(failure) => (failure.code, Some(failure)),
        };
        log.write(heard.event(&Outcome { id, at, code, failure }).to_string());
    }

    /// What was written and what was lost, as Prometheus reads it.
    pub fn metrics(&self) -> String {
        self.0.get().map(|(_, log)| log.metrics()).unwrap_or_default()
    }

    /// Returns when everything is written that was told.
    pub fn flush(&self) {
        if let Some((_, log)) = self.0.get() {
            log.flush();
        }
    }
}

impl Heard {
    /// Who it is.
    pub fn identify(&self, identified: &Identified) {
        let _ = self.identified.set(identified.clone());
    }

    pub fn annotations(&self) -> Annotations {
        self.annotations.clone()
    }

    /// What was sent, where it will be written.
    pub fn note_body(&self, body: &Bytes) {
        if self.level == Level::Request && !body.is_empty() && !self.is_confidential() {
            let _ = self.body.set(body.clone());
        }
    }

    fn is_confidential(&self) -> bool {
        self.target.as_ref().is_some_and(|target| {
            CONFIDENTIAL.contains(&target.resource.as_str())
                || is_confidential_resource(&target.group, &target.resource)
                || target.subresource == CONFIDENTIAL_SUBRESOURCE
        })
    }

    fn event(&self, outcome: &Outcome<'_>) -> Value {
        let mut annotations = Map::new();
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": if self.level == Level::Request { "Request" } else { "Metadata" },
            "auditID": outcome.id,
            "stage": if self.is_long { "ResponseStarted" } else { "ResponseComplete" },
            "requestURI": self.uri,
            "verb": self.verb,
            "userAgent": self.agent,
            "sourceIPs": self.peer.iter().map(IpAddr::to_string).collect::<Vec<_>>(),
            "responseStatus": status(outcome),
            "requestReceivedTimestamp": micros(self.received),
            "stageTimestamp": micros(outcome.at),
        });
        if let Some(Identified { holder, user }) = self.identified.get() {
            event["user"] = person(holder);
            if !Arc::ptr_eq(holder, user) {
                event["impersonatedUser"] = person(user);
            }
            let decision = if outcome.code == 403 { "forbid" } else { "allow" };
            annotations.insert(DECISION.to_owned(), decision.into());
        }
        if let Some(target) = &self.target {
            event["objectRef"] = reference(target);
        }
        match self.body.get() {
            Some(body) if body.len() > BODY_BYTES_MAX => {
                annotations.insert(OMITTED.to_owned(), "the body is too large".into());
            }
            Some(body) => match serde_json::from_slice::<Value>(body) {
                Ok(body) => event["requestObject"] = body,
                Err(_) => {
                    annotations.insert(OMITTED.to_owned(), "the body is not JSON".into());
                }
            },
            None => {}
        }
        for (name, value) in self.annotations.all() {
            annotations.insert(name.to_owned(), value.into());
        }
        event["annotations"] = annotations.into();
        event
    }
}

fn person(user: &User) -> Value {
    let groups: Vec<&str> = user.groups.iter().map(|group| &**group).collect();
    let mut person = json!({"username": &*user.name, "groups": groups});
    if !user.uid.is_empty() {
        person["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        person["extra"] = json!(user.extra);
    }
    person
}

fn reference(target: &Target) -> Value {
    let fields = [
        ("resource", &target.resource),
        ("namespace", &target.namespace),
        ("name", &target.name),
        ("apiGroup", &target.group),
        ("apiVersion", &target.version),
        ("subresource", &target.subresource),
    ];
    let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| (name.to_owned(), value.as_str().into())).collect::<Map<_, _>>().into()
}

fn status(outcome: &Outcome<'_>) -> Value {
    let mut status = json!({"metadata": {}, "code": outcome.code});
    if let Some(failure) = outcome.failure {
        status["status"] = "Failure".into();
        status["reason"] = failure.reason.as_ref().into();
        status["message"] = failure.message.as_str().into();
    }
    status
}

fn micros(time: Timestamp) -> String {
    let (seconds, rest) = (time.0.div_euclid(1_000_000), time.0.rem_euclid(1_000_000));
    timestamp::format_micro(seconds, u32::try_from(rest).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(method: &str, uri: &str, policy: Policy) -> Option<Arc<Heard>> {
        let request = http::Request::builder().method(method).uri(uri).header(USER_AGENT, "a/1");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        parts.extensions.insert(Peer([192, 0, 2, 7].into()));
        let name = format!("setpoint-audit-{}-{method}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let audit = Audit::default();
        assert!(audit.hear(&parts, &Route::of(&parts), Timestamp(0)).is_none(), "off unless set");
        let (log, _writer) = open(&path).unwrap();
        audit.set(policy, log);
        let heard = audit.hear(&parts, &Route::of(&parts), Timestamp(1_000_001));
        let _ = std::fs::remove_file(path);
        heard
    }

    fn event(heard: &Heard, code: u16, failure: Option<&Error>) -> Value {
        heard.event(&Outcome { id: "i", at: Timestamp(2_000_000), code, failure })
    }

    const EVERYTHING: Policy = Policy { level: Level::Request, scope: Scope::All };

    #[test]
    fn an_event_says_who_asked_for_what_and_what_came_of_it() {
        let heard =
            heard("DELETE", "https://h/apis/apps/v1/namespaces/n/deployments/d", EVERYTHING)
                .unwrap();
        let user = |name: &str| Arc::new(User::authenticated(name, ["team"]));
        heard.identify(&Identified { holder: user("ada"), user: user("bob") });
        let failure = Error::fenced("no");
        let told = event(&heard, 403, Some(&failure));
        assert_eq!(told["apiVersion"], "audit.k8s.io/v1");
        assert_eq!((&told["auditID"], &told["verb"]), (&"i".into(), &"delete".into()));
        assert_eq!(told["user"]["username"], "ada");
        assert_eq!(told["impersonatedUser"]["username"], "bob");
        assert_eq!(told["sourceIPs"], json!(["192.0.2.7"]));
        let object = json!({"resource": "deployments", "namespace": "n", "name": "d",
            "apiGroup": "apps", "apiVersion": "v1"});
        assert_eq!(told["objectRef"], object);
        assert_eq!(told["responseStatus"]["code"], 403);
        assert_eq!(told["responseStatus"]["status"], "Failure");
        assert_eq!(told["annotations"][DECISION], "forbid");
        assert_eq!(told["requestReceivedTimestamp"], "1970-01-01T00:00:01.000001Z");
        assert_eq!(told["stage"], "ResponseComplete");
        assert_eq!(told["requestURI"], "/apis/apps/v1/namespaces/n/deployments/d");
        let watched = super::tests::heard("GET", "/api/v1/pods?watch=1", EVERYTHING).unwrap();
        assert_eq!(event(&watched, 200, None)["stage"], "ResponseStarted");
    }

    #[test]
    fn bodies_are_written_where_asked_for_and_never_those_of_secrets() {
        let sent = Bytes::from_static(b"{\"data\": {\"a\": \"b\"}}");
        let written = |uri: &str, policy: Policy| {
            let heard = heard("POST", uri, policy).unwrap();
            heard.note_body(&sent);
            event(&heard, 201, None)["requestObject"]["data"]["a"] == "b"
        };
        assert!(written("/api/v1/namespaces/n/configmaps", EVERYTHING));
        assert!(!written("/api/v1/namespaces/n/configmaps", Policy::default()));
        for uri in ["secrets", "serviceaccounts/a/token"] {
            assert!(!written(&format!("/api/v1/namespaces/n/{uri}"), EVERYTHING), "{uri}");
        }
        let machines = "/apis/kubevirt.io/v1/namespaces/n/virtualmachines";
        assert!(!written(machines, EVERYTHING), "cloud-init can be inline");
        let large = heard("POST", "/api/v1/namespaces/n/pods", EVERYTHING).unwrap();
        large.note_body(&vec![b' '; BODY_BYTES_MAX + 1].into());
        let told = event(&large, 201, None);
        assert!(told["requestObject"].is_null() && told["annotations"][OMITTED].is_string());
    }

    #[test]
    fn reads_are_left_out_where_only_writes_are_wanted() {
        let writes = Policy { scope: Scope::Writes, ..Policy::default() };
        assert!(heard("GET", "/api/v1/pods", writes).is_none());
        assert!(heard("PATCH", "/api/v1/namespaces/n/pods/p", writes).is_some());
        assert!(heard("GET", "/healthz", writes).is_none());
    }
}
