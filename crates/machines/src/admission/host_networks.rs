//! Fields of a Wukong that reach into the network of the nodes. Their writer needs the right to
//! write NodeNetworkConfigurationPolicies, which the operator writes for them.

use reconcile::Context;
use serde_json::{Value, json};

use crate::kinds::POLICY;
use crate::value::{find, list, text};
use crate::wukong::private_bridge;

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const FIELDS: [&str; 5] = ["physicalInterface", "nodeIP", "bridgeName", "type", "vlanId"];

/// Returns why the writer of a Wukong may not write it, if so.
pub async fn refusal(context: &Context, request: &Value) -> Option<String> {
    let fields = host_fields(request);
    if fields.is_empty() {
        return None;
    }
    let requests = context.requests("wukong-webhook", Default::default());
    let fields = fields.join(", ");
    match requests.post(ACCESS_REVIEWS, &access_review(request)).await {
        Ok(review) if review["status"]["allowed"] == true => None,
        Ok(_) => Some(format!(
            "{fields}: configures the network of the nodes, and user {:?} may not {} {}.{} at the \
             cluster scope; leave the fields empty for a network of this namespace, or ask an \
             administrator for that right or for a NetworkAttachmentDefinition (nadName)",
            text(&request["userInfo"]["username"]),
            verb(request),
            POLICY.plural,
            POLICY.group,
        )),
        Err(error) => Some(format!(
            "{fields}: could not check whether the user may configure the network of the nodes: {}",
            error.said()
        )),
    }
}

/// Returns the paths of the fields that reach into the network of the nodes, and are new or
/// changed.
fn host_fields(request: &Value) -> Vec<String> {
    let (new, old) = (&request["object"], &request["oldObject"]);
    if !new["metadata"]["deletionTimestamp"].is_null() {
        return Vec::new();
    }
    let namespace = text(&request["namespace"]);
    let mut fields = Vec::new();
    for (at, network) in list(&new["spec"]["networks"]).iter().enumerate() {
        let name = text(&network["name"]);
        let before = find(&old["spec"]["networks"], "name", name);
        let is_same =
            before.is_some_and(|before| FIELDS.iter().all(|it| before[*it] == network[*it]));
        if is_same {
            continue;
        }
        let bridge = text(&network["bridgeName"]);
        let found = [
            ("physicalInterface", !text(&network["physicalInterface"]).is_empty()),
            ("nodeIP", !text(&network["nodeIP"]).is_empty()),
            ("type", network["type"] == "macvlan"),
            ("bridgeName", !bridge.is_empty() && bridge != private_bridge(namespace, name)),
        ];
        let found = found.into_iter().filter(|(_, is_host)| *is_host);
        fields.extend(found.map(|(field, _)| format!("spec.networks[{at}].{field}")));
    }
    fields
}

fn verb(request: &Value) -> &'static str {
    if request["operation"] == "CREATE" { "create" } else { "update" }
}

fn access_review(request: &Value) -> Value {
    let user = &request["userInfo"];
    let mut spec = json!({
        "user": user["username"],
        "resourceAttributes": {"group": POLICY.group, "version": POLICY.version,
            "resource": POLICY.plural, "verb": verb(request)},
    });
    for field in ["groups", "uid", "extra"] {
        if !user[field].is_null() {
            spec[field] = user[field].clone();
        }
    }
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(before: Value, after: Value) -> Value {
        json!({"operation": if before.is_null() { "CREATE" } else { "UPDATE" }, "namespace": "ns",
            "userInfo": {"username": "ada", "groups": ["team"]},
            "object": {"spec": {"networks": after}}, "oldObject": {"spec": {"networks": before}}})
    }

    #[test]
    fn fields_of_nodes_are_found_when_they_are_new_or_changed() {
        for (network, expected) in [
            (json!({"name": "default"}), ""),
            (json!({"name": "lan", "type": "bridge", "vlanId": 7}), ""),
            (json!({"name": "lan", "bridgeName": private_bridge("ns", "lan")}), ""),
            (json!({"name": "lan", "bridgeName": private_bridge("other", "lan")}), "bridgeName"),
            (json!({"name": "lan", "bridgeName": "br0"}), "bridgeName"),
            (json!({"name": "lan", "type": "macvlan"}), "type"),
            (json!({"name": "lan", "nodeIP": "10.0.0.1/24"}), "nodeIP"),
            (
                json!({"name": "lan", "type": "sriov", "physicalInterface": "p"}),
                "physicalInterface",
            ),
        ] {
            let found = host_fields(&request(Value::Null, json!([network])));
            let expected = match expected {
                "" => Vec::new(),
                field => vec![format!("spec.networks[0].{field}")],
            };
            assert_eq!(found, expected, "{network}");
            let other = json!({"name": "other"});
            let kept = request(json!([network]), json!([other, network]));
            assert_eq!(host_fields(&kept), [""; 0], "unchanged: {network}");
        }
        let tagged = |vlan: i64| json!([{"name": "l", "physicalInterface": "e", "vlanId": vlan}]);
        assert_eq!(host_fields(&request(tagged(1), tagged(2))).len(), 1);
    }

    #[test]
    fn the_right_of_the_writer_is_asked_for() {
        let review = access_review(&request(Value::Null, json!([])));
        assert_eq!(review["spec"]["user"], "ada");
        assert_eq!(review["spec"]["groups"], json!(["team"]));
        assert_eq!(review["spec"]["resourceAttributes"]["verb"], "create");
        let resource = &review["spec"]["resourceAttributes"]["resource"];
        assert_eq!(resource, "nodenetworkconfigurationpolicies");
    }
}
