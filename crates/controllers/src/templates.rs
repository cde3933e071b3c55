//! Templates of pods as they are compared.

use serde_json::Value;

/// A template without fields that say nothing, which clients write in different ways.
pub fn normal(template: &Value) -> Value {
    let mut template = template.clone();
    drop_nothing(&mut template);
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.retain(|_, value| !value.as_object().is_some_and(|fields| fields.is_empty()));
    }
    template
}

fn drop_nothing(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_nothing);
            fields.retain(|_, value| {
                !value.is_null() && !value.as_array().is_some_and(|items| items.is_empty())
            });
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nothing),
        _ => {}
    }
}
