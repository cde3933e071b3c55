//! `at/{moment}/{path}`: what a GET answered at a moment of the past.

use std::sync::Arc;

use http::request::Parts;
use store::Revision;

use super::Asked;
use super::moment::{self, Moment};
use super::place::Place;
use crate::answer::Answer;
use crate::request::options::{Options, Past};
use crate::server::Server;
use crate::status::Error;
use crate::{endpoints, time};

pub async fn answer(
    server: &Arc<Server>,
    parts: &Parts,
    rest: &str,
    asked: Asked,
) -> Result<Answer, Error> {
    let (moment, path) = rest.split_once('/').ok_or_else(|| {
        Error::bad_request("expected at/MOMENT/PATH, such as at/-5m/api/v1/namespaces/a/pods")
    })?;
    let moment = moment::parse(&moment.replace("%3A", ":").replace("%2B", "+"))?;
    let place = Place::parse(server, path)?;
    let options = Options::parse(parts.uri.query().unwrap_or_default())?;
    if options.watch || !options.resource_version.is_empty() {
        let text = "the past does not change: watch and resourceVersion are not for it";
        return Err(Error::bad_request(text));
    }
    let verb = if place.target.name.is_empty() { "list" } else { "get" };
    server.authorize(&asked.user, verb, &place.target, &options).await?;
    // Pages of a list are of one revision, also when the moment is told from now.
    let moment = match endpoints::list::revision_of_token(&options.go_on)? {
        Some(revision) => Moment::At(revision),
        None => moment,
    };
    let revision = moment::resolve(server, moment).await?;
    let since = place.since(server, &asked.user, verb).await?;
    place.refuse_before(since, revision)?;
    let seconds = match moment::time_of(server, revision).await? {
        // The newest state is as old as it is now.
        Some(_) if revision == server.store.revision() => server.now(),
        Some(made) => time::unix_seconds(made),
        None => server.now(),
    };
    let options = Options { past: Some(Past { revision, seconds }), ..options };
    let request = server.understand(parts, (verb, place.target), options, asked.into())?;
    let answer = match verb {
        "list" if !request.resource.serves("list") => return Err(Error::method_not_allowed()),
        "list" => endpoints::list::list(server, &request).await,
        _ => endpoints::get::get(server, &request).await,
    };
    if revision != Revision::ZERO {
        return answer;
    }
    let why = before_all(server).await;
    request.warnings.add(&*why);
    answer.map_err(|error| Error { message: format!("{}: {why}", error.message), ..error })
}

/// Said of a moment before the first change.
async fn before_all(server: &Server) -> String {
    let (oldest, _) = moment::window(&*server.store);
    let since = moment::time_of(server, oldest).await.ok().flatten();
    let since = since.map(|time| format!(", at {}", moment::text(time))).unwrap_or_default();
    format!("there was nothing then: this cluster began later{since} with revision {oldest}")
}
