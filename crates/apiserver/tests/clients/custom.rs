//! Custom resources through kube-rs: defined with the typed API, used without a type.

use futures::TryStreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use serde_json::json;

use super::cluster::{Cluster, PATIENCE};

fn definition() -> CustomResourceDefinition {
    let size = json!({"type": "integer", "minimum": 1, "default": 1});
    let spec = json!({"type": "object", "properties": {"size": size}, "default": {}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec,
                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                }}},
            }],
        },
    });
    serde_json::from_value(definition).unwrap()
}

#[tokio::test]
async fn what_is_defined_is_used_at_once_and_watched() {
    let cluster = Cluster::start().await;
    for (_, client) in cluster.admins().await {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        definitions.create(&PostParams::default(), &definition()).await.unwrap();
        let gvk = kube::api::GroupVersionKind::gvk("example.com", "v1", "Widget");
        let resource = ApiResource::from_gvk(&gvk);
        let widgets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
        let widget = DynamicObject::new("a", &resource);
        let made = widgets.create(&PostParams::default(), &widget).await.unwrap();
        assert_eq!(made.data["spec"], json!({"size": 1}));
        let status = Patch::Merge(json!({"status": {"ready": true}}));
        widgets.patch_status("a", &PatchParams::default(), &status).await.unwrap();
        let listed = widgets.list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items[0].data["status"], json!({"ready": true}));
        let version = listed.metadata.resource_version.unwrap();
        let events = widgets.watch(&WatchParams::default(), &version).await.unwrap();
        let wrong = Patch::Merge(json!({"spec": {"size": 0}}));
        let refused = widgets.patch("a", &PatchParams::default(), &wrong).await.unwrap_err();
        assert!(refused.to_string().contains("spec.size"), "{refused}");
        definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
        let events = tokio::time::timeout(PATIENCE, events.try_collect::<Vec<_>>());
        let events = events.await.expect("the watch ends with its kind").unwrap();
        let is_end = |event: &WatchEvent<DynamicObject>| match event {
            WatchEvent::Deleted(object) => object.name_any() == "a",
            _ => false,
        };
        assert!(events.iter().any(is_end), "{events:?}");
        let gone = async {
            while definitions.get_opt("widgets.example.com").await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("the definition goes");
    }
}

#[tokio::test]
async fn a_custom_object_is_applied_without_a_type() {
    let cluster = Cluster::start().await;
    for (way, client) in cluster.admins().await {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let applied = Patch::Apply(definition());
        let options = PatchParams::apply("installer");
        definitions.patch("widgets.example.com", &options, &applied).await.unwrap();
        let gvk = kube::api::GroupVersionKind::gvk("example.com", "v1", "Widget");
        let resource = ApiResource::from_gvk(&gvk);
        let widgets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
        let sized =
            |size: u32| DynamicObject::new(way, &resource).data(json!({"spec": {"size": size}}));
        let mine = PatchParams::apply("mine");
        let made = widgets.patch(way, &mine, &Patch::Apply(sized(2))).await.unwrap();
        assert_eq!(made.data["spec"], json!({"size": 2}));
        let again = widgets.patch(way, &mine, &Patch::Apply(sized(2))).await.unwrap();
        assert_eq!(again.resource_version(), made.resource_version(), "nothing was changed");

        let other = PatchParams::apply("other");
        let refused = widgets.patch(way, &other, &Patch::Apply(sized(3))).await.unwrap_err();
        let kube::Error::Api(status) = refused else { panic!("{refused}") };
        assert_eq!(status.code, 409);
        let conflict = r#"Apply failed with 1 conflict: conflict with "mine": .spec.size"#;
        assert_eq!(status.message, conflict);
        let forced = widgets.patch(way, &other.clone().force(), &Patch::Apply(sized(3))).await;
        assert_eq!(forced.unwrap().data["spec"], json!({"size": 3}));
        let ready = DynamicObject::new(way, &resource).data(json!({"status": {"ready": true}}));
        let status = widgets.patch_status(way, &other, &Patch::Apply(ready)).await.unwrap();
        assert_eq!(status.data["status"], json!({"ready": true}));
        let mut owners: Vec<(String, String, Option<String>)> = Vec::new();
        for entry in status.managed_fields() {
            let (manager, operation) = (entry.manager.clone(), entry.operation.clone());
            owners.push((manager.unwrap(), operation.unwrap(), entry.subresource.clone()));
        }
        let entry =
            |part: Option<&str>| ("other".to_owned(), "Apply".to_owned(), part.map(str::to_owned));
        owners.sort();
        assert_eq!(owners, [entry(None), entry(Some("status"))], "{way}");
    }
}
