//! Every value that holds, and where it came from: a variable, a line of a file, or built in.
//!
//! The keys and their defaults are those of the example, which is checked to say the defaults.

use std::env;

use anyhow::Result;
use serde::Serialize;

use super::file::{self, Source};
use super::tree::{Document, Node};
use super::{EXAMPLE, SECRETS};

const BUILT_IN: &str = "built in";
const HIDDEN: &str = "(hidden; --secrets shows it)";
/// Variables that say what a key says, the first that is set wins.
const VARIABLES: [(&str, &str); 2] = [("SETPOINT_LOG", "log.level"), ("RUST_LOG", "log.level")];

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub key: String,
    pub value: String,
    /// `FILE:LINE`, the name of a variable or an option, or that it is built in.
    pub origin: String,
}

impl Setting {
    /// A password that somebody chose is not for every screen.
    pub fn hide_secrets(&mut self) {
        let is_secret = SECRETS.contains(&self.key.as_str());
        if is_secret && !self.value.is_empty() && self.origin != BUILT_IN {
            HIDDEN.clone_into(&mut self.value);
        }
    }
}

/// All settings of a source, in the order of the example.
pub fn settings(source: &Source) -> Result<Vec<Setting>> {
    let mut settings = read(EXAMPLE, "config-example.yaml")?;
    settings.iter_mut().for_each(|one| BUILT_IN.clone_into(&mut one.origin));
    if let Source::File(path) = source {
        for said in read(&file::read(path)?, &path.display().to_string())? {
            overrule(&mut settings, &said.key, &said.value, &said.origin);
        }
    }
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let said = VARIABLES.iter().find_map(|(name, key)| Some((*name, *key, set(name)?)));
    if let Some((name, key, value)) = said {
        overrule(&mut settings, key, &value, name);
    }
    Ok(settings)
}

/// Puts another value in the place of one, or adds it.
pub fn overrule(settings: &mut Vec<Setting>, key: &str, value: &str, origin: &str) {
    let (key, value, origin) = (key.to_owned(), value.to_owned(), origin.to_owned());
    match settings.iter_mut().find(|one| one.key == key) {
        Some(one) => *one = Setting { key, value, origin },
        None => settings.push(Setting { key, value, origin }),
    }
}

/// What a file says, each with its line. Empty values say nothing.
fn read(text: &str, name: &str) -> Result<Vec<Setting>> {
    let document = Document::parse(text, name)?;
    let mut settings = Vec::new();
    walk(&document, "", &document.root, (name, &mut settings));
    Ok(settings)
}

fn walk(
    document: &Document<'_>,
    key: &str,
    node: &serde_saphyr::Spanned<Node>,
    (name, settings): (&str, &mut Vec<Setting>),
) {
    let origin = format!("{name}:{}", node.referenced.line());
    let value = match &node.value {
        Node::Nothing => return,
        Node::Keys(entries) => {
            for (inner, node) in entries {
                let dot = if key.is_empty() { "" } else { "." };
                walk(document, &format!("{key}{dot}{}", inner.value), node, (name, &mut *settings));
            }
            return;
        }
        Node::List(items) => {
            let items = items.iter().filter_map(|item| document.text(item));
            items.collect::<Vec<_>>().join(", ")
        }
        Node::Text(_) | Node::Plain => document.text(node).unwrap_or_default().to_owned(),
    };
    settings.push(Setting { key: key.to_owned(), value, origin });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_says_where_it_came_from() {
        let mut settings = read("storage:\n  type: mysql\n  mysql: {password: x}\n", "f").unwrap();
        let lines: Vec<String> = settings
            .iter()
            .map(|one| format!("{}={} {}", one.key, one.value, one.origin))
            .collect();
        assert_eq!(lines, ["storage.type=mysql f:2", "storage.mysql.password=x f:3"]);
        settings.iter_mut().for_each(Setting::hide_secrets);
        assert_eq!(settings[1].value, HIDDEN);
        overrule(&mut settings, "storage.type", "etcd", "--store");
        assert_eq!((settings[0].value.as_str(), settings[0].origin.as_str()), ("etcd", "--store"));
        let defaults = read(EXAMPLE, "e").unwrap();
        let endpoints = defaults.iter().find(|one| one.key == "storage.etcd.endpoints");
        assert_eq!(endpoints.map(|one| one.value.as_str()), Some("http://127.0.0.1:2379"));
    }
}
