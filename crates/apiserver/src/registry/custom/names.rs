//! Which names a definition may have beside all others of its group.
//!
//! Upstream: apiextensions-apiserver/pkg/controller/status/naming_controller.go

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Names that are taken.
#[derive(Default)]
pub struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    pub fn add(&mut self, names: &Value) {
        let texts = |list: &Value| crate::object::texts(list);
        let text = |name: &str| names[name].as_str().unwrap_or_default().to_owned();
        self.resources.extend([text("plural"), text("singular")]);
        self.resources.extend(texts(&names["shortNames"]));
        self.kinds.extend([text("kind"), text("listKind")]);
    }
}

/// Which names are accepted, and whether all are.
pub struct Judgement {
    pub accepted: Value,
    /// The reason and the message where they are not.
    pub conflict: Option<(&'static str, String)>,
}

/// Judges the names that a definition asks for; `before` are those it has.
pub fn judge(requested: &Value, before: &Value, taken: &Taken) -> Judgement {
    let mut accepted = json!({});
    let mut conflict = None;
    let text = |names: &Value, name: &str| names[name].as_str().unwrap_or_default().to_owned();
    let in_use = |name: &str| format!("{name:?} is already in use");
    let singles = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ];
    for (name, reason, taken) in singles {
        if name == "shortNames" {
            let own = crate::object::texts(&before[name]);
            let wanted = crate::object::texts(&requested[name]);
            let is_taken = |short: &&String| !own.contains(short) && taken.contains(*short);
            let faults: Vec<_> =
                wanted.iter().filter(is_taken).map(|short| in_use(short)).collect();
            match faults.as_slice() {
                [] => copy(&mut accepted, requested, name),
                [one] => conflict = Some((reason, one.clone())),
                many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
            }
            if !faults.is_empty() {
                copy(&mut accepted, before, name);
            }
            continue;
        }
        let (wanted, own) = (text(requested, name), text(before, name));
        if wanted == own || !taken.contains(&wanted) {
            copy(&mut accepted, requested, name);
        } else {
            conflict = Some((reason, in_use(&wanted)));
            copy(&mut accepted, before, name);
        }
    }
    copy(&mut accepted, requested, "categories");
    for required in ["kind", "plural"] {
        if accepted.get(required).is_none() {
            accepted[required] = json!("");
        }
    }
    Judgement { accepted, conflict }
}

fn copy(into: &mut Value, from: &Value, name: &str) {
    if let Some(value) = from.get(name) {
        into[name] = value.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_accepted_when_nobody_else_has_it() {
        let mut taken = Taken::default();
        taken.add(&json!({
            "plural": "as", "singular": "a", "shortNames": ["s"], "kind": "A", "listKind": "AList",
        }));
        let names = |plural: &str, singular: &str, short: &str, kind: &str, list: &str| {
            json!({
                "plural": plural, "singular": singular, "shortNames": [short], "kind": kind,
                "listKind": list,
            })
        };
        for (requested, reason, message) in [
            (names("bs", "b", "t", "B", "BList"), "", ""),
            (names("a", "b", "t", "B", "BList"), "PluralConflict", "\"a\" is already in use"),
            (names("bs", "s", "t", "B", "BList"), "SingularConflict", "\"s\" is already in use"),
            (
                names("bs", "b", "as", "B", "BList"),
                "ShortNamesConflict",
                "\"as\" is already in use",
            ),
            (names("bs", "b", "t", "A", "BList"), "KindConflict", "\"A\" is already in use"),
            (names("bs", "b", "t", "B", "A"), "ListKindConflict", "\"A\" is already in use"),
        ] {
            let judgement = judge(&requested, &json!({}), &taken);
            let (found, text) = judgement.conflict.unwrap_or_default();
            assert_eq!((found, text.as_str()), (reason, message));
            let owner = judge(&requested, &requested, &taken);
            assert!(owner.conflict.is_none(), "what one has one keeps");
            assert_eq!(owner.accepted, requested);
        }
    }
}
