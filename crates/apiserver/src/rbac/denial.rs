//! What somebody is told who may not.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/responsewriters/errors.go

use crate::identity::User;
use crate::status::{About, Error};

use super::Attributes;

/// The 403 for a request; the reason is that of the denial.
pub fn denial(user: &User, attributes: &Attributes<'_>, reason: &str) -> Error {
    let mut why = why(user, attributes);
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    let about = About { group: attributes.group, resource: attributes.resource };
    let mut error = Error::forbidden(about, attributes.name, &why);
    if attributes.resource.is_empty() {
        error.message = format!("forbidden: {why}");
    }
    error
}

fn why(user: &User, attributes: &Attributes<'_>) -> String {
    let who = &*user.name;
    let verb = attributes.verb;
    if let Some(path) = attributes.path {
        return format!("User {who:?} cannot {verb} path {path:?}");
    }
    let resource = match attributes.subresource {
        "" => attributes.resource.to_owned(),
        subresource => format!("{}/{subresource}", attributes.resource),
    };
    let place = match attributes.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let group = attributes.group;
    format!("User {who:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_read_as_clients_know_them() {
        let user = User::authenticated("u", ["g"]);
        let list = Attributes { verb: "list", resource: "pods", ..Default::default() };
        let cases = [
            (
                Attributes { namespace: "ns", ..list },
                "",
                concat!(
                    r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" "#,
                    r#"in the namespace "ns""#,
                ),
            ),
            (
                Attributes {
                    verb: "get",
                    group: "apps",
                    resource: "deployments",
                    name: "d",
                    ..list
                },
                "",
                concat!(
                    r#"deployments.apps "d" is forbidden: User "u" cannot get resource "#,
                    r#""deployments" in API group "apps" at the cluster scope"#,
                ),
            ),
            (
                Attributes { verb: "get", subresource: "log", name: "p", namespace: "ns", ..list },
                "RBAC: x",
                concat!(
                    r#"pods "p" is forbidden: User "u" cannot get resource "pods/log" in API "#,
                    r#"group "" in the namespace "ns": RBAC: x"#,
                ),
            ),
            (
                Attributes { verb: "get", path: Some("/metrics"), ..Default::default() },
                "",
                r#"forbidden: User "u" cannot get path "/metrics""#,
            ),
        ];
        for (attributes, reason, message) in cases {
            let error = denial(&user, &attributes, reason);
            assert_eq!((error.code, &*error.reason), (403, "Forbidden"));
            assert_eq!(error.message, message);
        }
    }
}
