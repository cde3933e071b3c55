//! What looks at requests before they are done: webhooks and admission policies.
//!
//! Upstream: pkg/printers/internalversion/printers.go

use serde_json::Value;

use super::super::read::{age, at, bare_selector, count, name, text};
use super::super::{Column, Printer, cells};

const GROUP: &str = "admissionregistration.k8s.io";

pub static PRINTERS: &[Printer] = &[
    Printer::new(GROUP, "MutatingWebhookConfiguration", WEBHOOKS, webhooks),
    Printer::new(GROUP, "ValidatingWebhookConfiguration", WEBHOOKS, webhooks),
    Printer::new(GROUP, "ValidatingAdmissionPolicy", VALIDATING_POLICY, |object, now| {
        policy(object, "validations", now)
    }),
    Printer::new(GROUP, "MutatingAdmissionPolicy", MUTATING_POLICY, |object, now| {
        policy(object, "mutations", now)
    }),
    Printer::new(GROUP, "ValidatingAdmissionPolicyBinding", BINDING, binding),
    Printer::new(GROUP, "MutatingAdmissionPolicyBinding", BINDING, binding),
];

const WEBHOOKS: &[Column] =
    &[Column::NAME, Column::integer("Webhooks", "How many webhooks there are."), Column::AGE];

const PARAM_KIND: Column = Column::text("ParamKind", "The kind that has the policy's parameters.");

const VALIDATING_POLICY: &[Column] = &[
    Column::NAME,
    Column::integer("Validations", "How many rules there are."),
    PARAM_KIND,
    Column::AGE,
];

const MUTATING_POLICY: &[Column] = &[
    Column::NAME,
    Column::integer("Mutations", "How many changes are made."),
    PARAM_KIND,
    Column::AGE,
];

const BINDING: &[Column] = &[
    Column::NAME,
    Column::text("PolicyName", "The policy that is put to use."),
    Column::text("ParamRef", "The objects that have its parameters."),
    Column::AGE,
];

fn webhooks(object: &Value, now: i64) -> Vec<Value> {
    cells![name(object), count(object, &["webhooks"]), age(object, now)]
}

fn policy(object: &Value, rules: &str, now: i64) -> Vec<Value> {
    let kind = match at(object, &["spec", "paramKind"]) {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", text(kind, &["apiVersion"]), text(kind, &["kind"])),
    };
    cells![name(object), count(object, &["spec", rules]), kind, age(object, now)]
}

fn binding(object: &Value, now: i64) -> Vec<Value> {
    let reference = at(object, &["spec", "paramRef"]);
    let chosen = at(reference, &["selector"]);
    let parameters = match (text(reference, &["name"]), text(reference, &["namespace"])) {
        ("", _) if chosen.is_null() => "<unset>".to_owned(),
        ("", _) => bare_selector(chosen),
        // It cannot be told from here whether the parameters have a namespace.
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    cells![name(object), text(object, &["spec", "policyName"]), parameters, age(object, now)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::check;
    use super::GROUP;

    #[test]
    fn webhooks_are_counted() {
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            check(GROUP, kind, json!({"webhooks": [{}, {}]}), json!(["x", 2, "5m"]));
        }
    }

    #[test]
    fn policies_and_bindings() {
        let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        check(
            GROUP,
            "ValidatingAdmissionPolicy",
            json!({"spec": {"validations": [{}], "paramKind": kind}}),
            json!(["x", 1, "v1/ConfigMap", "5m"]),
        );
        check(
            GROUP,
            "MutatingAdmissionPolicy",
            json!({"spec": {"mutations": [{}, {}]}}),
            json!(["x", 2, "<unset>", "5m"]),
        );
        let references = [
            (json!(null), "<unset>"),
            (json!({"name": "n"}), "*/n"),
            (json!({"name": "n", "namespace": "d"}), "d/n"),
            (json!({"selector": {"matchLabels": {"a": "b"}}}), "a=b"),
        ];
        for (reference, shown) in references {
            for kind in ["ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"] {
                let object = json!({"spec": {"policyName": "p", "paramRef": reference}});
                check(GROUP, kind, object, json!(["x", "p", shown, "5m"]));
            }
        }
    }
}
