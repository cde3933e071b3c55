//! A right that was given for as long as a request lasts, looked at again whenever roles change.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Attributes, Authorizer};
use crate::endpoints::Request;
use crate::identity::User;
use crate::request::path::Target;
use crate::server::Server;

/// Somebody who may do something, so far.
pub struct Standing {
    authorizer: Arc<Authorizer>,
    changes: watch::Receiver<u64>,
    user: Arc<User>,
    target: Target,
    verb: &'static str,
}

impl Standing {
    pub fn of(server: &Server, request: &Request, verb: &'static str) -> Standing {
        let mut changes = server.authorizer.changes.subscribe();
        // The decision was made before; what changed since counts.
        changes.mark_changed();
        Standing {
            authorizer: server.authorizer.clone(),
            changes,
            user: request.user.clone(),
            target: request.target.clone(),
            verb,
        }
    }

    /// Returns when the right is lost. Can be dropped and called again.
    pub async fn lost(&mut self) {
        // The sender lives in the authorizer that is held here.
        while self.changes.changed().await.is_ok() {
            if !self.holds() {
                // Whoever asks again is told again.
                self.changes.mark_changed();
                return;
            }
        }
    }

    fn holds(&self) -> bool {
        let target = &self.target;
        let asked = Attributes {
            verb: self.verb,
            group: &target.group,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: &target.name,
            path: None,
        };
        self.authorizer.authorize(&self.user, &asked).is_allowed()
    }
}
