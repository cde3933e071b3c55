//! ValidatingAdmissionPolicies through the whole server.

use std::time::Duration;

use serde_json::{Value, json};
use store::{Environment, System};

use crate::api::{ADMIN, Api};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn policy(name: &str, resources: &[&str], spec: Value) -> Value {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources,
        "operations": ["CREATE", "UPDATE", "DELETE"]});
    let mut policy = json!({"metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}}});
    for (field, value) in spec.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    policy
}

fn map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

impl Api {
    /// Writes a policy and what binds it, and waits until it is heard.
    async fn bind(&self, policy: Value, binding: Value) {
        let name = policy["metadata"]["name"].as_str().unwrap().to_owned();
        self.admin(&format!("POST {GROUP}/validatingadmissionpolicies"), policy).await;
        let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
        for (field, value) in binding.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let binding = json!({"metadata": {"name": format!("{name}-bound")}, "spec": spec});
        self.admin(&format!("POST {GROUP}/validatingadmissionpolicybindings"), binding).await;
        self.until_heard().await;
    }

    /// What is written first is heard first, so a marker that is refused says that all are heard.
    async fn until_heard(&self) {
        let marker = format!("marker-{:x}", System.random());
        let expression = format!("object == null || object.metadata.name != '{marker}'");
        let spec = json!({"validations": [{"expression": expression}]});
        let marking = policy(&marker, &["configmaps"], spec);
        self.admin(&format!("POST {GROUP}/validatingadmissionpolicies"), marking).await;
        let bound = json!({"metadata": {"name": marker},
            "spec": {"policyName": marker, "validationActions": ["Deny"]}});
        self.admin(&format!("POST {GROUP}/validatingadmissionpolicybindings"), bound).await;
        let line = format!("POST {MAPS}?dryRun=All");
        let refused = format!("ValidatingAdmissionPolicy '{marker}'");
        for _ in 0..1_000 {
            let (_, answer) = self.ask(ADMIN, &line, &map(&marker, json!({}))).await;
            if answer["message"].as_str().is_some_and(|message| message.contains(&refused)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no policy is heard");
    }
}

#[tokio::test]
async fn a_policy_refuses_in_the_words_users_know() {
    let (api, _scratch) = Api::start().await;
    let validations = json!([
        {"expression": "object == null || !has(object.data) || !has(object.data.a)"},
        {"expression": "object == null || object.metadata.name != 'b'", "message": "not b",
            "reason": "Forbidden"},
        {"expression": "object == null || object.metadata.name != 'c'",
            "message": "unused", "messageExpression": "'no ' + object.metadata.name"},
        {"expression": "object != null || oldObject.metadata.name != 'kept'"},
    ]);
    let spec = json!({"validations": validations});
    api.bind(policy("rules", &["configmaps"], spec), json!({})).await;
    let refused = "ValidatingAdmissionPolicy 'rules' with binding 'rules-bound' denied request";
    let cases = [
        (
            map("a", json!({"a": "1"})),
            422,
            "failed expression: object == null || \
            !has(object.data) || !has(object.data.a)",
        ),
        (map("b", json!({})), 403, "not b"),
        (map("c", json!({})), 422, "no c"),
    ];
    for (object, code, why) in cases {
        let name = object["metadata"]["name"].as_str().unwrap();
        let expected = format!("configmaps {name:?} is forbidden: {refused}: {why}");
        let found = api.refused(&format!("POST {MAPS}"), object.clone()).await;
        assert_eq!(found, (code, expected));
    }
    // Changes and deletions are asked about too, and what nobody forbids is done.
    api.admin(&format!("POST {MAPS}"), map("kept", json!({"x": "1"}))).await;
    let (code, answer) =
        api.ask(ADMIN, &format!("PATCH {MAPS}/kept"), &json!({"data": {"a": "1"}})).await;
    assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")));
    assert_eq!(answer["details"]["causes"][0]["message"].as_str().unwrap().find(refused), Some(0));
    assert_eq!(api.ask(ADMIN, &format!("DELETE {MAPS}/kept"), &Value::Null).await.0, 422);
    // Without its binding it says nothing more.
    let bound = format!("DELETE {GROUP}/validatingadmissionpolicybindings/rules-bound");
    api.admin(&bound, Value::Null).await;
    for _ in 0..1_000 {
        if api.ask(ADMIN, &format!("DELETE {MAPS}/kept"), &Value::Null).await.0 == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the policy goes on without its binding");
}

#[tokio::test]
async fn variables_conditions_namespaces_and_rights_are_known_to_expressions() {
    let (api, _scratch) = Api::start().await;
    let spec = json!({
        "matchConditions": [{"name": "not-nodes",
            "expression": "!request.userInfo.groups.exists(g, g == 'system:nodes')"}],
        "variables": [
            {"name": "size", "expression": "has(object.data) ? size(object.data) : 0"},
            {"name": "most", "expression": "quantity('2')"},
            {"name": "broken", "expression": "object.data.absent"},
            {"name": "fits", "expression": "!variables.most.isLessThan(quantity('2'))"},
        ],
        "validations": [
            {"expression": "variables.fits && variables.size <= 2", "messageExpression":
                "string(variables.size) + ' are too many in ' + namespaceObject.metadata.name"},
            {"expression": "object.metadata.name != 'x' || variables.broken == 'y'"},
            {"expression": "object.metadata.name != 'mine' || \
                authorizer.requestResource.check('mayname').allowed()", "message": "not yours"},
        ],
    });
    api.bind(policy("sizes", &["configmaps"], spec), json!({})).await;
    let line = &format!("POST {MAPS}?dryRun=All");
    let why = |found: (u16, String)| found.1.split_once("request: ").unwrap().1.to_owned();
    let three = map("three", json!({"a": "1", "b": "2", "c": "3"}));
    let refused = api.refused(line, three.clone()).await;
    assert_eq!(why(refused), "3 are too many in default");
    let refused = api.refused(line, map("x", json!({"z": "1"}))).await;
    assert_eq!(
        why(refused),
        "expression 'object.metadata.name != 'x' || variables.broken == 'y'' resulted in error: \
         composited variable \"broken\" fails to evaluate: no such key: absent"
    );
    // Whoever may do everything may do that too; the others are told.
    assert_eq!(api.ask(ADMIN, line, &map("mine", json!({"a": "1"}))).await.0, 201);
    let node = "system:node:n+system:nodes+system:masters";
    assert_eq!(api.ask(node, line, &three).await.0, 201, "the condition leaves nodes out");
}

#[tokio::test]
async fn parameters_selectors_and_warnings_are_the_bindings() {
    let (api, _scratch) = Api::start().await;
    api.admin(&format!("POST {MAPS}"), map("limits", json!({"most": "1"}))).await;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "size(object.data) <= int(params.data.most)"}],
    });
    let limited = json!({
        "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"},
        "matchResources": {"objectSelector": {"matchLabels": {"limited": "yes"}}},
    });
    api.bind(policy("limits", &["configmaps"], spec.clone()), limited).await;
    let line = &format!("POST {MAPS}?dryRun=All");
    let mut two = map("two", json!({"a": "1", "b": "2"}));
    assert_eq!(api.ask(ADMIN, line, &two).await.0, 201, "it is not selected");
    two["metadata"]["labels"] = json!({"limited": "yes"});
    assert_eq!(api.ask(ADMIN, line, &two).await.0, 422);
    api.admin(&format!("PATCH {MAPS}/limits"), json!({"data": {"most": "2"}})).await;
    assert_eq!(api.ask(ADMIN, line, &two).await.0, 201, "the parameters are those of now");

    let missing = json!({
        "paramRef": {"name": "nowhere", "parameterNotFoundAction": "Deny"},
        "matchResources": {"objectSelector": {"matchLabels": {"lost": "yes"}}},
    });
    api.bind(policy("lost", &["configmaps"], spec), missing).await;
    two["metadata"]["labels"] = json!({"lost": "yes"});
    let (code, why) = api.refused(line, two.clone()).await;
    assert_eq!(code, 422);
    assert!(
        why.ends_with("no params found for policy binding with `Deny` parameterNotFoundAction")
    );

    let spec = json!({"validations": [{"expression": "false", "message": "soon refused"}]});
    api.bind(policy("warns", &["secrets"], spec), json!({"validationActions": ["Warn", "Audit"]}))
        .await;
    let secret = json!({"metadata": {"name": "s"}});
    let warned = api.warned("POST /api/v1/namespaces/default/secrets", &secret).await;
    assert!(
        warned.iter().any(|it| it.contains(
            "Validation failed for ValidatingAdmissionPolicy 'warns' with binding 'warns-bound': \
             soon refused"
        )),
        "{warned:?}"
    );
}

#[tokio::test]
async fn a_broken_policy_can_be_taken_away_and_may_fail_open() {
    let (api, _scratch) = Api::start().await;
    let all = json!({"validations": [{"expression": "object.nowhere == 1"}]});
    api.bind(policy("zz-all", &["*"], all), json!({})).await;
    let line = format!("POST {MAPS}?dryRun=All");
    assert_eq!(api.ask(ADMIN, &line, &map("m", json!({}))).await.0, 422);
    let away = format!("DELETE {GROUP}/validatingadmissionpolicies/zz-all");
    api.admin(&away, Value::Null).await;
    api.until_heard().await;
    let spec = json!({"failurePolicy": "Ignore",
        "validations": [{"expression": "object.nowhere == 1"}]});
    api.bind(policy("open", &["configmaps"], spec), json!({})).await;
    assert_eq!(api.ask(ADMIN, &line, &map("m", json!({}))).await.0, 201);
    // What is kept without being enforced says so.
    let path = format!("POST {GROUP}/mutatingadmissionpolicies?dryRun=All");
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"],
        "operations": ["CREATE"]});
    let mutating = json!({"metadata": {"name": "m"}, "spec": {
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]}});
    let warned = api.warned(&path, &mutating).await;
    assert!(warned.iter().any(|it| it.contains("change nothing here")), "{warned:?}");
}
