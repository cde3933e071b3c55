//! The authorizer against decisions written down, and against one that tries everything.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::decision_cases::{ALLOWED, DENIED, POLICY};
use crate::identity::split_service_account;
use crate::rbac::rules::Rule;
use crate::rbac::*;

/// An authorizer with the built-in objects and the policy.
pub(in crate::rbac) fn authorizer(policy: &str) -> Authorizer {
    let authorizer = Authorizer::new();
    for object in bootstrap::objects().chain(bootstrap::read(policy)) {
        authorizer.apply(object.kind, &object.object);
    }
    authorizer
}

/// `ann+dev`, `account:ns:name` or `anonymous`.
pub(in crate::rbac) fn user(who: &str) -> User {
    if who == "anonymous" {
        return User::anonymous();
    }
    if let Some(account) = who.strip_prefix("account:") {
        let (namespace, name) = account.split_once(':').expect("an account has a namespace");
        return User::service_account(namespace, name, "uid");
    }
    let mut parts = who.split('+');
    User::authenticated(parts.next().unwrap_or_default(), parts)
}

fn decide(authorizer: &Authorizer, case: &str) -> Decision {
    let words: Vec<&str> = case.split(' ').collect();
    let [who, verb, target, ref rest @ ..] = words[..] else { panic!("not a case: {case}") };
    let mut attributes = Attributes { verb, ..Default::default() };
    if target.starts_with('/') {
        attributes.path = Some(target);
    } else {
        let (target, group) = target.split_once('.').unwrap_or((target, ""));
        let (resource, subresource) = target.split_once('/').unwrap_or((target, ""));
        attributes = Attributes { group, resource, subresource, ..attributes };
    }
    for pair in rest.chunks(2) {
        match *pair {
            ["in", namespace] => attributes.namespace = namespace,
            ["named", name] => attributes.name = name,
            _ => panic!("not a case: {case}"),
        }
    }
    authorizer.authorize(&user(who), &attributes)
}

#[test]
fn decisions_are_as_written_down() {
    let authorizer = authorizer(POLICY);
    let mut wrong = Vec::new();
    for (cases, expected) in [(ALLOWED, true), (DENIED, false)] {
        for case in cases.lines() {
            if decide(&authorizer, case).is_allowed() != expected {
                wrong.push(format!("{case}: allowed must be {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ALLOWED.lines().count() + DENIED.lines().count() >= 120);
}

#[test]
fn reasons_name_the_binding_the_role_and_the_subject() {
    let authorizer = authorizer(POLICY);
    let cases = [
        (
            "ann get pods",
            concat!(
                r#"RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "#,
                r#""pod-reader" to User "ann""#,
            ),
        ),
        (
            "x+dev list pods in dev",
            r#"RBAC: allowed by RoleBinding "viewers/dev" of ClusterRole "view" to Group "dev""#,
        ),
        (
            "account:dev:builder create pods in dev",
            concat!(
                r#"RBAC: allowed by RoleBinding "writers/dev" of Role "pod-writer" to "#,
                r#"ServiceAccount "builder/dev""#,
            ),
        ),
        ("root+system:masters get pods", ""),
    ];
    for (case, expected) in cases {
        let allowed = Decision::Allowed { reason: expected.into() };
        assert_eq!(decide(&authorizer, case), allowed, "{case}");
    }
    let reason = r#"RBAC: clusterrole.rbac.authorization.k8s.io "not-there" not found"#;
    let denied = Decision::Denied { reason: reason.to_owned() };
    assert_eq!(decide(&authorizer, "lost get pods"), denied);
    assert_eq!(decide(&authorizer, "nobody get pods"), Decision::Denied { reason: String::new() });
}

#[test]
fn changes_take_effect_and_deletions_take_back() {
    let authorizer = authorizer(POLICY);
    let allowed = |case: &str| decide(&authorizer, case).is_allowed();

    authorizer.remove(Kind::RoleBinding, "dev", "writers");
    assert!(!allowed("bob create pods in dev"));
    assert!(!allowed("account:dev:builder create pods in dev"));
    assert!(allowed("account:dev:builder delete pods in prod named x"));

    let narrower = json!({
        "metadata": {"name": "readers"},
        "roleRef": {"kind": "ClusterRole", "name": "pod-reader"},
        "subjects": [{"kind": "Group", "name": "readers"}],
    });
    authorizer.apply(Kind::ClusterRoleBinding, &narrower);
    assert!(!allowed("ann list pods"));
    assert!(allowed("x+readers list pods"));

    let role = json!({"metadata": {"name": "pod-reader"}, "rules": []});
    authorizer.apply(Kind::ClusterRole, &role);
    assert!(!allowed("x+readers list pods"));

    authorizer.remove(Kind::ClusterRole, "", "monitoring-part");
    assert!(!allowed("x+dev list trainjobs.trainer.kubeflow.org in dev"));
    assert!(allowed("x+dev list pods in dev"));

    authorizer.remove(Kind::Role, "prod", "pod-writer");
    assert!(!allowed("account:dev:builder delete pods in prod named x"));
    authorizer.remove(Kind::Role, "prod", "pod-writer");
    authorizer.remove(Kind::RoleBinding, "", "readers");
    assert!(allowed("root+system:masters get pods"));
}

#[test]
fn a_binding_without_its_namespace_binds_nothing() {
    let authorizer = Authorizer::new();
    let role = json!({
        "metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    authorizer.apply(Kind::ClusterRole, &role);
    let binding = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "a"}],
    });
    authorizer.apply(Kind::RoleBinding, &binding);
    assert!(!decide(&authorizer, "u get pods").is_allowed());
    authorizer.apply(Kind::ClusterRoleBinding, &binding);
    assert!(decide(&authorizer, "u get pods").is_allowed());
    // An account needs a namespace, and a cluster role binding lends it none.
    assert!(!decide(&authorizer, "account:default:a get pods").is_allowed());
}

/// The answer without any index: every binding, every subject, every rule.
fn brute_force(objects: &[(Kind, Value)], user: &User, attributes: &Attributes<'_>) -> bool {
    let of = |kind: Kind| objects.iter().filter(move |(one, _)| *one == kind).map(|(_, o)| o);
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let bound = |binding: &Value, namespace: &str| {
        binding["subjects"].as_array().expect("subjects").iter().any(|subject| {
            let name = text(subject, "/name");
            match text(subject, "/kind").as_str() {
                "User" => *user.name == *name,
                "Group" => user.is_in(&name),
                _ => {
                    let own = text(subject, "/namespace");
                    let namespace = if own.is_empty() { namespace.to_owned() } else { own };
                    split_service_account(&user.name) == Some((&namespace, &name))
                }
            }
        })
    };
    let role_allows = |binding: &Value, namespace: &str| {
        let kind = match text(binding, "/roleRef/kind").as_str() {
            "Role" => Kind::Role,
            _ => Kind::ClusterRole,
        };
        let in_place = |role: &Value| {
            kind == Kind::ClusterRole
                || !namespace.is_empty() && text(role, "/metadata/namespace") == namespace
        };
        of(kind)
            .filter(|role| text(role, "/metadata/name") == text(binding, "/roleRef/name"))
            .filter(|role| in_place(role))
            .flat_map(|role| Rule::list(&role["rules"]))
            .any(|rule| rule.allows(attributes))
    };
    let mut all = of(Kind::ClusterRoleBinding).map(|binding| (binding, String::new())).chain(
        of(Kind::RoleBinding).map(|binding| (binding, text(binding, "/metadata/namespace"))),
    );
    all.any(|(binding, namespace)| {
        (namespace.is_empty() || namespace == attributes.namespace)
            && bound(binding, &namespace)
            && role_allows(binding, &namespace)
    })
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(words)
}

fn some_of(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(words, 0..=2.min(words.len()))
}

const VERBS: &[&str] = &["get", "list", "create", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/log", "nodes", "*"];
const NAMESPACES: &[&str] = &["a", "b"];
const NAMES: &[&str] = &["x", "y"];
const URLS: &[&str] = &["/m", "/m/*", "*"];

fn rule() -> impl Strategy<Value = Value> {
    let lists =
        (some_of(VERBS), some_of(GROUPS), some_of(RESOURCES), some_of(NAMES), some_of(URLS));
    lists.prop_map(|(verbs, groups, resources, names, urls)| {
        json!({
            "verbs": verbs, "apiGroups": groups, "resources": resources,
            "resourceNames": names, "nonResourceURLs": urls
        })
    })
}

fn role() -> impl Strategy<Value = (Kind, Value)> {
    let parts = (any::<bool>(), one_of(NAMESPACES), one_of(NAMES));
    (parts, prop::collection::vec(rule(), 0..3)).prop_map(|((cluster, ns, name), rules)| {
        let metadata = json!({"name": name, "namespace": if cluster { "" } else { ns }});
        let kind = if cluster { Kind::ClusterRole } else { Kind::Role };
        (kind, json!({"metadata": metadata, "rules": rules}))
    })
}

fn subject() -> impl Strategy<Value = Value> {
    let kinds = one_of(&["User", "Group", "ServiceAccount"]);
    (kinds, one_of(NAMES), one_of(&["", "a", "b"]))
        .prop_map(|(kind, name, ns)| json!({"kind": kind, "name": name, "namespace": ns}))
}

fn binding() -> impl Strategy<Value = (Kind, Value)> {
    let place = (any::<bool>(), one_of(NAMESPACES), one_of(&["p", "q", "r"]));
    let role = (one_of(&["Role", "ClusterRole"]), one_of(NAMES));
    (place, role, prop::collection::vec(subject(), 0..3)).prop_map(
        |((cluster, ns, name), (role_kind, role), subjects)| {
            let metadata = json!({"name": name, "namespace": if cluster { "" } else { ns }});
            let kind = if cluster { Kind::ClusterRoleBinding } else { Kind::RoleBinding };
            let reference = json!({"kind": role_kind, "name": role});
            (kind, json!({"metadata": metadata, "roleRef": reference, "subjects": subjects}))
        },
    )
}

fn key((kind, object): &(Kind, Value)) -> (Kind, String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (*kind, text("namespace"), text("name"))
}

proptest! {
    /// Objects come, change and go; then many requests are asked of both.
    #[test]
    fn the_index_agrees_with_trying_everything(
        steps in prop::collection::vec(
            (prop_oneof![role(), binding(), binding()], prop::bool::weighted(0.15)), 1..30),
        who in prop::sample::select(vec![
            "x", "y", "z+x", "z+x+y", "account:a:x", "account:b:y", "x+x"]),
    ) {
        let authorizer = Authorizer::new();
        let mut objects: Vec<(Kind, Value)> = Vec::new();
        for (object, deleted) in steps {
            objects.retain(|other| key(other) != key(&object));
            if deleted {
                let (kind, namespace, name) = key(&object);
                authorizer.remove(kind, &namespace, &name);
            } else {
                authorizer.apply(object.0, &object.1);
                objects.push(object);
            }
        }
        let user = user(who);
        for verb in ["get", "create"] {
            for (resource, subresource) in [("pods", ""), ("pods", "log"), ("nodes", "log")] {
                for namespace in ["", "a", "b"] {
                    for name in ["", "x"] {
                        let attributes = Attributes {
                            verb, resource, subresource, namespace, name, ..Default::default()
                        };
                        let found = authorizer.authorize(&user, &attributes).is_allowed();
                        prop_assert_eq!(found, brute_force(&objects, &user, &attributes));
                    }
                }
            }
            for path in ["/m", "/m/n"] {
                let attributes = Attributes { verb, path: Some(path), ..Default::default() };
                let found = authorizer.authorize(&user, &attributes).is_allowed();
                prop_assert_eq!(found, brute_force(&objects, &user, &attributes));
            }
        }
    }
}

/// A generous bound, so that a busy machine does not matter and a scan of all bindings does.
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn a_decision_does_not_depend_on_the_number_of_bindings() {
    let authorizer = authorizer(POLICY);
    for number in 0..1000 {
        let binding = json!({
            "metadata": {"name": format!("b{number}"), "namespace": format!("n{}", number % 100)},
            "roleRef": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "User", "name": format!("u{}", number % 500)}],
        });
        authorizer.apply(Kind::RoleBinding, &binding);
    }
    let user = User::authenticated("u42", ["a", "b"]);
    let attributes = Attributes {
        verb: "update",
        group: "apps",
        resource: "deployments",
        namespace: "n42",
        name: "d",
        ..Default::default()
    };
    let denied = Attributes { namespace: "n43", ..attributes };
    let rounds = 20_000;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        assert!(authorizer.authorize(&user, &attributes).is_allowed());
    }
    let allowed = start.elapsed() / rounds;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        assert!(!authorizer.authorize(&user, &denied).is_allowed());
    }
    println!("allowed in {allowed:?}, denied in {:?}", start.elapsed() / rounds);
    assert!(allowed < Duration::from_micros(50), "{allowed:?}");
}
