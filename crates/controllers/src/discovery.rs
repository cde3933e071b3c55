//! Which kinds the server has, those of definitions included, asked through the API.

use reconcile::requests::Requests;
use reconcile::value::{list, text};
use reconcile::{Error, Kind};
use serde_json::Value;

/// Every group, version and resource in one answer.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A kind in the version that the server prefers, and what can be done with its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    pub kind: Kind,
    pub can_watch: bool,
    pub can_delete: bool,
    pub can_delete_collection: bool,
}

/// What the server told of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovered {
    pub served: Vec<Served>,
    /// Versions of which the server knows only what was true once.
    pub stale: Vec<String>,
}

/// Every kind whose objects can be listed, in the order of their groups.
pub async fn served(requests: &Requests) -> Result<Discovered, Error> {
    let mut all = Discovered::default();
    for path in ["/api", "/apis"] {
        let document = requests.read_as(path, AGGREGATED).await?;
        all.served.extend(read(&document));
        all.stale.extend(stale(&document));
    }
    Ok(all)
}

fn stale(document: &Value) -> Vec<String> {
    let mut stale = Vec::new();
    for group in list(&document["items"]) {
        for version in list(&group["versions"]).iter().filter(|one| one["freshness"] == "Stale") {
            let (group, version) = (text(&group["metadata"]["name"]), text(&version["version"]));
            stale.push(format!("{group}/{version}"));
        }
    }
    stale
}

/// What a document says. A resource that several versions have counts once, in the first.
fn read(document: &Value) -> Vec<Served> {
    let mut all: Vec<Served> = Vec::new();
    for group in list(&document["items"]) {
        let name = text(&group["metadata"]["name"]);
        for version in list(&group["versions"]) {
            for resource in list(&version["resources"]) {
                let plural = text(&resource["resource"]);
                let kind = text(&resource["responseKind"]["kind"]);
                let is_known = |one: &Served| (one.kind.group, one.kind.plural) == (name, plural);
                let can = |verb: &str| list(&resource["verbs"]).iter().any(|one| one == verb);
                if !can("list") || all.iter().any(is_known) {
                    continue;
                }
                let names = [name, text(&version["version"]), kind, plural];
                all.push(Served {
                    kind: Kind::interned(names, resource["scope"] == "Namespaced"),
                    can_watch: can("watch"),
                    can_delete: can("delete"),
                    can_delete_collection: can("deletecollection"),
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_counts_once_in_the_version_that_comes_first() {
        let resource = |verbs: Value| {
            json!([{"resource": "widgets", "responseKind": {"kind": "Widget"},
                "scope": "Namespaced", "verbs": verbs}])
        };
        let document = json!({"items": [
            {"metadata": {"name": "example.com"}, "versions": [
                {"version": "v2", "resources": resource(json!(["list", "watch", "delete"]))},
                {"version": "v1", "resources": resource(json!(["list"]))}]},
            {"metadata": {"name": "review.example.com"}, "versions": [
                {"version": "v1", "resources": resource(json!(["create"]))}]},
        ]});
        let all = read(&document);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].kind.to_string(), "example.com/v2 Widget");
        assert!(all[0].can_watch && all[0].can_delete && !all[0].can_delete_collection);
    }
}
