//! Quotas and aggregated roles in a cluster.

use std::sync::Arc;
use std::time::Duration;

use controllers::kinds::{CLUSTER_ROLE, POD, RESOURCE_QUOTA};
use controllers::{cluster_role_aggregation, resource_quota};
use reconcile::plan::{Deletion, Target};
use reconcile::{Kind, Object, run};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;
use testkit::simulation::{self, Trial};

const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");

fn quota() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "default", "name": "q"},
        "spec": {"hard": {"pods": "5", "requests.cpu": "2", "count/configmaps": "9",
            "count/deployments.apps": "3"}},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "main", "image": "web",
            "resources": {"requests": {"cpu": "300m"}}}]},
    })
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}})
}

fn used(quotas: &[Arc<Object>]) -> Option<&Value> {
    let quota = quotas.first()?;
    let is_followed = quota.value["status"]["hard"] == quota.value["spec"]["hard"];
    Some(&quota.value["status"]["used"]).filter(|_| is_followed)
}

#[tokio::test]
async fn a_quota_counts_what_was_there_before_and_what_comes() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.create(POD, pod("first")).await;
    cluster.create(CONFIG_MAP, map("first")).await;
    cluster.run(run::run(context.clone(), resource_quota::Controller::default()));
    let quota = cluster.create(RESOURCE_QUOTA, quota()).await;
    let expected = |pods: &str, cpu: &str, maps: &str| {
        json!({"pods": pods, "requests.cpu": cpu, "count/configmaps": maps,
            "count/deployments.apps": "0"})
    };
    let first = expected("1", "300m", "1");
    until(&context, RESOURCE_QUOTA, |all| used(all) == Some(&first)).await;
    let second = cluster.create(POD, pod("second")).await;
    let both = expected("2", "600m", "1");
    until(&context, RESOURCE_QUOTA, |all| used(all) == Some(&both)).await;
    // What somebody else writes is put right.
    let requests = context.requests("test", Default::default());
    let wrong = json!({"status": {"used": {"pods": "4"}}});
    requests.patch(&Target::of(RESOURCE_QUOTA, &quota).part("status"), &wrong).await.expect("done");
    until(&context, RESOURCE_QUOTA, |all| used(all) == Some(&both)).await;
    let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    requests.delete(&Target::of(POD, &second), &now).await.expect("deleted");
    let hard = json!({"spec": {"hard": {"pods": "7"}}});
    requests.patch(&Target::of(RESOURCE_QUOTA, &quota), &hard).await.expect("changed");
    until(&context, RESOURCE_QUOTA, |all| used(all) == Some(&first)).await;
}

#[tokio::test]
async fn the_roles_of_users_say_what_they_allow() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), cluster_role_aggregation::Controller));
    let rules = |roles: &[Arc<Object>], name: &str| -> usize {
        let role = roles.iter().find(|role| &*role.name.name == name);
        role.and_then(|role| role.value["rules"].as_array()).map_or(0, Vec::len)
    };
    until(&context, CLUSTER_ROLE, |roles| {
        ["admin", "edit", "view"].iter().all(|name| rules(roles, name) > 5)
            && rules(roles, "admin") > rules(roles, "view")
    })
    .await;
    let more = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "more", "labels":
            {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}],
    });
    cluster.create(CLUSTER_ROLE, more.clone()).await;
    // Through edit, which is made of view, also into admin.
    until(&context, CLUSTER_ROLE, |roles| {
        ["admin", "edit", "view"].iter().all(|name| {
            let role = roles.iter().find(|role| &*role.name.name == *name);
            let rules = role.and_then(|role| role.value["rules"].as_array());
            rules.is_some_and(|rules| rules.contains(&more["rules"][0]))
        })
    })
    .await;
}

async fn pause() {
    tokio::time::sleep(Duration::from_secs(3_600)).await;
}

const QUOTAS: Trial = Trial {
    name: "resourcequota-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, resource_quota::Controller::default())),
    workload: |cluster, context| {
        Box::pin(async move {
            let requests = context.requests("test", Default::default());
            cluster.create(CONFIG_MAP, map("first")).await;
            let quota = cluster.create(RESOURCE_QUOTA, quota()).await;
            pause().await;
            cluster.create(CONFIG_MAP, map("second")).await;
            pause().await;
            let wrong = json!({"status": {"used": {"count/configmaps": "4"}}});
            let target = Target::of(RESOURCE_QUOTA, &quota);
            requests.patch(&target.clone().part("status"), &wrong).await.expect("done");
            pause().await;
            let hard = json!({"spec": {"hard": {"pods": null, "count/secrets": "7"}}});
            requests.patch(&target, &hard).await.expect("changed");
        })
    },
    play: |_| Box::pin(std::future::pending()),
};

const ROLES: Trial = Trial {
    name: "clusterrole-aggregation-controller",
    component: |context| Box::pin(run::run(context, cluster_role_aggregation::Controller)),
    workload: |cluster, _| {
        Box::pin(async move {
            for (name, from, to) in [("a", "b", "x"), ("b", "c", "b"), ("c", "none", "c")] {
                let role = json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                    "metadata": {"name": name, "labels": {"to": to}},
                    "aggregationRule": (name != "c").then(|| json!(
                        {"clusterRoleSelectors": [{"matchLabels": {"to": from}}]})),
                    "rules": [{"apiGroups": [name], "resources": ["r"], "verbs": ["get"]}],
                });
                cluster.create(CLUSTER_ROLE, role).await;
                pause().await;
            }
        })
    },
    ..QUOTAS
};

#[test]
fn no_fault_of_a_request_changes_what_is_used() {
    let plans = simulation::try_everything(QUOTAS);
    println!("{plans} plans");
    assert!(plans > 25, "{plans}");
}

#[test]
fn no_fault_of_a_request_changes_what_roles_allow() {
    let plans = simulation::try_everything(ROLES);
    println!("{plans} plans");
    assert!(plans > 25, "{plans}");
}
