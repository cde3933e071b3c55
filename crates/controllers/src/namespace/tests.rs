//! Plans of namespaces.

use std::collections::BTreeMap;

use reconcile::plan::Target;
use serde_json::json;

use super::*;
use crate::discovery::Served;

const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
const ROLE: Kind = Kind::namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles");

fn namespace(is_going: bool) -> Object {
    let mut metadata = json!({"name": "a", "uid": "u"});
    if is_going {
        metadata["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    }
    Object::new(json!({"metadata": metadata, "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Terminating"}}))
}

/// So many objects of a kind, of which the first are not going.
fn content(kind: Kind, count: usize, staying: usize) -> Content {
    let target = |number: usize| Target {
        kind,
        name: Name::new("a", number.to_string()),
        uid: number.to_string(),
        revision: None,
        subresource: "",
    };
    let served =
        Served { kind, can_watch: true, can_delete: true, can_delete_collection: kind != ROLE };
    let staying = (0..staying).map(target).collect();
    Content { served, count, staying, finalizers: BTreeMap::new() }
}

fn text(observed: &Observed, is_going: bool) -> String {
    plan::plan(&namespace(is_going), observed, Timestamp::UNIX_EPOCH).to_string()
}

#[test]
fn a_namespace_that_stays_is_left_alone() {
    let observed = Observed { content: vec![content(POD, 1, 1)], stale: Vec::new() };
    assert_eq!(text(&observed, false), "wake on change\n");
}

#[test]
fn what_is_there_is_deleted_by_kind() {
    let all = vec![content(SECRET, 700, 500), content(ROLE, 2, 1)];
    let observed = Observed { content: all, stale: Vec::new() };
    assert_eq!(
        text(&observed, true),
        "delete every v1 Secret in a\n\
         delete rbac.authorization.k8s.io/v1 Role a/0\n\
         wake after 10ms\n"
    );
}

#[test]
fn an_empty_namespace_is_let_go_unless_a_group_is_silent() {
    assert_eq!(
        text(&Observed::default(), true),
        "replace v1 Namespace a/finalize\nwake on change\n"
    );
    let observed = Observed { content: Vec::new(), stale: vec!["x.io/v1".to_owned()] };
    let text = text(&observed, true);
    assert!(!text.contains("replace"), "{text}");
    assert!(text.contains(
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of \
         server APIs: x.io/v1: stale GroupVersion discovery: x.io/v1"
    ));
}

#[test]
fn what_takes_its_time_is_told() {
    let mut pods = content(POD, 3, 0);
    pods.finalizers.insert("example.com/hold".to_owned(), 2);
    let observed = Observed { content: vec![pods], stale: Vec::new() };
    let plan = plan::plan(&namespace(true), &observed, Timestamp::UNIX_EPOCH);
    let status = plan.status.expect("a status");
    let messages: Vec<_> = status["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            format!("{} {}: {}", text("status"), text("reason"), text("message"))
        })
        .collect();
    assert_eq!(
        messages,
        [
            "False ResourcesDiscovered: All resources successfully discovered",
            "False ParsedGroupVersions: All legacy kube types successfully parsed",
            "False ContentDeleted: All content successfully deleted, may be waiting on \
             finalization",
            "True SomeResourcesRemain: Some resources are remaining: pods. has 3 resource \
             instances",
            "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
             example.com/hold in 2 resource instances",
        ]
    );
}
