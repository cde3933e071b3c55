//! What a service account's token says, and the user it makes.
//!
//! Upstream: pkg/serviceaccount/claims.go

use serde_json::{Value, json};

use super::{CREDENTIAL_ID, User};

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// An object by name, and by the uid that tells it from one of the same name later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub name: String,
    pub uid: String,
}

/// What a token ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The account alone.
    Account,
    /// The node is where the pod runs, if it was known.
    Pod {
        pod: Reference,
        node: Option<Reference>,
    },
    Secret(Reference),
    Node(Reference),
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub issuer: String,
    pub namespace: String,
    pub account: Reference,
    pub bound: Bound,
    pub audiences: Vec<String>,
    pub issued_at: i64,
    pub not_before: i64,
    pub expires_at: i64,
    /// Tells tokens apart.
    pub id: String,
}

impl Claims {
    pub fn to_value(&self) -> Value {
        let mut private = json!({
            "namespace": self.namespace,
            "serviceaccount": self.account.to_value(),
        });
        match &self.bound {
            Bound::Account => {}
            Bound::Pod { pod, node } => {
                private["pod"] = pod.to_value();
                if let Some(node) = node {
                    private["node"] = node.to_value();
                }
            }
            Bound::Secret(secret) => private["secret"] = secret.to_value(),
            Bound::Node(node) => private["node"] = node.to_value(),
        }
        json!({
            "iss": self.issuer,
            "sub": self.subject(),
            "aud": self.audiences,
            "iat": self.issued_at,
            "nbf": self.not_before,
            "exp": self.expires_at,
            "jti": self.id,
            "kubernetes.io": private,
        })
    }

    /// `None` if anything that matters is missing or contradicts the rest.
    pub fn from_value(value: &Value) -> Option<Claims> {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        let private = &value["kubernetes.io"];
        let node = Reference::from_value(&private["node"]);
        let pod = Reference::from_value(&private["pod"]);
        let bound = match (pod, Reference::from_value(&private["secret"]), node) {
            (Some(pod), _, node) => Bound::Pod { pod, node },
            (None, Some(secret), _) => Bound::Secret(secret),
            (None, None, Some(node)) => Bound::Node(node),
            (None, None, None) => Bound::Account,
        };
        let audiences = match &value["aud"] {
            Value::String(one) => vec![one.clone()],
            Value::Array(many) => {
                many.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<_>>()?
            }
            _ => return None,
        };
        let claims = Claims {
            issuer: text("iss")?,
            namespace: private["namespace"].as_str()?.to_owned(),
            account: Reference::from_value(&private["serviceaccount"])?,
            bound,
            audiences,
            issued_at: value["iat"].as_i64()?,
            not_before: value["nbf"].as_i64()?,
            expires_at: value["exp"].as_i64()?,
            id: text("jti")?,
        };
        (text("sub")? == claims.subject()).then_some(claims)
    }

    /// The user name of the account.
    pub fn subject(&self) -> String {
        super::service_account_name(&self.namespace, &self.account.name)
    }

    /// The user that whoever shows the token is.
    pub fn user(&self) -> User {
        let mut user =
            User::service_account(&self.namespace, &self.account.name, &self.account.uid);
        let mut add = |key: &str, value: &str| {
            user.extra.insert(key.to_owned(), vec![value.to_owned()]);
        };
        add(CREDENTIAL_ID, &format!("JTI={}", self.id));
        let (pod, node) = match &self.bound {
            Bound::Pod { pod, node } => (Some(pod), node.as_ref()),
            Bound::Node(node) => (None, Some(node)),
            Bound::Account | Bound::Secret(_) => (None, None),
        };
        if let Some(pod) = pod {
            add(POD_NAME, &pod.name);
            add(POD_UID, &pod.uid);
        }
        if let Some(node) = node {
            add(NODE_NAME, &node.name);
            if !node.uid.is_empty() {
                add(NODE_UID, &node.uid);
            }
        }
        user
    }
}

impl Reference {
    /// Of a stored object.
    pub fn of(object: &Value) -> Reference {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Reference { name: text("name"), uid: text("uid") }
    }

    fn to_value(&self) -> Value {
        let mut value = json!({"name": self.name});
        if !self.uid.is_empty() {
            value["uid"] = json!(self.uid);
        }
        value
    }

    fn from_value(value: &Value) -> Option<Reference> {
        let name = value["name"].as_str()?.to_owned();
        Some(Reference { name, uid: value["uid"].as_str().unwrap_or_default().to_owned() })
    }
}
