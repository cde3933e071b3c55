//! An object as a cache keeps it: who owns which field is half of many objects, and nobody's
//! business here. It is passed over while reading. A write that leaves it out leaves it as it is.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// JSON without `metadata.managedFields`.
#[derive(Default)]
pub struct Kept(pub Value);

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kept, D::Error> {
        deserializer.deserialize_map(Whole).map(Kept)
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            let value = match key.as_str() {
                "metadata" => from.next_value::<Metadata>()?.0,
                _ => from.next_value()?,
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

struct Metadata(Value);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
        deserializer.deserialize_map(Fields).map(Metadata)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            match key.as_str() {
                "managedFields" => {
                    from.next_value::<IgnoredAny>()?;
                }
                _ => {
                    map.insert(key, from.next_value()?);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_but_the_owners_of_fields_is_kept() {
        let text = r#"{"kind":"A","metadata":{"name":"a","managedFields":[{"fieldsV1":{"f:x":{}}}],
            "labels":{"managedFields":"b"}},"spec":{"managedFields":1},"status":null}"#;
        let Kept(value) = serde_json::from_str(text).expect("an object");
        let expected = json!({"kind": "A", "metadata": {"name": "a",
            "labels": {"managedFields": "b"}}, "spec": {"managedFields": 1}, "status": null});
        assert_eq!(value, expected);
        assert!(serde_json::from_str::<Kept>("[1]").is_err());
    }
}
