//! The past of every object, as a group of the API: `history.setpoint.dev/v1`.
//!
//! ```text
//! GET  timeline                       from when to when there is a past
//! GET  at/{moment}/{path of a GET}    what that GET answered then
//! GET  revisions/{path of an object}  every change: when, who, what
//! GET  why/{path of an object}        what led to it, and what it waits for
//! GET  events/{path of an object}     its events, also those that have ended
//! GET  changes?after=REVISION         all changes after a revision, for exports
//! POST imported/{path of an object}   what happened to it in the cluster it was brought from
//! POST undo/{path of an object}       an earlier specification, written again
//! POST plan                           what a set of objects would do
//! ```
//!
//! The three about an object take `at={moment}`: what they would have answered then. Of revisions
//! `only=wanted` leaves out those of the status alone.
//!
//! Whoever asks needs the rights to what lies behind the path as well. Values of Secrets are in no
//! answer.

pub mod at;
pub mod changes;
pub mod churn;
pub mod diff;
pub mod events;
pub mod foresight;
pub mod imported;
pub mod moment;
pub mod place;
pub mod plan;
pub mod pods;
pub mod redact;
pub mod revisions;
pub mod undo;
pub mod why;

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};
use store::Revision;

use crate::answer::Answer;
use crate::endpoints::Warnings;
use crate::identity::User;
use crate::rbac::{Attributes, denial};
use crate::request::path::Target;
use crate::resources::Listed;
use crate::server::Server;
use crate::status::Error;

pub const GROUP: &str = "history.setpoint.dev";
pub const VERSION: &str = "v1";
const ROOT: &str = "/apis/history.setpoint.dev/v1/";

/// What discovery tells of the group.
pub const LISTED: &[Listed] = &[
    listed("at", "Past", &["get"]),
    listed("changes", "ChangeList", &["get"]),
    listed("events", "EventList", &["get"]),
    listed("imported", "Imported", &["create"]),
    listed("plan", "Plan", &["create"]),
    listed("revisions", "RevisionList", &["get"]),
    listed("timeline", "Timeline", &["get"]),
    listed("undo", "Undo", &["create"]),
    listed("why", "Trace", &["get"]),
];

const fn listed(plural: &'static str, kind: &'static str, verbs: &'static [&str]) -> Listed {
    Listed { group: GROUP, version: VERSION, plural, kind, verbs }
}

/// Who asks, and what they sent.
#[derive(Clone)]
pub struct Asked {
    pub user: Arc<User>,
    pub id: Arc<str>,
    pub body: Bytes,
    pub warnings: Warnings,
    /// The query of the URL.
    pub query: Vec<(String, String)>,
}

impl Asked {
    fn option(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Up to where a question looks: the moment that it names, or the newest revision.
    async fn until(&self, server: &Server) -> Result<Revision, Error> {
        match self.option("at").filter(|text| !text.is_empty()) {
            Some(text) => moment::resolve(server, moment::parse(text)?).await,
            None => Ok(server.store.revision()),
        }
    }

    fn is_of_the_past(&self) -> bool {
        self.option("at").is_some_and(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Error> {
        let Some(text) = self.option(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let wrong = || Error::bad_request(format!("{name} is {text:?}; expected a number"));
        text.parse().map(Some).map_err(|_| wrong())
    }
}

/// Refuses anonymous clients, whatever is behind the path: not even when objects changed is public.
pub fn require_user(user: &User, target: &Target) -> Result<(), Error> {
    if !user.is_anonymous() {
        return Ok(());
    }
    let attributes = Attributes {
        verb: "get",
        group: GROUP,
        resource: &target.resource,
        ..Attributes::default()
    };
    Err(denial(user, &attributes, ""))
}

/// Answers a request for the group.
pub async fn answer(server: &Arc<Server>, parts: &Parts, asked: Asked) -> Result<Answer, Error> {
    let path = parts.uri.path();
    let rest = path.strip_prefix(ROOT).ok_or_else(Error::no_such_resource)?;
    let (what, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let get = parts.method == Method::GET;
    let post = parts.method == Method::POST;
    match what {
        "timeline" if get => timeline(server, &asked).await,
        "at" if get => at::answer(server, parts, rest, asked).await,
        "revisions" if get => revisions::answer(server, rest, &asked).await,
        "why" if get => why::answer(server, rest, &asked).await,
        "events" if get => events::answer(server, rest, &asked).await,
        "changes" if get => changes::answer(server, &asked).await,
        "imported" if post => imported::answer(server, rest, &asked).await,
        "undo" if post => undo::answer(server, parts, rest, asked).await,
        "plan" if post => plan::answer(server, parts, asked).await,
        what if LISTED.iter().any(|listed| listed.plural == what) => {
            Err(Error::method_not_allowed())
        }
        _ => Err(Error::no_such_resource()),
    }
}

/// From when to when there is a past, and when the moment was that is asked for. It names no
/// object, so that everybody may know.
async fn timeline(server: &Server, asked: &Asked) -> Result<Answer, Error> {
    let (oldest, newest) = moment::window(&*server.store);
    let tell = async |revision: Revision| -> Result<Value, Error> {
        let time = moment::time_of(server, revision).await?;
        Ok(json!({"revision": revision.0, "time": time.map(moment::text)}))
    };
    let mut timeline = json!({
        "kind": "Timeline", "apiVersion": format!("{GROUP}/{VERSION}"),
        "oldest": tell(oldest).await?, "newest": tell(newest).await?,
    });
    if asked.is_of_the_past() {
        timeline["at"] = tell(asked.until(server).await?).await?;
    }
    Ok(Answer::value(200, &timeline))
}
