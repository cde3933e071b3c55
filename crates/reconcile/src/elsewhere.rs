//! Namespaces that a process of others looks after: controllers leave what is in them alone until
//! they are given back.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

pub type Namespaces = Arc<BTreeSet<String>>;

/// Which they are at the moment; none, where nobody says so.
#[derive(Clone, Debug)]
pub struct Elsewhere(watch::Receiver<Namespaces>);

impl Default for Elsewhere {
    fn default() -> Elsewhere {
        Elsewhere(watch::channel(Namespaces::default()).1)
    }
}

impl Elsewhere {
    /// One that is told by whoever holds the other end.
    pub fn told() -> (watch::Sender<Namespaces>, Elsewhere) {
        let (teller, told) = watch::channel(Namespaces::default());
        (teller, Elsewhere(told))
    }

    pub fn has(&self, namespace: &str) -> bool {
        self.0.borrow().contains(namespace)
    }

    /// Returns when they are others. Never, if nobody can say so any more.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
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
    }
}
