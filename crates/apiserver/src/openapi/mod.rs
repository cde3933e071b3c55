//! `/openapi/v3`: the schema of every group and version, made from the facts when asked for; and
//! `/openapi/v2`, the same in one document.
//!
//! kubectl reads from it which fields there are and what they mean, how lists are patched, and
//! whether the server checks fields itself. A document is named by a hash of its content, so
//! clients keep it for as long as they like.

mod descriptions;
mod operations;
mod schemas;
mod v2;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA512, digest};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::request::Parts;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::resources::Registry;
use crate::status::Error;

/// How many documents are kept; the others are made again when asked for.
const KEPT_MAX: usize = 4;
const YEAR_SECONDS: i64 = 365 * 86_400;

type Name = (String, String);

/// Documents that were made, by `group/version`.
#[derive(Default)]
pub struct Documents(Mutex<Made>);

#[derive(Default)]
struct Made {
    hashes: BTreeMap<Name, String>,
    /// The newest last.
    kept: VecDeque<(Name, Bytes)>,
    /// All of them in one, for older clients.
    whole: Option<Arc<v2::Document>>,
}

impl Documents {
    /// Answers `/openapi/v2`, `/openapi/v3` and what is below it; `None` for other paths.
    pub fn answer(
        &self,
        registry: &Registry,
        parts: &Parts,
        now: i64,
    ) -> Option<Result<Answer, Error>> {
        if parts.uri.path() == "/openapi/v2" {
            return Some(Ok(self.whole(registry).answer(parts)));
        }
        let rest = parts.uri.path().strip_prefix("/openapi/v3")?;
        let rest = rest.trim_matches('/');
        if rest.is_empty() {
            return Some(Ok(Answer::value(200, &self.index(registry))));
        }
        let name = match rest.split('/').collect::<Vec<_>>()[..] {
            ["api", version] => (String::new(), version.to_owned()),
            ["apis", group, version] => (group.to_owned(), version.to_owned()),
            _ => return Some(Ok(Answer::text(404, "404 page not found\n"))),
        };
        if !registry.has_group_version(&name.0, &name.1) {
            return Some(Ok(Answer::text(404, "404 page not found\n")));
        }
        let hash = self.hash(registry, &name);
        let mut pairs = parts.uri.query().unwrap_or_default().split('&');
        let asked = pairs.find_map(|pair| pair.strip_prefix("hash="));
        if asked.is_some_and(|asked| asked != hash) {
            let answer = Answer::text(301, "the document has changed\n");
            return Some(Ok(answer.with(LOCATION, url(&name, &hash))));
        }
        let tag = format!("\"{hash}\"");
        let known = parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let mut answer = match known {
            Some(known) if known == tag => Answer::json(304, Bytes::new()),
            _ => Answer::json(200, self.document(registry, &name)),
        };
        if asked.is_some() {
            answer = answer.with(CACHE_CONTROL, "public, immutable");
            answer = answer.with(EXPIRES, http_date(now + YEAR_SECONDS));
        }
        Some(Ok(answer.with(ETAG, tag).with(VARY, "Accept")))
    }

    /// Makes documents of a group anew: its kinds have changed.
    pub fn forget(&self, group: &str) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.hashes.retain(|(known, _), _| known != group);
        made.kept.retain(|((known, _), _)| known != group);
        made.whole = None;
    }

    fn whole(&self, registry: &Registry) -> Arc<v2::Document> {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = &made.whole {
            return document.clone();
        }
        drop(made);
        let document = Arc::new(v2::Document::make(registry));
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.whole.insert(document).clone()
    }

    fn index(&self, registry: &Registry) -> Value {
        let mut paths = json!({});
        for (group, versions) in registry.groups() {
            for version in versions {
                let name = (group.clone(), version);
                let url = url(&name, &self.hash(registry, &name));
                paths[path(&name)] = json!({"serverRelativeURL": url});
            }
        }
        json!({"paths": paths})
    }

    fn hash(&self, registry: &Registry, name: &Name) -> String {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = made.hashes.get(name) {
            return hash.clone();
        }
        drop(made);
        // Two who make it at once make the same.
        let document = make(registry, &name.0, &name.1);
        let hash = hex(digest(&SHA512, &document).as_ref());
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.hashes.insert(name.clone(), hash.clone());
        hash
    }

    fn document(&self, registry: &Registry, name: &Name) -> Bytes {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, document)) = made.kept.iter().find(|(known, _)| known == name) {
            return document.clone();
        }
        drop(made);
        let document = make(registry, &name.0, &name.1);
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.kept.push_back((name.clone(), document.clone()));
        if made.kept.len() > KEPT_MAX {
            made.kept.pop_front();
        }
        document
    }
}

fn path((group, version): &Name) -> String {
    match group.as_str() {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

fn url(name: &Name, hash: &str) -> String {
    format!("/openapi/v3/{}?hash={hash}", path(name))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

fn make(registry: &Registry, group: &str, version: &str) -> Bytes {
    let mut paths = json!({});
    let mut schemas = schemas::Schemas::default();
    for resource in registry.all().filter(|one| one.group == group && one.version == version) {
        operations::describe(resource, &mut paths);
        schemas.add_kind(resource);
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": paths,
        "components": {"schemas": schemas.finish()},
    });
    document.to_string().into()
}

/// A time as HTTP writes it: `Thu, 01 Jan 1970 00:00:00 GMT`.
fn http_date(unix_seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let weekday = DAYS[unix_seconds.div_euclid(86_400).rem_euclid(7) as usize];
    // 2024-05-06T07:08:09Z
    let stamp = crate::timestamp::format(unix_seconds);
    let part = |from: usize, to: usize| stamp.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().unwrap_or(1).clamp(1, 12);
    format!("{weekday}, {} {} {} {} GMT", part(8, 10), MONTHS[month - 1], part(0, 4), part(11, 19))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Content;

    fn ask(documents: &Documents, uri: &str, tag: &str) -> Answer {
        let request = http::Request::get(uri).header(IF_NONE_MATCH, tag).body(()).unwrap();
        let parts = request.into_parts().0;
        documents.answer(&Registry::builtin(), &parts, 0).unwrap().unwrap()
    }

    fn value(answer: &Answer) -> Value {
        let Content::Whole(bytes) = &answer.body else { panic!("documents come whole") };
        serde_json::from_slice(bytes).unwrap()
    }

    fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
        let found = answer.headers.iter().find(|(known, _)| known.as_str() == name);
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_document_can_be_kept_by_its_hash() {
        let documents = Documents::default();
        let index = value(&ask(&documents, "/openapi/v3", ""));
        let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
        let (plain, hash) = url.split_once("?hash=").unwrap();
        assert_eq!(hash.len(), 128);
        let answer = ask(&documents, &url, "");
        assert_eq!(header(&answer, "cache-control"), Some("public, immutable"));
        assert_eq!(header(&answer, "expires"), Some("Fri, 01 Jan 1971 00:00:00 GMT"));
        let tag = header(&answer, "etag").unwrap();
        assert_eq!(tag, format!("\"{hash}\""));
        assert_eq!(ask(&documents, plain, tag).code, 304);
        let stale = ask(&documents, &format!("{plain}?hash=00"), "");
        assert_eq!((stale.code, header(&stale, "location")), (301, Some(url.as_str())));
        assert_eq!(ask(&documents, "/openapi/v3/apis/none/v1", "").code, 404);
    }

    #[test]
    fn a_patch_says_that_the_server_checks_fields() {
        let document = value(&ask(&Documents::default(), "/openapi/v3/apis/apps/v1", ""));
        let item = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
        let patch = &document["paths"][item]["patch"];
        let kind = &patch["x-kubernetes-group-version-kind"];
        assert_eq!(*kind, json!({"group": "apps", "version": "v1", "kind": "Deployment"}));
        let parameters = patch["parameters"].as_array().unwrap();
        for name in ["fieldValidation", "dryRun", "force"] {
            assert!(parameters.iter().any(|one| one["name"] == name), "{name}");
        }
        assert!(document["paths"][format!("{item}/scale")]["get"].is_object());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let registry = Registry::builtin();
        let documents = Documents::default();
        for (group, versions) in registry.groups() {
            for version in versions {
                let path = path(&(group.clone(), version));
                let document = value(&ask(&documents, &format!("/openapi/v3/{path}"), ""));
                let text = document.to_string();
                for rest in text.split("\"#/components/schemas/").skip(1) {
                    let name = rest.split('"').next().unwrap();
                    assert!(document["components"]["schemas"][name].is_object(), "{path} {name}");
                }
            }
        }
    }
}
