//! Requests that are wrong, over TLS: the right refusal for each, and nothing stored.

mod cases;
mod credentials;
pub mod wire;

use super::world::World;
use cases::Case;
use wire::{Identity, Reply};

/// Sends every case and collects what is not as it should be, so that one run shows all.
async fn check(world: &World, identity: &Identity, cases: Vec<Case>) {
    let mut wrong = String::new();
    for case in &cases {
        let before = world.server.store.revision();
        let reply = wire::send(world, identity, &case.bytes()).await;
        let problem = match &reply {
            Err(error) => Some(format!("no answer: {error}")),
            Ok(reply) => case.problem(reply),
        };
        let after = world.server.store.revision();
        if let Some(problem) = problem {
            wrong += &format!("{}: {problem}\n", case.name);
        }
        if before != after {
            wrong += &format!("{}: something was stored\n", case.name);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

impl Case {
    fn problem(&self, reply: &Reply) -> Option<String> {
        let shown = || {
            let text: String = reply.body.chars().take(400).collect();
            format!("{} {text}", reply.status)
        };
        if reply.status != self.status {
            return Some(format!("expected {}, found {}", self.status, shown()));
        }
        if !self.is_of_http {
            let status: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
            let is_failure = status["kind"] == "Status" && status["status"] == "Failure";
            let is_text = reply.body == "404 page not found\n";
            if !is_text && (!is_failure || status["code"] != self.status) {
                return Some(format!("no Status of a failure: {}", shown()));
            }
            let found = if is_text { "404 page not found" } else { status["message"].as_str()? };
            let fits = match self.message.strip_suffix('…') {
                Some(start) => found.starts_with(start),
                None => found == self.message,
            };
            return (!fits).then(|| format!("expected {:?}, found {found:?}", self.message));
        }
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_requests_are_refused_and_change_nothing() {
    let world = World::real().await;
    let identity = Identity::admin(&world);
    cases::prepare(&world).await;
    let cases = cases::all();
    assert!(cases.len() >= 110, "only {} cases", cases.len());
    check(&world, &identity, cases).await;
}
