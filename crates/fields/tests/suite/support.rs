//! A resource made of schemas in a file, and paths as text.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{borrow::Cow, collections::BTreeMap, sync::OnceLock};

use fields::{Element, OpenApi, Path, Resource, Set};
use serde_json::{Map, Value};

/// The schemas that cases refer to by name.
pub fn schemas() -> &'static Value {
    static SCHEMAS: OnceLock<Value> = OnceLock::new();
    SCHEMAS.get_or_init(|| serde_saphyr::from_str(include_str!("../cases/schemas.yaml")).unwrap())
}

/// A kind whose versions have schemas of a document.
#[derive(Clone)]
pub struct Things<'a> {
    pub document: &'a Value,
    /// The name of the schema, by version.
    pub versions: BTreeMap<String, String>,
    /// By version, what the fields of the root are called there: name at v1, name here.
    pub renames: BTreeMap<String, BTreeMap<String, String>>,
    /// By subresource.
    pub reset: BTreeMap<String, Set>,
    pub empty: Value,
    /// A version that objects cannot be converted to.
    pub broken: Option<String>,
}

impl<'a> Things<'a> {
    pub fn new(document: &'a Value, schema: &str) -> Things<'a> {
        Things {
            document,
            versions: BTreeMap::from([("v1".to_owned(), schema.to_owned())]),
            renames: BTreeMap::new(),
            reset: BTreeMap::new(),
            empty: Value::Object(Map::new()),
            broken: None,
        }
    }

    fn renamed(&self, object: &mut Value, version: &str, back: bool) {
        let Some(renames) = self.renames.get(version) else { return };
        let fields = object.as_object_mut().unwrap();
        for (first, here) in renames {
            let (from, to) = if back { (here, first) } else { (first, here) };
            if let Some(value) = fields.remove(from) {
                fields.insert(to.clone(), value);
            }
        }
    }
}

impl Resource for Things<'_> {
    type Shape<'a>
        = OpenApi<'a>
    where
        Self: 'a;

    fn shape<'a>(&'a self, api_version: &str) -> Option<OpenApi<'a>> {
        let schema = self.versions.get(api_version)?;
        Some(OpenApi::within(self.document, &self.document[schema]))
    }

    fn empty(&self, _api_version: &str) -> Value {
        self.empty.clone()
    }

    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Result<Cow<'v, Value>, String> {
        if self.broken.as_deref() == Some(api_version) {
            return Err("it is broken".to_owned());
        }
        let from = object["apiVersion"].as_str().unwrap_or("v1");
        let mut converted = object.clone();
        self.renamed(&mut converted, from, true);
        self.renamed(&mut converted, api_version, false);
        converted["apiVersion"] = api_version.into();
        Ok(Cow::Owned(converted))
    }

    fn reset_fields(&self, _api_version: &str, subresource: &str) -> Option<&Set> {
        self.reset.get(subresource)
    }
}

/// The set of paths in a text, as messages show them, separated by spaces. A name with dots is
/// in braces: `.metadata.labels.{a.b/c}`.
pub fn set(text: &str) -> Set {
    text.split_whitespace().map(path).collect()
}

/// One path.
pub fn path(text: &str) -> Path {
    let mut path = Path::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (element, after) = element(rest);
        path.push(element);
        rest = after;
    }
    path
}

fn element(text: &str) -> (Element, &str) {
    if let Some(braced) = text.strip_prefix(".{") {
        let (name, rest) = braced.split_once('}').unwrap();
        return (Element::field(name), rest);
    }
    if let Some(name) = text.strip_prefix('.') {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        return (Element::field(&name[..end]), &name[end..]);
    }
    let (inside, rest) = text.strip_prefix('[').unwrap().split_once(']').unwrap();
    let element = match inside.split_once('=') {
        None => Element::Index(inside.parse().unwrap()),
        Some(("", value)) => Element::value(&serde_json::from_str(value).unwrap()),
        Some(_) => Element::key(
            inside
                .split(',')
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap();
                    (name.into(), serde_json::from_str(value).unwrap())
                })
                .collect(),
        ),
    };
    (element, rest)
}
