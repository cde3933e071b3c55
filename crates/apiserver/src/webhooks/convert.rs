//! ConversionReview: another program converts custom resources between versions.
//!
//! The answer is believed as far as it goes: content, labels and annotations. All other metadata
//! is what it was.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go

use serde_json::{Map, Value, json};

use super::target::Target;
use super::writer::Reach;
use crate::ids;
use crate::object;
use crate::server::Server;
use crate::status::Error;

/// How long a conversion may take.
const TIMEOUT_SECONDS: u64 = 30;
/// The most objects of one review; more are converted in several.
const OBJECTS_MAX: usize = 500;
const GROUP: &str = "apiextensions.k8s.io";

/// Who converts the objects of a definition, from its `spec.conversion`.
#[derive(Clone)]
pub struct ConversionWebhook {
    target: Result<Target, String>,
    /// `v1` or `v1beta1`: the first of the configured ones that is spoken here.
    version: &'static str,
}

impl ConversionWebhook {
    /// Of a CustomResourceDefinition as it is stored; none where nobody else converts.
    pub fn of(definition: &Value) -> Option<ConversionWebhook> {
        let conversion = &definition["spec"]["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = object::texts(&webhook["conversionReviewVersions"]);
        let spoken = versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        });
        let target = Target::of(&webhook["clientConfig"], Reach::of(definition));
        Some(ConversionWebhook { target, version: spoken.unwrap_or("v1") })
    }
}

/// The objects in another version, in the same order.
pub async fn convert(
    server: &Server,
    config: &ConversionWebhook,
    objects: Vec<Value>,
    desired_api_version: &str,
) -> Result<Vec<Value>, Error> {
    let mut converted = Vec::with_capacity(objects.len());
    for originals in objects.chunks(OBJECTS_MAX) {
        converted.extend(convert_some(server, config, originals, desired_api_version).await?);
    }
    Ok(converted)
}

async fn convert_some(
    server: &Server,
    config: &ConversionWebhook,
    originals: &[Value],
    desired: &str,
) -> Result<Vec<Value>, Error> {
    let subject = subject(originals);
    let failed =
        |why: String| Error::plain(format!("conversion webhook for {subject} failed: {why}"));
    let target = config.target.as_ref().map_err(|why| failed(why.clone()))?;
    let uid = ids::uuid(&*server.environment);
    let review = json!({
        "apiVersion": format!("{GROUP}/{}", config.version),
        "kind": "ConversionReview",
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": originals},
    });
    let answer = server.webhook_client.post(server, target, &review, TIMEOUT_SECONDS).await;
    let answer = answer.map_err(failed)?;
    let found = verified(answer, config.version, &uid).map_err(failed)?;
    if found.len() != originals.len() {
        return Err(Error::plain(format!(
            "conversion webhook for {subject} returned {} objects, expected {}",
            found.len(),
            originals.len()
        )));
    }
    let pairs = originals.iter().zip(found).enumerate();
    pairs
        .map(|(index, (original, found))| {
            accepted(original, found, desired).map_err(|why| {
                Error::plain(format!(
                    "conversion webhook for {subject} returned invalid converted object at index \
                     {index}: {why}"
                ))
            })
        })
        .collect()
}

/// What is converted, as upstream writes it: `example.com/v1, Kind=Widget`.
fn subject(originals: &[Value]) -> String {
    let first = originals.first().unwrap_or(&Value::Null);
    let text = |name: &str| first[name].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

/// The objects of an answer that is one to the question.
fn verified(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (found_uid, expected) = (text(&response["uid"]), format!("{GROUP}/{version}"));
    if version == "v1" {
        if found_uid != uid {
            return Err(format!("expected response.uid={uid:?}, got {found_uid:?}"));
        }
        let found = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if found != (expected.clone(), "ConversionReview".to_owned()) {
            return Err(format!(
                "expected webhook response of {expected}, Kind=ConversionReview, got {}, Kind={}",
                found.0, found.1
            ));
        }
    }
    let result = &response["result"];
    match (text(&result["status"]), text(&result["message"])) {
        (status, _) if status == "Success" => {}
        (status, message) if message.is_empty() => {
            return Err(format!("response.result.status was '{status}', not 'Success'"));
        }
        (_, message) => return Err(message),
    }
    match answer["response"]["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        Value::Null => Ok(Vec::new()),
        _ => Err("response.convertedObjects is not a list".to_owned()),
    }
}

/// The converted object with all metadata but labels and annotations as it was.
fn accepted(original: &Value, mut found: Value, desired: &str) -> Result<Value, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&found["apiVersion"]);
    if version != desired {
        return Err(format!("invalid groupVersion (expected {desired}, received {version})"));
    }
    if !found["metadata"].is_object() {
        return Err("missing metadata in converted object".to_owned());
    }
    let (kind, before) = (text(&found["kind"]), text(&original["kind"]));
    if kind != before {
        return Err(format!("must have the same kind: {kind} != {before}"));
    }
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (after, before) = (object::meta(&found, field), object::meta(original, field));
        if after != before {
            return Err(format!("must have the same {shown}: {after} != {before}"));
        }
    }
    let mut metadata = original["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let value = found["metadata"][field].take();
        let of_texts = |map: &Map<String, Value>| map.values().all(Value::is_string);
        match value {
            Value::Null => {
                metadata.remove(field);
            }
            Value::Object(map) if of_texts(&map) => {
                metadata.insert(field.to_owned(), map.into());
            }
            _ => return Err(format!("invalid metadata.{field} in converted object")),
        }
    }
    found["metadata"] = metadata.into();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original() -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 3,
                "labels": {"x": "1"}, "resourceVersion": "7"},
            "spec": {"size": 1},
        })
    }

    fn converted() -> Value {
        let mut converted = original();
        converted["apiVersion"] = json!("example.com/v2");
        converted["spec"] = json!({"dimensions": {"size": 1}});
        converted
    }

    #[test]
    fn only_content_labels_and_annotations_change() {
        let mut found = converted();
        found["metadata"]["labels"] = json!({"y": "2"});
        found["metadata"]["generation"] = json!(9);
        found["metadata"]["finalizers"] = json!(["mine"]);
        let accepted = accepted(&original(), found, "example.com/v2").unwrap();
        let mut expected = converted();
        expected["metadata"]["labels"] = json!({"y": "2"});
        assert_eq!(accepted, expected);
    }

    #[test]
    fn another_object_is_refused() {
        let cases: [(&str, Value, &str); 6] = [
            ("/kind", json!("Gadget"), "must have the same kind: Gadget != Widget"),
            ("/metadata/name", json!("b"), "must have the same name: b != a"),
            ("/metadata/namespace", json!("m"), "must have the same namespace: m != n"),
            ("/metadata/uid", json!("v"), "must have the same UID: v != u"),
            (
                "/apiVersion",
                json!("example.com/v3"),
                "invalid groupVersion (expected example.com/v2, received example.com/v3)",
            ),
            ("/metadata/labels", json!({"x": 1}), "invalid metadata.labels in converted object"),
        ];
        for (place, value, why) in cases {
            let mut found = converted();
            *found.pointer_mut(place).unwrap() = value;
            assert_eq!(accepted(&original(), found, "example.com/v2").unwrap_err(), why);
        }
    }
}
