//! What kubectl's typed clients send in protobuf is stored as the JSON of the same object is.

use serde_json::{Value, json};

use super::cluster::Cluster;

const PROTOBUF: &str = "Content-Type: application/vnd.kubernetes.protobuf";

/// Creates with kubectl and reads it back; the server makes the same of the JSON that kubectl
/// would print.
async fn check_created(cluster: &Cluster, line: &str) {
    let parse = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    let printed = cluster.kubectl(&format!("create -o json --dry-run=client {line}")).await;
    let json_line = "create -o json --dry-run=server --validate=false -f -";
    let expected = parse(cluster.kubectl_with(json_line, &printed).await);

    let name = run_in_protobuf(cluster, &format!("create -o name -v=8 {line}")).await;
    let found = parse(cluster.kubectl(&format!("get -o json {}", name.trim())).await);
    assert_eq!(without_chance(found), without_chance(expected), "{line}");
}

/// Runs kubectl, which must succeed and send protobuf, and answers what it printed.
async fn run_in_protobuf(cluster: &Cluster, line: &str) -> String {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let output = cluster.run(&arguments, "").await;
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {line}\n{log}");
    assert!(log.contains(PROTOBUF), "kubectl {line}\n{log}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Without what differs each time that the server creates an object.
fn without_chance(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(name);
    }
    // The identifier is also in what the server adds to jobs.
    let uid = "batch.kubernetes.io/controller-uid";
    let places =
        ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"];
    for place in places {
        if let Some(Value::Object(labels)) = object.pointer_mut(place) {
            labels.remove(uid);
            labels.remove("controller-uid");
        }
    }
    if object["kind"] == "Service" {
        for name in ["clusterIP", "clusterIPs"] {
            object["spec"][name] = Value::Null;
        }
        for port in object["spec"]["ports"].as_array_mut().unwrap() {
            port["nodePort"] = Value::Null;
        }
    }
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_what_their_json_is() {
    let cluster = Cluster::start().await;
    for line in [
        "namespace space",
        "configmap settings --from-literal=a=1 --from-literal=b=ü",
        "secret generic password --from-literal=word=x",
        "serviceaccount robot",
        "deployment web --image=nginx --replicas=2 --port=80",
        "job once --image=busybox -- sh -c true",
        "cronjob often --image=busybox --schedule=@hourly -- date",
        "service clusterip web --tcp=80:8080",
        "service nodeport open --tcp=80:web",
        "role reader --verb=get,list --resource=pods,pods/log,deployments.apps",
        "rolebinding readers --role=reader --user=jane --serviceaccount=default:robot",
        "clusterrole all-reader --verb=get --resource=nodes --non-resource-url=/x",
        "clusterrolebinding all-readers --clusterrole=all-reader --group=g",
        "ingress front --rule=a.example/path*=web:80,tls=secret --class=c",
        "poddisruptionbudget budget --selector=app=web --min-available=50%",
        "priorityclass urgent --value=100 --description=d",
        "quota limit --hard=cpu=1500m,memory=1Gi,pods=3",
    ] {
        check_created(&cluster, line).await;
    }
}

/// Draining deletes pods with a typed client, and with it the options of the deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_deletions_are_read() {
    let cluster = Cluster::start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "spec": {"unschedulable": true}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 60,
            "containers": [{"name": "c", "image": "i"}]}});
    for object in [node, pod] {
        cluster.kubectl_with("create --validate=false -f -", &object.to_string()).await;
    }
    let line = "drain n --disable-eviction --force --grace-period=0 --timeout=20s -v=8";
    run_in_protobuf(&cluster, line).await;
    let gone = cluster.refused("get pod p", "").await;
    assert!(gone.contains("not found"), "{gone}");
}
