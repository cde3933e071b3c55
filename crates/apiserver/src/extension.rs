//! Groups of the API that another part of this process answers for. The server has asked who it is
//! and whether they may before; the part says what it is, or gives a connection to join.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::request::Parts;
use link::Duplex;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::identity::User;
use crate::request::options::Options;
use crate::request::path::Target;
use crate::server::Server;
use crate::status::Error;
use crate::streams;
use crate::streams::handshake::Upgrade;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub verb: &'static str,
    pub target: Target,
    /// The query of the URL.
    pub query: Vec<(String, String)>,
    pub body: Bytes,
}

/// What is answered.
pub enum Given {
    /// A code without more to say.
    Done(u16),
    Value(Value),
    /// The client leaves HTTP and is joined with this.
    Connection(Box<dyn Duplex>),
}

/// Why not: a code and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub code: u16,
    pub message: String,
}

/// Something of an object that a part answers for, as clients are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    pub resource: &'static str,
    pub subresource: &'static str,
    /// Of the version of the part's group.
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

/// A part that answers for a group.
#[async_trait]
pub trait Extend: Send + Sync {
    fn group(&self) -> &'static str;

    fn version(&self) -> &'static str;

    /// What there is; those of one resource follow each other.
    fn offers(&self) -> &'static [Offered];

    async fn answer(&self, asked: Asked) -> Result<Given, Refused>;
}

/// Has a part answer.
pub async fn answer(
    server: &Arc<Server>,
    part: &dyn Extend,
    (parts, verb, target, options): (&Parts, &'static str, Target, Options),
    (user, body): (Arc<User>, Bytes),
) -> Result<Answer, Error> {
    let asked = Asked { verb, target, query: options.all, body };
    match part.answer(asked).await {
        Ok(Given::Done(code)) => Ok(Answer::text(code, "")),
        Ok(Given::Value(value)) => Ok(Answer::value(200, &value)),
        Ok(Given::Connection(connection)) => {
            streams::join(server, &user, Upgrade::of(parts), connection)
        }
        Err(Refused { code, message }) => Ok(Answer::value(code, &status(code, &message))),
    }
}

fn status(code: u16, message: &str) -> Value {
    let reason = match code {
        400 => "BadRequest",
        404 => "NotFound",
        409 => "Conflict",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code})
}
