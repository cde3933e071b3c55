//! Namespaces that a process of others looks after: controllers leave what is in them alone until
//! they are given back.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

pub type Namespaces = Arc<BTreeSet<String>>;

/// Which they are at the moment; none, where nobody says so.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    told: watch::Receiver<Namespaces>,
    /// What is in the names of namespaces that are always left alone.
    part: Option<&'static str>,
}

impl Default for Elsewhere {
    fn default() -> Elsewhere {
        Elsewhere { told: watch::channel(Namespaces::default()).1, part: None }
    }
}

impl Elsewhere {
    /// One that is told by whoever holds the other end.
    pub fn told() -> (watch::Sender<Namespaces>, Elsewhere) {
        let (teller, told) = watch::channel(Namespaces::default());
        (teller, Elsewhere { told, part: None })
    }

    /// And those besides whose names contain this.
    pub fn or_named_like(self, part: &'static str) -> Elsewhere {
        Elsewhere { part: Some(part), ..self }
    }

    pub fn has(&self, namespace: &str) -> bool {
        let is_like = self.part.is_some_and(|part| namespace.contains(part));
        is_like || self.told.borrow().contains(namespace)
    }

    /// Returns when they are others. Never, if nobody can say so any more.
    pub async fn changed(&mut self) {
        if self.told.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_said_is_known_at_once() {
        assert!(!Elsewhere::default().has("a"));
        let (teller, mut elsewhere) = Elsewhere::told();
        teller.send_replace(Arc::new(BTreeSet::from(["a".to_owned()])));
        elsewhere.changed().await;
        assert!(elsewhere.has("a") && !elsewhere.has("b"));
        let elsewhere = elsewhere.or_named_like("passing");
        assert!(elsewhere.has("a") && elsewhere.has("a-passing-one") && !elsewhere.has("b"));
    }
}
