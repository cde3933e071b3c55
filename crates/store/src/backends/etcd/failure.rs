//! What a failed call to etcd means: whether it can have happened, whether it may work later, and
//! how to say it.
//!
//! etcd names its errors only by text. The texts are part of its API: its own clients match them.
//!
//! Upstream: etcd api/v3rpc/rpctypes/error.go

use std::error::Error as _;

use tonic::{Code, Status};

use crate::Error;

use super::client::Client;

const SECTION: &str = "etcd";

/// Whether the same call may work later, or on another endpoint.
pub fn is_passing(status: &Status) -> bool {
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => false,
        Code::ResourceExhausted => !is_out_of_space(status),
        _ => true,
    }
}

/// Whether the request cannot have reached a server.
pub fn is_unsent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Whether the server refused to carry the request out, so that it has not happened and will not.
pub fn is_refused(status: &Status) -> bool {
    is_unsent(status)
        || is_token_refused(status)
        || matches!(
            status.code(),
            Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition
        )
}

/// The quota is used up. etcd says so also of the very write that used it up, which has happened.
pub fn is_out_of_space(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted && status.message().contains("space exceeded")
}

pub fn is_compacted(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("has been compacted")
}

/// The answer does not fit in a message.
pub fn is_too_long(status: &Status) -> bool {
    let code = matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted);
    code && status.message().contains("message length too large")
}

pub fn is_token_refused(status: &Status) -> bool {
    let message = status.message();
    message.contains("invalid auth token")
        || message.contains("user name is empty")
        || message.contains("revision of auth store is old")
}

pub fn is_login_not_needed(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition
        && status.message().contains("authentication is not enabled")
}

pub fn is_login_refused(status: &Status) -> bool {
    status.message().contains("authentication failed")
        || status.code() == Code::PermissionDenied
        || is_token_refused(status)
}

/// Why a store could not be opened.
pub fn opening(client: &Client, status: Status) -> Error {
    match login(client, status) {
        Ok(error) => error,
        Err(status) => Error::Connect {
            server: client.server().to_owned(),
            section: SECTION,
            source: reason(&status).into(),
        },
    }
}

/// The innermost cause in words; a Status prints all of itself.
fn reason(status: &Status) -> String {
    let mut innermost: Option<&dyn std::error::Error> = status.source();
    while let Some(source) = innermost.and_then(|error| error.source()) {
        innermost = Some(source);
    }
    innermost.map_or_else(|| status.message().to_owned(), ToString::to_string)
}

/// Why a call that wrote nothing failed.
pub fn unavailable(client: &Client, what: &str, status: Status) -> Error {
    match login(client, status) {
        Ok(error) => error,
        Err(status) => Error::unavailable(format!("could not {what} etcd"), status),
    }
}

/// Why etcd refused a commit.
pub fn refused(client: &Client, bytes: usize, status: Status) -> Error {
    if status.code() == Code::InvalidArgument && status.message().contains("too large") {
        let max = super::commit::REQUEST_BYTES_MAX;
        return Error::TooLarge { what: "commit as a request to etcd", bytes, max };
    }
    unavailable(client, "commit to", status)
}

fn login(client: &Client, status: Status) -> Result<Error, Status> {
    if !is_login_refused(&status) {
        return Err(status);
    }
    Ok(Error::Login {
        server: client.server().to_owned(),
        user: client.user().to_owned(),
        section: SECTION,
        keys: "username and storage.etcd.password",
        source: status.into(),
    })
}
