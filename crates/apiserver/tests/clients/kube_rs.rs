//! The typed API of kube-rs, the same on a socket and without one.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
    WatchEvent, WatchParams,
};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::cluster::{Cluster, PATIENCE};
use super::local::{config_map, refusal};

/// A namespace of its own for each way in, and the client.
async fn places(cluster: &Cluster) -> Vec<(&'static str, Client)> {
    let admins = cluster.admins().await;
    for (word, client) in &admins {
        let spaces: Api<Namespace> = Api::all(client.clone());
        let space = serde_json::from_value(json!({"metadata": {"name": word}})).unwrap();
        spaces.create(&PostParams::default(), &space).await.unwrap();
    }
    admins.into()
}

fn deployment() -> Deployment {
    let labels = json!({"app": "web"});
    let containers = json!([
        {"name": "main", "image": "nginx", "ports": [{"containerPort": 80}]},
        {"name": "side", "image": "busybox"},
    ]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
}

fn pod(name: &str) -> Pod {
    let spec = json!({"containers": [{"name": "main", "image": "nginx"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

#[tokio::test]
async fn objects_are_created_read_replaced_and_deleted() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let maps: Api<ConfigMap> = Api::namespaced(client, space);
        let created = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        assert!(created.uid().is_some() && created.resource_version().is_some());
        let (code, message) = refusal(maps.create(&PostParams::default(), &created).await);
        assert_eq!((code, message.as_str()), (500, CREATE_WITH_VERSION));
        let again = maps.create(&PostParams::default(), &config_map("a")).await;
        assert_eq!(refusal(again), (409, "configmaps \"a\" already exists".to_owned()));
        let mut changed = created.clone();
        changed.data.get_or_insert_default().insert("b".to_owned(), "2".to_owned());
        let replaced = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
        assert_ne!(replaced.resource_version(), created.resource_version());
        let (code, message) = refusal(maps.replace("a", &PostParams::default(), &changed).await);
        assert_eq!(code, 409);
        assert!(message.contains("the object has been modified"), "{message}");
        let metadata = maps.get_metadata("a").await.unwrap();
        assert_eq!(metadata.uid(), created.uid());
        assert_eq!(maps.get_opt("missing").await.unwrap(), None);
        maps.delete("a", &DeleteParams::default()).await.unwrap();
        assert_eq!(refusal(maps.get("a").await), (404, NOT_FOUND.to_owned()));
        let dry = PostParams { dry_run: true, ..Default::default() };
        maps.create(&dry, &config_map("a")).await.unwrap();
        assert_eq!(maps.get_opt("a").await.unwrap(), None);
    }
}

const CREATE_WITH_VERSION: &str = "resourceVersion should not be set on objects to be created";
const NOT_FOUND: &str = "configmaps \"a\" not found";

#[tokio::test]
async fn lists_are_selected_paged_and_emptied() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let maps: Api<ConfigMap> = Api::namespaced(client, space);
        for index in 0..7 {
            let name = format!("map-{index}");
            maps.create(&PostParams::default(), &config_map(&name)).await.unwrap();
        }
        let names = |parameters: ListParams| {
            let maps = maps.clone();
            async move {
                let list = maps.list(&parameters).await.unwrap();
                list.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
            }
        };
        let selected = names(ListParams::default().labels("app in (map-1, map-3)")).await;
        assert_eq!(selected, ["map-1", "map-3"]);
        let selected = names(ListParams::default().fields("metadata.name=map-5")).await;
        assert_eq!(selected, ["map-5"]);
        let wrong = maps.list(&ListParams::default().labels("a in b")).await;
        assert_eq!(refusal(wrong).0, 400);
        let wrong = maps.list(&ListParams::default().fields("data.a=1")).await;
        assert_eq!(refusal(wrong).0, 400);

        let mut page = ListParams::default().limit(3);
        let (mut seen, mut pages) = (Vec::new(), 0);
        loop {
            let list = maps.list(&page).await.unwrap();
            seen.extend(list.iter().map(ResourceExt::name_any));
            pages += 1;
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        assert_eq!((seen.len(), pages), (7, 3));

        let some = ListParams::default().labels("app in (map-1, map-3)");
        maps.delete_collection(&DeleteParams::default(), &some).await.unwrap();
        assert_eq!(names(ListParams::default()).await.len(), 5);
        let all = ListParams::default();
        maps.delete_collection(&DeleteParams::default(), &all).await.unwrap();
        assert!(names(all).await.is_empty());
    }
}

#[tokio::test]
async fn patches_of_three_kinds_are_applied() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let deployments: Api<Deployment> = Api::namespaced(client, space);
        deployments.create(&PostParams::default(), &deployment()).await.unwrap();
        let parameters = PatchParams::default();
        let images = |deployment: Deployment| {
            let containers = deployment.spec.unwrap().template.spec.unwrap().containers;
            let image = |container: &k8s_openapi::api::core::v1::Container| {
                format!("{}={}", container.name, container.image.clone().unwrap_or_default())
            };
            containers.iter().map(image).collect::<Vec<_>>()
        };
        let with = |name: &str, image: &str| {
            let containers = json!([{"name": name, "image": image}]);
            json!({"spec": {"template": {"spec": {"containers": containers}}}})
        };
        let strategic = Patch::Strategic(with("side", "alpine"));
        let patched = deployments.patch("web", &parameters, &strategic).await.unwrap();
        assert_eq!(patched.metadata.generation, Some(2));
        assert_eq!(images(patched), ["main=nginx", "side=alpine"]);
        let patch = json!([
            {"op": "test", "path": "/spec/replicas", "value": 2},
            {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "caddy"},
        ]);
        let json = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
        let patched = deployments.patch("web", &parameters, &json).await.unwrap();
        assert_eq!(images(patched), ["main=caddy", "side=alpine"]);
        let merge = Patch::Merge(with("only", "httpd"));
        let patched = deployments.patch("web", &parameters, &merge).await.unwrap();
        assert_eq!(images(patched), ["only=httpd"]);
        let three = Patch::Merge(json!({"spec": {"replicas": 3}}));
        deployments.patch("web", &parameters, &three).await.unwrap();
        assert_eq!(refusal(deployments.patch("web", &parameters, &json).await).0, 422);
        let missing = deployments.patch("missing", &parameters, &three).await;
        assert_eq!(refusal(missing).0, 404);
        let invalid = Patch::Merge(json!({"spec": {"replicas": -1}}));
        let (code, message) = refusal(deployments.patch("web", &parameters, &invalid).await);
        assert_eq!(code, 422);
        assert!(message.contains("spec.replicas: Invalid value: -1"), "{message}");
    }
}

#[tokio::test]
async fn status_and_scale_are_apart_from_the_rest() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let deployments: Api<Deployment> = Api::namespaced(client, space);
        deployments.create(&PostParams::default(), &deployment()).await.unwrap();
        let parameters = PatchParams::default();
        let both = json!({"status": {"replicas": 1, "readyReplicas": 1}, "spec": {"replicas": 9}});
        let patched = deployments.patch_status("web", &parameters, &Patch::Merge(&both)).await;
        let patched = patched.unwrap();
        assert_eq!(patched.spec.as_ref().unwrap().replicas, Some(2));
        assert_eq!(patched.status.as_ref().unwrap().ready_replicas, Some(1));
        assert_eq!(patched.metadata.generation, Some(1));
        let mut replaced = deployments.get_status("web").await.unwrap();
        replaced.status.as_mut().unwrap().ready_replicas = Some(2);
        replaced.status.as_mut().unwrap().replicas = Some(2);
        let replaced = deployments.replace_status("web", &PostParams::default(), &replaced).await;
        assert_eq!(replaced.unwrap().status.unwrap().ready_replicas, Some(2));
        let patched = deployments.patch("web", &parameters, &Patch::Merge(&both)).await.unwrap();
        assert_eq!(patched.spec.as_ref().unwrap().replicas, Some(9));
        assert_eq!(patched.status.as_ref().unwrap().ready_replicas, Some(2));
        let scale = json!({"spec": {"replicas": 4}});
        let scale = deployments.patch_scale("web", &parameters, &Patch::Merge(scale)).await;
        assert_eq!(scale.unwrap().spec.unwrap().replicas, Some(4));
        assert_eq!(deployments.get_scale("web").await.unwrap().status.unwrap().replicas, 2);
    }
}

#[tokio::test]
async fn a_deletion_keeps_to_its_preconditions() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let maps: Api<ConfigMap> = Api::namespaced(client, space);
        let created = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        let only = |uid: Option<String>, resource_version: Option<String>| {
            let preconditions = Some(Preconditions { uid, resource_version });
            DeleteParams { preconditions, ..Default::default() }
        };
        let other = only(Some("6a0d59e0-2f2c-4f0e-8f9e-000000000000".to_owned()), None);
        let (code, message) = refusal(maps.delete("a", &other).await);
        assert_eq!(code, 409);
        assert!(message.contains("the UID in the precondition"), "{message}");
        let (code, _) = refusal(maps.delete("a", &only(None, Some("1".to_owned()))).await);
        assert_eq!(code, 409);
        let dry = DeleteParams { dry_run: true, ..Default::default() };
        maps.delete("a", &dry).await.unwrap();
        let right = only(created.uid(), created.resource_version());
        maps.delete("a", &right).await.unwrap();
        assert_eq!(maps.get_opt("a").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let maps: Api<ConfigMap> = Api::namespaced(client, space);
        let mut held = config_map("a");
        held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
        maps.create(&PostParams::default(), &held).await.unwrap();
        maps.delete("a", &DeleteParams::foreground()).await.unwrap();
        let marked = maps.get("a").await.unwrap();
        assert!(marked.metadata.deletion_timestamp.is_some());
        let finalizers = marked.metadata.finalizers.unwrap();
        assert_eq!(finalizers, ["example.com/hold", "foregroundDeletion"]);
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        maps.patch("a", &PatchParams::default(), &free).await.unwrap();
        assert_eq!(maps.get_opt("a").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_watch_tells_what_happens() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let maps: Api<ConfigMap> = Api::namespaced(client, space);
        let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version;
        let parameters = WatchParams::default().labels("app=a");
        let events = maps.watch(&parameters, &start.unwrap()).await.unwrap();
        maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
        let patch = Patch::Merge(json!({"data": {"a": "2"}}));
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        let away = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
        maps.patch("a", &PatchParams::default(), &away).await.unwrap();
        let seen = events.take(3).map_ok(|event| match event {
            WatchEvent::Added(map) => format!("added {}", map.name_any()),
            WatchEvent::Modified(map) => format!("modified {}", map.name_any()),
            WatchEvent::Deleted(map) => format!("deleted {}", map.name_any()),
            other => format!("{other:?}"),
        });
        let seen: Vec<String> =
            tokio::time::timeout(PATIENCE, seen.try_collect()).await.unwrap().unwrap();
        assert_eq!(seen, ["added a", "modified a", "deleted a"], "{space}");
    }
}

#[tokio::test]
async fn a_pod_is_evicted() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), space);
        let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        let _ = accounts.create(&PostParams::default(), &account).await;
        let pods: Api<Pod> = Api::namespaced(client, space);
        pods.create(&PostParams::default(), &pod("a")).await.unwrap();
        pods.evict("a", &EvictParams::default()).await.unwrap();
        assert_eq!(pods.get_opt("a").await.unwrap(), None);
    }
}

#[tokio::test]
async fn configurations_are_applied_and_conflicts_are_told() {
    let cluster = Cluster::start().await;
    for (space, client) in places(&cluster).await {
        let deployments: Api<Deployment> = Api::namespaced(client, space);
        let mut wanted = serde_json::to_value(deployment()).unwrap();
        let applied = |wanted: &serde_json::Value| Patch::Apply(wanted.clone());
        let mine = PatchParams::apply("mine");
        let made = deployments.patch("web", &mine, &applied(&wanted)).await.unwrap();
        let again = deployments.patch("web", &mine, &applied(&wanted)).await.unwrap();
        assert_eq!(made.resource_version(), again.resource_version());
        wanted["spec"]["replicas"] = json!(5);
        let other = PatchParams::apply("other");
        let refused = deployments.patch("web", &other, &applied(&wanted)).await;
        let text = "Apply failed with 1 conflict: conflict with \"mine\": .spec.replicas";
        assert_eq!(refusal(refused), (409, text.to_owned()));
        let forced = deployments.patch("web", &other.force(), &applied(&wanted)).await.unwrap();
        assert_eq!(forced.spec.unwrap().replicas, Some(5));
        let owners = forced.metadata.managed_fields.unwrap();
        let names: Vec<_> = owners.iter().filter_map(|one| one.manager.as_deref()).collect();
        assert_eq!(names, ["mine", "other"], "{space}");
        // An object of a type is a configuration too.
        let typed = deployments.patch("web", &mine, &Patch::Apply(deployment())).await;
        assert_eq!(refusal(typed).0, 409);
    }
}
