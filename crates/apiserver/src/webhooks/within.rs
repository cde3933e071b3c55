//! Webhooks that are parts of this program: they are asked without a connection.
//!
//! A configuration names them by a service, as it would name others, so that it reads the same on
//! every cluster. Only one that a part of this program wrote reaches them.

use std::sync::{Arc, OnceLock};

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
}

/// The part of this process, if it has one.
#[derive(Clone, Default)]
pub struct Within(Arc<OnceLock<Arc<dyn Part>>>);

impl Within {
    /// Says which it is; only the first counts.
    pub fn set(&self, part: Arc<dyn Part>) {
        let _ = self.0.set(part);
    }

    /// The part that a target means.
    pub fn find(&self, target: &Target) -> Option<&Arc<dyn Part>> {
        let Place::Service { namespace, name, .. } = &target.place else { return None };
        let is_ours = target.reach == Reach::Anywhere;
        self.0.get().filter(|part| is_ours && part.service() == (namespace, name))
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

    #[test]
    fn only_what_a_part_of_this_program_wrote_reaches_a_part() {
        let within = Within::default();
        let target = |name: &str, reach: Reach| {
            let client = json!({"service": {"namespace": "n", "name": name, "path": "/p"}});
            Target::of(&client, reach).expect("a target")
        };
        assert!(within.find(&target("s", Reach::Anywhere)).is_none());
        within.set(Arc::new(Echo));
        assert!(within.find(&target("s", Reach::Anywhere)).is_some());
        assert!(within.find(&target("s", Reach::Others)).is_none());
        assert!(within.find(&target("other", Reach::Anywhere)).is_none());
    }
}
