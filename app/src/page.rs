//! The page of `setpoint web`: how everything is, for a browser. It only tells; whoever wants to
//! change something asks the API with rights of their own.

use std::fmt::Write;
use std::sync::Arc;

use apiserver::answer::{Answer, Body};
use apiserver::serve::{Limits, serve_plain};
use hyper::{Method, Request, Response};
use tokio::net::TcpListener;

use crate::health::{Health, Status};
use crate::shutdown::Stop;

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;\
    padding:0 1rem;color:CanvasText;background:Canvas;color-scheme:light dark}\
    table{border-collapse:collapse}th,td{text-align:left;padding:.2rem 1.5rem .2rem 0}";

/// Serves until asked to stop.
pub async fn serve(listener: TcpListener, api: String, health: Arc<Health>, stop: Stop) {
    let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
    let answer = move |request: Request<_>| {
        let (health, api) = (health.clone(), api.clone());
        async move { respond(&request, &health, &api) }
    };
    serve_plain(listener, stop.into_receiver(), limits, answer).await;
}

fn respond<B>(request: &Request<B>, health: &Health, api: &str) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Answer::text(405, "405 method not allowed\n").into_response();
    }
    match request.uri().path() {
        "/" | "/dashboard" => {
            let page = page(&health.status(), api);
            Answer::of(200, "text/html; charset=utf-8", page).into_response()
        }
        _ => health.answer(request),
    }
}

fn page(status: &Status, api: &str) -> String {
    let mut rows = String::new();
    let mut row = |name: &str, text: &str| {
        let _ = write!(rows, "<tr><th scope=row>{name}</th><td>{}</td></tr>", escape(text));
    };
    row("health", &status.health);
    row("API", api);
    row("console", &format!("{api}/console/   (`setpoint ui` signs you in)"));
    row("revision", &status.revision.to_string());
    if let Some(census) = &status.census {
        row("nodes", &format!("{} of {} ready", census.nodes_ready, census.nodes));
        let pods = format!(
            "{}: {} running, {} waiting",
            census.pods, census.pods_running, census.pods_waiting
        );
        row("pods", &pods);
    }
    for (part, state) in &status.unwell {
        row(&escape(part), state);
    }
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">\
         <meta http-equiv=refresh content=5><title>Setpoint</title><style>{STYLE}</style></head>\
         <body><main><h1>Setpoint</h1><table>{rows}</table>\
         <p>More: <code>setpoint status</code>, <code>kubectl get all -A</code>.</p>\
         </main></body></html>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::Census;

    #[test]
    fn the_page_tells_what_is_unwell_and_nothing_is_taken_for_markup() {
        let census = Census { nodes: 2, nodes_ready: 1, pods: 3, ..Census::default() };
        let status = Status {
            health: "the disk is <full>".to_owned(),
            revision: 7,
            compacted: 1,
            census: Some(census),
            unwell: vec![("controller/x".to_owned(), "its last work failed".to_owned())],
        };
        let page = page(&status, "https://127.0.0.1:6443");
        for text in ["the disk is &lt;full&gt;", "1 of 2 ready", "controller/x", "3: 0 running"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
