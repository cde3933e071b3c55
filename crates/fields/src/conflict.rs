//! What an apply would take from others, and how it is said.

use std::fmt;

use crate::{
    element::{self, Path},
    managed::{Identity, Operation},
    set::Set,
};

/// Fields of one manager that an apply would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub owner: Identity,
    /// When the owner wrote. An identity has no time, so an [`crate::apply`] leaves it out.
    pub time: Option<String>,
    pub fields: Set,
}

/// At least one conflict, by the manager's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// A conflict about one field, as a status lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `.spec.replicas`
    pub field: String,
    /// `conflict with "kubectl" using apps/v1`
    pub message: String,
}

impl Conflicts {
    /// One cause for each field and manager. Their reason is `FieldManagerConflict`.
    pub fn causes(&self) -> Vec<Cause> {
        let all = self.each();
        let cause = |(owner, path): (&Conflict, Path)| Cause {
            field: element::display(&path),
            message: format!("conflict with {}", name(owner)),
        };
        all.into_iter().map(cause).collect()
    }

    /// All fields that are in conflict.
    pub fn fields(&self) -> Set {
        self.0.iter().fold(Set::default(), |all, conflict| all.union(&conflict.fields))
    }

    /// Without the conflicts about some fields; None if that leaves none.
    pub fn without(self, fields: &Set) -> Option<Conflicts> {
        let left: Vec<Conflict> = self
            .0
            .into_iter()
            .map(|one| Conflict { fields: one.fields.difference(fields), ..one })
            .filter(|one| !one.fields.is_empty())
            .collect();
        (!left.is_empty()).then_some(Conflicts(left))
    }

    fn each(&self) -> Vec<(&Conflict, Path)> {
        let paths = |one: &'_ Conflict| one.fields.paths();
        self.0.iter().flat_map(|one| paths(one).into_iter().map(move |path| (one, path))).collect()
    }
}

/// `"kubectl" with subresource "status" using apps/v1`; only updates say their version.
fn name(conflict: &Conflict) -> String {
    let owner = &conflict.owner;
    let mut text = format!("{:?}", owner.manager);
    if !owner.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", owner.subresource));
    }
    if owner.operation == Operation::Update {
        text.push_str(&format!(" using {}", owner.api_version));
        if let Some(time) = &conflict.time {
            text.push_str(&format!(" at {time}"));
        }
    }
    text
}

impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.each();
        if let [(owner, path)] = all.as_slice() {
            let (owner, path) = (name(owner), element::display(path));
            return write!(out, "Apply failed with 1 conflict: conflict with {owner}: {path}");
        }
        let mut lines: Vec<(String, Vec<Path>)> = Vec::new();
        for (owner, path) in all {
            let owner = name(owner);
            match lines.iter_mut().find(|(known, _)| *known == owner) {
                Some((_, paths)) => paths.push(path),
                None => lines.push((owner, vec![path])),
            }
        }
        lines.sort_by(|left, right| left.0.cmp(&right.0));
        let count: usize = lines.iter().map(|(_, paths)| paths.len()).sum();
        write!(out, "Apply failed with {count} conflicts: ")?;
        for (at, (owner, paths)) in lines.iter().enumerate() {
            let line_end = if at == 0 { "" } else { "\n" };
            write!(out, "{line_end}conflicts with {owner}:")?;
            for path in paths {
                write!(out, "\n- {}", element::display(path))?;
            }
        }
        Ok(())
    }
}
