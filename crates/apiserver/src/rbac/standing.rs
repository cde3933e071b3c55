//! A right that was given for as long as a request lasts, looked at again whenever roles change.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Attributes, Authorizer, node};
use crate::endpoints::Request;
use crate::identity::User;
use crate::request::path::Target;
use crate::selectors::fields;
use crate::server::Server;

/// Somebody who may do something, so far.
pub struct Standing {
    authorizer: Arc<Authorizer>,
    changes: watch::Receiver<u64>,
    user: Arc<User>,
    target: Target,
    /// The one object that is meant, by its path or by what selects it.
    name: String,
    verb: &'static str,
}

impl Standing {
    pub fn of(server: &Server, request: &Request, verb: &'static str) -> Standing {
        let mut changes = server.authorizer.changes.subscribe();
        // The decision was made before; what changed since counts.
        changes.mark_changed();
        let selected = fields::parse(&request.options.field_selector).ok();
        let selected = selected.as_ref().and_then(|fields| fields.exact("metadata.name"));
        let name = match request.target.name.as_str() {
            "" => selected.unwrap_or_default(),
            name => name,
        };
        Standing {
            authorizer: server.authorizer.clone(),
            changes,
            user: request.user.clone(),
            name: name.to_owned(),
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
            name: &self.name,
            path: None,
        };
        // What a node's agent may see of its pods was decided when it asked.
        self.authorizer.authorize(&self.user, &asked).is_allowed()
            || node::role_allows(&self.authorizer, &self.user, &asked)
    }
}
