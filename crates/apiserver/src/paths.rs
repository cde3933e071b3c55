//! Paths that are about no resource: health, version, metrics, documents and OpenID discovery.

use http::request::Parts;
use serde_json::json;

use crate::answer::Answer;
use crate::asked::Asked;
use crate::endpoints::discovery;
use crate::health::{self, Checked};
use crate::identity::openid;
use crate::server::{NO_PAGE, Server};
use crate::status::Error;
use crate::{open_metrics, tasks, version};

impl Server {
    /// Paths that are about no resource.
    pub(crate) fn answer_other(&self, parts: &Parts, asked: &Asked) -> Result<Answer, Error> {
        self.authorize_path(&asked.user, parts)?;
        if let Some(answer) = self.documents.answer(&self.registry.now(), parts, self.now()) {
            return answer;
        }
        let is_stopping = *self.stop.borrow() || self.beside.is_leaving();
        let checked = Checked { store: &*self.store, is_stopping, beside: &self.beside };
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        if path == "/metrics" {
            let mut text = self.metrics.text(&self.traffic, &*self.store, &self.beside);
            text.push_str(&self.audit.metrics());
            text.push_str(&self.keys.metrics(self.now()));
            return Ok(open_metrics::answer(&parts.headers, text));
        }
        if path == tasks::PATH {
            return Ok(tasks::answer(&parts.headers, &self.traffic, &self.beside));
        }
        if let Some(answer) = health::answer(&checked, path, query) {
            return Ok(answer);
        }
        match path {
            "/.well-known/openid-configuration" | "/.well-known/openid-configuration/" => {
                Ok(openid::configuration(&self.tokens))
            }
            "/openid/v1/jwks" | "/openid/v1/jwks/" => Ok(openid::key_set(&self.tokens)),
            "/version" | "/version/" => Ok(Answer::value(200, &version::told())),
            "/" => Ok(Answer::value(200, &json!({"paths": discovery::paths(self)}))),
            _ => Ok(Answer::text(404, NO_PAGE)),
        }
    }

    pub(crate) fn is_discovered(&self, group: Option<&str>, version: Option<&str>) -> bool {
        if let Some(part) = group.and_then(|group| self.beside.extension(group)) {
            return version.is_none_or(|version| version == part.version());
        }
        match (group, version) {
            (None | Some(""), None) => true,
            (Some(group), None) => {
                self.registry.now().groups().iter().any(|(name, _)| name == group)
            }
            (group, Some(version)) => {
                self.registry.now().has_group_version(group.unwrap_or_default(), version)
            }
        }
    }
}
