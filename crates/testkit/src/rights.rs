//! What a component asks of the server, in the words of roles, so that a test can tell whether its
//! role says exactly that.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};

use apiserver::identity::User;
use apiserver::local::Local;
use http::{Method, Request};
use kube::client::Body;
use serde_json::Value;

use crate::cluster::Cluster;

/// One verb of one resource; a subresource is named as in a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub group: String,
    pub resource: String,
    pub verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.verb, self.resource, self.group)
    }
}

/// What was asked for, and how often it was refused for want of a right.
#[derive(Default)]
pub struct Asked(Mutex<BTreeMap<Right, usize>>);

impl Asked {
    pub fn rights(&self) -> BTreeSet<Right> {
        self.lock().keys().cloned().collect()
    }

    /// What was asked for without a right to it.
    pub fn refused(&self) -> BTreeSet<Right> {
        let asked = self.lock();
        asked.iter().filter(|(_, refused)| **refused > 0).map(|(right, _)| right.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Right, usize>> {
        self.0.lock().expect("nobody panics while writing down")
    }

    fn note(&self, right: Right, code: u16) {
        let mut asked = self.lock();
        // Whoever applies what is not there makes it.
        if right.verb == "patch" && code == 201 {
            asked.entry(Right { verb: "create".to_owned(), ..right.clone() }).or_default();
        }
        *asked.entry(right).or_default() += usize::from(code == 403);
    }
}

impl Cluster {
    /// A client that is a service account, and what it asks for.
    pub fn noted_account(&self, namespace: &str, name: &str) -> (kube::Client, Arc<Asked>) {
        self.noted(User::service_account(namespace, name, ""))
    }

    /// A client that is a user without groups, and what it asks for.
    pub fn noted_user(&self, name: &str) -> (kube::Client, Arc<Asked>) {
        self.noted(User::authenticated(name, [] as [&str; 0]))
    }

    fn noted(&self, user: User) -> (kube::Client, Arc<Asked>) {
        let user = Arc::new(user);
        let (server, asked) = (self.server.clone(), Arc::<Asked>::default());
        let noted = asked.clone();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (server, user, noted) = (server.clone(), user.clone(), noted.clone());
            let right = right_of(request.method(), request.uri());
            request.extensions_mut().insert(Local);
            async move {
                let answer = server.handle(request, Some(user)).await;
                if let Some(right) = right {
                    noted.note(right, answer.status().as_u16());
                }
                Ok::<_, Infallible>(answer)
            }
        });
        (kube::Client::new(service, "default"), asked)
    }
}

/// What a request needs; nothing for what everybody may read.
fn right_of(method: &Method, uri: &http::Uri) -> Option<Right> {
    let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let (group, rest) = match &parts[..] {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, is_named) = match rest {
        [] => return None,
        [resource] => ((*resource).to_owned(), false),
        [resource, _] => ((*resource).to_owned(), true),
        [resource, _, part, ..] => (format!("{resource}/{part}"), true),
    };
    let is_watch = uri.query().unwrap_or_default().contains("watch=true");
    let verb = match (method.as_str(), is_named) {
        ("GET", _) if is_watch => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return None,
    };
    Some(Right { group: group.to_owned(), resource, verb: verb.to_owned() })
}

/// Everything that roles allow.
pub fn granted(roles: &[Value]) -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut granted = BTreeSet::new();
    let rules = roles.iter().filter_map(|role| role["rules"].as_array()).flatten();
    for rule in rules {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    granted.insert(Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb,
                    });
                }
            }
        }
    }
    granted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_needs_what_a_role_would_call_it() {
        let cases = [
            ("GET", "/api/v1/pods?limit=5", "list pods."),
            ("GET", "/api/v1/namespaces/a/pods?watch=true", "watch pods."),
            ("GET", "/api/v1/namespaces/a", "get namespaces."),
            ("PUT", "/apis/batch/v1/namespaces/a/jobs/b/status", "update jobs/status.batch"),
            ("DELETE", "/apis/batch/v1/namespaces/a/jobs/b", "delete jobs.batch"),
        ];
        for (method, uri, expected) in cases {
            let method = method.parse().expect("a method");
            let right = right_of(&method, &uri.parse().expect("a path")).expect("a right");
            assert_eq!(right.to_string(), expected);
        }
        assert_eq!(right_of(&Method::GET, &"/apis/batch/v1".parse().expect("a path")), None);
    }

    #[test]
    fn a_role_grants_every_combination() {
        let role = json!({"rules": [{"apiGroups": ["", "x"], "resources": ["a"],
            "verbs": ["get", "list"]}]});
        assert_eq!(granted(&[role]).len(), 4);
    }
}
