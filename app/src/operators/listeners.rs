//! Where this process is asked: health in the clear, and over TLS what it counts and what servers
//! and pods ask of its operators.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use apiserver::answer::{Answer, Body};
use apiserver::identity::tls::open_server_config;
use apiserver::open_metrics;
use apiserver::serve::{Limits, serve_plain, serve_secure};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use reconcile::Context;
use reconcile::health::Health;
use reconcile::leader::Term;
use reconcile::metrics::Metrics;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::certificates::Served;
use super::readiness::Readiness;
use super::{Asked, Family, Operator, answer};

/// The largest question: a review holds an object twice.
const BODY_BYTES_MAX: usize = 8 << 20;
/// Connections of each listener at once; the next one waits in the system's queue.
const CONNECTIONS_MAX: usize = 1_024;

/// Where to listen.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub health: SocketAddr,
    pub metrics: SocketAddr,
    pub secure: SocketAddr,
}

/// Addresses that were taken.
pub struct Listeners {
    pub health: TcpListener,
    pub metrics: TcpListener,
    pub secure: TcpListener,
}

impl Listeners {
    pub async fn take(addresses: &Addresses) -> Result<Listeners> {
        Ok(Listeners {
            health: take(addresses.health, "--health-address").await?,
            metrics: take(addresses.metrics, "--metrics-address").await?,
            secure: take(addresses.secure, "--webhook-address").await?,
        })
    }

    /// The addresses with the ports that they got.
    pub fn addresses(&self) -> Result<Addresses> {
        let of = |listener: &TcpListener| {
            listener.local_addr().context("could not tell an address of our own")
        };
        Ok(Addresses {
            health: of(&self.health)?,
            metrics: of(&self.metrics)?,
            secure: of(&self.secure)?,
        })
    }
}

async fn take(address: SocketAddr, option: &str) -> Result<TcpListener> {
    let taken = TcpListener::bind(address).await;
    taken.with_context(|| {
        format!("could not listen on {address}; choose another address with {option} ADDR:PORT")
    })
}

/// What is told of this process.
pub struct Told {
    pub readiness: Arc<Readiness>,
    pub health: Arc<Health>,
    /// One for each prefix.
    pub metrics: Vec<Arc<Metrics>>,
    pub terms: Vec<(&'static Operator, watch::Receiver<Term>)>,
    pub served: watch::Receiver<Option<Served>>,
}

/// Serves `/healthz` and `/readyz` until told to stop.
pub async fn serve_health(listener: TcpListener, told: Arc<Told>, stop: watch::Receiver<bool>) {
    let answer = move |request: Request<Incoming>| {
        let told = told.clone();
        async move { told.health_of(request.uri().path()).into_response() }
    };
    serve_plain(listener, stop, limits(), answer).await;
}

/// Serves `/metrics` until told to stop, from when there is a certificate.
pub async fn serve_metrics(listener: TcpListener, told: Arc<Told>, stop: watch::Receiver<bool>) {
    let served = told.served.clone();
    let answer = move |request: Request<Incoming>| {
        let told = told.clone();
        async move {
            let answer = match request.uri().path() {
                "/metrics" => open_metrics::answer(request.headers(), told.metrics_text()),
                _ => not_found(),
            };
            answer.into_response()
        }
    };
    secure(listener, served, stop, answer).await;
}

/// A family, and what it answers with.
pub type Answering = (&'static dyn Family, Context);

/// Answers servers and pods until told to stop, from when there is a certificate.
pub async fn serve_questions(
    listener: TcpListener,
    (families, stop): (Vec<Answering>, watch::Receiver<bool>),
    served: watch::Receiver<Option<Served>>,
) {
    let families = Arc::new(families);
    let answer = move |request: Request<Incoming>| {
        let families = families.clone();
        async move { answer_question(&families, request).await }
    };
    secure(listener, served, stop, answer).await;
}

async fn secure<A, F>(
    listener: TcpListener,
    mut served: watch::Receiver<Option<Served>>,
    mut stop: watch::Receiver<bool>,
    answer: A,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let first = tokio::select! {
        first = served.wait_for(Option::is_some) => first.ok().and_then(|first| first.clone()),
        _ = stop.wait_for(|stop| *stop) => None,
    };
    let Some(first) = first else { return };
    match open_server_config(first.serving) {
        Ok(config) => serve_secure(listener, stop, (Arc::new(config), limits()), answer).await,
        Err(error) => tracing::error!(%error, "nothing can be served over TLS"),
    }
}

fn limits() -> Limits {
    Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() }
}

fn not_found() -> Answer {
    Answer::text(404, "404 page not found\n")
}

async fn answer_question(families: &[Answering], request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (method, path) = (&parts.method, parts.uri.path());
    let responder = families.iter().find(|(family, _)| family.is_for(method, path));
    if *method != Method::POST && responder.is_none() {
        return not_found().into_response();
    }
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Answer::text(413, "413 payload too large\n").into_response(),
    };
    if let Some((responder, context)) = responder {
        let authorization = parts.headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        let asked = Asked { path, authorization, body };
        let (code, value) = responder.respond(context, &asked).await;
        return Answer::value(code, &value).into_response();
    }
    review(families, path, &body).await.into_response()
}

async fn review(families: &[Answering], path: &str, body: &Bytes) -> Answer {
    let Ok(review) = serde_json::from_slice::<Value>(body) else {
        return Answer::text(400, "400 not a review in JSON\n");
    };
    for (family, context) in families {
        if let Some(answered) = answer(*family, context, path, &review).await {
            return Answer::value(200, &answered);
        }
    }
    not_found()
}

impl Told {
    fn health_of(&self, path: &str) -> Answer {
        match path {
            "/healthz" | "/livez" => Answer::text(200, "ok"),
            "/readyz" => {
                let (code, text) = self.readiness.told(&self.health);
                Answer::text(code, text)
            }
            _ => not_found(),
        }
    }

    fn metrics_text(&self) -> String {
        let mut text: String = self.metrics.iter().map(|metrics| metrics.text()).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# HELP leader_election_master_status Whether this process holds the lease.\n\
             # TYPE leader_election_master_status gauge"
        );
        for (operator, term) in &self.terms {
            let leads = u8::from(!matches!(*term.borrow(), Term::Follower(_)));
            let name = operator.lease;
            let _ = writeln!(text, "leader_election_master_status{{name=\"{name}\"}} {leads}");
        }
        if let Some(served) = &*self.served.borrow() {
            let _ = writeln!(
                text,
                "# HELP serving_certificate_expiration_seconds When it ends, since 1970.\n\
                 # TYPE serving_certificate_expiration_seconds gauge\n\
                 serving_certificate_expiration_seconds {}",
                served.not_after
            );
        }
        text
    }
}
