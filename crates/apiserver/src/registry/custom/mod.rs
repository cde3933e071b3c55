//! Custom resources: what a CustomResourceDefinition says, made into resources like any other.
//!
//! A [`Version`] is one version of one definition with its schema compiled, and the strategy of its
//! objects. It is made once for a generation of the definition and shared by all requests.

pub mod cleanup;
pub mod columns;
pub mod conditions;
pub mod definition;
pub mod follow;
pub mod lazy_schema;
pub mod names;
pub mod scale;
pub(crate) mod strategy;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use schema::jsonpath::JsonPath;
use schema::{Cel, Malformed, RuleTree, Schema, Violation};
use serde_json::Value;
use tokio::sync::watch;

use crate::field_error::{FieldError, Problem};
use columns::Column;
use lazy_schema::LazySchema;
use scale::Scale;

/// The name under which a stored object says the form of which version it has. No field of an
/// object has it.
pub const STAMP: &str = "";

/// One version of a definition.
pub struct Version {
    pub group: String,
    pub name: String,
    pub kind: String,
    schema: Arc<LazySchema>,
    /// Compiled when first needed: they were checked when the definition was written.
    rules: OnceLock<Option<RuleTree>>,
    pub columns: Vec<Column>,
    /// What objects can be selected by, without the leading dot.
    pub selectable: Vec<(String, JsonPath)>,
    pub has_status: bool,
    pub scale: Option<Scale>,
    /// What clients of a deprecated version are told.
    pub deprecation: Option<String>,
    /// Whether objects are stored in this version.
    pub is_storage: bool,
    /// Changes with everything that decides what form a stored object has.
    pub stamp: String,
    pub life: Arc<Life>,
}

/// What happens to a definition while its versions are in use.
pub struct Life {
    /// The schemas of all versions by their names, those that are not served too: fields that were
    /// written through another version are told by it.
    pub schemas: BTreeMap<String, Arc<LazySchema>>,
    is_terminating: AtomicBool,
    ended: watch::Sender<bool>,
}

impl Default for Life {
    fn default() -> Life {
        Life {
            schemas: BTreeMap::new(),
            is_terminating: AtomicBool::new(false),
            ended: watch::Sender::new(false),
        }
    }
}

impl Life {
    /// Whether no object may be created any more.
    pub fn is_terminating(&self) -> bool {
        self.is_terminating.load(Ordering::Relaxed)
    }

    pub fn set_terminating(&self, is_terminating: bool) {
        self.is_terminating.store(is_terminating, Ordering::Relaxed);
    }

    /// The versions are served no more, or in another form.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Becomes true when watches are to end.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }
}

impl Version {
    pub fn schema(&self) -> &Schema {
        self.schema.get()
    }

    pub fn rules(&self) -> Option<&RuleTree> {
        let compile = || RuleTree::build(self.schema(), &Cel::default());
        self.rules.get_or_init(compile).as_ref()
    }

    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    /// Gives a body the form of the version, but for defaults: what the schema does not know is
    /// removed. Returns the paths of that.
    ///
    /// # Errors
    /// The first field of the metadata that has the wrong type.
    pub fn read(&self, object: &mut Value) -> Result<Vec<String>, Box<Violation>> {
        let mut unknown = schema::coerce(object, self.schema(), Malformed::Refuse)?;
        unknown.extend(schema::prune(object, self.schema()));
        unknown.sort_unstable();
        Ok(unknown)
    }

    /// Gives what was stored under another schema the form of this version.
    pub fn refresh(&self, object: &mut Value) {
        schema::prune(object, self.schema());
        // Nothing is refused of what was accepted once.
        let _ = schema::coerce(object, self.schema(), Malformed::Drop);
        schema::default(object, self.schema());
    }

    /// What is kept beside a stored object: what it can be selected by, and whose form it has.
    pub fn stored_fields(&self, object: &Value) -> Vec<(&str, String)> {
        if !self.is_storage {
            return Vec::new();
        }
        let mut fields = vec![(STAMP, self.stamp.clone())];
        fields.extend(self.selected(object));
        fields
    }

    /// The fields an object can be selected by, without those that are empty.
    pub fn selected(&self, object: &Value) -> Vec<(&str, String)> {
        let text = |path: &JsonPath| match &*path.first(object)? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        };
        let fields = self.selectable.iter();
        let fields = fields.filter_map(|(name, path)| Some((name.as_str(), text(path)?)));
        fields.filter(|(_, text)| !text.is_empty()).collect()
    }
}

impl From<Violation> for FieldError {
    fn from(violation: Violation) -> FieldError {
        use schema::Problem as Of;
        let problem = match violation.problem {
            Of::Required => Problem::Required,
            Of::Invalid => Problem::Invalid,
            Of::NotSupported => Problem::NotSupported,
            Of::Duplicate => Problem::Duplicate,
            Of::Forbidden => Problem::Forbidden,
            Of::TooLong => Problem::TooLong,
            Of::TooMany => Problem::TooMany,
            Of::TypeInvalid => Problem::TypeInvalid,
            Of::Internal => Problem::Internal,
        };
        let value = match violation.value {
            // Go prints a value that is not there in this way.
            Value::Null => Value::from("null"),
            value => value,
        };
        FieldError { problem, path: violation.path, value, detail: violation.detail }
    }
}
