//! What can happen to a request between a component and the server.
//!
//! A fault is chosen by the number of the request among those of its sort, so that a plan made
//! from one run hits the same request in the next.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::identity::User;
use apiserver::server::Server;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use tokio::sync::Notify;

/// What happens to one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The server never sees it; the caller gets an error.
    LoseRequest,
    /// The server carries it out; the caller gets an error.
    LoseAnswer,
    /// The server carries it out twice; the caller gets the second answer.
    Twice,
    /// The answer comes late.
    Delay(Duration),
    /// The server refuses it with this code.
    Refuse(u16),
    /// The component dies before the server sees it.
    CrashBefore,
    /// The component dies after the server carried it out.
    CrashAfter,
}

/// A sort of request, as plans name them: what is written or read, not which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sort {
    pub method: String,
    /// The path with names taken out: `/api/v1/namespaces/*/pods/*`.
    pub route: String,
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.route)
    }
}

/// One request that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub sort: Sort,
    /// Which of its sort, from 0.
    pub number: usize,
    pub path: String,
    /// The code of the answer; 0 where none reached the caller.
    pub code: u16,
}

impl Made {
    pub fn is_write(&self) -> bool {
        self.sort.method != "GET"
    }
}

/// A fault and the request it happens to.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub sort: Sort,
    pub number: usize,
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} #{}", self.fault, self.sort, self.number)
    }
}

/// The way of one component to the server, with what happens on it.
#[derive(Default)]
pub struct Faults {
    planned: Mutex<Vec<Planned>>,
    made: Mutex<Vec<Made>>,
    /// Told when the component is to die.
    pub crash: Notify,
}

impl Faults {
    pub fn new(planned: Vec<Planned>) -> Arc<Faults> {
        Arc::new(Faults { planned: Mutex::new(planned), ..Faults::default() })
    }

    /// Every request so far.
    pub fn made(&self) -> Vec<Made> {
        self.made.lock().expect("a simulation must be set up").clone()
    }

    /// Whether every planned fault has happened.
    pub fn is_spent(&self) -> bool {
        self.planned.lock().expect("a simulation must be set up").is_empty()
    }

    /// A client whose requests go through here.
    pub fn client(self: &Arc<Self>, server: &Arc<Server>, identity: User) -> kube::Client {
        let (faults, server, identity) = (self.clone(), server.clone(), Arc::new(identity));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (faults, server, identity) = (faults.clone(), server.clone(), identity.clone());
            async move { faults.pass(&server, identity, request).await }
        });
        kube::Client::new(service, "default")
    }

    fn begin(&self, sort: &Sort, path: &str) -> (usize, Option<Fault>) {
        let mut made = self.made.lock().expect("a simulation must be set up");
        let number = made.iter().filter(|one| one.sort == *sort).count();
        made.push(Made { sort: sort.clone(), number, path: path.to_owned(), code: 0 });
        let mut planned = self.planned.lock().expect("a simulation must be set up");
        let at = planned.iter().position(|one| one.sort == *sort && one.number == number);
        (made.len() - 1, at.map(|at| planned.remove(at).fault))
    }

    async fn pass(
        &self,
        server: &Arc<Server>,
        identity: Arc<User>,
        request: Request<Body>,
    ) -> Result<Response<apiserver::answer::Body>, Lost> {
        let sort = sort(request.method(), request.uri().path());
        let (index, fault) = self.begin(&sort, request.uri().path());
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if is_watch {
            return Ok(server.handle(request, Some(identity)).await);
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        let send = || {
            let request = Request::from_parts(parts.clone(), Full::<Bytes>::new(body.clone()));
            server.handle(request, Some(identity.clone()))
        };
        match fault {
            Some(Fault::LoseRequest) => return Err(Lost),
            Some(Fault::CrashBefore) => return self.die().await,
            Some(Fault::Refuse(code)) => return Ok(refusal(code)),
            Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
            Some(Fault::Twice) => drop(send().await),
            Some(Fault::LoseAnswer | Fault::CrashAfter) | None => {}
        }
        let answer = send().await;
        match fault {
            Some(Fault::LoseAnswer) => return Err(Lost),
            Some(Fault::CrashAfter) => return self.die().await,
            _ => {}
        }
        self.made.lock().expect("a simulation must be set up")[index].code =
            answer.status().as_u16();
        Ok(answer)
    }

    /// The component is told to die and never gets an answer.
    async fn die<T>(&self) -> T {
        self.crash.notify_one();
        std::future::pending().await
    }
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

fn sort(method: &Method, path: &str) -> Sort {
    // /api/v1/namespaces/N/pods/N/status, /apis/G/V/namespaces/N/jobs/N
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let head = if parts.first() == Some(&"api") { 2 } else { 3 };
    let mut route: Vec<&str> = parts.iter().copied().take(head).collect();
    let mut rest = parts.get(head..).unwrap_or_default();
    if let ["namespaces", _, after @ ..] = rest
        && !after.is_empty()
    {
        route.extend(["namespaces", "*"]);
        rest = after;
    }
    for (at, part) in rest.iter().enumerate() {
        route.push(if at == 1 { "*" } else { part });
    }
    Sort { method: method.to_string(), route: format!("/{}", route.join("/")) }
}

fn refusal(code: u16) -> Response<apiserver::answer::Body> {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "a fault of the simulation", "reason": "", "code": code});
    let body = Full::new(Bytes::from(status.to_string())).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a simulation must be set up");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_names_no_object() {
        let cases = [
            ("/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/*/pods/*"),
            ("/api/v1/namespaces/a", "/api/v1/namespaces/*"),
            (
                "/apis/apps/v1/namespaces/a/replicasets/b/status",
                "/apis/apps/v1/namespaces/*/replicasets/*/status",
            ),
            ("/api/v1/pods", "/api/v1/pods"),
        ];
        for (path, expected) in cases {
            assert_eq!(sort(&Method::GET, path).route, expected);
        }
    }
}
