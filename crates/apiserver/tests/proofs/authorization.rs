//! Access to every route that discovery knows, so that a new resource is covered when it appears.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::User;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::world::{Answer, World, admin};

/// What everybody who is authenticated may do: ask about themselves.
const OPEN_TO_AUTHENTICATED: [(&str, &str); 3] = [
    ("create", "selfsubjectaccessreviews.authorization.k8s.io"),
    ("create", "selfsubjectrulesreviews.authorization.k8s.io"),
    ("create", "selfsubjectreviews.authentication.k8s.io"),
];
/// What everybody may read; the rest of the paths below needs a credential, or more.
const OPEN_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY_PATHS: [&str; 5] = ["/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3"];
const CLOSED_PATHS: [&str; 5] = ["/metrics", "/logs", "/debug/pprof", "/", "/nothing"];

/// One request that the server may get.
#[derive(Clone, Debug)]
pub struct Route {
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
    /// True if it is about the objects of all namespaces.
    pub is_over_namespaces: bool,
}

impl Route {
    /// `pods/log`, or `deployments.apps/scale`.
    pub fn full_name(&self) -> String {
        match self.subresource.as_str() {
            "" => self.qualified(),
            subresource => format!("{}/{subresource}", self.qualified()),
        }
    }

    fn method(&self) -> &'static str {
        match self.verb.as_str() {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        }
    }

    fn request(&self) -> Request<Full<Bytes>> {
        // Nothing is written, and no watch goes on.
        let query = match self.verb.as_str() {
            "get" | "list" => "",
            "watch" => "?watch=true&timeoutSeconds=1&resourceVersion=999999999",
            _ => "?dryRun=All",
        };
        request(self.method(), &format!("{}{query}", self.path))
    }

    /// `pods`, or `deployments.apps`.
    fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    fn denial(&self, user: &str) -> String {
        let subject = match self.name.as_str() {
            "" => format!("{} is forbidden", self.qualified()),
            name => format!("{} {name:?} is forbidden", self.qualified()),
        };
        let resource = match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        };
        let place = match self.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let (verb, group) = (&self.verb, &self.group);
        format!(
            "{subject}: User {user:?} cannot {verb} resource {resource:?} in API group {group:?} \
             {place}"
        )
    }
}

fn request(method: &str, path: &str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(path).body(Full::default()).unwrap()
}

async fn get(world: &World, path: &str) -> Value {
    let answer = world.ask(&admin(), request("GET", path)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// Every request that discovery says is served.
pub async fn routes(world: &World) -> Vec<Route> {
    let mut versions = vec![("".to_owned(), "/api/v1".to_owned())];
    for group in get(world, "/apis").await["groups"].as_array().unwrap() {
        // Below it are paths of other resources; tests/history/access.rs asks for those.
        if group["name"] == apiserver::history::GROUP {
            continue;
        }
        for version in group["versions"].as_array().unwrap() {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            versions.push((group["name"].as_str().unwrap().to_owned(), path));
        }
    }
    let mut routes = Vec::new();
    for (group, prefix) in versions {
        for resource in get(world, &prefix).await["resources"].as_array().unwrap() {
            routes.extend(routes_of(&group, &prefix, resource));
        }
    }
    routes
}

fn routes_of(group: &str, prefix: &str, resource: &Value) -> Vec<Route> {
    let full = resource["name"].as_str().unwrap();
    let (plural, subresource) = full.split_once('/').unwrap_or((full, ""));
    let namespaced = resource["namespaced"] == true;
    let mut routes = Vec::new();
    for verb in resource["verbs"].as_array().unwrap() {
        let verb = verb.as_str().unwrap();
        let is_about_all = matches!(verb, "list" | "watch" | "create" | "deletecollection");
        let has_name = !subresource.is_empty() || !is_about_all;
        let is_namespace = plural == "namespaces" && group.is_empty();
        // What is about all objects of a namespace can be asked of all namespaces.
        let reads_all = namespaced && matches!(verb, "list" | "watch") && subresource.is_empty();
        for everywhere in [false, true] {
            if everywhere && !reads_all {
                continue;
            }
            let inside = namespaced && !everywhere;
            let name = if has_name { "probe" } else { "" };
            let mut path = prefix.to_owned();
            if inside {
                path += "/namespaces/space";
            }
            path += &format!("/{plural}");
            for part in [name, subresource].into_iter().filter(|part| !part.is_empty()) {
                path += &format!("/{part}");
            }
            let namespace = match inside {
                true => "space",
                false if is_namespace => name,
                false => "",
            };
            routes.push(Route {
                verb: verb.to_owned(),
                group: group.to_owned(),
                resource: plural.to_owned(),
                subresource: subresource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                path,
                is_over_namespaces: everywhere,
            });
        }
    }
    routes
}

/// Of a watch that begins the end is not waited for.
async fn ask(world: &World, user: &User, route: &Route) -> Answer {
    if route.verb == "watch" {
        let answer = world.server.handle(route.request(), Some(Arc::new(user.clone()))).await;
        if answer.status() == 200 {
            let (parts, _) = answer.into_parts();
            return Answer { status: 200, headers: parts.headers, body: Bytes::new() };
        }
    }
    world.ask(user, route.request()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_no_rights_is_denied_every_route_with_the_reason() {
    let world = World::real().await;
    let routes = routes(&world).await;
    assert!(routes.len() > 400, "only {} routes were found", routes.len());
    let before = world.server.store.revision();
    let (nobody, anonymous) = (User::component("nobody"), User::anonymous());
    let mut open = BTreeSet::new();
    for route in &routes {
        for user in [&nobody, &anonymous] {
            let is_open = OPEN_TO_AUTHENTICATED.contains(&(&route.verb, &route.qualified()));
            if is_open && !user.is_anonymous() {
                open.insert(route.qualified());
                continue;
            }
            let answer = ask(&world, user, route).await;
            let text = answer.text();
            assert_eq!(answer.status, 403, "{} {}: {text}", route.verb, route.path);
            let status = answer.json();
            assert_eq!(status["message"], route.denial(&user.name), "{}", route.path);
            let mut details = json!({"kind": route.resource});
            for (name, value) in [("group", &route.group), ("name", &route.name)] {
                if !value.is_empty() {
                    details[name] = json!(value);
                }
            }
            assert_eq!(status["details"], details, "{} {}", route.verb, route.path);
            assert_eq!(status["reason"], "Forbidden");
        }
    }
    assert_eq!(open.len(), OPEN_TO_AUTHENTICATED.len(), "{open:?} are in discovery");
    assert_eq!(world.server.store.revision(), before, "a denied request changed something");
}

/// Bound to the role cluster-admin, not in the group that passes without a look at the roles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_administrator_is_denied_nothing() {
    let world = World::real().await;
    let binding = json!({
        "metadata": {"name": "boss"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "boss", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let bind = Request::post(path).body(Full::new(binding.to_string().into())).unwrap();
    assert_eq!(world.ask(&admin(), bind).await.status, 201);
    let boss = User::component("boss");
    await_rights(&world, &boss).await;
    let before = world.server.store.revision();
    for route in routes(&world).await {
        let answer = ask(&world, &boss, &route).await;
        let line = format!("{} {}: {} {}", route.verb, route.path, answer.status, answer.text());
        assert_ne!(answer.status, 401, "{line}");
        assert_ne!(answer.status, 403, "{line}");
        assert!(answer.status < 500, "{line}");
    }
    for path in OPEN_PATHS.iter().chain(&DISCOVERY_PATHS).chain(&CLOSED_PATHS) {
        let answer = world.ask(&boss, request("GET", path)).await;
        assert!(![401, 403].contains(&answer.status), "{path}: {}", answer.text());
    }
    assert_eq!(world.server.store.revision(), before, "a dry run changed something");
}

/// The index of roles follows the store.
async fn await_rights(world: &World, user: &User) {
    let until = async {
        while world.ask(user, request("GET", "/api/v1/nodes")).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until).await.expect("a binding must take effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_that_are_no_resources_are_open_as_far_as_they_should_be() {
    let world = World::real().await;
    let (nobody, anonymous) = (User::component("nobody"), User::anonymous());
    let groups = get(&world, "/apis").await;
    let mut discovery: Vec<String> = DISCOVERY_PATHS.map(str::to_owned).to_vec();
    for group in groups["groups"].as_array().unwrap() {
        discovery.push(format!("/apis/{}", group["name"].as_str().unwrap()));
        for version in group["versions"].as_array().unwrap() {
            let name = version["groupVersion"].as_str().unwrap();
            discovery.push(format!("/apis/{name}"));
            discovery.push(format!("/openapi/v3/apis/{name}"));
        }
    }
    for path in OPEN_PATHS {
        for user in [&nobody, &anonymous] {
            let answer = world.ask(user, request("GET", path)).await;
            assert_eq!(answer.status, 200, "{path} for {}", user.name);
        }
    }
    for path in &discovery {
        let answer = world.ask(&nobody, request("GET", path)).await;
        assert!(![401, 403].contains(&answer.status), "{path}: {}", answer.text());
    }
    let closed = CLOSED_PATHS.iter().map(|path| (*path).to_owned());
    for path in closed.clone() {
        expect_denied(&world, &nobody, "GET", &path).await;
    }
    for path in discovery.into_iter().chain(closed) {
        expect_denied(&world, &anonymous, "GET", &path).await;
    }
    for path in OPEN_PATHS.iter().chain(&DISCOVERY_PATHS) {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            expect_denied(&world, &nobody, method, path).await;
            expect_denied(&world, &anonymous, method, path).await;
        }
    }
}

async fn expect_denied(world: &World, user: &User, method: &str, path: &str) {
    let answer = world.ask(user, request(method, path)).await;
    assert_eq!(answer.status, 403, "{method} {path} for {}: {}", user.name, answer.text());
    let verb = method.to_ascii_lowercase();
    let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
    assert_eq!(answer.json()["message"], message);
}
