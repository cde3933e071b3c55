//! One file per verb, for all kinds.

pub mod apply;
pub mod bounds;
pub mod create;
pub mod delete;
pub mod delete_collection;
pub mod discovery;
pub mod get;
pub mod list;
pub mod patch;
pub mod reach;
pub mod representations;
pub mod reviews;
pub mod saved;
pub mod selection;
pub mod update;
pub mod watch;
pub mod write;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::audit::Annotations;
use crate::handover::Carried;
use crate::identity::User;
use crate::request::cause::Cause;
use crate::request::negotiate::Representation;
use crate::request::options::Options;
use crate::request::path::Target;
use crate::resources::Resource;
use crate::server::Server;
use crate::streams::handshake::Upgrade;

/// A request for a resource, understood.
#[derive(Clone)]
pub struct Request {
    pub resource: Arc<Resource>,
    pub target: Target,
    pub options: Options,
    pub representation: Representation,
    pub content_type: String,
    pub user_agent: String,
    pub body: Bytes,
    /// On whose behalf.
    pub user: Arc<User>,
    pub id: Arc<str>,
    /// Why, as far as a writer says.
    pub cause: Cause,
    /// What the client is told besides the answer.
    pub warnings: Warnings,
    /// Annotations of the audit event.
    pub annotations: Annotations,
    /// What a part of this program brought beside it.
    pub carried: Carried,
    /// Set if the client wants to leave HTTP.
    pub upgrade: Option<Upgrade>,
}

/// Warnings of one request, in order and once each.
#[derive(Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&text) {
            all.push(text);
        }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Request {
    /// Seconds since 1970, for ages: now, or when that was which is asked for.
    pub fn now(&self, server: &Server) -> i64 {
        self.options.past.map_or_else(|| server.now(), |past| past.seconds)
    }

    /// Who owns the fields that are written: named, or what the client calls itself.
    pub fn manager(&self) -> &str {
        match self.options.field_manager.as_str() {
            "" => self.user_agent.split('/').next().unwrap_or_default(),
            named => named,
        }
    }
}
