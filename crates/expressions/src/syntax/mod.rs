//! The grammar: text to tokens to a tree in which the macros are expanded.
//!
//! Recursive descent with a bound on nesting; positions are counted in characters.

mod macros;
pub(crate) mod parse;
mod tokens;

pub(crate) use crate::syntax::parse::parse;

use std::sync::Arc;

/// The longest expression, in characters.
pub(crate) const CHARACTERS_MAX: usize = 100_000;
/// The deepest nesting of an expression.
pub(crate) const DEPTH_MAX: usize = 250;
/// The name of what a macro accumulates; nobody can write it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// One expression of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Index into what the checker finds out about each node.
    pub(crate) id: u32,
    /// Where it is in the source, in characters.
    pub(crate) at: u32,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Constant(Literal),
    Ident(Box<str>),
    /// `operand.field`
    Select {
        operand: Box<Node>,
        field: Box<str>,
    },
    /// `has(operand.field)`
    Test {
        operand: Box<Node>,
        field: Box<str>,
    },
    Call {
        target: Option<Box<Node>>,
        function: Box<str>,
        arguments: Vec<Node>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    /// `Name{field: value}`
    Message {
        name: Box<str>,
        fields: Vec<(Box<str>, Node)>,
    },
    Fold(Box<Fold>),
}

/// An item of a list; `[?x]` adds the value of an optional if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// An entry of a map; `{?k: x}` adds the value of an optional if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// What the macros over lists and maps expand to.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) variable: Box<str>,
    /// The value, where `variable` is the index or the key.
    pub(crate) second: Option<Box<str>>,
    pub(crate) range: Node,
    pub(crate) initial: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

impl Node {
    /// `a.b.c` as one name.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select { operand, field } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }
}
