//! `kubectl create`, one kind after another, and how each looks afterwards.

use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_many_kinds_are_created_and_listed() {
    for cluster in Cluster::for_each_kubectl().await {
        for (line, created, get, parts) in CASES {
            let text = cluster.kubectl(&format!("create {line}")).await;
            assert_eq!(text, format!("{created} created\n"), "{line}");
            cluster.shows(&format!("get {get}"), parts).await;
        }
    }
}

/// What to create, what kubectl says, what to get, and what is then seen.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    ("namespace space", "namespace/space", "ns space", &["STATUS", "Active"]),
    (
        "configmap settings --from-literal=a=1 --from-literal=b=2",
        "configmap/settings",
        "cm settings",
        &["DATA", "settings 2"],
    ),
    (
        "secret generic word --from-literal=password=x",
        "secret/word",
        "secret word",
        &["word Opaque 1"],
    ),
    (
        "secret docker-registry pull --docker-server=r.example --docker-username=u \
         --docker-password=p",
        "secret/pull",
        "secret pull",
        &["kubernetes.io/dockerconfigjson"],
    ),
    ("serviceaccount robot", "serviceaccount/robot", "sa robot", &["NAME", "robot"]),
    (
        "deployment web --image=nginx --replicas=3 --port=80",
        "deployment.apps/web",
        "deploy web",
        &["READY", "UP-TO-DATE", "0/3"],
    ),
    ("job once --image=busybox -- date", "job.batch/once", "job once", &["COMPLETIONS", "0/1"]),
    (
        "cronjob hourly --image=busybox --schedule=@hourly -- date",
        "cronjob.batch/hourly",
        "cronjob hourly",
        &["SCHEDULE", "@hourly", "False"],
    ),
    (
        "job again --from=cronjob/hourly",
        "job.batch/again",
        "job again -o jsonpath={.metadata.ownerReferences[0].name}",
        &["hourly"],
    ),
    (
        "role reader --verb=get,list --resource=pods",
        "role.rbac.authorization.k8s.io/reader",
        "role reader",
        &["CREATED AT"],
    ),
    (
        "rolebinding readers --role=reader --user=jane",
        "rolebinding.rbac.authorization.k8s.io/readers",
        "rolebinding readers -o wide",
        &["Role/reader", "jane"],
    ),
    (
        "clusterrole viewer --verb=get --resource=nodes",
        "clusterrole.rbac.authorization.k8s.io/viewer",
        "clusterrole viewer",
        &["viewer"],
    ),
    (
        "clusterrolebinding viewers --clusterrole=viewer --group=people",
        "clusterrolebinding.rbac.authorization.k8s.io/viewers",
        "clusterrolebinding viewers -o wide",
        &["ClusterRole/viewer", "people"],
    ),
    (
        "quota small --hard=count/configmaps=100,services=50",
        "resourcequota/small",
        "quota small -o jsonpath={.spec.hard}",
        &[r#"{"count/configmaps":"100","services":"50"}"#],
    ),
    (
        "service clusterip front --tcp=80:8080",
        "service/front",
        "svc front",
        &["CLUSTER-IP", "ClusterIP", "80/TCP"],
    ),
    (
        "service externalname far --external-name=example.com",
        "service/far",
        "svc far",
        &["ExternalName", "example.com"],
    ),
    (
        "ingress door --class=c --rule=a.example/x*=front:80",
        "ingress.networking.k8s.io/door",
        "ingress door",
        &["CLASS", "a.example", "80"],
    ),
    (
        "poddisruptionbudget some --selector=app=web --min-available=1",
        "poddisruptionbudget.policy/some",
        "pdb some",
        &["MIN AVAILABLE", "N/A"],
    ),
    (
        "priorityclass urgent --value=1000",
        "priorityclass.scheduling.k8s.io/urgent",
        "priorityclass urgent",
        &["VALUE", "1000", "false"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_refused_in_words() {
    for cluster in Cluster::for_each_kubectl().await {
        let text = cluster.refused("create configmap Bad_Name", "").await;
        assert!(text.contains("ConfigMap \"Bad_Name\" is invalid: metadata.name:"), "{text}");
        assert!(text.contains("a lowercase RFC 1123 subdomain"), "{text}");
        let text = cluster.refused("create deployment web --image=nginx -n nowhere", "").await;
        assert!(text.contains("namespaces \"nowhere\" not found"), "{text}");
        let line = "create cronjob never --image=busybox --schedule=never";
        let text = cluster.refused(line, "").await;
        assert!(text.contains("spec.schedule: Invalid value: \"never\""), "{text}");
        let unknown = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}";
        let text = cluster.refused("create -f -", unknown).await;
        assert!(text.contains("no matches for kind \"Thing\" in version"), "{text}");
    }
}
