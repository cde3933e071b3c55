//! Label selectors: which objects a list, a watch, a controller or a service means.
//!
//! A selector is made from text ([`parse`]) or from a `LabelSelector` object
//! ([`Selector::from_object`]); both are validated, so matching cannot fail.
//!
//! Upstream: apimachinery/pkg/labels/selector.go

use std::fmt;

use serde_json::Value;

use super::Error;
use crate::field_error::FieldError;

pub use super::label_object::validate;

/// All requirements must hold; none at all selects everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// What an absent `LabelSelector` means.
    Nothing,
    All(Vec<Requirement>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub test: Test,
}

/// What is asked of a key. Sets are sorted and have no duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    Exists,
    DoesNotExist,
    Equals(String),
    /// `==`: the same as [`Test::Equals`], kept apart because it prints as it was written.
    DoubleEquals(String),
    NotEquals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

/// Reads `app=web,tier in (a, b),!canary`.
pub fn parse(text: &str) -> Result<Selector, Error> {
    super::label_text::parse(text)
}

impl Selector {
    pub fn everything() -> Selector {
        Selector::All(Vec::new())
    }

    /// From a `LabelSelector`; `None` and null select nothing, `{}` selects everything.
    pub fn from_object(object: Option<&Value>, path: &str) -> Result<Selector, Vec<FieldError>> {
        super::label_object::from_object(object, path)
    }

    /// In canonical order, so that equal selectors print equally.
    pub(super) fn of(mut requirements: Vec<Requirement>) -> Selector {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Selector::All(requirements)
    }

    pub fn is_everything(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }

    pub fn requirements(&self) -> &[Requirement] {
        match self {
            Selector::Nothing => &[],
            Selector::All(requirements) => requirements,
        }
    }

    /// `get` answers with the value of a label.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::All(requirements) => {
                requirements.iter().all(|one| one.test.holds(get(&one.key)))
            }
        }
    }

    /// `pairs` are sorted by key.
    pub fn matches_pairs<K: AsRef<str>, V: AsRef<str>>(&self, pairs: &[(K, V)]) -> bool {
        self.matches(|key| {
            let place = pairs.binary_search_by(|(name, _)| name.as_ref().cmp(key)).ok()?;
            Some(pairs[place].1.as_ref())
        })
    }

    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }

    /// The one value that the label must have, if the selector asks for one; for indexes.
    pub fn exact(&self, key: &str) -> Option<&str> {
        self.requirements().iter().filter(|one| one.key == key).find_map(|one| match &one.test {
            Test::Equals(value) | Test::DoubleEquals(value) => Some(value.as_str()),
            Test::In(values) => match &values[..] {
                [only] => Some(only.as_str()),
                _ => None,
            },
            _ => None,
        })
    }

    /// The key and value of a selector that is nothing but one equality.
    pub fn single(&self) -> Option<(&str, &str)> {
        match self.requirements() {
            [only] => Some((&only.key, self.exact(&only.key)?)),
            _ => None,
        }
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let contains = |values: &[String], value: &str| values.iter().any(|one| one == value);
        match (self, value) {
            (Test::Exists, value) => value.is_some(),
            (Test::DoesNotExist, value) => value.is_none(),
            (Test::NotEquals(_) | Test::NotIn(_), None) => true,
            (_, None) => false,
            (Test::Equals(wanted) | Test::DoubleEquals(wanted), Some(value)) => wanted == value,
            (Test::NotEquals(unwanted), Some(value)) => unwanted != value,
            (Test::In(values), Some(value)) => contains(values, value),
            (Test::NotIn(values), Some(value)) => !contains(values, value),
            (Test::GreaterThan(bound), Some(value)) => {
                value.parse::<i64>().is_ok_and(|number| number > *bound)
            }
            (Test::LessThan(bound), Some(value)) => {
                value.parse::<i64>().is_ok_and(|number| number < *bound)
            }
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            requirement.fmt(formatter)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::Exists => write!(formatter, "{key}"),
            Test::DoesNotExist => write!(formatter, "!{key}"),
            Test::Equals(value) => write!(formatter, "{key}={value}"),
            Test::DoubleEquals(value) => write!(formatter, "{key}=={value}"),
            Test::NotEquals(value) => write!(formatter, "{key}!={value}"),
            Test::In(values) => write!(formatter, "{key} in ({})", values.join(",")),
            Test::NotIn(values) => write!(formatter, "{key} notin ({})", values.join(",")),
            Test::GreaterThan(bound) => write!(formatter, "{key}>{bound}"),
            Test::LessThan(bound) => write!(formatter, "{key}<{bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        parse(selector).unwrap().matches_pairs(labels)
    }

    #[test]
    fn a_selector_matches_when_every_requirement_holds() {
        let labels = [("app", "web"), ("empty", ""), ("n", "10"), ("tier", "front")];
        let yes = [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "app in (web,db)",
            "app notin (db)",
            "!missing",
            "missing!=x",
            "missing notin (x)",
            "n>9",
            "n<11",
            "empty=",
            "empty in ()",
            "app=web,tier=front",
        ];
        for text in yes {
            assert!(matches(text, &labels), "{text}");
        }
        let no = [
            "missing",
            "app=db",
            "app!=web",
            "app in (db)",
            "app notin (web)",
            "!app",
            "n>10",
            "n<10",
            "app>1",
            "missing=",
            "missing>1",
            "app=web,tier=back",
        ];
        for text in no {
            assert!(!matches(text, &labels), "{text}");
        }
    }

    #[test]
    fn nothing_matches_nothing_and_is_not_everything() {
        assert!(!Selector::Nothing.matches(|_| Some("x")));
        assert!(!Selector::Nothing.is_everything());
        assert!(Selector::everything().is_everything());
        assert!(parse(" ").unwrap().is_everything());
        assert!(!parse("a").unwrap().is_everything());
    }

    #[test]
    fn indexes_learn_of_exact_requirements() {
        let selector = parse("a=1,b in (2),c in (3,4),d!=5,e==6").unwrap();
        assert_eq!(selector.exact("a"), Some("1"));
        assert_eq!(selector.exact("b"), Some("2"));
        assert_eq!(selector.exact("c"), None);
        assert_eq!(selector.exact("d"), None);
        assert_eq!(selector.exact("e"), Some("6"));
        assert_eq!(selector.exact("f"), None);
        assert_eq!(selector.single(), None);
        assert_eq!(parse("a=1").unwrap().single(), Some(("a", "1")));
        assert_eq!(parse("a").unwrap().single(), None);
    }

    #[test]
    fn an_object_is_matched_by_its_labels() {
        let object = serde_json::json!({"metadata": {"labels": {"app": "web"}}});
        assert!(parse("app=web").unwrap().matches_object(&object));
        assert!(!parse("app=web").unwrap().matches_object(&serde_json::json!({})));
    }
}
