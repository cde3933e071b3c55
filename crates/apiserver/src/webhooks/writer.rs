//! Whether a part of this program wrote a configuration, or somebody else.
//!
//! Only such a configuration may name addresses of the machine itself. The mark is an annotation
//! that the server alone sets: it is put on what a component writes, and taken off what anybody
//! else writes. Who changes nothing but other metadata leaves it as it is.

use serde_json::Value;

use crate::identity::User;
use crate::object;
use crate::registry::edit;

/// On configurations whose calls are a part of this program's own.
pub const ANNOTATION: &str = "setpoint.io/written-by-component";

/// Where calls of a configuration may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Anywhere but this machine and its link.
    Others,
    Anywhere,
}

impl Reach {
    /// Of a configuration as it is stored.
    pub fn of(configuration: &Value) -> Reach {
        match mark(configuration) {
            Some(_) => Reach::Anywhere,
            None => Reach::Others,
        }
    }
}

fn mark(configuration: &Value) -> Option<&Value> {
    configuration["metadata"]["annotations"].get(ANNOTATION)
}

/// Marks a new configuration, or takes a mark off.
pub fn mark_created(configuration: &mut Value, writer: Option<&User>) {
    match writer.is_some_and(User::is_component) {
        true => put(configuration, Some(Value::from("true"))),
        false => put(configuration, None),
    }
}

/// The same for a changed one; `part` is what says where calls go.
pub fn mark_updated(configuration: &mut Value, old: &Value, part: &[&str], writer: Option<&User>) {
    let is_same = edit::same(edit::at(configuration, part), edit::at(old, part));
    match writer.is_some_and(User::is_component) {
        true => put(configuration, Some(Value::from("true"))),
        false if is_same => put(configuration, mark(old).cloned()),
        false => put(configuration, None),
    }
}

fn put(configuration: &mut Value, mark: Option<Value>) {
    let metadata = object::metadata_mut(configuration);
    match (metadata.get_mut("annotations").and_then(Value::as_object_mut), mark) {
        (Some(annotations), Some(mark)) => {
            annotations.insert(ANNOTATION.to_owned(), mark);
        }
        (Some(annotations), None) => {
            annotations.remove(ANNOTATION);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        (None, Some(mark)) => {
            metadata.insert("annotations".to_owned(), serde_json::json!({ANNOTATION: mark}));
        }
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(mark: bool) -> Value {
        let mut made = json!({"metadata": {"name": "a"}, "webhooks": [{"name": "x"}]});
        if mark {
            made["metadata"]["annotations"] = json!({ANNOTATION: "true", "other": "1"});
        }
        made
    }

    #[test]
    fn only_a_component_leaves_a_mark() {
        let component = User::component("system:apiserver");
        let people = [None, Some(User::authenticated("jane", ["system:masters"]))];
        for claims in [false, true] {
            for writer in &people {
                let mut made = configuration(claims);
                mark_created(&mut made, writer.as_ref());
                assert_eq!(Reach::of(&made), Reach::Others);
            }
            let mut made = configuration(claims);
            mark_created(&mut made, Some(&component));
            assert_eq!(Reach::of(&made), Reach::Anywhere);
        }
    }

    #[test]
    fn a_change_of_where_calls_go_loses_the_mark() {
        let jane = User::authenticated("jane", ["system:masters"]);
        let update = |old: bool, change: &dyn Fn(&mut Value)| {
            let (old, mut new) = (configuration(old), configuration(true));
            change(&mut new);
            mark_updated(&mut new, &old, &["webhooks"], Some(&jane));
            Reach::of(&new)
        };
        assert_eq!(update(true, &|new| new["metadata"]["labels"] = json!({})), Reach::Anywhere);
        assert_eq!(update(true, &|new| new["webhooks"][0]["name"] = json!("y")), Reach::Others);
        assert_eq!(update(true, &|new| new["metadata"] = json!({})), Reach::Anywhere);
        assert_eq!(update(false, &|_| {}), Reach::Others);
    }
}
