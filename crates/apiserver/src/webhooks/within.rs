//! Webhooks that are parts of this program: they are asked without a connection.
//!
//! A configuration names them by a service, as it would name others, so that it reads the same on
//! every cluster. Only one that a part of this program wrote reaches them.

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use serde_json::Value;

use super::target::{Place, Target};
use super::writer::Reach;

/// A part that answers reviews.
#[async_trait]
pub trait Part: Send + Sync {
    /// The namespace and the name of the service that it stands for.
    fn service(&self) -> (&str, &str);

    /// Answers a review that was sent to a path; `None` if there is nothing at the path.
    async fn review(&self, path: &str, review: &Value) -> Option<Value>;

    /// Answers a ConversionReview in the same way.
    async fn convert(&self, _path: &str, _review: &Value) -> Option<Value> {
        None
    }
}

/// The parts of this process: a few, each with a service of its own.
#[derive(Clone, Default)]
pub struct Within(Arc<RwLock<Vec<Arc<dyn Part>>>>);

impl Within {
    /// Adds one; of two for a service the first counts.
    pub fn add(&self, part: Arc<dyn Part>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    /// The part that a target means.
    pub fn find(&self, target: &Target) -> Option<Arc<dyn Part>> {
        let Place::Service { namespace, name, .. } = &target.place else { return None };
        if target.reach != Reach::Anywhere {
            return None;
        }
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        parts.iter().find(|part| part.service() == (namespace, name)).cloned()
    }
}

/// Has a part answer whatever kind of review it is.
pub async fn ask(part: &dyn Part, path: &str, review: &Value) -> Option<Value> {
    match review["kind"] == "ConversionReview" {
        true => part.convert(path, review).await,
        false => part.review(path, review).await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Echo;

    #[async_trait]
    impl Part for Echo {
        fn service(&self) -> (&str, &str) {
            ("n", "s")
        }

        async fn review(&self, _: &str, review: &Value) -> Option<Value> {
            Some(review.clone())
        }
    }

    #[tokio::test]
    async fn a_part_that_converts_nothing_says_so() {
        let review = |kind: &str| json!({"kind": kind});
        assert!(ask(&Echo, "/p", &review("AdmissionReview")).await.is_some());
        assert!(ask(&Echo, "/p", &review("ConversionReview")).await.is_none());
    }

    #[test]
    fn only_what_a_part_of_this_program_wrote_reaches_a_part() {
        let within = Within::default();
        let target = |name: &str, reach: Reach| {
            let client = json!({"service": {"namespace": "n", "name": name, "path": "/p"}});
            Target::of(&client, reach).expect("a target")
        };
        assert!(within.find(&target("s", Reach::Anywhere)).is_none());
        within.add(Arc::new(Echo));
        assert!(within.find(&target("s", Reach::Anywhere)).is_some());
        assert!(within.find(&target("s", Reach::Others)).is_none());
        assert!(within.find(&target("other", Reach::Anywhere)).is_none());
    }
}
