//! The path of a request, top to bottom: understand it, know who asks, decide, answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, USER_AGENT, WARNING};
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt, Limited};
use serde_json::json;
use store::{Environment, Store};
use tokio::sync::watch;
use tracing::{Instrument, debug, error};

use crate::admission::connection;
use crate::admission::policies::Policies;
use crate::admission::resource_quota::Turns;
use crate::admission::webhooks::Webhooks;
use crate::answer::{Answer, Body};
use crate::asked::Asked;
use crate::audit::Audit;
use crate::authenticate::authenticate;
use crate::beside::{self, Beside};
use crate::connected::Connected;
use crate::console::{self, sessions::Sessions};
use crate::docs;
use crate::endpoints::reach::Reach;
use crate::endpoints::{self, Request, Warnings, discovery};
use crate::extension;
use crate::finish::{Wishes, finish};
use crate::handover::{Carried, Offers};
use crate::history;
use crate::history::moment::Moments;
use crate::identity::User;
use crate::identity::rotation::KeyState;
use crate::identity::static_tokens::StaticTokens;
use crate::identity::tokens::Tokens;
use crate::local::Local;
use crate::metrics::{Counted, Metrics, Subject};
use crate::openapi::Documents;
use crate::profile::Profile;
use crate::rbac::{self, Attributes, Authorizer, Decision, denial};
use crate::registry::custom::follow::{Definitions, is_definition};
use crate::request::cause::{self, Cause};
use crate::request::negotiate::{Offer, negotiate};
use crate::request::options::Options;
use crate::request::path::{Path, Target};
use crate::request::route::Route;
use crate::request::trace::Trace;
use crate::resources::Served;
use crate::selectors::fields;
use crate::status::Error;
use crate::streams::handshake::Upgrade;
use crate::traffic::{REQUEST_MAX, Traffic, WRITE_MAX, is_long_running};
use crate::webhooks::addresses::LoopbackWebhooks;
use crate::webhooks::client::Client;
use crate::{admission, ids, subresources, time};

/// The largest body of a request.
pub const BODY_BYTES_MAX: usize = 3 << 20;
/// What is said of a path that nobody serves.
pub(crate) const NO_PAGE: &str = "404 page not found\n";
/// The longest URL.
const URL_BYTES_MAX: usize = 8 << 10;
/// Subresources whose bodies are the whole object, of which the strategy takes a part.
const WRITTEN_AS_A_WHOLE: [&str; 5] =
    ["approval", "ephemeralcontainers", "finalize", "resize", "status"];

/// Verbs that change nothing.
const READING: [&str; 3] = ["get", "list", "watch"];

/// Everything a request needs.
pub struct Server {
    pub store: Arc<dyn Store>,
    pub registry: Served,
    /// Where the custom resources of the registry come from.
    pub definitions: Definitions,
    pub authorizer: Arc<Authorizer>,
    pub environment: Arc<dyn Environment>,
    pub documents: Documents,
    pub tokens: Tokens,
    /// Revocations and expiry of keys.
    pub keys: Arc<KeyState>,
    /// Tokens that are known beforehand.
    pub known_tokens: StaticTokens,
    /// Who is signed in to the console.
    pub sessions: Arc<Sessions>,
    pub quota_turns: Turns,
    /// Who is asked about writes besides the plugins.
    pub webhooks: Arc<Webhooks>,
    pub policies: Arc<Policies>,
    pub webhook_client: Client,
    pub admission: admission::Settings,
    pub loopback_webhooks: LoopbackWebhooks,
    pub traffic: Traffic,
    pub metrics: Metrics,
    /// Where it is written who asked for what.
    pub audit: Audit,
    /// In whose manner new objects begin.
    pub profile: Profile,
    /// What else runs in the process.
    pub beside: Beside,
    /// The node that runs in the process.
    pub connected: Connected,
    /// What was just written, for those in the process who follow it.
    pub offers: Arc<Offers>,
    /// When revisions were made, as far as somebody asked.
    pub moments: Moments,
    /// How far back ordinary reads go.
    pub reach: Reach,
    /// True from when the server is to stop.
    pub stop: watch::Receiver<bool>,
}

impl Server {
    /// Seconds since 1970, for ages.
    pub fn now(&self) -> i64 {
        time::unix_seconds(self.environment.now())
    }

    /// Returns when the server is to stop.
    pub async fn stopping(&self) {
        let mut stop = self.stop.clone();
        // Whoever could say so being gone means the same.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Answers a request; `user` is who the connection says, if it says.
    pub async fn handle<B>(
        self: &Arc<Self>,
        request: http::Request<B>,
        user: Option<Arc<User>>,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        let carried = Carried::take(&mut parts.extensions);
        let id = ids::uuid(&*self.environment);
        let warnings = Warnings::default();
        let wishes = Wishes::of(&parts);
        let route = Route::of(&parts);
        let counted = self.count(&route);
        if console::is_for(self, parts.uri.path()) {
            let answer = console::answer(self, &parts, body, user).await;
            counted.end(answer.code);
            return answer.into_response();
        }
        if docs::is_for(self, parts.uri.path()) {
            let answer = docs::answer(self, &parts);
            counted.end(answer.code);
            return finish(answer, wishes).await.into_response();
        }
        if let Some(responder) = self.beside.responder(&parts.method, parts.uri.path()) {
            let answer = beside::ask(self, &*responder, &parts, body).await;
            counted.end(answer.code);
            return finish(answer, wishes).await.into_response();
        }
        let heard = self.audit.hear(&parts, &route, self.environment.now());
        let mut trace_header = None;
        let answer = match authenticate(self, &parts.headers, user) {
            Ok(identified) => {
                if let Some(heard) = &heard {
                    heard.identify(&identified);
                }
                let asked = Asked {
                    user: identified.user,
                    id: id.as_str().into(),
                    body: Bytes::new(),
                    warnings: warnings.clone(),
                    carried,
                    heard: heard.clone(),
                };
                let trace = Trace::begin(&self.beside, &parts, &asked);
                trace_header = trace.header();
                self.answer_in_time(parts, body, (route, asked), trace).await
            }
            Err(error) => Err(error),
        };
        if let Some(heard) = &heard {
            self.audit.tell(heard, &id, self.environment.now(), &answer);
        }
        let mut answer = answer.unwrap_or_else(|error| Answer::failure(&error));
        counted.end(answer.code);
        answer = answer.with(HeaderName::from_static("audit-id"), id);
        if let Some((name, value)) = trace_header {
            answer = answer.with(name, value);
        }
        for warning in warnings.take() {
            answer = answer.with(WARNING, format!("299 - {}", json!(warning)));
        }
        finish(answer, wishes).await.into_response()
    }

    /// Answers within the request's trace and its limit of time, whatever befalls it.
    async fn answer_in_time<B>(
        self: &Arc<Self>,
        parts: Parts,
        body: B,
        (route, asked): (Route, Asked),
        trace: Trace,
    ) -> Result<Answer, Error>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_long = route.is_long_running();
        let limit = if parts.method == Method::GET { REQUEST_MAX } else { WRITE_MAX };
        let Trace { span, log, .. } = trace;
        let answer = self.answer(parts, body, route, asked).instrument(span);
        let answer = AssertUnwindSafe(answer.instrument(log.clone())).catch_unwind();
        let answer = match is_long {
            true => Ok(answer.await),
            false => tokio::time::timeout(limit, answer).await,
        };
        log.in_scope(|| answered(answer))
    }

    /// Only what is served has counters of its own.
    fn count(&self, route: &Route) -> Counted {
        let Path::Resource(target) = &route.path else { return self.metrics.begin("", None) };
        let verb = route.verb.as_ref().map_or("", |verb| *verb);
        let subject = self.registry.lookup(target).and_then(|resource| {
            let subresource = match target.subresource.as_str() {
                "" => "",
                name => resource.subresource(name)?.name,
            };
            let (group, version) = (&target.group, &target.version);
            Some(Subject { group, version, resource: &target.resource, subresource })
        });
        self.metrics.begin(verb, subject)
    }

    async fn answer<B>(
        self: &Arc<Self>,
        parts: Parts,
        body: B,
        route: Route,
        asked: Asked,
    ) -> Result<Answer, Error>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (method, path) = (&parts.method, parts.uri.path());
        debug!(request = &*asked.id, user = &*asked.user.name, %method, path, "asked");
        if length(&parts.uri) > URL_BYTES_MAX {
            return Err(Error::bad_request("the URL is too long"));
        }
        let options = route.options?;
        match route.path {
            Path::Other => self.answer_other(&parts, &asked),
            Path::Discovery { group, version } => {
                self.authorize_path(&asked.user, &parts)?;
                if !self.is_discovered(group.as_deref(), version.as_deref()) {
                    return Ok(Answer::text(404, NO_PAGE));
                }
                let representation = negotiate(header(&parts.headers, ACCEPT), Offer::Discovery)?;
                discovery::of(self, group.as_deref(), version.as_deref(), representation)
            }
            Path::Resource(target) if target.group == history::GROUP => {
                history::require_user(&asked.user, &target)?;
                let place = self.traffic.enter("get", &asked.user)?;
                let asked = asked.with(read_body(body).await?);
                let asked = asked.of_the_past(options);
                let mut answer = history::answer(self, &parts, asked).await?;
                answer.place = place;
                Ok(answer)
            }
            Path::Resource(target) => {
                let verb = route.verb?;
                let is_local = parts.extensions.get::<Local>().is_some();
                let place = match is_local || is_long_running(verb, &target.subresource) {
                    true => None,
                    false => self.traffic.enter(verb, &asked.user)?,
                };
                self.authorize(&asked.user, verb, &target, &options).await?;
                if let Some(part) = self.beside.extension(&target.group) {
                    let asked_by = (asked.user, read_body(body).await?);
                    let what = (&parts, verb, target, options);
                    return extension::answer(self, &*part, what, asked_by).await;
                }
                if !self.registry.now().has_group_version(&target.group, &target.version) {
                    return Ok(Answer::text(404, NO_PAGE));
                }
                if target.is_proxied() {
                    self.admit_proxied(&parts, &target, (options, asked)).await?;
                    return subresources::proxy::answer(self, parts, body, &target).await;
                }
                let asked = asked.with(read_body(body).await?);
                let request = self.understand(&parts, (verb, target), options, asked)?;
                cause::check_epoch(self, &request.target, &request.cause).await?;
                let mut answer = self.dispatch(verb, &request).await?;
                answer.place = place;
                if is_definition(&request.resource) && !READING.contains(&verb) {
                    // What was defined is served when the client knows that it is defined.
                    self.definitions.catch_up(self).await?;
                }
                Ok(answer)
            }
        }
    }

    pub(crate) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        target: &Target,
        options: &Options,
    ) -> Result<(), Error> {
        // A list of the one object that a selector names is about that object.
        let selected = match verb {
            "list" | "watch" => fields::parse(&options.field_selector).ok(),
            _ => None,
        };
        let selected = selected.as_ref().and_then(|fields| fields.exact("metadata.name"));
        let name = if target.name.is_empty() { selected.unwrap_or_default() } else { &target.name };
        let attributes = Attributes {
            verb,
            group: &target.group,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name,
            path: None,
        };
        match self.decide(user, &attributes) {
            Err(_) if rbac::node::allows(self, user, &attributes).await => Ok(()),
            decided => decided,
        }
    }

    pub(crate) fn authorize_path(&self, user: &User, parts: &Parts) -> Result<(), Error> {
        // A HEAD is a GET without the body.
        let verb = match parts.method {
            Method::HEAD => "get".to_owned(),
            ref method => method.as_str().to_ascii_lowercase(),
        };
        let path = Some(parts.uri.path());
        self.decide(user, &Attributes { verb: &verb, path, ..Default::default() })
    }

    /// Whether somebody may do something.
    pub fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), Error> {
        match self.authorizer.authorize(user, attributes) {
            Decision::Allowed { .. } => Ok(()),
            Decision::Denied { reason } => Err(denial(user, attributes, &reason)),
        }
    }

    pub(crate) fn understand(
        &self,
        parts: &Parts,
        (verb, target): (&str, Target),
        options: Options,
        asked: Asked,
    ) -> Result<Request, Error> {
        let resource = self.registry.lookup(&target).ok_or_else(Error::no_such_resource)?;
        let has_table = resource.serves("get") || resource.serves("list");
        let offer = match (verb, target.subresource.as_str()) {
            ("watch", _) => Offer::Events,
            (_, "" | "status" | "finalize") if has_table => Offer::Full,
            _ => Offer::Plain,
        };
        if !target.namespace.is_empty() && !resource.namespaced && resource.kind != "Namespace" {
            return Err(Error::no_such_resource());
        }
        Ok(Request {
            resource,
            target,
            options,
            representation: negotiate(header(&parts.headers, ACCEPT), offer)?,
            content_type: header(&parts.headers, CONTENT_TYPE).to_owned(),
            user_agent: header(&parts.headers, USER_AGENT).to_owned(),
            body: asked.body,
            user: asked.user,
            id: asked.id,
            cause: Cause::read(&parts.headers)?,
            annotations: asked.heard.map(|heard| heard.annotations()).unwrap_or_default(),
            warnings: asked.warnings,
            carried: asked.carried,
            upgrade: Upgrade::of(parts),
        })
    }

    /// Admits a request that is passed on. Its body is not read.
    async fn admit_proxied(
        &self,
        parts: &Parts,
        target: &Target,
        (options, asked): (Options, Asked),
    ) -> Result<(), Error> {
        if !connection::is_judged(self) {
            return Ok(());
        }
        let mut request = Request {
            resource: self.registry.lookup(target).ok_or_else(Error::no_such_resource)?,
            target: target.clone(),
            options,
            // What the client accepts concerns the server behind this one.
            representation: negotiate("", Offer::Plain)?,
            content_type: String::new(),
            user_agent: header(&parts.headers, USER_AGENT).to_owned(),
            body: Bytes::new(),
            user: asked.user,
            id: asked.id,
            cause: Cause::read(&parts.headers)?,
            annotations: asked.heard.map(|heard| heard.annotations()).unwrap_or_default(),
            warnings: asked.warnings,
            carried: asked.carried,
            upgrade: None,
        };
        connection::admit(self, &mut request).await
    }

    async fn dispatch_subresource(
        self: &Arc<Self>,
        verb: &str,
        request: &Request,
    ) -> Result<Answer, Error> {
        match (request.target.subresource.as_str(), verb) {
            ("scale", "get") => subresources::scale::get(self, request).await,
            ("scale", "update") => subresources::scale::update(self, request).await,
            ("scale", "patch") => subresources::scale::patch(self, request).await,
            ("token", "create") => subresources::token::create(self, request).await,
            ("binding", "create") => subresources::binding::create(self, request).await,
            ("eviction", "create") => subresources::eviction::create(self, request).await,
            (name, _) if subresources::connect::NAMES.contains(&name) => {
                subresources::connect::answer(self, request).await
            }
            _ => Err(Error::no_such_resource()),
        }
    }

    async fn dispatch(self: &Arc<Self>, verb: &str, request: &Request) -> Result<Answer, Error> {
        let resource = &request.resource;
        if let Some(version) = resource.custom() {
            if let Some(text) = &version.deprecation {
                request.warnings.add(text.as_str());
            }
            if verb == "create" && version.life.is_terminating() {
                return Err(Error::terminating_definition(resource.about()));
            }
        }
        match request.target.subresource.as_str() {
            "" if !resource.serves(verb) => return Err(Error::method_not_allowed()),
            "" if verb == "create" && !request.target.name.is_empty() => {
                return Err(Error::method_not_allowed());
            }
            "" if matches!(verb, "update" | "patch") && request.target.name.is_empty() => {
                return Err(Error::method_not_allowed());
            }
            "" => {}
            name => {
                let subresource = resource.subresource(name).ok_or_else(Error::no_such_resource)?;
                if !subresource.verbs.contains(&verb) {
                    return Err(Error::method_not_allowed());
                }
                if !WRITTEN_AS_A_WHOLE.contains(&name) {
                    return self.dispatch_subresource(verb, request).await;
                }
            }
        }
        if resource.kind == "Binding" && resource.group.is_empty() {
            return subresources::binding::create(self, request).await;
        }
        if let Some(answer) = endpoints::reviews::answer(self, request) {
            return answer;
        }
        match verb {
            "get" => endpoints::get::get(self, request).await,
            "list" => endpoints::list::list(self, request).await,
            "watch" => endpoints::watch::watch(self, request).await,
            "create" => endpoints::create::create(self, request).await,
            "update" => endpoints::update::update(self, request).await,
            "patch" => endpoints::patch::patch(self, request).await,
            "delete" => endpoints::delete::delete(self, request).await,
            "deletecollection" => {
                endpoints::delete_collection::delete_collection(self, request).await
            }
            _ => Err(Error::method_not_allowed()),
        }
    }
}

/// What came of answering: in time or not, with or without a panic.
fn answered(
    answer: Result<std::thread::Result<Result<Answer, Error>>, tokio::time::error::Elapsed>,
) -> Result<Answer, Error> {
    match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            error!(panic = text, "a request failed by a defect of the server");
            Err(Error::internal("the request met a defect of the server; its log says more"))
        }
        Err(_) => Err(Error::timeout("request did not complete within the allotted timeout", 0)),
    }
}

fn length(uri: &http::Uri) -> usize {
    uri.path_and_query().map_or(0, |path_and_query| path_and_query.as_str().len())
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn read_body<B>(body: B) -> Result<Bytes, Error>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Error::too_large(BODY_BYTES_MAX))
        }
        Err(error) => Err(Error::bad_request(format!("could not read the body: {error}"))),
    }
}

/// What a failure of the store means to a client.
pub fn store_failure(error: store::Error) -> Error {
    match error {
        store::Error::Compacted { requested, oldest } => {
            Error::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        store::Error::Future { requested, newest } => {
            Error::too_large_resource_version(requested.0, newest.0)
        }
        store::Error::TooLarge { max, .. } => Error::too_large(max),
        store::Error::Invalid { what } => Error::bad_request(what),
        // Whoever led no longer does; trying again is for its successor.
        error @ store::Error::Fenced { .. } => Error::fenced(error),
        error @ store::Error::OutcomeUnknown { .. } => Error::timeout(error, 1),
        error if !error.is_terminal() => Error::unavailable(error.to_string()),
        error => Error::internal(error),
    }
}
