//! Where in an object or a schema something is, built on the stack and written only for an error.
//!
//! Upstream: apimachinery/pkg/util/validation/field/path.go

use std::fmt;

/// A path: the steps from the root, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The object itself.
    pub const fn root() -> Path<'static> {
        Path { parent: None, step: Step::Root }
    }

    /// A root that is already some way down, as `spec.versions[0].schema.openAPIV3Schema`.
    pub const fn new(prefix: &'a str) -> Path<'a> {
        Path { parent: None, step: Step::Field(prefix) }
    }

    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    pub fn key(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(name) }
    }

    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    pub fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// As the `field` of an error: the root has the name Go gives to a nil path.
    pub fn text(&self) -> String {
        if self.is_root() { "<nil>".to_owned() } else { self.to_string() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dot = "";
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
            if !parent.is_root() {
                dot = ".";
            }
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => write!(formatter, "{dot}{name}"),
            Step::Key(name) => write!(formatter, "[{name}]"),
            Step::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_users_know_them() {
        let root = Path::root();
        assert_eq!(root.text(), "<nil>");
        assert_eq!(root.to_string(), "");
        let spec = root.field("spec");
        let list = spec.field("list");
        let item = list.index(3);
        assert_eq!(item.key("a.b").field("c").text(), "spec.list[3][a.b].c");
        assert_eq!(Path::new("a.b").field("c").text(), "a.b.c");
    }
}
