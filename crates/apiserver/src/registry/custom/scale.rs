//! Where the scale of a custom object is, by the paths its definition names.

use serde_json::{Map, Value, json};

use crate::status::Error;

/// Paths in dots, as `.spec.replicas`.
pub struct Scale {
    spec_replicas: String,
    status_replicas: String,
    selector: Option<String>,
}

impl Scale {
    pub fn read(of: &Value) -> Option<Scale> {
        let text = |name: &str| of.get(name)?.as_str().map(str::to_owned);
        Some(Scale {
            spec_replicas: text("specReplicasPath")?,
            status_replicas: text("statusReplicasPath")?,
            selector: text("labelSelectorPath").filter(|path| !path.is_empty()),
        })
    }

    /// The `spec` and `status` of the Scale of an object.
    ///
    /// # Errors
    /// The object does not say how many replicas it wants.
    pub fn of(&self, object: &Value) -> Result<(i64, i64, String), Error> {
        let Some(wanted) = at(object, &self.spec_replicas).and_then(Value::as_i64) else {
            let path = &self.spec_replicas;
            return Err(Error::internal(format!(
                "the spec replicas field {path:?} does not exist"
            )));
        };
        let found = at(object, &self.status_replicas).and_then(Value::as_i64).unwrap_or(0);
        let selector = self.selector.as_ref().and_then(|path| at(object, path)?.as_str());
        Ok((wanted, found, selector.unwrap_or_default().to_owned()))
    }

    pub fn set(&self, object: &mut Value, replicas: i64) {
        let mut at = object;
        for step in steps(&self.spec_replicas) {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[step];
        }
        *at = json!(replicas);
    }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).try_fold(object, |value, step| value.get(step))
}
