//! The options of a request: what follows the question mark, checked.

use store::Revision;

use crate::field_error::FieldError;
use crate::status::Error;

/// Options of all verbs; each verb reads those it knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// What they are called in errors.
    pub kind: &'static str,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub resource_version: String,
    pub resource_version_match: String,
    pub label_selector: String,
    pub field_selector: String,
    pub limit: u64,
    pub go_on: String,
    pub timeout_seconds: Option<u64>,
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
    pub pretty: bool,
    pub include_object: IncludeObject,
    /// Set where the past is read; no client can.
    pub past: Option<Past>,
    /// Everything, for verbs with options of their own.
    pub all: Vec<(String, String)>,
}

/// A moment of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub revision: Revision,
    /// When it was, in seconds since 1970.
    pub seconds: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// How much of each object a table carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

/// How a list or a watch relates to the revision it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The newest there is.
    Newest,
    /// Whatever is at hand.
    Any,
    NotOlderThan(u64),
    Exact(u64),
}

/// The longest name of a field manager.
const FIELD_MANAGER_MAX: usize = 128;

impl Options {
    /// The options of a request that reads.
    pub fn parse(query: &str) -> Result<Options, Error> {
        Options::parse_as(query, "ListOptions")
    }

    /// `kind` is what the options are called in errors: `CreateOptions`.
    pub fn parse_as(query: &str, kind: &'static str) -> Result<Options, Error> {
        let mut options = Options { kind, ..Options::default() };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            options.set(&name, &value)?;
            options.all.push((name, value));
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        match name {
            "watch" => self.watch = flag(value),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = flag(value),
            "sendInitialEvents" => self.send_initial_events = Some(flag(value)),
            "resourceVersion" => self.resource_version = value.to_owned(),
            "resourceVersionMatch" => self.resource_version_match = value.to_owned(),
            "labelSelector" => self.label_selector = value.to_owned(),
            "fieldSelector" => self.field_selector = value.to_owned(),
            "limit" => self.limit = number(name, value)?,
            "continue" => self.go_on = value.to_owned(),
            "timeoutSeconds" => self.timeout_seconds = Some(number(name, value)?),
            "dryRun" => self.set_dry_run(value)?,
            "fieldManager" => self.set_field_manager(value)?,
            "fieldValidation" => self.set_field_validation(value)?,
            "force" => self.force = Some(flag(value)),
            "pretty" => self.pretty = flag(value),
            "includeObject" => self.set_include_object(value)?,
            // Options nobody knows are ignored, as upstream does.
            _ => {}
        }
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.all.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn set_dry_run(&mut self, value: &str) -> Result<(), Error> {
        if value != "All" {
            return Err(self.invalid(FieldError::not_supported("dryRun", value, &["All"])));
        }
        self.dry_run = true;
        Ok(())
    }

    fn set_field_manager(&mut self, value: &str) -> Result<(), Error> {
        if value.chars().count() > FIELD_MANAGER_MAX {
            let error = FieldError::too_long("fieldManager", FIELD_MANAGER_MAX);
            return Err(self.invalid(error));
        }
        if value.chars().any(char::is_control) {
            let detail = "should only contain printable characters";
            let error = FieldError::invalid("fieldManager", value, detail);
            return Err(self.invalid(error));
        }
        self.field_manager = value.to_owned();
        Ok(())
    }

    fn set_field_validation(&mut self, value: &str) -> Result<(), Error> {
        self.field_validation = match value {
            "Ignore" => FieldValidation::Ignore,
            "Warn" | "" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            _ => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                let error = FieldError::not_supported("fieldValidation", value, &supported);
                return Err(self.invalid(error));
            }
        };
        Ok(())
    }

    fn set_include_object(&mut self, value: &str) -> Result<(), Error> {
        self.include_object = match value {
            "None" => IncludeObject::None,
            "Metadata" | "" => IncludeObject::Metadata,
            "Object" => IncludeObject::Object,
            _ => {
                let text = format!("unrecognized includeObject value: {value:?}");
                return Err(Error::bad_request(text));
            }
        };
        Ok(())
    }

    /// The revision a list is to be of.
    pub fn freshness_of_list(&self) -> Result<Freshness, Error> {
        let named = self.named_revision()?;
        let has_token = !self.go_on.is_empty();
        let mut errors = Vec::new();
        let path = "resourceVersionMatch";
        match self.resource_version_match.as_str() {
            "" => {}
            _ if self.resource_version.is_empty() => errors.push(FieldError::forbidden(
                path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            _ if has_token => errors.push(FieldError::forbidden(
                path,
                "resourceVersionMatch is forbidden when continue is provided",
            )),
            "Exact" if named == Some(0) => errors.push(FieldError::forbidden(
                path,
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            )),
            "Exact" | "NotOlderThan" => {}
            other => {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(path, other, &supported));
            }
        }
        if self.send_initial_events.is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", detail));
        }
        if !errors.is_empty() {
            return Err(Error::invalid("ListOptions", "meta.k8s.io", "", &errors));
        }
        if has_token && named.is_some_and(|named| named != 0) {
            let text = "specifying resource version is not allowed when using continue";
            return Err(Error::bad_request(text));
        }
        Ok(match (named, self.resource_version_match.as_str()) {
            (None, _) => Freshness::Newest,
            (Some(0), _) => Freshness::Any,
            (Some(revision), "Exact") => Freshness::Exact(revision),
            (Some(revision), "NotOlderThan") => Freshness::NotOlderThan(revision),
            // An old rule that clients rely on.
            (Some(revision), _) if self.limit > 0 => Freshness::Exact(revision),
            (Some(revision), _) => Freshness::NotOlderThan(revision),
        })
    }

    fn invalid(&self, error: FieldError) -> Error {
        Error::invalid(self.kind, "meta.k8s.io", "", &[error])
    }

    /// The named revision, if any.
    pub fn named_revision(&self) -> Result<Option<u64>, Error> {
        if self.resource_version.is_empty() {
            return Ok(None);
        }
        match self.resource_version.parse() {
            Ok(revision) => Ok(Some(revision)),
            Err(error) => {
                let text = format!("invalid resource version: {error}");
                let error =
                    FieldError::invalid("resourceVersion", self.resource_version.as_str(), text);
                Err(self.invalid(error))
            }
        }
    }
}

/// Anything but `0` and `false` is true.
fn flag(value: &str) -> bool {
    !matches!(value, "0" | "false")
}

fn number(name: &str, value: &str) -> Result<u64, Error> {
    if value.is_empty() {
        return Ok(0);
    }
    value.parse().map_err(|_| Error::bad_request(format!("invalid value {value:?} for {name}")))
}

fn decode(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let broken = || Error::bad_request(format!("invalid URL escape in {text:?}"));
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut digit = || {
                    let byte = rest.next().ok_or_else(broken)?;
                    (byte as char).to_digit(16).ok_or_else(broken)
                };
                let (high, low) = (digit()?, digit()?);
                bytes.push((high * 16 + low) as u8);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let query =
            "watch=1&labelSelector=app%3Dweb%2Ctier+in+%28a%29&limit=500&fieldManager=kubectl";
        let options = Options::parse(query).unwrap();
        assert!(options.watch);
        assert_eq!(options.label_selector, "app=web,tier in (a)");
        assert_eq!((options.limit, options.field_manager.as_str()), (500, "kubectl"));
        assert!(!Options::parse("watch=false").unwrap().watch);
        assert!(!Options::parse("watch=0").unwrap().watch);
        assert!(Options::parse("watch").unwrap().watch);
    }

    #[test]
    fn the_freshness_of_a_list_follows_its_options() {
        use Freshness::{Any, Exact, Newest, NotOlderThan};
        let cases = [
            ("", Newest),
            ("limit=5", Newest),
            ("resourceVersion=0", Any),
            ("resourceVersion=0&limit=5", Any),
            ("resourceVersion=7", NotOlderThan(7)),
            ("resourceVersion=7&limit=5", Exact(7)),
            ("resourceVersion=7&limit=5&resourceVersionMatch=NotOlderThan", NotOlderThan(7)),
            ("resourceVersion=7&resourceVersionMatch=Exact", Exact(7)),
        ];
        for (query, expected) in cases {
            let options = Options::parse(query).unwrap();
            assert_eq!(options.freshness_of_list().unwrap(), expected, "{query}");
        }
    }

    #[test]
    fn contradictory_options_are_refused() {
        let cases = [
            ("resourceVersionMatch=Exact", 422),
            ("resourceVersion=0&resourceVersionMatch=Exact", 422),
            ("resourceVersion=7&resourceVersionMatch=Some", 422),
            ("resourceVersion=7&resourceVersionMatch=Exact&continue=x", 422),
            ("resourceVersion=7&continue=x", 400),
            ("sendInitialEvents=true", 422),
            ("resourceVersion=abc", 422),
        ];
        for (query, code) in cases {
            let options = Options::parse(query).unwrap();
            assert_eq!(options.freshness_of_list().unwrap_err().code, code, "{query}");
        }
        assert_eq!(Options::parse("dryRun=Some").unwrap_err().code, 422);
        assert_eq!(Options::parse("fieldValidation=Maybe").unwrap_err().code, 422);
        assert_eq!(Options::parse("limit=many").unwrap_err().code, 400);
        assert_eq!(Options::parse("a=%zz").unwrap_err().code, 400);
    }
}
