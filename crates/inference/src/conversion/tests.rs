//! There and back again, whatever is said.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ALPHA: &str = "nvidia.com/v1alpha1";
const BETA: &str = "nvidia.com/v1beta1";

/// Some of these fields, each with one of its values.
fn some_of(fields: Vec<(&'static str, Vec<Value>)>) -> BoxedStrategy<Value> {
    let count = fields.len();
    let choices = proptest::collection::vec((any::<bool>(), 0_usize..64), count);
    choices
        .prop_map(move |choices| {
            let mut made = json!({});
            for ((name, values), (is_there, which)) in fields.iter().zip(choices) {
                if is_there {
                    made[*name] = values[which % values.len()].clone();
                }
            }
            made
        })
        .boxed()
}

fn env() -> Vec<Value> {
    vec![
        json!([{"name": "B", "value": "1"}, {"name": "A", "value": "2"}]),
        json!([{"name": "A", "value": "3"}]),
        json!([]),
    ]
}

fn main_fields() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("name", vec![json!("main"), json!("other")]),
        ("image", vec![json!("i:1"), json!("")]),
        ("command", vec![json!(["a", "b"]), json!([])]),
        ("args", vec![json!(["c"])]),
        ("env", env()),
        (
            "envFrom",
            vec![
                json!([{"secretRef": {"name": "s"}}]),
                json!([{"secretRef": {"name": "s", "optional": true}}, {"prefix": "p"}]),
            ],
        ),
        (
            "resources",
            vec![
                json!({}),
                json!({"limits": {"cpu": 1, "nvidia.com/gpu": "2"}}),
                json!({"limits": {"cpu": "1", "x.io/y": "2"}, "claims": [{"name": "c"}]}),
            ],
        ),
        ("livenessProbe", vec![json!({"periodSeconds": 1}), json!({})]),
        ("startupProbe", vec![json!({"periodSeconds": 2})]),
        (
            "volumeMounts",
            vec![
                json!([{"name": "v", "mountPath": "/v"}]),
                json!([{"name": "v", "mountPath": "/v", "readOnly": true}]),
            ],
        ),
    ]
}

fn service() -> BoxedStrategy<Value> {
    let plain = some_of(vec![
        ("annotations", vec![json!({"a": "b"})]),
        ("labels", vec![json!({"l": "m"})]),
        ("serviceName", vec![json!("svc"), json!("x")]),
        ("componentType", vec![json!("worker"), json!("frontend"), json!("own"), json!("prefill")]),
        ("subComponentType", vec![json!("prefill"), json!("decode"), json!("odd")]),
        ("dynamoNamespace", vec![json!("n")]),
        ("globalDynamoNamespace", vec![json!(true), json!(false)]),
        ("autoscaling", vec![json!({"enabled": true})]),
        ("ingress", vec![json!({"enabled": true, "host": "h"})]),
        ("modelRef", vec![json!({"name": "m"})]),
        (
            "sharedMemory",
            vec![
                json!({"disabled": true}),
                json!({"disabled": true, "size": "1Gi"}),
                json!({"disabled": false, "size": "1Gi"}),
                json!({"size": "0"}),
            ],
        ),
        ("replicas", vec![json!(0), json!(3)]),
        ("multinode", vec![json!({"nodeCount": 2})]),
        ("scalingAdapter", vec![json!({"enabled": true}), json!({"enabled": false}), json!({})]),
        (
            "gpuMemoryService",
            vec![
                json!({"enabled": true, "mode": "intraPod", "deviceClassName": "d"}),
                json!({"enabled": false, "mode": "interPod"}),
            ],
        ),
        ("failover", vec![json!({"enabled": true, "numShadows": 1}), json!({"enabled": false})]),
        ("checkpoint", vec![json!({"enabled": true})]),
        ("topologyConstraint", vec![json!({"packDomain": "rack"})]),
    ]);
    let extra = some_of(vec![
        ("nodeSelector", vec![json!({"n": "s"})]),
        ("containers", vec![json!([{"name": "side", "image": "j"}])]),
        ("volumes", vec![json!([{"name": "v", "emptyDir": {}}])]),
    ]);
    (plain, service_pod(), extra, some_of(main_fields()), any::<[bool; 2]>())
        .prop_map(|(mut made, pod, mut extra, main, [has_main, has_extra])| {
            reconcile::plan::merge(&mut made, &pod);
            if has_main {
                extra["mainContainer"] = main;
            }
            if has_extra {
                made["extraPodSpec"] = extra;
            }
            made
        })
        .boxed()
}

/// What a service says of its pods beside them.
fn service_pod() -> BoxedStrategy<Value> {
    some_of(vec![
        (
            "resources",
            vec![
                json!({"requests": {"cpu": "1", "gpu": "2"},
                    "limits": {"gpu": "1", "gpuType": "g.io/x"}}),
                json!({"limits": {"memory": "1Gi", "custom": {"a.io/b": "1"}}}),
                json!({}),
            ],
        ),
        ("envs", env()),
        ("envFromSecret", vec![json!("s"), json!("t")]),
        (
            "volumeMounts",
            vec![
                json!([{"name": "c", "mountPoint": "/c", "useAsCompilationCache": true}]),
                json!([{"name": "v", "mountPoint": "/v"},
                    {"name": "c", "useAsCompilationCache": true},
                    {"name": "d", "useAsCompilationCache": true}]),
                json!([{"name": "v"}]),
            ],
        ),
        ("livenessProbe", vec![json!({"periodSeconds": 3})]),
        ("readinessProbe", vec![json!({"periodSeconds": 4})]),
        ("extraPodMetadata", vec![json!({"labels": {"x": "y"}}), json!({})]),
        (
            "frontendSidecar",
            vec![json!({"image": "f", "args": ["x"], "envFromSecret": "s"}), json!({})],
        ),
    ])
}

fn component() -> BoxedStrategy<Value> {
    let plain = some_of(vec![
        ("type", vec![json!("worker"), json!("frontend"), json!("prefill"), json!("epp")]),
        ("globalDynamoNamespace", vec![json!(true)]),
        ("replicas", vec![json!(0), json!(3)]),
        ("minAvailable", vec![json!(1)]),
        ("multinode", vec![json!({"nodeCount": 3, "leader": {}})]),
        ("sharedMemorySize", vec![json!("0"), json!("2Gi"), json!(0)]),
        ("modelRef", vec![json!({"name": "m", "revision": "r"})]),
        ("scalingAdapter", vec![json!({})]),
        ("eppConfig", vec![json!({"config": {"a": 1}})]),
        ("frontendSidecar", vec![json!("sidecar-frontend"), json!("side")]),
        (
            "compilationCache",
            vec![json!({"pvcName": "c", "mountPath": "/c"}), json!({"pvcName": "c"})],
        ),
        (
            "experimental",
            vec![
                json!({}),
                json!({"gpuMemoryService": {"mode": "InterPod"},
                    "grove": {"forceScalingGroup": true}}),
                json!({"checkpoint": {"enabled": false}, "failover": {}}),
            ],
        ),
        ("runtimeVersionOverride", vec![json!("1.2.3")]),
    ]);
    let sidecars = proptest::sample::select(vec![
        json!([]),
        json!([{"name": "side", "image": "j"}]),
        json!([{"name": "sidecar-frontend", "image": "j", "env": [{"name": "A"}]}]),
        json!([{"name": "sidecar-frontend", "image": "j", "ports": []}]),
    ]);
    let meta = some_of(vec![
        ("annotations", vec![json!({"a": "b"}), json!({})]),
        ("labels", vec![json!({"c": "d"})]),
        ("finalizers", vec![json!(["x.io/y"])]),
    ]);
    (plain, some_of(main_fields()), sidecars, meta, any::<[bool; 4]>())
        .prop_map(
            |(mut made, mut main, sidecars, meta, [has_main, has_pod, has_meta, is_first])| {
                let mut containers = sidecars.as_array().cloned().unwrap_or_default();
                if has_main {
                    main["name"] = json!("main");
                    let at = if is_first { 0 } else { containers.len() };
                    containers.insert(at, main);
                }
                if has_pod {
                    made["podTemplate"]["spec"] =
                        json!({"containers": containers, "hostNetwork": true});
                }
                if has_meta {
                    made["podTemplate"]["metadata"] = meta;
                }
                made
            },
        )
        .boxed()
}

fn alpha_graph() -> BoxedStrategy<Value> {
    let top = some_of(vec![
        ("annotations", vec![json!({"a": "b"})]),
        ("backendFramework", vec![json!("vllm")]),
        ("envs", env()),
        ("pvcs", vec![json!([{"name": "p", "create": true}]), json!([])]),
        ("topologyConstraint", vec![json!({"topologyProfile": "t", "packDomain": "rack"})]),
        ("restart", vec![json!({"id": "1"})]),
    ]);
    let service = prop_oneof![9 => service(), 1 => Just(Value::Null)];
    let services = proptest::collection::btree_map("[a-cA-C]{1,2}", service, 0..4);
    (top, services, some_of(status_fields("services", "updatedServices")))
        .prop_map(|(mut spec, services, status)| {
            spec["services"] = json!(services);
            object(ALPHA, "DynamoGraphDeployment", spec, status)
        })
        .boxed()
}

fn beta_graph() -> BoxedStrategy<Value> {
    let top = some_of(vec![
        ("labels", vec![json!({"a": "b"})]),
        ("env", env()),
        ("topologyConstraint", vec![json!({"clusterTopologyName": "t"})]),
        ("experimental", vec![json!({"kvTransferPolicy": {"labelKey": "k", "domain": "d"}})]),
    ]);
    let components = proptest::collection::btree_map("[a-cA-C]{1,2}", component(), 0..4);
    let turned = any::<bool>();
    (top, components, turned, some_of(status_fields("components", "updatedComponents")))
        .prop_map(|(mut spec, components, is_turned, status)| {
            let named = components.into_iter().map(|(name, mut component)| {
                component["name"] = json!(name);
                component
            });
            let mut all: Vec<Value> = named.collect();
            if is_turned {
                all.reverse();
            }
            spec["components"] = json!(all);
            object(BETA, "DynamoGraphDeployment", spec, status)
        })
        .boxed()
}

fn alpha_request() -> BoxedStrategy<Value> {
    let top = some_of(vec![
        ("model", vec![json!("m")]),
        ("backend", vec![json!("vllm"), json!("auto")]),
        ("autoApply", vec![json!(true), json!(false)]),
        ("useMocker", vec![json!(true), json!(false)]),
        ("enableGpuDiscovery", vec![json!(true), json!(false)]),
        ("runtimeVersionOverride", vec![json!("1.0.0")]),
        ("deploymentOverrides", vec![json!({}), json!({"name": "g", "workersImage": "w"})]),
    ]);
    let profiling = some_of(vec![
        ("profilerImage", vec![json!("p"), json!("")]),
        ("outputPVC", vec![json!("out")]),
        ("configMapRef", vec![json!({"name": "c", "key": "k"})]),
        ("resources", vec![json!({}), json!({"limits": {"cpu": "1"}})]),
        ("tolerations", vec![json!([]), json!([{"operator": "Exists"}])]),
        ("nodeSelector", vec![json!({}), json!({"a/b": "c"})]),
        (
            "config",
            vec![
                json!({}),
                json!({"sla": {"ttft": 1, "isl": 2, "other": {}}, "x": [1], "planner": {}}),
                json!({"sla": "odd", "deployment": {"modelCache": {"pvcName": "p"}, "y": 1}}),
                json!({"planner": {"a": {"b": 1}}, "deployment": {}}),
            ],
        ),
    ]);
    let status = some_of(vec![
        ("state", vec![json!("Ready"), json!("Initializing"), json!("DeploymentDeleted")]),
        ("backend", vec![json!("vllm")]),
        ("profilingResults", vec![json!("configmap/x")]),
        ("generatedDeployment", vec![json!({}), json!({"spec": {"a": 1}})]),
        (
            "deployment",
            vec![json!({"name": "g", "created": true}), json!({"created": false, "state": "x"})],
        ),
    ]);
    (top, profiling, status)
        .prop_map(|(mut spec, profiling, status)| {
            spec["profilingConfig"] = profiling;
            object(ALPHA, "DynamoGraphDeploymentRequest", spec, status)
        })
        .boxed()
}

fn beta_request() -> BoxedStrategy<Value> {
    let pod = |pod: Value| json!({"profilingJob": {"template": {"spec": pod}, "backoffLimit": 1}});
    let spec = some_of(vec![
        ("model", vec![json!("m")]),
        ("image", vec![json!("i"), json!("")]),
        ("autoApply", vec![json!(true), json!(false)]),
        ("searchStrategy", vec![json!("thorough")]),
        ("hardware", vec![json!({}), json!({"gpuSku": "l4"})]),
        ("sla", vec![json!({}), json!({"ttft": 1.5, "e2eLatency": 2})]),
        ("workload", vec![json!({"isl": 1, "concurrency": 2}), json!({"osl": 3})]),
        ("modelCache", vec![json!({"pvcName": "c", "pvcModelPath": "p"}), json!({})]),
        (
            "features",
            vec![
                json!({"planner": {}, "mocker": {"enabled": false}}),
                json!({"planner": {"a": 1}}),
            ],
        ),
        (
            "overrides",
            vec![
                json!({"dgd": {"a": {"b": 1}}}),
                pod(json!({"containers": [{"name": "profiler", "resources": {}}]})),
                pod(json!({"containers": [{"name": "profiler", "image": "x", "resources": {}}],
                    "nodeSelector": {"a/b": "c"}})),
                pod(json!({"containers": [{"name": "other"}], "tolerations": []})),
            ],
        ),
    ]);
    let status = some_of(vec![
        ("phase", vec![json!("Deployed"), json!("Ready"), json!("Pending"), json!("Failed")]),
        ("dgdName", vec![json!("g"), json!("")]),
        ("profilingPhase", vec![json!("Done")]),
        ("profilingResults", vec![json!({}), json!({"selectedConfig": {"a": {}}, "pareto": []})]),
        ("deploymentInfo", vec![json!({"replicas": 1})]),
    ]);
    (spec, status)
        .prop_map(|(spec, status)| object(BETA, "DynamoGraphDeploymentRequest", spec, status))
        .boxed()
}

fn status_fields(
    components: &'static str,
    updated: &'static str,
) -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("state", vec![json!("pending")]),
        (components, vec![json!({"a": {"componentKind": "Deployment", "replicas": 1}})]),
        ("rollingUpdate", vec![json!({"phase": "Completed", updated: ["a"]})]),
    ]
}

fn object(version: &str, kind: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": "g", "labels": {"l": "1"}},
        "spec": spec, "status": status})
}

fn there_and_back(object: &Value) -> (Value, Value) {
    let own = object["apiVersion"].as_str().expect("a version");
    let other = if own == ALPHA { BETA } else { ALPHA };
    let there = convert(object, other).expect("converted");
    let back = convert(&there, own).expect("converted");
    (there, back)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_older_graph_comes_back_as_it_was(graph in alpha_graph()) {
        let (there, back) = there_and_back(&graph);
        prop_assert_eq!(back, graph, "by way of {}", there);
    }

    #[test]
    fn a_newer_graph_comes_back_as_it_was(graph in beta_graph()) {
        let (there, back) = there_and_back(&graph);
        prop_assert_eq!(back, graph, "by way of {}", there);
    }

    #[test]
    fn requests_come_back_as_they_were(older in alpha_request(), newer in beta_request()) {
        let (there, back) = there_and_back(&older);
        prop_assert_eq!(back, older, "by way of {}", there);
        let (there, back) = there_and_back(&newer);
        prop_assert_eq!(back, newer, "by way of {}", there);
    }

    #[test]
    fn components_come_back_as_they_were(service in service(), component in component()) {
        let older = object(ALPHA, "DynamoComponentDeployment", service, json!({}));
        let (there, back) = there_and_back(&older);
        prop_assert_eq!(back, older, "by way of {}", there);
        let mut component = component;
        component["name"] = json!("c");
        let newer = object(BETA, "DynamoComponentDeployment", component, json!({}));
        let (there, back) = there_and_back(&newer);
        prop_assert_eq!(back, newer, "by way of {}", there);
    }
}

#[test]
fn a_graph_of_the_older_version_reads_as_one_of_the_newer() {
    let older = object(
        ALPHA,
        "DynamoGraphDeployment",
        json!({
            "pvcs": [{"name": "models", "create": false}],
            "services": {
                "worker": {"componentType": "worker", "subComponentType": "decode", "replicas": 2,
                    "envFromSecret": "token", "resources": {"limits": {"gpu": "1"}},
                    "scalingAdapter": {"enabled": true},
                    "extraPodSpec": {"mainContainer": {"image": "i", "args": ["a"]}}},
                "Frontend": {"componentType": "frontend",
                    "ingress": {"enabled": true, "host": "h"}},
            },
        }),
        json!({"state": "pending", "services": {}}),
    );
    let newer = convert(&older, BETA).expect("converted");
    let expected = json!([
        {"name": "Frontend", "type": "frontend"},
        {"name": "worker", "type": "decode", "replicas": 2, "scalingAdapter": {},
            "podTemplate": {"spec": {"containers": [{"name": "main", "image": "i", "args": ["a"],
                "envFrom": [{"secretRef": {"name": "token"}}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}},
    ]);
    assert_eq!(newer["spec"]["components"], expected);
    let kept = envelope::kept(&newer, envelope::GRAPH);
    assert_eq!(kept["pvcs"], json!([{"name": "models", "create": false}]));
    assert_eq!(kept["services"]["Frontend"]["ingress"]["host"], "h");
    assert_eq!(newer["status"]["components"], json!({}));
}

#[test]
fn what_was_changed_since_counts() {
    let older = object(
        ALPHA,
        "DynamoGraphDeployment",
        json!({"services": {"w": {"componentType": "worker", "labels": {"kept": "yes"},
            "extraPodSpec": {"mainContainer": {"image": "i",
                "env": [{"name": "A", "value": "1"}]}}}}}),
        json!({}),
    );
    let mut newer = convert(&older, BETA).expect("converted");
    let main = "/spec/components/0/podTemplate/spec/containers/0";
    newer.pointer_mut(main).expect("a container")["env"][0]["value"] = json!("2");
    let back = convert(&newer, ALPHA).expect("converted");
    let service = &back["spec"]["services"]["w"];
    assert_eq!(service["envs"], json!([{"name": "A", "value": "2"}]));
    assert!(service["extraPodSpec"]["mainContainer"].get("env").is_none(), "{service}");
    assert_eq!(service["labels"], json!({"kept": "yes"}));
}

#[test]
fn only_what_is_known_is_converted() {
    let adapter = object(
        ALPHA,
        "DynamoGraphDeploymentScalingAdapter",
        json!({"replicas": 1, "dgdRef": {"name": "g", "serviceName": "s"}}),
        json!({}),
    );
    let (there, back) = there_and_back(&adapter);
    assert_eq!(there["spec"]["dgdRef"], json!({"name": "g", "componentName": "s"}));
    assert_eq!(back, adapter);
    assert!(convert(&adapter, "nvidia.com/v2").is_err());
    assert!(convert(&json!({"kind": "Pod"}), BETA).is_err());
}
