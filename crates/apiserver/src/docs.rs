//! The documentation, at `/docs`: pages for people, which anybody may load.

use http::request::Parts;
use http::{Method, header};

use crate::answer::Answer;
use crate::console::guarded;
use crate::server::Server;

const ROOT: &str = "/docs";

/// Whether a request is for the documentation.
pub fn is_for(server: &Server, path: &str) -> bool {
    let below = path.strip_prefix(ROOT);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && server.beside.documentation().is_some()
}

pub fn answer(server: &Server, parts: &Parts) -> Answer {
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let below = parts.uri.path().strip_prefix("/docs/");
    guarded(match (server.beside.documentation(), below) {
        _ if !is_read => Answer::text(405, "405 method not allowed\n"),
        // Links between the pages are relative.
        (_, None) => Answer::text(308, "").with(header::LOCATION, "/docs/"),
        (Some(pages), Some(below)) => pages.page(below, false),
        (None, Some(_)) => Answer::text(404, "404 page not found\n"),
    })
}
