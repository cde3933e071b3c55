//! What an installation has from its beginning, such as the runtimes of training: made once, and
//! tried again for as long as the cluster does not take it.

use std::time::Duration;

use reconcile::requests::Requests;
use serde_json::Value;
use tracing::{info, warn};

use crate::definitions;

/// How soon is tried again what the cluster did not take; later and later, up to a time.
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_MAX: Duration = Duration::from_secs(300);

/// Makes objects, and returns those that were not made. What is there may have been changed since;
/// that is whose it is.
pub async fn make(requests: &Requests, objects: Vec<Value>) -> Vec<Value> {
    let mut left = Vec::new();
    for object in objects {
        let Some(kind) = definitions::kind_of(&object) else { continue };
        match requests.create(kind, &object).await {
            Ok(made) => info!(%kind, name = %made.name, "made"),
            Err(error) if error.is_conflict() => {}
            Err(error) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                warn!(%kind, name, error = %error.chain(), "not made; trying again");
                left.push(object);
            }
        }
    }
    left
}

/// Tries again until everything is made. It never returns: whoever works beside it ends it.
pub async fn make_rest(requests: &Requests, mut left: Vec<Value>) {
    let mut pause = AGAIN;
    while !left.is_empty() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN_MAX);
        left = make(requests, left).await;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Response, StatusCode};
    use kube::client::Body;
    use reconcile::handover::Place;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// A cluster that refuses the first requests, and then takes what it is sent.
    fn requests(refusals: usize) -> Requests {
        let left = std::sync::Arc::new(Mutex::new(refusals));
        let service = service_fn(move |_: http::Request<Body>| {
            let mut left = left.lock().expect("no test panics with it");
            let (code, body) = match *left {
                0 => (StatusCode::CREATED, json!({"metadata": {"name": "torch"}})),
                _ => (
                    StatusCode::FORBIDDEN,
                    json!({"kind": "Status", "status": "Failure", "message": "not yet",
                        "reason": "Forbidden", "code": 403}),
                ),
            };
            *left = left.saturating_sub(1);
            let body = Body::from(body.to_string().into_bytes());
            let answer = Response::builder().status(code).body(body).expect("an answer");
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        Requests {
            client: kube::Client::new(service, "default"),
            place: Place::Elsewhere,
            manager: "test",
            origin: Default::default(),
            is_brief: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_cluster_did_not_take_is_sent_again() {
        let runtime = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"}});
        let requests = requests(2);
        let left = make(&requests, vec![runtime]).await;
        assert_eq!(left.len(), 1);
        let rest = make_rest(&requests, left.clone());
        assert!(tokio::time::timeout(10 * AGAIN, rest).await.is_err(), "it never returns");
        assert_eq!(make(&requests, left).await.len(), 0);
    }
}
