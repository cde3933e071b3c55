//! What is known of a request beside its path: who asks, under which id, and what they sent.

use std::sync::Arc;

use bytes::Bytes;

use crate::audit::Heard;
use crate::endpoints::Warnings;
use crate::handover::Carried;
use crate::history;
use crate::identity::User;
use crate::request::options::Options;

/// Who asks, under which id, and what they sent.
pub(crate) struct Asked {
    pub user: Arc<User>,
    pub id: Arc<str>,
    pub body: Bytes,
    pub warnings: Warnings,
    pub carried: Carried,
    /// Where it will be told of.
    pub heard: Option<Arc<Heard>>,
}

impl Asked {
    /// The same, with what was sent.
    pub fn with(mut self, body: Bytes) -> Asked {
        if let Some(heard) = &self.heard {
            heard.note_body(&body);
        }
        self.body = body;
        self
    }

    pub fn of_the_past(self, options: Options) -> history::Asked {
        let Asked { user, id, body, warnings, .. } = self;
        history::Asked { user, id, body, warnings, query: options.all }
    }
}

impl From<history::Asked> for Asked {
    fn from(asked: history::Asked) -> Asked {
        let history::Asked { user, id, body, warnings, .. } = asked;
        Asked { user, id, body, warnings, carried: Carried::default(), heard: None }
    }
}
