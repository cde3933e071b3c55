//! What the server warns of while it does as it is told: passed on to stderr, as kubectl does.

use anyhow::{Context as _, Result};
use http::HeaderMap;
use http::header::WARNING;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use super::exit;
use crate::output;

/// Sends a request, says what is warned of, and answers with the object.
pub async fn send(client: &kube::Client, request: http::Request<Vec<u8>>) -> Result<Value> {
    let asking = "could not ask the cluster";
    let answer = client.send(request.map(Body::from)).await.context(asking)?;
    let (head, body) = answer.into_parts();
    for warning in warnings(&head.headers) {
        output::remark(format!("Warning: {warning}"));
    }
    let body = body.collect().await.context(asking)?.to_bytes();
    if !head.status.is_success() {
        let status: Option<Status> = serde_json::from_slice(&body).ok();
        let message = status.map(|status| status.message).filter(|message| !message.is_empty());
        let message = message.unwrap_or_else(|| head.status.to_string());
        return Err(exit::said(head.status.as_u16(), message));
    }
    serde_json::from_slice(&body).context("the answer of the cluster is not JSON")
}

/// The texts of the headers, which look like `299 - "text"`.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(WARNING).iter().filter_map(|value| value.to_str().ok());
    let quoted = values.filter_map(|value| {
        let (_, rest) = value.split_once('"')?;
        rest.rsplit_once('"').map(|(text, _)| text)
    });
    quoted.map(|text| text.replace("\\\"", "\"").replace("\\\\", "\\")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_warning_is_what_is_quoted() {
        let mut headers = HeaderMap::new();
        for value in ["299 - \"unknown field \\\"spec.x\\\"\"", "299 - \"old\"", "garbage"] {
            headers.append(WARNING, value.parse().expect("a value"));
        }
        assert_eq!(warnings(&headers), ["unknown field \"spec.x\"", "old"]);
    }
}
