//! `nvidia.com`: graphs of model servers, their components, what scales them, and what workers say
//! of themselves.
//!
//! Kinds that people write have two versions: what is stored and reconciled is `HUB`; `SPOKE` is
//! converted. What both hold of a component is in `dynamo_component.rs` and `dynamo_alpha.rs`.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/api

use serde_json::{Value, json};

use crate::core_types;
use crate::definition::Definition;
use crate::dynamo_alpha;
use crate::dynamo_component::{self, DOMAIN};
use crate::schema::{
    atomic_list, choice, condition, count, integer, list_by, object, rule, string, text, time, with,
};

pub const GROUP: &str = "nvidia.com";
/// The version that is stored, and that controllers speak.
pub const HUB: &str = "v1beta1";
/// The older version; the only one of kinds that only programs write.
pub const SPOKE: &str = "v1alpha1";

/// Components of one graph.
pub const COMPONENTS_MAX: u64 = 25;
/// The backends that a graph may name.
pub const BACKENDS: [&str; 3] = ["sglang", "vllm", "trtllm"];

/// Whom a server asks to convert.
const WEBHOOK_NAMESPACE: &str = "dynamo-system";
const WEBHOOK_SERVICE: &str = "dynamo-operator-webhook-service";
pub const CONVERT: &str = "/convert";

pub fn definitions() -> [Value; 4] {
    [graph(), component(), scaling_adapter(), worker_metadata()]
}

/// How a kind of this group is known.
pub struct Names {
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short: &'static str,
}

/// One served version: its schema and its columns.
pub struct Version {
    pub schema: Value,
    pub columns: Value,
}

/// The definition of a kind in both versions.
pub fn in_both_versions(names: &Names, hub: Version, spoke: Version) -> Value {
    let mut made = in_one_version(names, HUB, hub);
    let mut older = in_one_version(names, SPOKE, spoke)["spec"]["versions"][0].take();
    older["storage"] = json!(false);
    older["deprecated"] = json!(true);
    let kind = names.kind;
    older["deprecationWarning"] =
        json!(format!("nvidia.com/v1alpha1 {kind} is deprecated; use nvidia.com/v1beta1 {kind}"));
    if let Some(versions) = made["spec"]["versions"].as_array_mut() {
        versions.insert(0, older);
    }
    made["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": WEBHOOK_NAMESPACE, "name": WEBHOOK_SERVICE,
            "path": CONVERT}},
    }});
    made
}

/// The definition of a kind in one version.
pub fn in_one_version(names: &Names, version: &'static str, of: Version) -> Value {
    let mut made = Definition {
        group: GROUP,
        version,
        kind: names.kind,
        plural: names.plural,
        singular: names.singular,
        is_namespaced: true,
        schema: of.schema,
        has_status: true,
        columns: of.columns,
    }
    .manifest();
    made["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    made["spec"]["names"]["shortNames"] = json!([names.short]);
    made
}

/// A column of a table.
pub fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

pub fn condition_column(name: &str, condition: &str) -> Value {
    column(name, "string", &format!(".status.conditions[?(@.type==\"{condition}\")].status"))
}

pub fn age(name: &str) -> Value {
    column(name, "date", ".metadata.creationTimestamp")
}

fn graph() -> Value {
    let names = Names {
        kind: "DynamoGraphDeployment",
        plural: "dynamographdeployments",
        singular: "dynamographdeployment",
        short: "dgd",
    };
    let columns = json!([
        condition_column("Ready", "Ready"),
        column("Backend", "string", ".spec.backendFramework"),
        age("Age"),
    ]);
    let schema = object([("spec", graph_spec()), ("status", graph_status())]);
    let hub = Version { schema, columns: columns.clone() };
    let spoke = Version { schema: dynamo_alpha::graph(), columns };
    in_both_versions(&names, hub, spoke)
}

fn graph_spec() -> Value {
    let epp = "!has(self.components) || \
               self.components.filter(c, has(c.type) && c.type == 'epp').size() <= 1";
    let unique = "!has(self.components) || self.components.all(a, \
                  self.components.exists_one(b, a.name.lowerAscii() == b.name.lowerAscii()))";
    let component = with(dynamo_component::in_graph(), json!({}));
    let spec = object([
        ("annotations", core_types::shape("map:string")),
        ("backendFramework", choice(&BACKENDS)),
        ("components", list_by("name", component, Some(COMPONENTS_MAX))),
        ("env", list_by("name", core_types::of("EnvVar"), None)),
        ("experimental", object([("kvTransferPolicy", transfer_policy())])),
        ("labels", core_types::shape("map:string")),
        ("priorityClassName", string()),
        ("providerOverride", dynamo_component::provider_override()),
        ("restart", restart()),
        (
            "topologyConstraint",
            object([
                ("clusterTopologyName!", with(string(), json!({"minLength": 1}))),
                ("packDomain", domain()),
            ]),
        ),
    ]);
    let spec = rule(spec, epp, "at most one component may have type epp");
    let mut spec = rule(spec, unique, "component names must be unique case-insensitively");
    let on_create = json!({
        "rule": "oldSelf.hasValue() || !has(self.restart)",
        "message": "spec.restart must be unset on create; set spec.restart.id after creation to \
                    request a restart",
        "optionalOldSelf": true,
    });
    if let Some(rules) = spec["x-kubernetes-validations"].as_array_mut() {
        rules.push(on_create);
    }
    spec
}

pub(crate) fn domain() -> Value {
    with(text(0, 63), json!({"pattern": DOMAIN}))
}

/// How pods of a graph are started anew.
pub(crate) fn restart() -> Value {
    let kind = with(choice(&["Sequential", "Parallel"]), json!({"default": "Sequential"}));
    object([
        ("id!", with(string(), json!({"minLength": 1}))),
        ("strategy", object([("order", atomic_list(string(), None)), ("type", kind)])),
    ])
}

pub(crate) fn transfer_policy() -> Value {
    let key = with(
        text(0, 317),
        json!({"pattern": concat!(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?",
            r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")}),
    );
    let key = rule(
        key,
        "!self.contains('/') || self.split('/')[0].size() <= 253",
        "labelKey prefix must be 253 characters or less",
    );
    let enforcement = with(choice(&["required", "preferred"]), json!({"default": "required"}));
    let policy = object([
        ("clusterTopologyName", string()),
        ("domain!", domain()),
        ("enforcement", enforcement),
        ("labelKey", key),
        ("preferredWeight", json!({"type": "number", "minimum": 0, "maximum": 1})),
    ]);
    let policy = rule(
        policy,
        "has(self.labelKey) != has(self.clusterTopologyName)",
        "exactly one of labelKey or clusterTopologyName is required",
    );
    let policy = rule(
        policy,
        "self.enforcement != 'preferred' || has(self.preferredWeight)",
        "preferredWeight is required when enforcement is preferred",
    );
    rule(
        policy,
        "self.enforcement == 'preferred' || !has(self.preferredWeight)",
        "preferredWeight may only be set when enforcement is preferred",
    )
}

fn graph_status() -> Value {
    graph_status_with("components", "updatedComponents", replica_status())
}

/// The status of a graph; the versions call components differently.
pub(crate) fn graph_status_with(components: &str, updated: &str, of_one: Value) -> Value {
    let state = with(
        choice(&["initializing", "pending", "successful", "failed"]),
        json!({"default": "initializing"}),
    );
    let restart_phase = choice(&["Pending", "Restarting", "Completed", "Failed", "Superseded"]);
    let rollout_phase = choice(&["", "Pending", "InProgress", "Completed", "Failed"]);
    let checkpoint = object([
        ("checkpointID", string()),
        ("checkpointName", string()),
        ("identityHash", string()),
        ("ready", json!({"type": "boolean"})),
    ]);
    let placement = object([
        ("score", json!({"type": "number", "minimum": 0, "maximum": 1})),
        ("state", choice(&["Reported", "Partial", "Unsupported", "Unknown"])),
    ]);
    object([
        ("checkpoints", json!({"type": "object", "additionalProperties": checkpoint})),
        (components, json!({"type": "object", "additionalProperties": of_one})),
        ("conditions", list_by("type", condition(), None)),
        ("observedGeneration", json!({"type": "integer", "format": "int64"})),
        ("placement", placement),
        (
            "restart",
            object([
                ("inProgress", atomic_list(string(), None)),
                ("observedID", string()),
                ("phase", restart_phase),
            ]),
        ),
        (
            "rollingUpdate",
            object([
                ("endTime", time()),
                ("phase", rollout_phase),
                ("startTime", time()),
                (updated, atomic_list(string(), None)),
            ]),
        ),
        ("state!", state),
    ])
}

/// How many pods of a component are how far.
pub(crate) fn replica_status() -> Value {
    let kind = choice(&["PodClique", "PodCliqueScalingGroup", "Deployment", "LeaderWorkerSet"]);
    object([
        ("availableReplicas", integer()),
        ("componentKind!", kind),
        ("componentNames", atomic_list(string(), None)),
        ("readyReplicas", integer()),
        ("replicas!", integer()),
        ("runtimeNamespace", string()),
        ("scheduledReplicas", integer()),
        ("updatedReplicas!", integer()),
    ])
}

fn component() -> Value {
    let names = Names {
        kind: "DynamoComponentDeployment",
        plural: "dynamocomponentdeployments",
        singular: "dynamocomponentdeployment",
        short: "dcd",
    };
    let columns = |more: &[Value]| {
        let mut columns = more.to_vec();
        columns.push(condition_column("Available", "Available"));
        columns.push(column("Backend", "string", ".spec.backendFramework"));
        columns.push(age("Age"));
        json!(columns)
    };
    let mut spec = dynamo_component::alone();
    spec["properties"]["backendFramework"] = choice(&BACKENDS);
    let status = object([
        ("component", replica_status()),
        ("conditions", list_by("type", condition(), None)),
        ("observedGeneration", json!({"type": "integer", "format": "int64"})),
    ]);
    let hub =
        Version { schema: object([("spec", spec), ("status", status)]), columns: columns(&[]) };
    let first = column("DynamoComponent", "string", ".spec.dynamoComponent");
    let spoke = Version { schema: dynamo_alpha::component(), columns: columns(&[first]) };
    in_both_versions(&names, hub, spoke)
}

fn scaling_adapter() -> Value {
    let names = Names {
        kind: "DynamoGraphDeploymentScalingAdapter",
        plural: "dynamographdeploymentscalingadapters",
        singular: "dynamographdeploymentscalingadapter",
        short: "dgdsa",
    };
    let of = |field: &str, title: &str| {
        let required = with(string(), json!({"minLength": 1}));
        let named = format!("{field}!");
        let reference = object([("name!", required.clone()), (named.as_str(), required)]);
        let spec = object([("dgdRef!", reference), ("replicas!", count())]);
        let status =
            object([("lastScaleTime", time()), ("replicas", integer()), ("selector", string())]);
        Version {
            schema: object([("spec!", spec), ("status", status)]),
            columns: json!([
                column("DGD", "string", ".spec.dgdRef.name"),
                column(title, "string", &format!(".spec.dgdRef.{field}")),
                column("REPLICAS", "integer", ".status.replicas"),
                age("AGE"),
            ]),
        }
    };
    let hub = of("componentName", "COMPONENT");
    let mut made = in_both_versions(&names, hub, of("serviceName", "SERVICE"));
    for version in made["spec"]["versions"].as_array_mut().into_iter().flatten() {
        version["subresources"]["scale"] = json!({"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"});
    }
    made
}

/// What a worker says of itself; only its pod writes it.
fn worker_metadata() -> Value {
    let names = Names {
        kind: "DynamoWorkerMetadata",
        plural: "dynamoworkermetadatas",
        singular: "dynamoworkermetadata",
        short: "dwm",
    };
    let data = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = object([("spec!", object([("data!", data)]))]);
    let of = Version { schema, columns: json!([age("Age")]) };
    let mut made = in_one_version(&names, SPOKE, of);
    if let Some(version) = made["spec"]["versions"][0].as_object_mut() {
        version.remove("subresources");
    }
    made
}
