//! TokenRequest and TokenReview, as functions.
//!
//! A token lives as long as was asked for. Upstream turns the tokens of pods into tokens of a year,
//! for clients of long ago that read theirs once; ours do not get that.
//!
//! Upstream: pkg/registry/core/serviceaccount/storage/token.go,
//! pkg/registry/authentication/tokenreview/storage.go

use serde_json::{Value, json};

use super::claims::{Bound, Claims, Reference};
use super::static_tokens::StaticTokens;
use super::tokens::{Live, Tokens, Verified, new_id};
use crate::calendar::{SECONDS_PER_DAY, rfc3339};
use crate::field_error::FieldError;
use crate::status::{About, Error};

const LIFETIME_SECONDS_DEFAULT: i64 = 3600;
const LIFETIME_SECONDS_MIN: i64 = 600;
/// Beyond this a request is refused.
const LIFETIME_SECONDS_ASKED_MAX: i64 = 1 << 32;
/// Beyond this a token is shortened, and the client is warned.
pub const LIFETIME_SECONDS_MAX: i64 = 365 * SECONDS_PER_DAY;

const GROUP: &str = "authentication.k8s.io";

/// What a token can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    Pod,
    Secret,
    Node,
}

/// Finds an object by name; pods and secrets are in the namespace of the account.
pub type Find<'a> = dyn Fn(BoundKind, &str) -> Option<Value> + 'a;

/// A request for a token of a service account.
pub struct Request<'a> {
    pub body: &'a Value,
    /// The stored ServiceAccount.
    pub account: &'a Value,
    pub find: &'a Find<'a>,
    pub now: i64,
}

/// The answer: the request with its status, and what to warn of.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Answers a TokenRequest.
pub fn token_request(tokens: &Tokens, request: &Request<'_>) -> Result<Granted, Error> {
    let spec = &request.body["spec"];
    let asked = match &spec["expirationSeconds"] {
        Value::Null => LIFETIME_SECONDS_DEFAULT,
        number => number.as_i64().unwrap_or_default(),
    };
    let mut problems = lifetime_problems(asked);
    problems.extend(name_problems(request));
    if !problems.is_empty() {
        return Err(Error::invalid("TokenRequest", GROUP, "", &problems));
    }
    let mut warnings = Vec::new();
    let seconds = asked.min(LIFETIME_SECONDS_MAX);
    if seconds < asked {
        warnings.push(format!(
            "requested expiration of {asked} seconds shortened to {seconds} seconds"
        ));
    }
    let mut audiences: Vec<String> = texts(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(tokens.issuer.clone());
    }
    let metadata = &request.account["metadata"];
    let claims = Claims {
        issuer: tokens.issuer.clone(),
        namespace: metadata["namespace"].as_str().unwrap_or_default().to_owned(),
        account: Reference::of(request.account),
        bound: bound(request)?,
        audiences,
        issued_at: request.now,
        not_before: request.now,
        expires_at: request.now + seconds,
        id: new_id().map_err(Error::internal)?,
    };
    let token = tokens.issue(&claims).map_err(Error::internal)?;
    Ok(Granted { object: granted(request, &claims, &token), warnings })
}

fn granted(request: &Request<'_>, claims: &Claims, token: &str) -> Value {
    let mut spec = json!({
        "audiences": claims.audiences,
        "expirationSeconds": claims.expires_at - claims.issued_at,
    });
    let bound = &request.body["spec"]["boundObjectRef"];
    if !bound.is_null() {
        spec["boundObjectRef"] = bound.clone();
    }
    json!({
        "kind": "TokenRequest",
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": {
            "name": claims.account.name,
            "namespace": claims.namespace,
            "creationTimestamp": rfc3339(request.now),
        },
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": rfc3339(claims.expires_at)},
    })
}

fn lifetime_problems(seconds: i64) -> Vec<FieldError> {
    let path = "spec.expirationSeconds";
    if seconds < LIFETIME_SECONDS_MIN {
        let why = "may not specify a duration less than 10 minutes";
        return vec![FieldError::invalid(path, seconds, why)];
    }
    if seconds > LIFETIME_SECONDS_ASKED_MAX {
        let why = "may not specify a duration larger than 2^32 seconds";
        return vec![FieldError::invalid(path, seconds, why)];
    }
    Vec::new()
}

/// A request may repeat the name and namespace of its path.
fn name_problems(request: &Request<'_>) -> Vec<FieldError> {
    let given = |field: &str| request.body["metadata"][field].as_str().unwrap_or_default();
    ["name", "namespace"]
        .into_iter()
        .filter(|field| !given(field).is_empty())
        .filter(|field| request.account["metadata"][field] != given(field))
        .map(|field| {
            let why = format!("must match the service account {field} if specified");
            FieldError::invalid(format!("metadata.{field}"), given(field), why)
        })
        .collect()
}

fn bound(request: &Request<'_>) -> Result<Bound, Error> {
    let reference = &request.body["spec"]["boundObjectRef"];
    if reference.is_null() {
        return Ok(Bound::Account);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (kind, resource) = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => (BoundKind::Pod, "pods"),
        ("v1", "Secret") => (BoundKind::Secret, "secrets"),
        ("v1", "Node") => (BoundKind::Node, "nodes"),
        (version, kind) => {
            let version =
                if version.contains('/') { version.to_owned() } else { format!("/{version}") };
            let why = format!("cannot bind token to object of type {version}, Kind={kind}");
            return Err(Error::bad_request(why));
        }
    };
    let name = text("name");
    let object = (request.find)(kind, name)
        .ok_or_else(|| Error::not_found(About { group: "", resource }, name))?;
    let found = Reference::of(&object);
    let wanted = text("uid");
    if !wanted.is_empty() && wanted != found.uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        let about = About { group: "", resource: text("kind") };
        return Err(Error::conflict(about, name, &why));
    }
    match kind {
        BoundKind::Pod => bound_to_pod(request, &object, found),
        BoundKind::Secret => Ok(Bound::Secret(found)),
        BoundKind::Node => Ok(Bound::Node(found)),
    }
}

fn bound_to_pod(request: &Request<'_>, object: &Value, pod: Reference) -> Result<Bound, Error> {
    let account = Reference::of(request.account).name;
    if object["spec"]["serviceAccountName"] != account.as_str() {
        let why = format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different \
             serviceaccount name."
        );
        return Err(Error::bad_request(why));
    }
    let node = object["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()).map(|name| {
        let uid = (request.find)(BoundKind::Node, name).map(|node| Reference::of(&node).uid);
        Reference { name: name.to_owned(), uid: uid.unwrap_or_default() }
    });
    Ok(Bound::Pod { pod, node })
}

/// Everything that makes a user of a bearer token.
#[derive(Clone, Copy)]
pub struct Bearer<'a> {
    pub known: &'a StaticTokens,
    pub tokens: &'a Tokens,
    pub live: &'a dyn Live,
    pub now: i64,
}

impl Bearer<'_> {
    /// The user of a token that is for one of the audiences; those of this server if none are
    /// given. Whoever gets an error is nobody, not anonymous.
    pub fn authenticate(&self, token: &str, audiences: &[String]) -> Result<Verified, String> {
        let own = [self.tokens.issuer.clone()];
        let audiences = if audiences.is_empty() { &own[..] } else { audiences };
        // A token that is known beforehand is for this server alone.
        let for_us: Vec<String> =
            audiences.iter().filter(|one| own.contains(one)).cloned().collect();
        if let (Some(user), false) = (self.known.find(token), for_us.is_empty()) {
            return Ok(Verified { user: user.clone(), audiences: for_us });
        }
        self.tokens
            .verify(token, audiences, self.now, self.live)
            .map_err(|refusal| format!("[invalid bearer token, {refusal}]"))
    }
}

/// Answers a TokenReview.
pub fn token_review(bearer: &Bearer<'_>, body: &Value) -> Result<Value, Error> {
    if let Some(namespace) = body["metadata"]["namespace"].as_str().filter(|one| !one.is_empty()) {
        let why = format!("namespace is not allowed on this type: {namespace}");
        return Err(Error::bad_request(why));
    }
    let token = body["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Error::bad_request("token is required for TokenReview in authentication"));
    }
    let asked = texts(&body["spec"]["audiences"]);
    let status = match bearer.authenticate(token, &asked) {
        Ok(verified) => json!({
            "authenticated": true,
            "user": verified.user.to_info(),
            "audiences": verified.audiences,
        }),
        Err(why) => json!({"user": {}, "error": why}),
    };
    Ok(json!({
        "kind": "TokenReview",
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": {},
        "spec": body["spec"],
        "status": status,
    }))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
