//! One file per verb, for all kinds.

pub mod create;
pub mod delete;
pub mod delete_collection;
pub mod discovery;
pub mod get;
pub mod list;
pub mod patch;
pub mod representations;
pub mod selection;
pub mod update;
pub mod watch;
pub mod write;

use std::sync::Arc;

use bytes::Bytes;

use crate::request::negotiate::Representation;
use crate::request::options::Options;
use crate::request::path::Target;
use crate::resources::Resource;

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
    pub user: Arc<str>,
    pub id: Arc<str>,
}

impl Request {
    /// Who owns the fields that are written: named, or what the client calls itself.
    pub fn manager(&self) -> &str {
        match self.options.field_manager.as_str() {
            "" => self.user_agent.split('/').next().unwrap_or_default(),
            named => named,
        }
    }
}
