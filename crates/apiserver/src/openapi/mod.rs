//! `/openapi/v3`: the schema of every group and version, made from the facts when first asked for;
//! and `/openapi/v2`, the same in one document.
//!
//! kubectl reads from it which fields there are, how lists are patched, and whether the server
//! checks fields itself.

mod operations;
mod schemas;
mod v2;

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::endpoints::discovery::fingerprint;
use crate::resources::Registry;
use crate::status::Error;

/// Documents that were made.
#[derive(Default)]
pub struct Documents {
    /// By `group/version`.
    by_version: Mutex<BTreeMap<(String, String), Bytes>>,
    /// All of them in one, for older clients.
    whole: OnceLock<v2::Document>,
}

impl Documents {
    /// Answers `/openapi/v2`, `/openapi/v3` and what is below it; `None` for other paths.
    pub fn answer(&self, registry: &Registry, parts: &Parts) -> Option<Result<Answer, Error>> {
        if parts.uri.path() == "/openapi/v2" {
            let document = self.whole.get_or_init(|| v2::Document::make(registry));
            return Some(Ok(document.answer(parts)));
        }
        let rest = parts.uri.path().strip_prefix("/openapi/v3")?;
        let rest = rest.trim_matches('/');
        if rest.is_empty() {
            return Some(Ok(Answer::value(200, &self.index(registry))));
        }
        let (group, version) = match rest.split('/').collect::<Vec<_>>()[..] {
            ["api", version] => ("", version),
            ["apis", group, version] => (group, version),
            _ => return Some(Ok(Answer::text(404, "404 page not found\n"))),
        };
        let Some(document) = self.document(registry, group, version) else {
            return Some(Ok(Answer::text(404, "404 page not found\n")));
        };
        let tag = format!("\"{:016X}\"", fingerprint(&document));
        let known = parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let answer = match known {
            Some(known) if known == tag => Answer::json(304, Bytes::new()),
            _ => Answer::json(200, document),
        };
        Some(Ok(answer.with(ETAG, tag).with(VARY, "Accept")))
    }

    fn index(&self, registry: &Registry) -> Value {
        let mut paths = json!({});
        for (group, versions) in registry.groups() {
            for version in versions {
                let path = match group.as_str() {
                    "" => format!("api/{version}"),
                    group => format!("apis/{group}/{version}"),
                };
                let document = self.document(registry, &group, &version).unwrap_or_default();
                let hash = fingerprint(&document);
                let url = format!("/openapi/v3/{path}?hash={hash:016X}");
                paths[path] = json!({"serverRelativeURL": url});
            }
        }
        json!({"paths": paths})
    }

    fn document(&self, registry: &Registry, group: &str, version: &str) -> Option<Bytes> {
        if !registry.has_group_version(group, version) {
            return None;
        }
        let mut documents = self.by_version.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (group.to_owned(), version.to_owned());
        let document = documents
            .entry(key)
            .or_insert_with(|| make(registry, group, version).to_string().into());
        Some(document.clone())
    }
}

fn make(registry: &Registry, group: &str, version: &str) -> Value {
    let mut paths = json!({});
    let mut schemas = schemas::Schemas::default();
    for resource in registry.all().filter(|one| one.group == group && one.version == version) {
        operations::describe(resource, &mut paths);
        schemas.add_kind(resource);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": paths,
        "components": {"schemas": schemas.finish()},
    })
}
