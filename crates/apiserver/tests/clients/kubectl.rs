//! kubectl at home.

use super::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_is_told() {
    let cluster = Cluster::start().await;
    let text = cluster.kubectl("version").await;
    assert!(text.contains("v1.36.4+setpoint"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_and_roles_are_there_at_birth() {
    let cluster = Cluster::start().await;
    let names = cluster.kubectl("get namespaces -o name").await;
    let expected = [
        "namespace/default",
        "namespace/kube-node-lease",
        "namespace/kube-public",
        "namespace/kube-system",
    ];
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
    let roles = cluster.kubectl("get clusterroles -o name").await;
    assert!(roles.contains("clusterrole.rbac.authorization.k8s.io/cluster-admin"), "{roles}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_are_discovered() {
    let cluster = Cluster::start().await;
    let text = cluster.kubectl("api-resources").await;
    for word in ["configmaps", "deployments", "cronjobs", "storageclasses", "clusterroles"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let versions = cluster.kubectl("api-versions").await;
    assert!(versions.lines().any(|line| line == "apps/v1"), "{versions}");
    assert!(versions.lines().any(|line| line == "v1"), "{versions}");
}

const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {a: '1'}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_map_is_created_read_and_deleted() {
    let cluster = Cluster::start().await;
    let created = cluster.kubectl_with("create -f -", SETTINGS).await;
    assert_eq!(created, "configmap/settings created\n");
    let value = cluster.kubectl("get configmap settings -o jsonpath={.data.a}").await;
    assert_eq!(value, "1");
    let table = cluster.kubectl("get configmap settings").await;
    assert!(table.starts_with("NAME"), "{table}");
    assert!(table.contains("settings   1 "), "{table}");
    let again = cluster.refused("create -f -", SETTINGS).await;
    assert!(again.contains("configmaps \"settings\" already exists"), "{again}");
    let deleted = cluster.kubectl("delete configmap settings").await;
    assert!(deleted.contains("configmap \"settings\" deleted"), "{deleted}");
    let gone = cluster.refused("get configmap settings", "").await;
    assert!(gone.contains("configmaps \"settings\" not found"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_map_is_applied_patched_labelled_and_replaced() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.kubectl_with("apply -f -", SETTINGS).await, "configmap/settings created\n");
    assert_eq!(
        cluster.kubectl_with("apply -f -", SETTINGS).await,
        "configmap/settings unchanged\n"
    );
    let changed = SETTINGS.replace("a: '1'", "a: '2', b: '3'");
    assert_eq!(
        cluster.kubectl_with("apply -f -", &changed).await,
        "configmap/settings configured\n"
    );
    let data = || cluster.kubectl("get cm settings -o jsonpath={.data}");
    assert_eq!(data().await, r#"{"a":"2","b":"3"}"#);
    cluster.kubectl(r#"patch cm settings --type=merge -p {"data":{"b":null,"c":"4"}}"#).await;
    assert_eq!(data().await, r#"{"a":"2","c":"4"}"#);
    let json = r#"[{"op":"replace","path":"/data/a","value":"5"}]"#;
    cluster.kubectl(&format!("patch cm settings --type=json -p {json}")).await;
    cluster.kubectl(r#"patch cm settings -p {"data":{"d":"6"}}"#).await;
    assert_eq!(data().await, r#"{"a":"5","c":"4","d":"6"}"#);
    cluster.kubectl("label cm settings tier=front").await;
    cluster.kubectl("annotate cm settings note=hello").await;
    let selected = cluster.kubectl("get cm -l tier=front,app=web -o name").await;
    assert_eq!(selected, "configmap/settings\n");
    assert_eq!(cluster.kubectl("get cm -l tier!=front -o name").await, "");
    assert_eq!(
        cluster.kubectl_with("replace -f -", SETTINGS).await,
        "configmap/settings replaced\n"
    );
    assert_eq!(data().await, r#"{"a":"1"}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_field_is_refused() {
    let cluster = Cluster::start().await;
    let wrong = SETTINGS.replace("data:", "date: {}\ndata:");
    let text = cluster.refused("create -f -", &wrong).await;
    assert!(text.contains("unknown field \"date\""), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let cluster = Cluster::start().await;
    let text = cluster.refused("create -n nowhere -f -", SETTINGS).await;
    assert!(text.contains("namespaces \"nowhere\" not found"), "{text}");
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: nginx}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_is_applied_described_and_watched() {
    let cluster = Cluster::start().await;
    let dry = cluster.kubectl_with("apply --dry-run=server -f -", WEB).await;
    assert_eq!(dry, "deployment.apps/web created (server dry run)\n");
    assert!(cluster.refused("get deployment web", "").await.contains("not found"));
    cluster.kubectl_with("apply -f -", WEB).await;
    let table = cluster.kubectl("get deployments -o wide").await;
    assert!(table.contains("web    0/2     0            0"), "{table}");
    assert!(table.contains("main         nginx    app=web"), "{table}");
    let text = cluster.kubectl("describe deployment web").await;
    assert!(text.contains("Replicas:               2 desired"), "{text}");
    let two = WEB.replace("nginx", "caddy");
    let difference = cluster.run(&["diff", "-f", "-"], &two).await;
    assert_eq!(difference.status.code(), Some(1), "{difference:?}");
    assert!(String::from_utf8_lossy(&difference.stdout).contains("+      - image: caddy"));
    cluster.kubectl_with("apply -f -", &two).await;
    let image = "-o=jsonpath={.metadata.generation}{.spec.template.spec.containers[0].image}";
    assert_eq!(cluster.kubectl(&format!("get deployment web {image}")).await, "2caddy");
    let waited = cluster.kubectl("wait deployment/web --for=jsonpath={.spec.replicas}=2").await;
    assert!(waited.contains("condition met"), "{waited}");
    cluster.kubectl("delete deployment web --wait").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_deployment_is_refused_with_its_fields() {
    let cluster = Cluster::start().await;
    let wrong = WEB.replace("app: web}}\n  template", "app: api}}\n  template");
    let text = cluster.refused("create -f -", &wrong).await;
    assert!(text.contains("The Deployment \"web\" is invalid"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_told() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.kubectl("get --raw /healthz").await, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_may_do_what_their_roles_say() {
    let cluster = Cluster::start().await;
    let text = cluster.refused("get configmaps --as=jane", "").await;
    let expected = "User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the \
                    namespace \"default\"";
    assert!(text.contains(expected), "{text}");
    let binding = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";
    cluster.kubectl_with("create -f -", binding).await;
    assert_eq!(cluster.kubectl("get configmaps --as=jane -o name").await, "");
    let text = cluster.refused("create --as=jane -f -", SETTINGS).await;
    assert!(text.contains("cannot create resource"), "{text}");
    assert_eq!(cluster.kubectl("auth can-i list pods --as=jane").await, "yes\n");
    assert!(
        cluster
            .run(&["auth", "can-i", "delete", "pods", "--as=jane"], "")
            .await
            .stdout
            .starts_with(b"no")
    );
    assert!(cluster.kubectl("auth whoami").await.contains("admin"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_is_scaled() {
    let cluster = Cluster::start().await;
    cluster.kubectl_with("apply -f -", WEB).await;
    cluster.kubectl("scale deployment web --replicas=5").await;
    let replicas = cluster.kubectl("get deployment web -o jsonpath={.spec.replicas}").await;
    assert_eq!(replicas, "5");
    let text = cluster.refused("scale deployment web --current-replicas=2 --replicas=9", "").await;
    assert!(text.contains("Expected replicas to be 2, was 5"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_account_gets_a_token_that_works() {
    let cluster = Cluster::start().await;
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}";
    cluster.kubectl_with("create -f -", account).await;
    let token = cluster.kubectl("create token robot").await;
    let token = token.trim();
    assert_eq!(token.split('.').count(), 3, "{token}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_are_explained() {
    let cluster = Cluster::start().await;
    let text = cluster.kubectl("explain pod.spec.containers.image").await;
    assert!(text.contains("The image to run."), "{text}");
    let text = cluster.kubectl("explain deployment --recursive").await;
    assert!(text.contains("Keeps a number of equal pods running"), "{text}");
    assert!(text.contains("terminationGracePeriodSeconds"), "{text}");
}
