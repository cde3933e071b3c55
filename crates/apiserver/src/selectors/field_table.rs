//! The fields that can be selected by, per kind, and their values in an object.
//!
//! The values are taken once, when an object is written, and kept beside its bytes; name and
//! namespace are not among them, for the key of an object has those.
//!
//! Upstream: pkg/apis/*/v1/conversion.go (field labels), pkg/registry/*/*/strategy.go (values)

use serde_json::Value;

/// A field, and how to take it from an object.
type Field = (&'static str, fn(&Value) -> String);

/// What a kind has besides `metadata.name` and `metadata.namespace`.
struct Kind {
    group: &'static str,
    kind: &'static str,
    supported: &'static [&'static str],
    fields: &'static [Field],
}

const METADATA: &[&str] = &["metadata.name", "metadata.namespace"];

static KINDS: &[Kind] = &[
    Kind { group: "", kind: "Pod", supported: POD, fields: POD_FIELDS },
    Kind { group: "", kind: "Event", supported: EVENT, fields: EVENT_FIELDS },
    Kind { group: "events.k8s.io", kind: "Event", supported: NEW_EVENT, fields: EVENT_FIELDS },
    Kind {
        group: "",
        kind: "Node",
        supported: &["metadata.name", "spec.unschedulable"],
        fields: &[("spec.unschedulable", |object| flag(object, "/spec/unschedulable"))],
    },
    Kind {
        group: "",
        kind: "Namespace",
        supported: &["metadata.name", "status.phase"],
        fields: &[("status.phase", |object| text(object, "/status/phase"))],
    },
    Kind { group: "", kind: "ReplicationController", supported: REPLICAS, fields: REPLICAS_FIELDS },
    Kind { group: "apps", kind: "ReplicaSet", supported: REPLICAS, fields: REPLICAS_FIELDS },
    Kind {
        group: "",
        kind: "Secret",
        supported: &["metadata.name", "metadata.namespace", "type"],
        fields: &[("type", |object| text(object, "/type"))],
    },
    Kind {
        group: "",
        kind: "Service",
        supported: &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"],
        fields: &[
            ("spec.clusterIP", |object| text(object, "/spec/clusterIP")),
            ("spec.type", |object| text(object, "/spec/type")),
        ],
    },
    Kind {
        group: "batch",
        kind: "Job",
        supported: &["metadata.name", "metadata.namespace", "status.successful"],
        fields: &[("status.successful", |object| number(object, "/status/succeeded"))],
    },
    Kind {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        supported: &["metadata.name", "spec.signerName"],
        fields: &[("spec.signerName", |object| text(object, "/spec/signerName"))],
    },
    Kind {
        group: "resource.k8s.io",
        kind: "ResourceSlice",
        supported: &["metadata.name", "spec.nodeName", "spec.driver"],
        fields: &[
            ("spec.nodeName", |object| text(object, "/spec/nodeName")),
            ("spec.driver", |object| text(object, "/spec/driver")),
        ],
    },
];

const POD: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

const POD_FIELDS: &[Field] = &[
    ("spec.nodeName", |object| text(object, "/spec/nodeName")),
    ("spec.restartPolicy", |object| text(object, "/spec/restartPolicy")),
    ("spec.schedulerName", |object| text(object, "/spec/schedulerName")),
    ("spec.serviceAccountName", |object| text(object, "/spec/serviceAccountName")),
    ("spec.hostNetwork", |object| flag(object, "/spec/hostNetwork")),
    ("status.phase", |object| text(object, "/status/phase")),
    ("status.podIP", |object| text(object, "/status/podIP")),
    ("status.podIPs", |object| text(object, "/status/podIP")),
    ("status.nominatedNodeName", |object| text(object, "/status/nominatedNodeName")),
];

const EVENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const NEW_EVENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Of an event in either of its two forms, under the names of the first.
const EVENT_FIELDS: &[Field] = &[
    ("involvedObject.kind", |event| regarding(event, "kind")),
    ("involvedObject.namespace", |event| regarding(event, "namespace")),
    ("involvedObject.name", |event| regarding(event, "name")),
    ("involvedObject.uid", |event| regarding(event, "uid")),
    ("involvedObject.apiVersion", |event| regarding(event, "apiVersion")),
    ("involvedObject.resourceVersion", |event| regarding(event, "resourceVersion")),
    ("involvedObject.fieldPath", |event| regarding(event, "fieldPath")),
    ("reason", |event| text(event, "/reason")),
    ("reportingComponent", reporter),
    ("source", source),
    ("type", |event| text(event, "/type")),
];

const REPLICAS: &[&str] = &["metadata.name", "metadata.namespace", "status.replicas"];
const REPLICAS_FIELDS: &[Field] =
    &[("status.replicas", |object| number(object, "/status/replicas"))];

/// The fields that a selector for this kind may name.
pub fn supported(group: &str, kind: &str) -> &'static [&'static str] {
    find(group, kind).map(|found| found.supported).unwrap_or(METADATA)
}

/// What an object has in the fields of its kind, without name and namespace and without what is
/// empty, for a field that is not there is empty.
pub fn values(group: &str, kind: &str, object: &Value) -> Vec<(&'static str, String)> {
    let fields = find(group, kind).map(|found| found.fields).unwrap_or_default();
    let taken = fields.iter().map(|(name, take)| (*name, take(object)));
    taken.filter(|(_, value)| !value.is_empty()).collect()
}

/// Whether a kind has fields of its own, and with them a refusal of its own.
pub(super) fn has_own(group: &str, kind: &str) -> bool {
    find(group, kind).is_some()
}

/// The name under which [`values`] has a field that clients also know by another name.
pub(super) fn usual_name(group: &str, kind: &str, field: &str) -> Option<&'static str> {
    match (group, kind, field) {
        ("", "Pod", "spec.host") => Some("spec.nodeName"),
        ("events.k8s.io", "Event", "reportingController") => Some("reportingComponent"),
        ("events.k8s.io", "Event", _) => {
            let rest = field.strip_prefix("regarding.")?;
            EVENT.iter().find(|name| name.strip_prefix("involvedObject.") == Some(rest)).copied()
        }
        _ => None,
    }
}

fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|one| one.kind == kind && one.group == group)
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn number(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default().to_string()
}

fn flag(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default().to_string()
}

fn regarding(event: &Value, field: &str) -> String {
    let object = event.get("involvedObject").or_else(|| event.get("regarding"));
    let value = object.and_then(|object| object[field].as_str());
    value.unwrap_or_default().to_owned()
}

fn reporter(event: &Value) -> String {
    let name = event.get("reportingComponent").or_else(|| event.get("reportingController"));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn source(event: &Value) -> String {
    let source = event.get("source").or_else(|| event.get("deprecatedSource"));
    match source.and_then(|source| source["component"].as_str()) {
        Some(component) if !component.is_empty() => component.to_owned(),
        _ => reporter(event),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_the_kind() {
        let cases = [
            (
                ("", "Pod"),
                json!({
                    "spec": {"nodeName": "n", "hostNetwork": true},
                    "status": {"phase": "Failed"},
                }),
                vec![
                    ("spec.nodeName", "n"),
                    ("spec.hostNetwork", "true"),
                    ("status.phase", "Failed"),
                ],
            ),
            (("", "Pod"), json!({}), vec![("spec.hostNetwork", "false")]),
            (("", "Node"), json!({}), vec![("spec.unschedulable", "false")]),
            (
                ("batch", "Job"),
                json!({"status": {"succeeded": 2}}),
                vec![("status.successful", "2")],
            ),
            (("apps", "ReplicaSet"), json!({}), vec![("status.replicas", "0")]),
            (("", "Secret"), json!({"type": "Opaque"}), vec![("type", "Opaque")]),
            (("", "ConfigMap"), json!({"data": {"a": "b"}}), vec![]),
            (
                ("", "Event"),
                json!({"involvedObject": {"kind": "Pod"}, "source": {"component": "kubelet"}}),
                vec![("involvedObject.kind", "Pod"), ("source", "kubelet")],
            ),
            (
                ("events.k8s.io", "Event"),
                json!({"regarding": {"name": "p"}, "reportingController": "c"}),
                vec![("involvedObject.name", "p"), ("reportingComponent", "c"), ("source", "c")],
            ),
        ];
        for ((group, kind), object, expected) in cases {
            let values = values(group, kind, &object);
            let values: Vec<_> = values.iter().map(|(name, value)| (*name, &value[..])).collect();
            assert_eq!(values, expected, "{group}/{kind}");
        }
    }

    #[test]
    fn every_supported_field_has_a_value_or_is_of_the_key() {
        for kind in KINDS {
            for field in kind.supported.iter().filter(|field| !METADATA.contains(field)) {
                let usual = usual_name(kind.group, kind.kind, field).unwrap_or(field);
                assert!(kind.fields.iter().any(|(name, _)| name == &usual), "{field}");
            }
        }
        assert_eq!(supported("example.com", "Thing"), METADATA);
    }
}
