//! What objects say of how they fare, in both versions.

use serde_json::{Map, Value};

use super::Way;
use super::envelope::{self, Kept};

/// Converts the status of an object that was converted otherwise.
pub fn convert(from: &Value, made: &mut Value, way: Way, annotation: &str, renames: &[[&str; 2]]) {
    let (opened, envelope) = envelope::open(made, annotation);
    *made = opened;
    let status = &from["status"];
    if status.is_null() {
        return;
    }
    let mut converted = rename(status, way, renames);
    let (own, other) = match way {
        Way::ToHub => ("hub", "spec"),
        Way::ToSpoke => ("spec", "hub"),
    };
    Kept::read(&envelope[own], &envelope[&format!("{own}Live")]).restore(&mut converted, &[]);
    let back = rename(&converted, opposite(way), renames);
    let kept = Kept::of(status, &back, &[]);
    made["status"] = converted;
    let mut content = Map::new();
    if !kept.is_empty() {
        content.insert(other.to_owned(), Value::Object(kept.said));
        content.insert(format!("{other}Live"), Value::Object(kept.live));
    }
    envelope::close(made, annotation, content);
}

pub fn opposite(way: Way) -> Way {
    match way {
        Way::ToHub => Way::ToSpoke,
        Way::ToSpoke => Way::ToHub,
    }
}

/// Fields by the names that the other version gives them; a path has a slash between its parts.
fn rename(status: &Value, way: Way, renames: &[[&str; 2]]) -> Value {
    let mut made = status.clone();
    for [spoke, hub] in renames {
        let (from, to) = match way {
            Way::ToHub => (spoke, hub),
            Way::ToSpoke => (hub, spoke),
        };
        let (parent, name) = from.rsplit_once('/').unwrap_or(("", from));
        let new = to.rsplit('/').next().unwrap_or(to);
        let place = match parent {
            "" => Some(&mut made),
            parent => made.get_mut(parent),
        };
        if let Some(Value::Object(place)) = place
            && let Some(value) = place.remove(name)
        {
            place.insert(new.to_owned(), value);
        }
    }
    made
}
