//! What components become, as data.

use k8s_openapi::jiff::Timestamp;
use reconcile::{Object, Plan, Step};
use serde_json::{Value, json};

use super::*;
use crate::settings::{Discovery, Gates, Infrastructure, Ingress};
use crate::value::{find, list, text};

fn component(spec: Value) -> Object {
    let mut whole = json!({"name": "Decode", "type": "decode", "replicas": 2, "podTemplate":
        {"metadata": {"labels": {"nvidia.com/dynamo-worker-hash": "abcd1234"}},
            "spec": {"containers": [{"name": "main", "image": "nvcr.io/x/y:1.6.1"}]}}});
    reconcile::plan::merge(&mut whole, &spec);
    Object::new(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": {"namespace": "ns", "name": "g-decode-abcd1234", "uid": "u", "generation": 1,
            "finalizers": ["nvidia.com/finalizer"],
            "labels": {"nvidia.com/dynamo-graph-deployment-name": "g",
                "nvidia.com/dynamo-component": "Decode", "nvidia.com/dynamo-namespace": "ns-g",
                "nvidia.com/dynamo-worker-hash": "abcd1234"}},
        "spec": whole,
    }))
}

fn settings() -> Settings {
    Settings { gates: Gates::default(), ..Settings::default() }
}

fn planned(settings: &Settings, object: &Object) -> Plan {
    let observed = Observed { account: "default".to_owned(), ..Observed::default() };
    plan::plan(settings, object, &observed, Timestamp::UNIX_EPOCH)
}

/// The object of a kind that a plan makes.
fn made(plan: &Plan, kind: Kind) -> Value {
    let found = plan.steps.iter().find_map(|step| match step {
        Step::Create { kind: own, object } if *own == kind => Some(object.clone()),
        _ => None,
    });
    found.unwrap_or_default()
}

fn container(plan: &Plan) -> Value {
    made(plan, DEPLOYMENT)["spec"]["template"]["spec"]["containers"][0].clone()
}

fn variables(container: &Value) -> Vec<(String, String)> {
    let all = list(&container["env"]).iter();
    let value = |one: &Value| match one["value"].as_str() {
        Some(value) => value.to_owned(),
        None => text(&one["valueFrom"]["fieldRef"]["fieldPath"]).to_owned(),
    };
    all.map(|one| (text(&one["name"]).to_owned(), value(one))).collect()
}

#[test]
fn a_worker_is_told_who_it_is_and_is_found_by_what_it_is() {
    let plan = planned(&settings(), &component(json!({"modelRef": {"name": "tiny"}})));
    let deployment = made(&plan, DEPLOYMENT);
    assert_eq!(deployment["metadata"]["name"], "g-decode-abcd1234");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let selector = json!({"matchLabels": {"nvidia.com/selector": "g-decode-abcd1234"}});
    assert_eq!(deployment["spec"]["selector"], selector);
    let strategy = json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    assert_eq!(deployment["spec"]["strategy"], strategy);
    let template = &deployment["spec"]["template"];
    let labels = json!({
        "nvidia.com/dynamo-base-model-hash": "8950abfd",
        "nvidia.com/dynamo-component": "Decode",
        "nvidia.com/dynamo-component-type": "decode",
        "nvidia.com/dynamo-discovery-backend": "kubernetes",
        "nvidia.com/dynamo-discovery-enabled": "true",
        "nvidia.com/dynamo-graph-deployment-name": "g",
        "nvidia.com/dynamo-namespace": "ns-g",
        "nvidia.com/dynamo-sub-component-type": "decode",
        "nvidia.com/dynamo-worker-hash": "abcd1234",
        "nvidia.com/metrics-enabled": "true",
        "nvidia.com/selector": "g-decode-abcd1234",
    });
    assert_eq!(template["metadata"]["labels"], labels);
    assert_eq!(
        template["metadata"]["annotations"],
        json!({"nvidia.com/dynamo-base-model": "tiny"})
    );
    let pod = &template["spec"];
    assert_eq!(pod["serviceAccountName"], "g-k8s-service-discovery");
    assert_eq!(pod["terminationGracePeriodSeconds"], 60);
    assert_eq!(pod["securityContext"], json!({"fsGroup": 1000}));
    let env: Vec<(String, String)> = [
        ("DYN_COMPONENT", "decode"),
        ("DYN_DISCOVERY_BACKEND", "kubernetes"),
        ("DYN_FORWARDPASS_METRIC_PORT", "20380"),
        ("DYN_HEALTH_CHECK_ENABLED", "false"),
        ("DYN_NAMESPACE", "ns-g"),
        ("DYN_NAMESPACE_WORKER_SUFFIX", "abcd1234"),
        ("DYN_PARENT_DGD_K8S_NAME", "g"),
        ("DYN_PARENT_DGD_K8S_NAMESPACE", "ns"),
        ("DYN_SYSTEM_ENABLED", "true"),
        ("DYN_SYSTEM_PORT", "9090"),
        ("DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", "[\"generate\"]"),
        ("NIXL_TELEMETRY_ENABLE", "n"),
        ("NIXL_TELEMETRY_EXPORTER", "prometheus"),
        ("NIXL_TELEMETRY_PROMETHEUS_PORT", "19090"),
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("POD_UID", "metadata.uid"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let main = container(&plan);
    assert_eq!(variables(&main), env);
    let live = json!({"httpGet": {"path": "/live", "port": "system"}, "periodSeconds": 5,
        "timeoutSeconds": 4, "failureThreshold": 1});
    assert_eq!(main["livenessProbe"], live);
    assert_eq!(main["startupProbe"]["failureThreshold"], 720);
}

#[test]
fn a_component_is_found_by_services_and_its_model_by_one_of_all() {
    let plan = planned(&settings(), &component(json!({"modelRef": {"name": "tiny"}})));
    let services: Vec<&Value> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Create { kind, object } if *kind == SERVICE => Some(object),
            _ => None,
        })
        .collect();
    let [own, model] = services[..] else { panic!("{plan}") };
    assert_eq!(own["metadata"]["name"], "g-decode-abcd1234");
    let ports =
        json!([{"name": "system", "port": 9090, "targetPort": "system", "protocol": "TCP"}]);
    assert_eq!(own["spec"]["ports"], ports);
    let selector = json!({"nvidia.com/dynamo-component": "Decode",
        "nvidia.com/dynamo-component-type": "decode", "nvidia.com/dynamo-namespace": "ns-g"});
    assert_eq!(own["spec"]["selector"], selector);
    assert_eq!(own["metadata"]["labels"]["nvidia.com/dynamo-discovery-enabled"], "true");
    assert_eq!(model["metadata"]["name"], "dynamo-model-8950abfd");
    assert_eq!(model["spec"]["clusterIP"], "None");
    // Without this way of finding each other only frontends have one.
    let etcd = Settings { discovery: Discovery::Etcd, ..settings() };
    let plan = planned(&etcd, &component(json!({})));
    assert_eq!(made(&plan, SERVICE), Value::Null);
    let pod = &made(&plan, DEPLOYMENT)["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "default");
    let frontend = planned(&etcd, &component(json!({"type": "frontend"})));
    assert_eq!(made(&frontend, SERVICE)["spec"]["ports"][0]["port"], 8000);
}

#[test]
fn what_a_user_says_counts() {
    let user = json!({"podTemplate": {"spec": {
        "securityContext": {"runAsUser": 7},
        "containers": [
            {"name": "main", "image": "i:1.0.0",
                "env": [{"name": "DYN_NAMESPACE", "value": "mine"}],
                "livenessProbe": {"exec": {"command": ["true"]}},
                "volumeMounts": [{"name": "models", "mountPath": "/models"}]},
            {"name": "side", "image": "s"},
        ]}}, "sharedMemorySize": "1Gi"});
    let addresses = Infrastructure { nats: "nats://n".to_owned(), ..Infrastructure::default() };
    let settings = Settings { infrastructure: addresses, ..settings() };
    let plan = planned(&settings, &component(user));
    let main = container(&plan);
    let env = variables(&main);
    assert!(env.contains(&("DYN_NAMESPACE".to_owned(), "mine".to_owned())));
    assert!(env.contains(&("NATS_SERVER".to_owned(), "nats://n".to_owned())));
    assert!(env.is_sorted());
    assert_eq!(main["livenessProbe"], json!({"exec": {"command": ["true"]}}));
    assert_eq!(main["startupProbe"]["periodSeconds"], 10);
    let pod = &made(&plan, DEPLOYMENT)["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"], json!({"runAsUser": 7}));
    assert_eq!(pod["containers"][1], json!({"name": "side", "image": "s"}));
    let claim = find(&pod["volumes"], "name", "models").expect("a volume");
    assert_eq!(claim["persistentVolumeClaim"], json!({"claimName": "models"}));
    let memory = find(&pod["volumes"], "name", "shared-memory").expect("a volume");
    assert_eq!(memory["emptyDir"], json!({"medium": "Memory", "sizeLimit": "1Gi"}));
    let none = planned(&settings, &component(json!({"sharedMemorySize": "0"})));
    let pod = &made(&none, DEPLOYMENT)["spec"]["template"]["spec"];
    assert!(find(&pod["volumes"], "name", "shared-memory").is_none());
}

#[test]
fn what_a_compiler_made_is_kept() {
    let vllm =
        |cache: Value| component(json!({"backendFramework": "vllm", "compilationCache": cache}));
    let main = container(&planned(&settings(), &vllm(json!({"pvcName": "cache"}))));
    let mount = find(&main["volumeMounts"], "name", "cache").expect("a mount");
    assert_eq!(mount["mountPath"], "/root/.cache/vllm");
    let root = ("VLLM_CACHE_ROOT".to_owned(), "/root/.cache/vllm".to_owned());
    assert!(variables(&main).contains(&root));
    let other = component(json!({"backendFramework": "sglang", "compilationCache":
        {"pvcName": "cache"}}));
    let plan = planned(&settings(), &other);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.notices[0].reason, "ReconcileError");
    let condition = &plan.status.expect("a status")["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Reconciling"))
    );
}

#[test]
fn replicas_of_many_pods_are_sets() {
    let spec = json!({"multinode": {"nodeCount": 2}, "podTemplate": {"spec": {"containers": [
        {"name": "main", "image": "i:1.0.0", "command": ["python3", "-m", "dynamo.sglang"],
            "args": ["--model", "m"]}]}}});
    let plan = planned(&settings(), &component(spec.clone()));
    let set = made(&plan, LEADER_WORKER_SET);
    assert_eq!(set["metadata"]["name"], "g-decode-abcd1234-0");
    assert_eq!(set["spec"]["replicas"], 2);
    assert_eq!(set["spec"]["startupPolicy"], "LeaderCreated");
    let group = &set["spec"]["leaderWorkerTemplate"];
    assert_eq!(group["size"], 2);
    for (template, role, rank) in
        [("leaderTemplate", "leader", "0"), ("workerTemplate", "worker", "$(LWS_WORKER_INDEX)")]
    {
        let labels = &group[template]["metadata"]["labels"];
        assert_eq!(labels["role"], role);
        assert!(labels.get("nvidia.com/selector").is_none());
        let args = &group[template]["spec"]["containers"][0]["args"];
        assert_eq!(list(args).last().map(text), Some(rank));
    }
    assert_eq!(made(&plan, SERVICE)["spec"]["selector"]["role"], "leader");
    assert_eq!(made(&plan, DEPLOYMENT), Value::Null);
    // Without sets it is one pod.
    let gates = Gates { leader_worker_set: false, ..Gates::default() };
    let plan = planned(&Settings { gates, ..settings() }, &component(spec));
    assert_eq!(made(&plan, DEPLOYMENT)["metadata"]["name"], "g-decode-abcd1234");
    let bare = component(json!({"multinode": {"nodeCount": 2}}));
    let why = planned(&settings(), &bare).notices[0].message.clone();
    assert_eq!(why, "container Args cannot be empty for LWS pod");
}

#[test]
fn a_frontend_is_reached_from_outside_where_somebody_says_how() {
    let mut object = component(json!({"type": "frontend", "name": "Frontend"}));
    assert_eq!(made(&planned(&settings(), &object), INGRESS), Value::Null);
    let ingress = Ingress { class: "nginx".to_owned(), ..Ingress::default() };
    let outside = Settings { ingress, ..settings() };
    let made_here = made(&planned(&outside, &object), INGRESS);
    assert_eq!(made_here["spec"]["rules"][0]["host"], "g.local");
    let kept = json!({"ingress": {"enabled": true, "host": "h", "hostPrefix": "p-",
        "hostSuffix": "example.com", "ingressControllerClassName": "own",
        "tls": {"secretName": "s"}}});
    object.value["metadata"]["annotations"]["nvidia.com/dcd-spec"] =
        json!(crate::conversion::envelope::of_kept(&kept));
    let made_here = made(&planned(&settings(), &object), INGRESS);
    assert_eq!(made_here["spec"]["rules"][0]["host"], "p-h.example.com");
    assert_eq!(made_here["spec"]["ingressClassName"], "own");
    assert_eq!(made_here["spec"]["tls"][0]["secretName"], "s");
}

#[test]
fn a_component_of_its_own_has_an_account_of_its_own() {
    let mut object = component(json!({}));
    object.value["metadata"]["labels"] = json!({});
    let plan = planned(&settings(), &object);
    let account = made(&plan, SERVICE_ACCOUNT);
    assert_eq!(account["metadata"]["name"], "g-decode-abcd1234-k8s-service-discovery");
    assert_eq!(made(&plan, ROLE_BINDING)["subjects"][0]["name"], account["metadata"]["name"]);
}

#[test]
fn a_component_of_its_own_brings_what_its_many_pods_need() {
    let mut alone = component(json!({"multinode": {"nodeCount": 2}, "podTemplate": {"spec":
        {"containers": [{"name": "main", "image": "x:1.6.1", "command": ["python3"],
            "args": ["-m", "dynamo.trtllm"]}]}}}));
    let gates = Gates { leader_worker_set: true, ..Gates::default() };
    let settings = Settings { gates, ..settings() };
    assert_eq!(made(&planned(&settings, &alone), CONFIG_MAP), Value::Null);
    let mut value = alone.value.clone();
    let labels = value["metadata"]["labels"].as_object_mut().expect("labels");
    labels.remove("nvidia.com/dynamo-graph-deployment-name");
    alone = Object::new(value);
    let fresh_ssh = Some(json!({"private.key": "a", "private.key.pub": "b"}));
    let multinode = crate::multinode::Found { fresh_ssh, ..Default::default() };
    let observed = Observed { multinode, ..Observed::default() };
    let plan = plan::plan(&settings, &alone, &observed, Timestamp::UNIX_EPOCH);
    let script = made(&plan, CONFIG_MAP);
    assert_eq!(script["metadata"]["name"], "g-decode-abcd1234-wait-leader-script");
    assert_eq!(script["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(made(&plan, SECRET)["metadata"]["name"], "mpi-run-ssh-secret");
}

#[test]
fn it_is_ready_when_all_its_pods_are_of_the_newest_form() {
    let object = component(json!({}));
    let deployment = made(&planned(&settings(), &object), DEPLOYMENT);
    let state = |status: Value| {
        let mut live = deployment.clone();
        live["metadata"]["generation"] = json!(1);
        live["metadata"]["uid"] = json!("d");
        live["status"] = status;
        let deployment = Some(Arc::new(Object::new(live)));
        let observed = Observed { deployment, ..Observed::default() };
        let plan = plan::plan(&settings(), &object, &observed, Timestamp::UNIX_EPOCH);
        let status = plan.status.expect("a status");
        (text(&status["conditions"][0]["reason"]).to_owned(), status["component"].clone())
    };
    let counts = |updated: i64, available: i64| {
        json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": updated,
            "availableReplicas": available, "readyReplicas": available,
            "conditions": [{"type": "Available", "status": "True"}]})
    };
    let (reason, component) = state(counts(2, 2));
    assert_eq!(reason, "DeploymentReady");
    let expected = json!({"componentKind": "Deployment", "replicas": 2, "updatedReplicas": 2,
        "componentNames": ["g-decode-abcd1234"], "readyReplicas": 2, "availableReplicas": 2});
    assert_eq!(component, expected);
    for old in [counts(1, 2), counts(2, 1), json!({}), {
        let mut stale = counts(2, 2);
        stale["observedGeneration"] = json!(0);
        stale
    }] {
        assert_eq!(state(old).0, "DeploymentNotReady");
    }
}

#[test]
fn a_set_is_ready_when_it_has_seen_what_it_is_to_be() {
    let object = component(json!({"replicas": 1, "multinode": {"nodeCount": 2}, "podTemplate":
        {"spec": {"containers": [{"name": "main", "image": "x:1.6.1", "command": ["python3"],
            "args": ["-m", "dynamo.sglang"]}]}}}));
    let gates = Gates { leader_worker_set: true, ..Gates::default() };
    let settings = Settings { gates, ..settings() };
    let set = made(&planned(&settings, &object), LEADER_WORKER_SET);
    let reason = |seen: Value| {
        let mut live = set.clone();
        live["metadata"]["generation"] = json!(2);
        live["metadata"]["annotations"][crate::sync_resource::GENERATION] = json!("2");
        live["status"] = json!({"observedGeneration": seen, "readyReplicas": 1,
            "conditions": [{"type": "Available", "status": "True"}]});
        let observed = Observed { set: Some(Arc::new(Object::new(live))), ..Observed::default() };
        let plan = plan::plan(&settings, &object, &observed, Timestamp::UNIX_EPOCH);
        let status = plan.status.expect("a status");
        text(&status["conditions"][0]["reason"]).to_owned()
    };
    assert_eq!(reason(json!(1)), "LeaderWorkerSetNotReady");
    assert_eq!(reason(json!(2)), "LeaderWorkerSetReady");
    assert_eq!(reason(Value::Null), "LeaderWorkerSetReady");
}

#[test]
fn a_model_whose_service_is_gone_wakes_all_that_serve_it() {
    let plan = planned(&settings(), &component(json!({"modelRef": {"name": "tiny"}})));
    let service = plan.steps.iter().find_map(|step| match step {
        Step::Create { object, .. } if text(&object["metadata"]["name"]).contains("-model-") => {
            Some(Arc::new(Object::new(object.clone())))
        }
        _ => None,
    });
    let gone = Change { old: service.clone(), new: None };
    let hash = lost_model(&gone).expect("a model");
    assert!(serves(&json!({"modelRef": {"name": "tiny"}}), hash));
    assert!(!serves(&json!({"modelRef": {"name": "other"}}), hash) && !serves(&json!({}), hash));
    assert!(lost_model(&Change { old: None, new: service }).is_none());
}
