//! Where in an object a walk is: a list of steps on the stack, printed only when something is
//! wrong there.

use std::fmt;

use crate::facts::Type;

#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    /// A field of a struct of a known type.
    Field(&'static Type, &'a str),
    /// A key of a map, or of an object of no known type.
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    pub fn field(&'a self, owner: &'static Type, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(owner, name) }
    }

    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// `DeploymentSpec.spec.replicas`: the innermost struct, then the fields of structs that lead
    /// there, as Go's decoder names a place. None outside of any struct.
    pub fn in_go(&self) -> Option<String> {
        let mut fields = Vec::new();
        let mut owner = None;
        let mut place = Some(self);
        while let Some(path) = place {
            if let Step::Field(of, name) = path.step {
                owner = owner.or(Some(of));
                fields.push(name);
            }
            place = path.parent;
        }
        fields.push(owner?.short_name());
        fields.reverse();
        Some(fields.join("."))
    }
}

/// `spec.containers[0].name`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        let mut place = Some(self);
        while let Some(path) = place {
            steps.push(path.step);
            place = path.parent;
        }
        let mut is_first = true;
        for step in steps.into_iter().rev() {
            match step {
                Step::Root => continue,
                Step::Index(index) => write!(formatter, "[{index}]")?,
                Step::Field(_, name) | Step::Key(name) if is_first => formatter.write_str(name)?,
                Step::Field(_, name) | Step::Key(name) => write!(formatter, ".{name}")?,
            }
            is_first = false;
        }
        Ok(())
    }
}
