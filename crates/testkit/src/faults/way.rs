//! The way of one component to the server: records every request and lets happen what is planned.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver::identity::User;
use apiserver::server::Server;
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};
use store::Store;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::events::{self, Line};
use super::{Fault, Planned, Sort};
use crate::record::{Event, Made};
use crate::world::World;

/// More requests than any component needs: it runs in a circle.
const REQUESTS_MAX: usize = 5_000;
/// How long a server that has too much to do asks to be left alone.
pub const RETRY_AFTER_SECONDS: u64 = 7;

type Answer = Response<apiserver::answer::Body>;

/// What happens to one component, and what it did.
pub struct Faults {
    world: Arc<World>,
    store: Arc<dyn Store>,
    began: Instant,
    state: Mutex<State>,
    /// The revision beyond which nothing is told.
    frozen: watch::Sender<Option<u64>>,
    /// Whether the component stands still.
    paused: watch::Sender<bool>,
    /// True from when it stood still.
    pub was_paused: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    planned: Vec<Planned>,
    made: Vec<Made>,
    events: Vec<Event>,
    /// How many of each sort there were.
    counts: BTreeMap<Sort, usize>,
    refusing: Vec<(Sort, u16, Instant)>,
    /// What has to be listed before it can be watched.
    forgotten: BTreeSet<String>,
    lag: Option<Duration>,
    lives: u32,
    thaw_at: Option<Instant>,
}

/// One life of a component: from its start to its crash.
pub struct Life {
    pub number: u32,
    is_over: AtomicBool,
    crash: Notify,
}

impl Life {
    /// The component is told to die and never gets an answer.
    pub async fn die<T>(&self) -> T {
        self.end();
        std::future::pending().await
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.crash.notify_one();
    }

    /// Returns when the component is to die.
    pub async fn ended(&self) {
        self.crash.notified().await;
    }
}

/// What a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It acts: everything it does is recorded and may fail.
    Acts,
    /// It fills caches: what it reads is recorded and may be old.
    Fills,
    /// It stands for election: it stands still when the component does.
    Stands,
}

impl Faults {
    pub fn new(world: Arc<World>, store: Arc<dyn Store>, planned: Vec<Planned>) -> Arc<Faults> {
        let (lags, planned): (Vec<Planned>, Vec<Planned>) =
            planned.into_iter().partition(|one| matches!(one.fault, Fault::Lag(_)));
        let lag = lags.first().and_then(|one| match one.fault {
            Fault::Lag(seconds) => Some(Duration::from_secs(seconds)),
            _ => None,
        });
        Arc::new(Faults {
            world,
            store,
            began: Instant::now(),
            state: Mutex::new(State { planned, lag, ..State::default() }),
            frozen: watch::Sender::new(None),
            paused: watch::Sender::new(false),
            was_paused: watch::Sender::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every request so far.
    pub fn made(&self) -> Vec<Made> {
        self.state().made.clone()
    }

    /// Every event so far.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// When the component last tried to write.
    pub fn last_write(&self) -> Option<Duration> {
        let state = self.state();
        state.made.iter().rev().find(|made| made.is_write()).map(|made| made.at)
    }

    /// Whether every planned fault has happened.
    pub fn is_spent(&self) -> bool {
        self.state().planned.is_empty()
    }

    pub fn is_runaway(&self) -> bool {
        self.state().made.len() >= REQUESTS_MAX
    }

    /// The component starts.
    pub fn begin_life(&self) -> Arc<Life> {
        let mut state = self.state();
        let number = state.lives;
        state.lives += 1;
        Arc::new(Life { number, is_over: AtomicBool::new(false), crash: Notify::new() })
    }

    /// A client whose requests go through here.
    pub fn client(
        self: &Arc<Self>,
        life: &Arc<Life>,
        server: &Arc<Server>,
        (role, identity): (Role, User),
    ) -> kube::Client {
        let way = Arc::new(Way {
            faults: self.clone(),
            life: life.clone(),
            server: server.clone(),
            identity: Arc::new(identity),
            role,
        });
        let service = tower::service_fn(move |request: Request<Body>| {
            let way = way.clone();
            async move { way.pass(request).await }
        });
        kube::Client::new(service, "default")
    }

    pub(super) fn lag(&self) -> Option<Duration> {
        self.state().lag
    }

    /// From now on what is read is as old as a revision, for a while.
    pub(super) fn freeze(&self, revision: u64, duration: Duration) {
        self.state().thaw_at = Some(Instant::now() + duration);
        self.frozen.send_replace(Some(revision));
    }

    /// The revision beyond which nothing is told, if there is one.
    fn frozen(&self) -> Option<u64> {
        let thaw_at = self.state().thaw_at?;
        if Instant::now() >= thaw_at {
            self.frozen.send_replace(None);
        }
        *self.frozen.borrow()
    }

    /// Returns when a revision may be told.
    pub(super) async fn reaches(&self, revision: u64) {
        while self.frozen().is_some_and(|frozen| revision > frozen) {
            let thaw_at = self.state().thaw_at.unwrap_or_else(Instant::now);
            tokio::time::sleep_until(thaw_at).await;
        }
    }

    /// Returns when the component does not stand still.
    pub(super) async fn runs(&self) {
        let mut paused = self.paused.subscribe();
        // The sender lives as long as this.
        let _ = paused.wait_for(|paused| !paused).await;
    }

    /// What has to be listed before it can be watched.
    pub(super) fn forget(&self, sort: &Sort) {
        self.state().forgotten.insert(sort.route.clone());
    }

    /// Records an event; returns what happens to it.
    pub(super) fn event(
        &self,
        sort: &Sort,
        life: u32,
        line: &Line,
        revision: u64,
    ) -> Option<Fault> {
        if !matches!(line.kind.as_str(), "ADDED" | "MODIFIED" | "DELETED") {
            return None;
        }
        let mut state = self.state();
        let number = state.count(sort);
        let metadata = &line.object.metadata;
        let name = format!("{}/{}", metadata.namespace, metadata.name);
        let kind = line.kind.clone();
        let (at, sort) = (self.began.elapsed(), sort.clone());
        let fault = state.fault(&sort, number);
        state.events.push(Event { at, life, sort, number, kind, name, revision });
        fault
    }
}

impl State {
    fn count(&mut self, sort: &Sort) -> usize {
        let count = self.counts.entry(sort.clone()).or_default();
        *count += 1;
        *count - 1
    }

    fn fault(&mut self, sort: &Sort, number: usize) -> Option<Fault> {
        let at = self.planned.iter().position(|one| one.sort == *sort && one.number == number)?;
        Some(self.planned.remove(at).fault)
    }
}

/// One client.
struct Way {
    faults: Arc<Faults>,
    life: Arc<Life>,
    server: Arc<Server>,
    identity: Arc<User>,
    role: Role,
}

impl Way {
    async fn pass(&self, request: Request<Body>) -> Result<Answer, Lost> {
        if self.life.is_over.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        self.faults.runs().await;
        match self.role {
            Role::Stands => Ok(self.server.handle(request, Some(self.identity.clone())).await),
            Role::Fills => self.fill(request).await,
            Role::Acts => self.act(request).await,
        }
    }

    /// A list or a watch of a cache.
    async fn fill(&self, mut request: Request<Body>) -> Result<Answer, Lost> {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_watch = query.contains("watch=true");
        let sort = if is_watch { Sort::watch(&path) } else { Sort::of(&Method::GET, &path) };
        // Events are counted among the sort of their watch, so watches themselves are not.
        let is_forgotten = is_watch && self.faults.state().forgotten.contains(&sort.route);
        let counted = if is_watch { Sort { route: "*".to_owned(), ..sort } } else { sort };
        let index = self.record(&counted, &request, None).0;
        if self.faults.is_runaway() {
            return self.life.die().await;
        }
        if is_forgotten {
            return Ok(Response::new(events::gone()));
        }
        if !is_watch {
            self.faults.state().forgotten.remove(&counted.route);
            if let (Some(frozen), false) = (self.faults.frozen(), query.contains("continue=")) {
                let old = "resourceVersionMatch=Exact";
                let uri = format!("{path}?{query}&{old}&resourceVersion={frozen}");
                *request.uri_mut() = uri.parse::<Uri>().map_err(|_| Lost)?;
            }
        }
        let answer = self.server.handle(request, Some(self.identity.clone())).await;
        self.answered(index, answer.status().as_u16(), 0);
        if !is_watch || !answer.status().is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let sort = Sort::watch(&path);
        let body = events::through(self.faults.clone(), self.life.clone(), sort, body);
        Ok(Response::from_parts(parts, body))
    }

    /// A request of the component itself.
    async fn act(&self, request: Request<Body>) -> Result<Answer, Lost> {
        let sort = Sort::of(request.method(), request.uri().path());
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        let head = Request::from_parts(parts.clone(), ());
        let content = serde_json::from_slice(&body).ok();
        let (index, fault) = self.record(&sort, &head, content);
        if self.faults.is_runaway() {
            return self.life.die().await;
        }
        let refusing = self.refusing(&sort);
        let send = || {
            let request = Request::from_parts(parts.clone(), Full::<Bytes>::new(body.clone()));
            self.server.handle(request, Some(self.identity.clone()))
        };
        match fault {
            Some(Fault::LoseRequest) => return Err(Lost),
            Some(Fault::CrashBefore) => return self.life.die().await,
            Some(Fault::Refuse(code)) => return Ok(self.refuse(index, code)),
            Some(Fault::RefuseLong(code, seconds)) => {
                let until = Instant::now() + Duration::from_secs(seconds);
                let code = u16::try_from(code).unwrap_or(500);
                self.faults.state().refusing.push((sort, code, until));
                return Ok(self.refuse(index, code.into()));
            }
            _ if refusing.is_some() => {
                return Ok(self.refuse(index, refusing.unwrap_or(500).into()));
            }
            Some(Fault::Delay(seconds)) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Some(Fault::Pause(seconds) | Fault::Stall(seconds)) => self.pause(seconds).await,
            Some(Fault::Forward(seconds)) => {
                self.faults.world.jump(i64::try_from(seconds).unwrap_or(0));
            }
            Some(Fault::Back(seconds)) => {
                self.faults.world.jump(-i64::try_from(seconds).unwrap_or(0));
            }
            Some(Fault::Twice) => drop(send().await),
            _ => {}
        }
        let answer = self.read(index, send().await).await?;
        match fault {
            Some(Fault::LoseAnswer) => return Err(Lost),
            Some(Fault::CrashAfter) => return self.life.die().await,
            // What the caller does with the answer in the same breath reaches nobody.
            Some(Fault::CrashThen) => self.life.end(),
            _ => {}
        }
        self.faults.state().made[index].is_answered = true;
        Ok(answer)
    }

    /// Everything of this component waits.
    async fn pause(&self, seconds: u64) {
        self.faults.paused.send_replace(true);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.faults.paused.send_replace(false);
        self.faults.was_paused.send_replace(true);
    }

    fn refusing(&self, sort: &Sort) -> Option<u16> {
        let mut state = self.faults.state();
        let now = Instant::now();
        state.refusing.retain(|(_, _, until)| *until > now);
        state.refusing.iter().find(|(refused, ..)| refused == sort).map(|(_, code, _)| *code)
    }

    fn refuse(&self, index: usize, code: u64) -> Answer {
        let code = u16::try_from(code).unwrap_or(500);
        self.answered(index, code, 0);
        self.faults.state().made[index].is_answered = true;
        refusal(code)
    }

    fn record<B>(
        &self,
        sort: &Sort,
        request: &Request<B>,
        body: Option<Value>,
    ) -> (usize, Option<Fault>) {
        let mut state = self.faults.state();
        let number = state.count(sort);
        let fault = match self.role {
            Role::Acts => state.fault(sort, number),
            Role::Fills | Role::Stands => None,
        };
        let epoch = request.headers().get(reconcile::requests::EPOCH_HEADER);
        let body = body.unwrap_or_default();
        let metadata = &body["metadata"];
        let expects = [&metadata["resourceVersion"], &body["preconditions"]["resourceVersion"]];
        let expects = expects.into_iter().find_map(|text| text.as_str()?.parse().ok());
        let uids = [&metadata["uid"], &body["preconditions"]["uid"]];
        state.made.push(Made {
            at: self.faults.began.elapsed(),
            life: self.life.number,
            sort: sort.clone(),
            number,
            path: request.uri().path().to_owned(),
            manager: manager(request.uri()),
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            shape: if sort.method == "PATCH" { shape(&body) } else { String::new() },
            has_uid: uids.into_iter().any(Value::is_string),
            expects,
            epoch: epoch.and_then(|epoch| epoch.to_str().ok()).map(str::to_owned),
            head: self.faults.store.revision().0,
            code: 0,
            revision: 0,
            is_answered: false,
            fault,
        });
        (state.made.len() - 1, fault)
    }

    fn answered(&self, index: usize, code: u16, revision: u64) {
        let mut state = self.faults.state();
        state.made[index].code = code;
        state.made[index].revision = revision;
    }

    /// Notes what an answer says.
    async fn read(&self, index: usize, answer: Answer) -> Result<Answer, Lost> {
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        self.answered(index, parts.status.as_u16(), revision_in(&body));
        Ok(Response::from_parts(parts, Full::new(body).boxed_unsync()))
    }
}

/// Who writes, as the request says it.
fn manager(uri: &http::Uri) -> String {
    let options = uri.query().unwrap_or_default().split('&');
    let mut said = options.filter_map(|option| option.strip_prefix("fieldManager="));
    said.next_back().unwrap_or_default().to_owned()
}

/// The connection broke.
#[derive(Debug)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection broke")
    }
}

impl std::error::Error for Lost {}

impl From<Infallible> for Lost {
    fn from(never: Infallible) -> Lost {
        match never {}
    }
}

/// Which fields a patch changes, two deep.
fn shape(body: &Value) -> String {
    let mut fields = Vec::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        for inner in value.as_object().into_iter().flatten().map(|(inner, _)| inner) {
            if !matches!(inner.as_str(), "uid" | "resourceVersion") {
                fields.push(format!("{name}.{inner}"));
            }
        }
    }
    fields.join(" ")
}

/// The revision of the object in a body, found without reading all of it.
fn revision_in(body: &[u8]) -> u64 {
    const METADATA: &[u8] = b"\"metadata\":{";
    const FIELD: &[u8] = b"\"resourceVersion\":\"";
    let find = |body: &[u8], text: &[u8]| {
        let at = body.windows(text.len()).position(|window| window == text)?;
        Some(at + text.len())
    };
    let Some(metadata) = find(body, METADATA) else { return 0 };
    let body = &body[metadata..];
    let Some(at) = find(body, FIELD) else { return 0 };
    let digits = body[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

fn refusal(code: u16) -> Answer {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "a fault of the simulation", "reason": "", "code": code});
    if code == 429 {
        status["details"] = json!({"retryAfterSeconds": RETRY_AFTER_SECONDS});
    }
    let body = Full::new(Bytes::from(status.to_string())).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a code of the plan");
    response
}
