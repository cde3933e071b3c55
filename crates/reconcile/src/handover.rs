//! Objects that a server in the same process takes and gives as they are, without their text.
//!
//! They travel beside requests and answers, as extensions of types that both sides know without
//! knowing each other. A server elsewhere never sees them, so whoever makes the caches says where
//! the server is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use crate::object::Object;

/// The body of a request. Whoever brings one, be it empty, is answered with an object.
pub type Given = Arc<Mutex<Option<Value>>>;
/// An object without its revision, and its revision.
pub type Handed = (Arc<Value>, u64);
/// Where a watch puts objects: each belongs to the next line that has none.
pub type Hatch = Arc<Mutex<VecDeque<Handed>>>;

/// Where the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Behind a connection, for all we know.
    #[default]
    Elsewhere,
    /// In this process, and takes objects as they are.
    InProcess,
}

/// What a request was answered with.
pub enum Answer {
    Object(Object),
    Parsed(Value),
}

impl Answer {
    pub fn object(self) -> Object {
        match self {
            Answer::Object(object) => object,
            Answer::Parsed(value) => Object::new(value),
        }
    }

    pub fn value(self) -> Value {
        match self {
            Answer::Object(object) => object.value.clone(),
            Answer::Parsed(value) => value,
        }
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a request with what is given beside it.
pub async fn send(
    client: &kube::Client,
    request: Request<Vec<u8>>,
    given: Option<Value>,
) -> Result<Answer, kube::Error> {
    let mut request = request.map(Body::from);
    let given: Given = Arc::new(Mutex::new(given));
    request.extensions_mut().insert(given);
    let (mut parts, body) = client.send(request).await?.into_parts();
    if let Some((value, revision)) = parts.extensions.remove::<Handed>() {
        return Ok(Answer::Object(Object::shared(value, revision)));
    }
    let body = body.collect().await?.to_bytes();
    if parts.status.is_success() {
        return serde_json::from_slice(&body).map(Answer::Parsed).map_err(kube::Error::SerdeError);
    }
    Err(refusal(&Response::from_parts(parts, body.to_vec())))
}

fn refusal(answer: &Response<Vec<u8>>) -> kube::Error {
    let status = serde_json::from_slice::<Status>(answer.body()).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(answer.body());
        Status::failure(&text, "Failed to parse error data").with_code(answer.status().as_u16())
    });
    kube::Error::Api(status.boxed())
}
