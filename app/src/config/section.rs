//! Reads the keys of one group, and remembers which were asked for: the others are unknown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde_saphyr::{Location, Spanned};

use super::tree::{Document, Node};
use super::{Remarks, unknown};

/// A group of keys, such as `storage.mysql`.
pub struct Section<'a> {
    document: &'a Document<'a>,
    path: String,
    entries: &'a [(Spanned<String>, Spanned<Node>)],
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The keys of the file itself.
    pub fn root(document: &'a Document<'a>) -> Result<Section<'a>> {
        Section::of(document, String::new(), Some(&document.root))
    }

    /// A group inside this one; empty when it is not there.
    pub fn section(&mut self, key: &'static str) -> Result<Section<'a>> {
        let node = self.ask(key);
        Section::of(self.document, self.name(key), node)
    }

    /// A value, by a function that understands its text.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        self.note(key);
        let Some(node) = self.ask(key) else { return Ok(None) };
        self.parse(node, &self.name(key), expected, parse).map(Some)
    }

    /// A list of values.
    pub fn read_list<T>(
        &mut self,
        key: &'static str,
        expected: Expected<'_>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        self.note(key);
        let Some(node) = self.ask(key) else { return Ok(None) };
        let name = self.name(key);
        let Node::List(items) = &node.value else {
            return Err(self.wrong(node, &name, node.value.kind(), expected.list));
        };
        if items.is_empty() {
            return Err(self.wrong(node, &name, "empty", expected.list));
        }
        let items = items.iter().enumerate();
        let items = items.map(|(index, item)| {
            self.parse(item, &format!("{name}[{index}]"), expected.item, &parse)
        });
        items.collect::<Result<_>>().map(Some)
    }

    pub fn text(&mut self, key: &'static str) -> Result<Option<String>> {
        self.read(key, "text", |text| Some(text.to_owned()))
    }

    /// A path; an empty one counts as absent.
    pub fn path(&mut self, key: &'static str) -> Result<Option<PathBuf>> {
        Ok(self.text(key)?.filter(|path| !path.is_empty()).map(PathBuf::from))
    }

    pub fn number(&mut self, key: &'static str, min: u64, max: u64) -> Result<Option<u64>> {
        let expected = format!("a number from {min} to {max}");
        self.read(key, &expected, |text| {
            text.parse().ok().filter(|number| (min..=max).contains(number))
        })
    }

    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>> {
        self.read(key, "true or false", |text| match text.to_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        })
    }

    /// Every key of a group whose keys are the user's own, with its text; `None` if it is empty.
    pub fn variables(
        self,
        expected: &str,
        is_name: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, Option<String>>> {
        let mut all = BTreeMap::new();
        for (key, node) in self.entries {
            let name = self.name(&key.value);
            if !is_name(&key.value) {
                let what = format!("{name} is not {expected}");
                return Err(anyhow!(self.document.at(key.referenced, what)));
            }
            let value = match node.value {
                Node::Nothing => None,
                _ => Some(self.parse(node, &name, "text", |text| Some(text.to_owned()))?),
            };
            all.insert(key.value.clone(), value);
        }
        Ok(all)
    }

    /// A key that is known and that nothing uses.
    pub fn skip(&mut self, key: &'static str, remarks: &mut Remarks) {
        if self.ask(key).is_some()
            && let Some(location) = self.location_of_key(key)
        {
            let what = format!("{} has no effect", self.name(key));
            remarks.without_effect.push(self.document.at(location, what));
        }
    }

    /// A message about the value of a key, or about the file when the key is not there.
    pub fn about(&self, key: &str, what: &str) -> String {
        let location = match self.find(key) {
            Some((_, node)) => node.referenced,
            None => self.document.root.referenced,
        };
        self.document.at(location, format!("{} {what}", self.name(key)))
    }

    /// Warns about the keys that nobody asked for.
    pub fn finish(self, remarks: &mut Remarks) {
        for (key, _) in self.entries {
            if self.asked.iter().any(|asked| *asked == key.value) {
                continue;
            }
            let mut what = format!("{} is not a known key and is ignored", self.name(&key.value));
            if let Some(nearest) = unknown::nearest(&key.value, &self.asked) {
                what.push_str(&format!("; did you mean {}?", self.name(nearest)));
            }
            remarks.warnings.push(self.document.at(key.referenced, what));
        }
    }

    fn of(
        document: &'a Document<'a>,
        path: String,
        node: Option<&'a Spanned<Node>>,
    ) -> Result<Section<'a>> {
        let mut section = Section { document, path, entries: &[], asked: Vec::new() };
        let Some(node) = node else { return Ok(section) };
        match &node.value {
            Node::Nothing => {}
            Node::Keys(entries) => section.entries = entries,
            other => {
                let name = if section.path.is_empty() { "the file" } else { &section.path };
                return Err(section.wrong(node, name, other.kind(), "keys and values"));
            }
        }
        Ok(section)
    }

    #[cfg(not(test))]
    fn note(&self, _: &str) {}

    #[cfg(test)]
    fn note(&self, key: &str) {
        READ.with_borrow_mut(|read| read.insert(self.name(key)));
    }

    /// The value of a key; an empty one counts as absent.
    fn ask(&mut self, key: &'static str) -> Option<&'a Spanned<Node>> {
        self.asked.push(key);
        let (_, node) = self.find(key)?;
        (!matches!(node.value, Node::Nothing)).then_some(node)
    }

    fn find(&self, key: &str) -> Option<&'a (Spanned<String>, Spanned<Node>)> {
        self.entries.iter().find(|(name, _)| name.value == key)
    }

    fn location_of_key(&self, key: &str) -> Option<Location> {
        self.find(key).map(|(name, _)| name.referenced)
    }

    fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn parse<T>(
        &self,
        node: &Spanned<Node>,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let Some(text) = self.document.text(node) else {
            return Err(self.wrong(node, name, node.value.kind(), expected));
        };
        parse(text).ok_or_else(|| self.wrong(node, name, &format!("{text:?}"), expected))
    }

    fn wrong(&self, node: &Spanned<Node>, name: &str, is: &str, expected: &str) -> anyhow::Error {
        let what = format!("{name} is {is}; expected {expected}");
        anyhow!(self.document.at(node.referenced, what))
    }
}

/// What a list and its items should be, for messages.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    pub list: &'a str,
    pub item: &'a str,
}

#[cfg(test)]
thread_local! {
    /// Keys whose values were asked for.
    static READ: std::cell::RefCell<std::collections::BTreeSet<String>> = Default::default();
}

/// Every key whose value somebody asks for meanwhile.
#[cfg(test)]
pub fn keys_read(meanwhile: impl FnOnce()) -> std::collections::BTreeSet<String> {
    READ.take();
    meanwhile();
    let read = READ.take();
    assert!(read.len() > 30, "{read:?}");
    read
}
