//! `pods/log`: what a container wrote.
//!
//! Upstream: pkg/registry/core/pod/rest/log.go

use serde_json::Value;

use crate::answer::Answer;
use crate::connected::{LogRequest, Missing};
use crate::endpoints::Request;
use crate::object;
use crate::registry::edit::{self, text};
use crate::server::Server;
use crate::status::Error;
use crate::timestamp;

const TEXT: &str = "text/plain";
const MICROSECONDS: i64 = 1_000_000;

/// The output, if the pod's node can be asked; `None` if it cannot.
pub async fn answer(
    server: &Server,
    request: &Request,
    pod: &Value,
) -> Option<Result<Answer, Error>> {
    let node = server.connected.find(text(pod, &["spec", "nodeName"]))?;
    let wanted = match wanted(server, request, pod) {
        Ok(wanted) => wanted,
        Err(error) => return Some(Err(error)),
    };
    let answer = node.logs(wanted.clone()).await;
    Some(match answer {
        Ok(pieces) => Ok(Answer { content_type: TEXT, ..Answer::watch(pieces) }),
        Err(missing) => Err(why(pod, &wanted.container, missing)),
    })
}

fn why(pod: &Value, container: &str, missing: Missing) -> Error {
    let name = object::name(pod);
    let reason = ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|field| edit::list(pod, &["status", field]))
        .find(|status| text(status, &["name"]) == container)
        .map_or("ContainerCreating", |status| text(status, &["state", "waiting", "reason"]));
    Error::bad_request(match missing {
        Missing::NoPrevious => {
            format!("previous terminated container {container:?} in pod {name:?} not found")
        }
        Missing::NotStarted => {
            format!("container {container:?} in pod {name:?} is waiting to start: {reason}")
        }
        Missing::Unreadable => {
            format!("the output of container {container:?} in pod {name:?} is not there any more")
        }
    })
}

fn wanted(server: &Server, request: &Request, pod: &Value) -> Result<LogRequest, Error> {
    let option = |name: &str| request.options.get(name).filter(|value| !value.is_empty());
    let number = |name: &str| match option(name).map(str::parse::<u64>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(Error::bad_request(format!(
            "invalid {name} {:?}: it must be a number that is not negative",
            option(name).unwrap_or_default()
        ))),
    };
    let is_set = |name: &str| matches!(option(name), Some("true" | "1"));
    let containers = edit::list(pod, &["spec", "containers"]);
    let default = ["metadata", "annotations", "kubectl.kubernetes.io/default-container"];
    let container = match (option("container"), text(pod, &default)) {
        (Some(named), _) => named.to_owned(),
        (None, "") => containers.first().map_or("", |it| text(it, &["name"])).to_owned(),
        (None, default) => default.to_owned(),
    };
    let since = match (number("sinceSeconds")?, option("sinceTime")) {
        (Some(seconds), _) => {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX / MICROSECONDS);
            Some((server.now() - seconds).saturating_mul(MICROSECONDS))
        }
        (None, Some(at)) => {
            let parsed = timestamp::parse(at).ok_or_else(|| {
                Error::bad_request(format!("invalid sinceTime {at:?}: it must be as RFC 3339 says"))
            })?;
            Some(parsed.saturating_mul(MICROSECONDS))
        }
        (None, None) => None,
    };
    Ok(LogRequest {
        pod: text(pod, &["metadata", "uid"]).to_owned(),
        container,
        follow: is_set("follow"),
        previous: is_set("previous"),
        timestamps: is_set("timestamps"),
        tail_lines: number("tailLines")?,
        limit_bytes: number("limitBytes")?,
        since,
    })
}
