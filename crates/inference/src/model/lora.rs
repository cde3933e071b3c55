//! Adapters are loaded on all servers at once, a bounded number at a time; what one server does has
//! no effect on the others.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/modelendpoint

use std::time::Duration;

use futures::StreamExt;
use http::Method;
use serde_json::json;
use tokio::time::Instant;

use super::call::{self, Answered};
use super::candidates::Candidate;

/// Servers that are asked at once.
const TOGETHER_MAX: usize = 10;
/// How long one server may take.
const ONE_MAX: Duration = Duration::from_secs(15);
/// How long all of them may take; whoever was not asked by then has failed.
const ALL_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Load { model: String, uri: String },
    Unload { model: String },
}

/// What came of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It takes no adapters, and others of its group may stand in for it.
    Unable,
    Failed(String),
}

/// Asks every server; the outcomes are in the order of the candidates.
pub async fn perform(deed: &Deed, candidates: &[Candidate]) -> Vec<Outcome> {
    let end = Instant::now() + ALL_MAX;
    let mut asked = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        asked.push(ask(deed, candidate, end));
    }
    together(asked).await
}

/// A bounded number at a time. One that takes long holds no place but its own: the others are
/// asked meanwhile, whatever their order.
async fn together<T>(asked: Vec<impl Future<Output = T>>) -> Vec<T> {
    let numbered = asked.into_iter().enumerate();
    let each = numbered.map(|(number, one)| async move { (number, one.await) });
    let mut done: Vec<(usize, T)> =
        futures::stream::iter(each).buffer_unordered(TOGETHER_MAX).collect().await;
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

async fn ask(deed: &Deed, candidate: &Candidate, end: Instant) -> Outcome {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Outcome::Failed("the time for all endpoints was over".to_owned());
    }
    let (method, url, body) = request(deed, &candidate.address);
    let answer = call::send(method, &url, body, left.min(ONE_MAX)).await;
    judge(deed, answer, candidate.fallback.is_some())
}

fn request(deed: &Deed, address: &str) -> (Method, String, Option<String>) {
    match deed {
        Deed::Load { model, uri } => {
            let body = json!({"lora_name": model, "source": {"uri": uri}});
            (Method::POST, format!("{address}/v1/loras"), Some(body.to_string()))
        }
        Deed::Unload { model } => {
            (Method::DELETE, format!("{address}/v1/loras/{}", escape(model)), None)
        }
    }
}

/// A name in a path; its slashes stay.
fn escape(name: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escaped = name.bytes().map(|byte| match keep(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    escaped.collect()
}

fn judge(deed: &Deed, answer: Result<Answered, String>, may_be_unable: bool) -> Outcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(reason) => return Outcome::Failed(reason),
    };
    if (200..300).contains(&answer.status) {
        return Outcome::Done;
    }
    let word = match deed {
        Deed::Load { .. } => "load",
        Deed::Unload { .. } => "unload",
    };
    let said = answer.text.to_lowercase();
    let is_unable = answer.status == 500
        && (said.contains("lora management not available")
            || said.contains(&format!("endpoint '{word}_lora' not found in local registry")));
    match deed {
        _ if !(is_unable && may_be_unable) => {
            let first: String = answer.text.chars().take(200).collect();
            Outcome::Failed(format!("status {}: {first}", answer.status))
        }
        Deed::Load { .. } => Outcome::Unable,
        // What cannot be loaded need not be unloaded.
        Deed::Unload { .. } => Outcome::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Deed {
        Deed::Load { model: "a/b c".into(), uri: "file:///x".into() }
    }

    fn said(status: u16, text: &str) -> Result<Answered, String> {
        Ok(Answered { status, text: text.to_owned() })
    }

    #[test]
    fn requests_are_as_servers_expect_them() {
        let (method, url, body) = request(&load(), "http://10.0.0.1:9090");
        assert_eq!((method, url.as_str()), (Method::POST, "http://10.0.0.1:9090/v1/loras"));
        let expected = r#"{"lora_name":"a/b c","source":{"uri":"file:///x"}}"#;
        assert_eq!(body.as_deref(), Some(expected));
        let unload = Deed::Unload { model: "a/b c".into() };
        let (method, url, body) = request(&unload, "http://[fd00::1]:9090");
        assert_eq!((method, body), (Method::DELETE, None));
        assert_eq!(url, "http://[fd00::1]:9090/v1/loras/a/b%20c");
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_hang_keep_nobody_from_being_asked() {
        let began = Instant::now();
        let one = |number: usize| async move {
            // One of the first ten hangs, and one of the next.
            if number == 0 || number == TOGETHER_MAX {
                tokio::time::sleep(ONE_MAX).await;
            }
            (number, began.elapsed())
        };
        let done = together((0..25).map(one).collect()).await;
        let numbers: Vec<usize> = done.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..25).collect::<Vec<_>>());
        let last = done.iter().filter(|(number, _)| number % TOGETHER_MAX != 0);
        assert_eq!(last.map(|(_, after)| *after).max(), Some(Duration::ZERO));
        assert!(began.elapsed() < ALL_MAX, "{:?}", began.elapsed());
    }

    #[test]
    fn a_server_that_cannot_take_adapters_may_be_stood_in_for() {
        let unable = "{\"message\": \"LoRA management not available: no 'load_lora' handler\"}";
        assert_eq!(judge(&load(), said(200, ""), false), Outcome::Done);
        assert_eq!(judge(&load(), said(500, unable), true), Outcome::Unable);
        let other = "Endpoint 'load_lora' not found in local registry";
        assert_eq!(judge(&load(), said(500, other), true), Outcome::Unable);
        assert!(matches!(judge(&load(), said(500, unable), false), Outcome::Failed(_)));
        assert!(matches!(judge(&load(), said(404, unable), true), Outcome::Failed(_)));
        assert!(matches!(judge(&load(), Err("x".into()), true), Outcome::Failed(_)));
        let unload = Deed::Unload { model: "m".into() };
        assert_eq!(judge(&unload, said(500, unable), true), Outcome::Done);
    }
}
