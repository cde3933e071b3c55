//! A YAML file as a tree in which everything has a position.
//!
//! A value is kept as the text in the file: `0123` is a fine password, and only the reader of a key
//! knows whether it wants a number.

use std::fmt;

use anyhow::{Error, Result, anyhow};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A file.
pub struct Document<'a> {
    text: &'a str,
    name: &'a str,
    pub root: Spanned<Node>,
}

/// What stands at a place.
pub enum Node {
    Nothing,
    Text(String),
    /// A number or a truth value: its text is at its place in the file.
    Plain,
    List(Vec<Spanned<Node>>),
    Keys(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'a> Document<'a> {
    pub fn parse(text: &'a str, name: &'a str) -> Result<Document<'a>> {
        let root = serde_saphyr::from_str(text).map_err(|error| explain(name, &error))?;
        Ok(Document { text, name, root })
    }

    /// The text of a value; `None` when it is none.
    pub fn text<'b>(&'b self, node: &'b Spanned<Node>) -> Option<&'b str> {
        match &node.value {
            Node::Text(text) => Some(text),
            Node::Plain => {
                let span = node.defined.span();
                let start = usize::try_from(span.byte_offset()?).ok()?;
                let length = usize::try_from(span.byte_len()?).ok()?;
                self.text.get(start..start + length)
            }
            Node::Nothing | Node::List(_) | Node::Keys(_) => None,
        }
    }

    /// A message about a place.
    pub fn at(&self, location: Location, what: impl fmt::Display) -> String {
        at(self.name, location, what)
    }
}

impl Node {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Nothing => "empty",
            Node::Text(_) | Node::Plain => "a value",
            Node::List(_) => "a list",
            Node::Keys(_) => "a group of keys",
        }
    }
}

fn at(name: &str, location: Location, what: impl fmt::Display) -> String {
    format!("{name}:{}:{}: {what}", location.line(), location.column())
}

/// The parser's error in our words. It never quotes the file, which may hold secrets.
fn explain(name: &str, error: &serde_saphyr::Error) -> Error {
    use serde_saphyr::Error as Yaml;
    let error = error.without_snippet();
    let what = match error {
        Yaml::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key {key} is there twice; keep one")
        }
        Yaml::MultipleDocuments { .. } => "a second document begins; keep one".to_owned(),
        error => {
            let message = error.to_string();
            // The position is put in front.
            let message = message.rsplit_once(" at line ").map_or(&*message, |(what, _)| what);
            format!("this is not YAML: {message}")
        }
    };
    match error.location() {
        Some(location) => anyhow!(at(name, location, what)),
        None => anyhow!("{name}: {what}"),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value, a list or a group of keys")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Plain)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Plain)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Plain)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Plain)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Plain)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Plain)
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Keys(entries))
    }
}
