//! Whether the server lives and is ready: `/healthz`, `/livez` and `/readyz`.
//!
//! `?verbose` lists the checks, `?exclude=NAME` leaves one out, and a check has a path of its own
//! such as `/readyz/store`. One implementation for every listener.
//!
//! Upstream: apiserver/pkg/server/healthz/healthz.go

use store::Store;
use tracing::debug;

use crate::answer::Answer;
use crate::beside::Beside;

/// What the checks look at.
pub struct Checked<'a> {
    pub store: &'a dyn Store,
    pub is_stopping: bool,
    /// What else runs in the process. How it fares is told, and fails no check: a controller that
    /// cannot do its work is no reason to restart the server.
    pub beside: &'a Beside,
}

/// One check and what it found.
struct Check {
    name: &'static str,
    failure: Option<String>,
}

/// The answer, if the path is one of health.
pub fn answer(checked: &Checked<'_>, path: &str, query: &str) -> Option<Answer> {
    let (kind, only) = split(path);
    let names: &[&'static str] = match kind {
        "livez" => &["ping"],
        "healthz" => &["ping", "store"],
        "readyz" => &["ping", "store", "shutdown"],
        _ => return None,
    };
    let checks: Vec<Check> = names.iter().map(|name| check(checked, name)).collect();
    let beside = if kind == "healthz" { checked.beside.states() } else { Vec::new() };
    Some(report((kind, only, query), &checks, &beside))
}

fn check(checked: &Checked<'_>, name: &'static str) -> Check {
    let failure = match name {
        "store" => checked.store.health().err().map(|error| error.to_string()),
        "shutdown" if checked.is_stopping => Some("it is stopping".to_owned()),
        _ => None,
    };
    Check { name, failure }
}

/// The first part of a path, and what follows.
fn split(path: &str) -> (&str, Option<&str>) {
    let path = path.strip_prefix('/').unwrap_or(path);
    match path.split_once('/') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (path, None),
    }
}

fn report(
    (kind, only, query): (&str, Option<&str>, &str),
    checks: &[Check],
    beside: &[(String, String)],
) -> Answer {
    let parameters = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let is_verbose = parameters().any(|(name, _)| name == "verbose");
    let is_excluded =
        |check: &Check| parameters().any(|(name, value)| name == "exclude" && value == check.name);
    let mut lines = String::new();
    let mut has_failed = false;
    let mut has_run = false;
    for check in checks.iter().filter(|check| only.is_none_or(|only| only == check.name)) {
        has_run = true;
        let line = match &check.failure {
            _ if is_excluded(check) => format!("[+]{} excluded: ok\n", check.name),
            None => format!("[+]{} ok\n", check.name),
            Some(failure) => {
                // Anyone may ask; the reason is for the log.
                debug!(check = check.name, failure, "a health check failed");
                has_failed = true;
                format!("[-]{} failed: reason withheld\n", check.name)
            }
        };
        lines.push_str(&line);
    }
    for (name, state) in beside.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        has_run = true;
        lines.push_str(&format!("[+]{name} ok: {state}\n"));
    }
    match (has_run, has_failed, is_verbose) {
        (false, _, _) => Answer::text(404, "404 page not found\n"),
        (true, true, _) => Answer::text(500, format!("{lines}{kind} check failed\n")),
        (true, false, true) => Answer::text(200, format!("{lines}{kind} check passed\n")),
        (true, false, false) => Answer::text(200, "ok"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Retention, System, backends};

    use super::*;
    use crate::answer::Content;

    fn ask(is_stopping: bool, uri: &str) -> Option<(u16, String)> {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let answer = answer(
            &Checked { store: &*store, is_stopping, beside: &Beside::default() },
            path,
            query,
        )?;
        let Content::Whole(body) = answer.body else { panic!("{uri} must answer at once") };
        Some((answer.code, String::from_utf8_lossy(&body).into_owned()))
    }

    #[tokio::test]
    async fn a_healthy_server_says_ok() {
        for uri in ["/healthz", "/livez", "/readyz", "/readyz/store", "/livez?exclude=ping"] {
            assert_eq!(ask(false, uri), Some((200, "ok".to_owned())), "{uri}");
        }
        let verbose = "[+]ping ok\n[+]store ok\nhealthz check passed\n".to_owned();
        assert_eq!(ask(false, "/healthz?verbose"), Some((200, verbose)));
    }

    #[tokio::test]
    async fn what_is_not_there_is_not_found() {
        for uri in ["/healthz/none", "/livez/store", "/readyz/"] {
            assert_eq!(ask(false, uri).map(|(code, _)| code), Some(404), "{uri}");
        }
        for uri in ["/", "/healthy", "/api"] {
            assert_eq!(ask(false, uri), None, "{uri}");
        }
    }

    #[tokio::test]
    async fn a_stopping_server_lives_but_is_not_ready() {
        assert_eq!(ask(true, "/livez"), Some((200, "ok".to_owned())));
        let (code, body) = ask(true, "/readyz").unwrap();
        assert_eq!(code, 500);
        assert!(body.contains("[-]shutdown failed"), "{body}");
        assert_eq!(ask(true, "/readyz?exclude=shutdown").unwrap().0, 200);
    }
}
