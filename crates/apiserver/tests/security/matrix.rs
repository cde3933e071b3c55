//! The authorization matrix: every route of discovery, for every principal, against a table.
//!
//! `matrix.txt` lists who may do what. Everything else must be denied, and a resource that the
//! table does not name fails the test, so that a new route is decided upon when it appears. A star
//! after a principal means all namespaces; without it the right ends at the namespace `space`.
//! With `SETPOINT_MATRIX=print` the test prints the table that holds, to be read before it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use apiserver::identity::{GROUP_NODES, User};
use apiserver::rbac::{Attributes, node};
use serde_json::{Value, json};

use super::{account_token, ask, ask_as, done};
use crate::authorization::{Route, routes};
use crate::bad_input::wire::{self, Identity};
use crate::world::World;

const TABLE: &str = include_str!("matrix.txt");
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Roles of the operators, as the Helm chart grants them.
const OPERATORS: [(&str, &str); 5] = [
    ("trainer", "kubeflow-trainer-controller-manager"),
    ("jobset", "jobset-manager-role"),
    ("lws", "lws-manager-role"),
    ("dynamo", "dynamo-operator-controller-manager"),
    ("wukong", "novasphere-manager-role"),
];
const CONTROLLERS: [&str; 3] =
    ["deployment-controller", "namespace-controller", "generic-garbage-collector"];

/// Principal, and the verbs that it may use: `*` behind the name means everywhere.
type Allowed = BTreeMap<String, BTreeSet<String>>;

fn principals() -> Vec<(&'static str, User)> {
    let node = |name: &str| User::authenticated(&format!("system:node:{name}"), [GROUP_NODES]);
    let mut all = vec![
        ("anonymous", User::anonymous()),
        ("authenticated", User::authenticated("jane", [""; 0])),
        ("view", User::authenticated("viewer", [""; 0])),
        ("edit", User::authenticated("editor", [""; 0])),
        ("admin", User::authenticated("owner", [""; 0])),
        ("bound-account", User::service_account("space", "bound", "u")),
        ("unbound-account", User::service_account("space", "unbound", "u")),
        ("node-with-pod", node("n1")),
        ("other-node", node("n2")),
        ("scheduler", User::authenticated("system:kube-scheduler", [""; 0])),
        ("controller-manager", User::authenticated("system:kube-controller-manager", [""; 0])),
    ];
    for (name, _) in OPERATORS {
        all.push((name, User::service_account("operators", name, "u")));
    }
    for name in CONTROLLERS {
        all.push((name, User::service_account("kube-system", name, "u")));
    }
    all
}

fn role_binding(name: &str, role: &str, subject: Value) -> Value {
    json!({"metadata": {"name": name}, "subjects": [subject], "roleRef":
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
}

/// A server with namespaces, bindings, the roles of the operators, and a pod on the first node.
async fn world() -> World {
    let world = World::real().await;
    for name in ["space", "other", "operators"] {
        done(&world, "POST /api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }
    let bindings = format!("POST {RBAC}/namespaces/space/rolebindings");
    let user = |name: &str| json!({"kind": "User", "name": name});
    for (role, name) in [("view", "viewer"), ("edit", "editor"), ("admin", "owner")] {
        done(&world, &bindings, role_binding(name, role, user(name))).await;
    }
    let account = |namespace: &str, name: &str| {
        let kind = "ServiceAccount";
        json!({"kind": kind, "namespace": namespace, "name": name})
    };
    done(&world, &bindings, role_binding("bound", "view", account("space", "bound"))).await;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../charts/setpoint-operators/templates/operators.yaml");
    let chart = std::fs::read_to_string(chart).unwrap();
    for document in chart.split("\n---\n").filter(|it| it.contains("\nkind: ClusterRole\n")) {
        let role: Value = serde_saphyr::from_str(document).unwrap();
        done(&world, &format!("POST {RBAC}/clusterroles"), role).await;
    }
    for (name, role) in OPERATORS {
        let binding = role_binding(&format!("operator-{name}"), role, account("operators", name));
        done(&world, &format!("POST {RBAC}/clusterrolebindings"), binding).await;
    }
    account_token(&world, "space", "default").await;
    let pod = json!({"metadata": {"name": "probe"}, "spec": {"nodeName": "n1",
        "serviceAccountName": "default", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "s", "secret": {"secretName": "probe"}}]}});
    done(&world, "POST /api/v1/namespaces/space/pods", pod).await;
    world.follow_roles().await;
    world
}

async fn may(world: &World, user: &User, route: &Route, namespace: &str) -> bool {
    let attributes = Attributes {
        verb: &route.verb,
        group: &route.group,
        resource: &route.resource,
        subresource: &route.subresource,
        namespace,
        name: &route.name,
        path: None,
    };
    world.server.decide(user, &attributes).is_ok()
        || node::allows(&world.server, user, &attributes).await
}

/// Decides every cell.
async fn decided(world: &World, routes: &[Route]) -> BTreeMap<String, Allowed> {
    let mut table: BTreeMap<String, Allowed> = BTreeMap::new();
    let principals = principals();
    for route in routes {
        let allowed = table.entry(route.full_name()).or_default();
        let is_namespaced = route.namespace == "space";
        // Lists over all namespaces are counted as the star of the list in one.
        if !is_namespaced && route.is_over_namespaces {
            continue;
        }
        for (principal, user) in &principals {
            let here = may(world, user, route, &route.namespace).await;
            let elsewhere = match is_namespaced {
                true => may(world, user, route, "other").await,
                false => here,
            };
            let name = match (here, elsewhere) {
                (true, true) if is_namespaced => format!("{principal}*"),
                (true, _) => (*principal).to_owned(),
                (false, true) => format!("{principal}-elsewhere"),
                (false, false) => continue,
            };
            allowed.entry(name).or_default().insert(route.verb.clone());
        }
    }
    table
}

/// Writes a table: principals with the same verbs share a line.
fn print(table: &BTreeMap<String, Allowed>) -> String {
    let mut text = String::new();
    for (resource, allowed) in table {
        text += &format!("{resource}\n");
        let mut by_verbs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (principal, verbs) in allowed {
            let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
            by_verbs.entry(verbs.join(",")).or_default().push(principal);
        }
        for (verbs, principals) in by_verbs {
            text += &format!("  {verbs}: {}\n", principals.join(" "));
        }
    }
    text
}

fn parse(text: &str) -> BTreeMap<String, Allowed> {
    let mut table: BTreeMap<String, Allowed> = BTreeMap::new();
    let mut resource = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(rights) = line.strip_prefix("  ") else {
            line.clone_into(&mut resource);
            table.entry(resource.clone()).or_default();
            continue;
        };
        let (verbs, principals) = rights.split_once(": ").unwrap();
        for principal in principals.split(' ') {
            let allowed = table.get_mut(&resource).unwrap();
            let verbs = verbs.split(',').map(str::to_owned);
            allowed.entry(principal.to_owned()).or_default().extend(verbs);
        }
    }
    table
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_principal_may_do_what_the_table_says_and_nothing_else() {
    let world = world().await;
    let routes = routes(&world).await;
    let found = decided(&world, &routes).await;
    if std::env::var_os("SETPOINT_MATRIX").is_some() {
        println!("{}", print(&found));
    }
    let expected = parse(TABLE);
    let mut wrong = String::new();
    for (resource, allowed) in &found {
        let Some(expected) = expected.get(resource) else {
            wrong += &format!("{resource} is not in the table\n");
            continue;
        };
        let all: BTreeSet<&String> = allowed.keys().chain(expected.keys()).collect();
        for principal in all {
            let (found, wanted) = (allowed.get(principal), expected.get(principal));
            if found != wanted {
                wrong +=
                    &format!("{resource}: {principal} may {found:?}, the table says {wanted:?}\n");
            }
        }
    }
    for resource in expected.keys().filter(|resource| !found.contains_key(*resource)) {
        wrong += &format!("{resource} is in the table and not served\n");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(principals().len() >= 16);
    // Administrators: by role and by group.
    let subject = json!({"kind": "User", "name": "boss"});
    let binding = role_binding("boss", "cluster-admin", subject);
    done(&world, &format!("POST {RBAC}/clusterrolebindings"), binding).await;
    world.follow_roles().await;
    let administrators =
        [User::authenticated("boss", [""; 0]), User::authenticated("root", ["system:masters"])];
    for route in &routes {
        for user in &administrators {
            assert!(may(&world, user, route, &route.namespace).await, "{}", route.path);
        }
    }
}

/// Rights that lead from a namespace to the host, to other tenants or to the whole cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_hold_no_right_that_leads_out_of_their_namespace() {
    let world = world().await;
    let writes = ["create", "update", "patch", "delete"];
    let dangerous = [
        ("", "nodes", ""),
        ("", "nodes", "proxy"),
        ("", "nodes", "status"),
        ("", "namespaces", ""),
        ("", "pods", "status"),
        ("", "pods", "binding"),
        ("", "pods", "ephemeralcontainers"),
        ("", "services", "status"),
        ("", "endpoints", ""),
        ("discovery.k8s.io", "endpointslices", ""),
        ("", "persistentvolumes", ""),
        ("", "resourcequotas", ""),
        ("", "limitranges", ""),
        ("rbac.authorization.k8s.io", "clusterroles", ""),
        ("rbac.authorization.k8s.io", "clusterrolebindings", ""),
        ("certificates.k8s.io", "certificatesigningrequests", ""),
        ("certificates.k8s.io", "certificatesigningrequests", "approval"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", ""),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""),
        ("apiextensions.k8s.io", "customresourcedefinitions", ""),
        ("nmstate.io", "nodenetworkconfigurationpolicies", ""),
    ];
    let tenants = ["anonymous", "authenticated", "view", "edit", "admin", "bound-account"];
    let principals = principals();
    let tenants = principals.iter().filter(|(name, _)| tenants.contains(name));
    for (principal, user) in tenants {
        for (group, resource, subresource) in dangerous {
            for verb in writes {
                for namespace in ["space", "other", ""] {
                    let attributes = Attributes {
                        verb,
                        group,
                        resource,
                        subresource,
                        namespace,
                        name: "probe",
                        path: None,
                    };
                    let decided = world.server.decide(user, &attributes);
                    assert!(decided.is_err(), "{principal} {verb} {resource}/{subresource}");
                }
            }
        }
        for (verb, resource) in [("impersonate", "users"), ("impersonate", "groups")] {
            let attributes = Attributes { verb, resource, name: "x", ..Default::default() };
            assert!(world.server.decide(user, &attributes).is_err(), "{principal} {resource}");
        }
    }
    for principal in ["view", "bound-account", "unbound-account"] {
        let (_, user) = principals.iter().find(|(name, _)| *name == principal).unwrap();
        let attributes = Attributes {
            verb: "get",
            resource: "secrets",
            namespace: "space",
            name: "probe",
            ..Default::default()
        };
        assert!(world.server.decide(user, &attributes).is_err(), "{principal} reads secrets");
    }
}

/// The same decisions through the whole server, for one route of every resource.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_decided_as_the_table_says() {
    let world = world().await;
    let routes = routes(&world).await;
    let lists: Vec<&Route> =
        routes.iter().filter(|it| it.verb == "list" && !it.is_over_namespaces).collect();
    assert!(lists.len() > 40, "{}", lists.len());
    for (principal, user) in principals() {
        for route in &lists {
            let is_allowed = may(&world, &user, route, &route.namespace).await;
            let line = format!("GET {}?limit=1", route.path);
            let answer = ask_as(&world, &user, &line, Value::Null).await;
            let expected = if is_allowed { 200 } else { 403 };
            assert_eq!(answer.status, expected, "{principal}: {line}: {}", answer.text());
        }
    }
    // History and console are not in discovery's verbs: anonymous clients see nothing of them.
    for path in ["timeline", "changes", "at/1/api/v1/pods", "why/api/v1/nodes/n"] {
        let line = format!("GET /apis/history.setpoint.dev/v1/{path}");
        assert_eq!(ask_as(&world, &User::anonymous(), &line, Value::Null).await.status, 403);
    }
    let code = ask_as(&world, &User::anonymous(), "POST /console/code", Value::Null).await;
    assert!([401, 403, 404].contains(&code.status), "{}", code.text());
    // A certificate of another authority is nobody.
    let files = apiserver::identity::key_files::Directory { path: world.directory.join("another") };
    let now = world.server.now();
    let another =
        apiserver::identity::certificates::Authority::load_or_create(&files, now).unwrap();
    let user = User::authenticated("admin", ["system:masters"]);
    let request =
        apiserver::identity::certificates::ClientRequest { user: &user, lifetime_seconds: 3_600 };
    let issued = another.issue_client(request, now).unwrap();
    let (certificate, key) = (issued.certificate_pem(), issued.key_pem());
    let identity = Identity::of(&world, Some((&certificate, &key)));
    let text = "GET /api/v1/nodes HTTP/1.1\r\nhost: localhost\r\n\r\n";
    match wire::send(&world, &identity, text.as_bytes()).await {
        Err(_) => {}
        Ok(reply) => assert_eq!(reply.status, 401, "{}", reply.body),
    }
    assert_eq!(ask(&world, "GET /api/v1/nodes", Value::Null).await.status, 200);
}
