//! The review kinds: questions to the authorizer, asked through the API.
//!
//! Upstream: pkg/registry/authorization, pkg/apis/authorization/validation,
//! pkg/registry/authentication/selfsubjectreview

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::rules::Rule;
use super::{Attributes, Authorizer, Decision};
use crate::field_error::FieldError;
use crate::identity::User;
use crate::status::Error;

const GROUP: &str = "authorization.k8s.io";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review<'a> {
    /// May somebody do this?
    SubjectAccess,
    /// May somebody do this in the namespace of the request's path?
    LocalSubjectAccess { namespace: &'a str },
    /// May I?
    SelfSubjectAccess,
    /// What may I do in a namespace?
    SelfSubjectRules,
    /// Who am I?
    SelfSubject,
}

impl Review<'_> {
    pub fn kind(self) -> &'static str {
        match self {
            Review::SubjectAccess => "SubjectAccessReview",
            Review::LocalSubjectAccess { .. } => "LocalSubjectAccessReview",
            Review::SelfSubjectAccess => "SelfSubjectAccessReview",
            Review::SelfSubjectRules => "SelfSubjectRulesReview",
            Review::SelfSubject => "SelfSubjectReview",
        }
    }
}

/// Answers with the object that was sent, and its status.
pub fn review(
    kind: Review<'_>,
    body: &Value,
    requester: &User,
    authorizer: &Authorizer,
) -> Result<Value, Error> {
    let problems = problems(kind, body);
    if !problems.is_empty() {
        return Err(Error::invalid(kind.kind(), GROUP, "", &problems));
    }
    let spec = &body["spec"];
    let status = match kind {
        Review::SubjectAccess => access(&subject(spec), spec, authorizer),
        Review::LocalSubjectAccess { namespace } => {
            check_namespace(body, namespace)?;
            access(&subject(spec), spec, authorizer)
        }
        Review::SelfSubjectAccess => access(requester, spec, authorizer),
        Review::SelfSubjectRules => match text(spec, "namespace") {
            "" => return Err(Error::bad_request("no namespace on request")),
            namespace => rules(requester, namespace, authorizer),
        },
        Review::SelfSubject => json!({"userInfo": requester.to_info()}),
    };
    let version = match kind {
        Review::SelfSubject => "authentication.k8s.io/v1",
        _ => "authorization.k8s.io/v1",
    };
    let mut answer = Map::new();
    answer.insert("kind".to_owned(), json!(kind.kind()));
    answer.insert("apiVersion".to_owned(), json!(version));
    let metadata = if body["metadata"].is_object() { body["metadata"].clone() } else { json!({}) };
    answer.insert("metadata".to_owned(), metadata);
    if !spec.is_null() {
        answer.insert("spec".to_owned(), spec.clone());
    }
    answer.insert("status".to_owned(), status);
    Ok(Value::Object(answer))
}

fn access(user: &User, spec: &Value, authorizer: &Authorizer) -> Value {
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    let attributes = match path.is_null() {
        true => Attributes {
            verb: text(resource, "verb"),
            group: text(resource, "group"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
            path: None,
        },
        false => Attributes {
            verb: text(path, "verb"),
            path: Some(text(path, "path")),
            ..Attributes::default()
        },
    };
    let (allowed, reason) = match authorizer.authorize(user, &attributes) {
        Decision::Allowed { reason } => (true, reason.to_string()),
        Decision::Denied { reason } => (false, reason),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    status
}

fn rules(user: &User, namespace: &str, authorizer: &Authorizer) -> Value {
    let held = authorizer.rules_for(user, namespace);
    let pick = |fields: &[&str], rule: &Rule| {
        let all = rule.to_value();
        let kept =
            fields.iter().filter_map(|field| Some(((*field).to_owned(), all.get(field)?.clone())));
        Value::Object(kept.collect())
    };
    let of_resources = ["verbs", "apiGroups", "resources", "resourceNames"];
    let resource_rules: Vec<Value> = held
        .rules
        .iter()
        .filter(|rule| !rule.resources.is_empty())
        .map(|rule| pick(&of_resources, rule))
        .collect();
    let other_rules: Vec<Value> = held
        .rules
        .iter()
        .filter(|rule| !rule.urls.is_empty())
        .map(|rule| pick(&["verbs", "nonResourceURLs"], rule))
        .collect();
    let mut status = json!({
        "resourceRules": resource_rules,
        "nonResourceRules": other_rules,
        "incomplete": !held.errors.is_empty(),
    });
    if !held.errors.is_empty() {
        status["evaluationError"] = json!(held.errors.join(", "));
    }
    status
}

/// The subject, word for word: a group that is not named is not added.
fn subject(spec: &Value) -> User {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, "user").into(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(&spec["groups"]).into_iter().map(Into::into).collect(),
        extra: extra.map(|(key, list)| (key.clone(), texts(list))).collect::<BTreeMap<_, _>>(),
    }
}

fn problems(kind: Review<'_>, body: &Value) -> Vec<FieldError> {
    let spec = &body["spec"];
    let mut problems = Vec::new();
    if matches!(kind, Review::SelfSubjectRules | Review::SelfSubject) {
        return problems;
    }
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if !resource.is_null() && !path.is_null() {
        let why = "cannot be specified in combination with resourceAttributes";
        problems.push(FieldError::invalid("spec.nonResourceAttributes", path.clone(), why));
    }
    if resource.is_null() && path.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        problems.push(FieldError::invalid("spec.resourceAttributes", Value::Null, why));
    }
    let names_nobody =
        text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if kind != Review::SelfSubjectAccess && names_nobody {
        let why = "at least one of user or group must be specified";
        problems.push(FieldError::invalid("spec.user", "", why));
    }
    let Review::LocalSubjectAccess { .. } = kind else { return problems };
    if !resource.is_null() && text(resource, "namespace") != text(&body["metadata"], "namespace") {
        let why = "must match metadata.namespace";
        let namespace = text(resource, "namespace");
        problems.push(FieldError::invalid("spec.resourceAttributes.namespace", namespace, why));
    }
    if !path.is_null() {
        let why = "disallowed on this kind of request";
        problems.push(FieldError::invalid("spec.nonResourceAttributes", path.clone(), why));
    }
    problems
}

fn check_namespace(body: &Value, namespace: &str) -> Result<(), Error> {
    if namespace.is_empty() {
        return Err(Error::bad_request("namespace is required on this type: "));
    }
    if text(&body["metadata"], "namespace") != namespace {
        let why = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(Error::bad_request(why));
    }
    Ok(())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::decisions::{authorizer, user};
    use super::*;

    const POLICY: &str = "\
clusterrole pods
  allow get,list on pods in core
clusterrolebinding pods
  to ClusterRole pods
  user ann
  group readers
rolebinding dev edit
  to ClusterRole view
  user ann
rolebinding dev broken
  to Role gone
  user lost
";

    fn ask(kind: Review<'_>, who: &str, body: Value) -> Result<Value, Error> {
        review(kind, &body, &user(who), &authorizer(POLICY)).map(|answer| answer["status"].clone())
    }

    #[test]
    fn access_reviews_answer_for_whom_they_are_asked() {
        let pods =
            |verb: &str, ns: &str| json!({"verb": verb, "resource": "pods", "namespace": ns});
        let local = Review::LocalSubjectAccess { namespace: "dev" };
        let api = json!({"verb": "get", "path": "/api"});
        let watch = json!({"user": "ann", "resourceAttributes": pods("watch", "dev")});
        let cases = [
            (
                Review::SubjectAccess,
                json!({"spec": {"user": "ann", "resourceAttributes": pods("get", "x")}}),
                true,
            ),
            (
                Review::SubjectAccess,
                json!({"spec": {"user": "ann", "resourceAttributes": pods("delete", "x")}}),
                false,
            ),
            (
                Review::SubjectAccess,
                json!({"spec": {"groups": ["readers"], "resourceAttributes": pods("get", "")}}),
                true,
            ),
            // Groups are taken as given: nobody here said that bob is authenticated.
            (
                Review::SubjectAccess,
                json!({"spec": {"user": "bob", "nonResourceAttributes": api}}),
                false,
            ),
            (
                Review::SubjectAccess,
                json!({"spec": {
                    "user": "bob", "groups": ["system:authenticated"], "nonResourceAttributes": api
                }}),
                true,
            ),
            (
                Review::SelfSubjectAccess,
                json!({"spec": {"resourceAttributes": pods("get", "x")}}),
                true,
            ),
            (
                Review::SelfSubjectAccess,
                json!({"spec": {"resourceAttributes": pods("*", "x")}}),
                false,
            ),
            (
                Review::SelfSubjectAccess,
                json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}),
                false,
            ),
            (Review::SelfSubjectAccess, json!({"spec": {"nonResourceAttributes": {}}}), false),
            (local, json!({"metadata": {"namespace": "dev"}, "spec": watch}), true),
        ];
        for (kind, body, allowed) in cases {
            let status = ask(kind, "ann", body.clone()).unwrap();
            assert_eq!(status["allowed"], allowed, "{body}");
            assert_eq!(status["reason"].is_string(), allowed, "{body}");
        }
    }

    #[test]
    fn reviews_that_ask_nothing_are_refused() {
        let local = Review::LocalSubjectAccess { namespace: "dev" };
        let pods = json!({"verb": "get", "resource": "pods"});
        let cases = [
            (
                Review::SubjectAccess,
                json!({"spec": {"resourceAttributes": pods}}),
                concat!(
                    r#"SubjectAccessReview.authorization.k8s.io "" is invalid: spec.user: "#,
                    r#"Invalid value: "": at least one of user or group must be specified"#,
                ),
            ),
            (
                Review::SelfSubjectAccess,
                json!({"spec": {}}),
                concat!(
                    r#"SelfSubjectAccessReview.authorization.k8s.io "" is invalid: "#,
                    r#"spec.resourceAttributes: Invalid value: null: exactly one of "#,
                    r#"nonResourceAttributes or resourceAttributes must be specified"#,
                ),
            ),
            (
                Review::SelfSubjectAccess,
                json!({"spec": {
                    "resourceAttributes": pods, "nonResourceAttributes": {"path": "/"}
                }}),
                concat!(
                    r#"SelfSubjectAccessReview.authorization.k8s.io "" is invalid: "#,
                    r#"spec.nonResourceAttributes: Invalid value: {"path":"/"}: cannot be "#,
                    r#"specified in combination with resourceAttributes"#,
                ),
            ),
            (
                local,
                json!({
                    "metadata": {"namespace": "dev"},
                    "spec": {"user": "u", "resourceAttributes": pods}
                }),
                concat!(
                    r#"LocalSubjectAccessReview.authorization.k8s.io "" is invalid: "#,
                    r#"spec.resourceAttributes.namespace: Invalid value: "": must match "#,
                    r#"metadata.namespace"#,
                ),
            ),
            (Review::SelfSubjectRules, json!({"spec": {}}), "no namespace on request"),
        ];
        for (kind, body, message) in cases {
            assert_eq!(ask(kind, "ann", body).unwrap_err().message, message);
        }
        let elsewhere = json!({"metadata": {"namespace": "prod"}, "spec": {"user": "u",
            "resourceAttributes": {"verb": "get", "namespace": "prod"}}});
        assert_eq!(ask(local, "ann", elsewhere).unwrap_err().code, 400);
    }

    #[test]
    fn a_rules_review_lists_what_the_user_holds() {
        let body = json!({"spec": {"namespace": "dev"}});
        let status = ask(Review::SelfSubjectRules, "ann", body.clone()).unwrap();
        let rules = status["resourceRules"].as_array().unwrap();
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
        assert!(rules.contains(&pods));
        assert!(rules.len() > 10, "those of view are among them");
        assert_eq!(status["incomplete"], false);
        let paths = status["nonResourceRules"].as_array().unwrap();
        assert!(paths.iter().all(|rule| rule["nonResourceURLs"].is_array()));
        let status = ask(Review::SelfSubjectRules, "lost", body.clone()).unwrap();
        assert_eq!(status["incomplete"], true);
        let why = r#"role.rbac.authorization.k8s.io "gone" not found"#;
        assert_eq!(status["evaluationError"], why);
        let status = ask(Review::SelfSubjectRules, "root+system:masters", body).unwrap();
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        assert!(status["resourceRules"].as_array().unwrap().contains(&all));
    }

    #[test]
    fn everybody_can_ask_who_they_are() {
        let answer = review(Review::SelfSubject, &json!({}), &user("ann+dev"), &Authorizer::new());
        let expected = json!({
            "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
            "status": {"userInfo": {"username": "ann", "groups": ["dev", "system:authenticated"]}}
        });
        assert_eq!(answer.unwrap(), expected);
    }
}
