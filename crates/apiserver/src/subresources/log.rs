//! `pods/log`: what a container wrote.
//!
//! Upstream: pkg/registry/core/pod/rest/log.go

use link::{LogRequest, Missing};
use serde_json::Value;

use super::connect;
use crate::answer::Answer;
use crate::endpoints::Request;
use crate::field_error::FieldError;
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
    let node = server.node(text(pod, &["spec", "nodeName"])).await?;
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
    let status = status_of(pod, container);
    let reason =
        status.map_or("ContainerCreating", |status| text(status, &["state", "waiting", "reason"]));
    Error::bad_request(match (missing, reason) {
        (Missing::Unreachable(why), _) => return Error::unavailable(why),
        (Missing::NoPrevious, _) => {
            format!("previous terminated container {container:?} in pod {name:?} not found")
        }
        (Missing::NotStarted, "") => {
            format!("container {container:?} in pod {name:?} is not available")
        }
        (Missing::NotStarted, reason) => {
            let reason = match reason {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                reason => reason,
            };
            format!("container {container:?} in pod {name:?} is waiting to start: {reason}")
        }
        (Missing::Unreadable, _) => {
            format!("the output of container {container:?} in pod {name:?} is not there any more")
        }
    })
}

fn status_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let kinds = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = kinds.iter().flat_map(|field| edit::list(pod, &["status", field]));
    all.find(|status| text(status, &["name"]) == container)
}

/// Whether the last run of a container is the one before that people mean: another is to come.
fn waits_to_run_again(pod: &Value, container: &str) -> bool {
    status_of(pod, container).is_some_and(|status| {
        status["state"]["waiting"].is_object() && status["lastState"]["terminated"].is_object()
    })
}

fn wanted(server: &Server, request: &Request, pod: &Value) -> Result<LogRequest, Error> {
    let option = |name: &str| request.options.get(name).filter(|value| !value.is_empty());
    let is_set = |name: &str| matches!(option(name), Some("true" | "1"));
    let mut errors = Vec::new();
    let mut number = |name: &str, least: i64| {
        let text = option(name)?;
        match text.parse::<i64>() {
            Ok(number) if number >= least => u64::try_from(number).ok(),
            Ok(number) => {
                let detail = match least {
                    0 => "must be greater than or equal to 0",
                    _ => "must be greater than 0",
                };
                errors.push(FieldError::invalid(name, number, detail));
                None
            }
            Err(_) => {
                errors.push(FieldError::invalid(name, text, "must be a number"));
                None
            }
        }
    };
    let tail_lines = number("tailLines", 0);
    let limit_bytes = number("limitBytes", 1);
    let since_seconds = number("sinceSeconds", 1);
    let since = match (since_seconds, option("sinceTime")) {
        (Some(_), Some(_)) => {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("", detail));
            None
        }
        (Some(seconds), None) => {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX / MICROSECONDS);
            Some((server.now() - seconds).saturating_mul(MICROSECONDS))
        }
        (None, Some(at)) => match timestamp::parse_micro(at) {
            Some((seconds, micro)) => {
                Some(seconds.saturating_mul(MICROSECONDS).saturating_add(i64::from(micro)))
            }
            None => {
                errors.push(FieldError::invalid("sinceTime", at, "must be as RFC 3339 says"));
                None
            }
        },
        (None, None) => None,
    };
    if !errors.is_empty() {
        return Err(Error::invalid("PodLogOptions", "", object::name(pod), &errors));
    }
    let container = connect::container(request, pod).to_owned();
    Ok(LogRequest {
        pod: text(pod, &["metadata", "uid"]).to_owned(),
        follow: is_set("follow"),
        previous: is_set("previous") && !waits_to_run_again(pod, &container),
        container,
        timestamps: is_set("timestamps"),
        tail_lines,
        limit_bytes,
        since,
    })
}
