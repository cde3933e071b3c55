//! Field selectors: `metadata.name=x,status.phase!=Running`.
//!
//! Which fields a kind has, and their values, are in [`super::field_table`].
//!
//! Upstream: apimachinery/pkg/fields/selector.go

use std::fmt;

use super::Error;

pub use super::field_table::{supported, values};

/// All terms must hold; none at all selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub field: String,
    pub operator: Operator,
    pub value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equals,
    NotEquals,
}

/// What a selector is matched against: an object's key and what [`values`] made of it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub values: &'a [(&'static str, String)],
}

impl Subject<'_> {
    /// The value of a field; empty when the object has none.
    pub fn get(&self, field: &str) -> &str {
        match field {
            "metadata.name" => self.name,
            "metadata.namespace" => self.namespace,
            _ => self
                .values
                .iter()
                .find(|(name, _)| *name == field)
                .map(|(_, value)| value.as_str())
                .unwrap_or_default(),
        }
    }
}

/// Reads a selector; whether a kind has the fields is [`Selector::for_kind`].
pub fn parse(text: &str) -> Result<Selector, Error> {
    let mut parts = split_at_commas(text);
    // The first in this order is the one that is refused.
    parts.sort_unstable();
    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let Some((field, operator, value)) = split_at_operator(part) else {
            let text = format!("invalid selector: '{text}'; can't understand '{part}'");
            return Err(Error(text));
        };
        let value = unescape(value)?;
        terms.push(Term { field: field.to_owned(), operator, value });
    }
    // Canonical order, by what is printed: equal selectors print equally, and `==` is `=`.
    terms.sort_by_cached_key(Term::to_string);
    Ok(Selector { terms })
}

impl Selector {
    /// The selector with the fields of a kind under their usual names, or the refusal of a field
    /// that the kind does not have.
    pub fn for_kind(mut self, group: &str, kind: &str) -> Result<Selector, Error> {
        for term in &mut self.terms {
            if let Some(usual) = super::field_table::usual_name(group, kind, &term.field) {
                term.field = usual.to_owned();
                continue;
            }
            let known = supported(group, kind);
            if known.contains(&term.field.as_str()) {
                continue;
            }
            let field = &term.field;
            return Err(Error(if super::field_table::has_own(group, kind) {
                format!("field label not supported: {field}")
            } else {
                format!(
                    "{field:?} is not a known field selector: only \"metadata.name\", \
                     \"metadata.namespace\""
                )
            }));
        }
        Ok(self)
    }

    /// The same for a custom kind, which has fields of its own.
    pub fn among(self, is_own: impl Fn(&str) -> bool) -> Result<Selector, Error> {
        for term in &self.terms {
            let field = term.field.as_str();
            if !["metadata.name", "metadata.namespace"].contains(&field) && !is_own(field) {
                return Err(Error(format!("field label not supported: {field}")));
            }
        }
        Ok(self)
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// `get` answers with the value of a field; a field that is not there is empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = get(&term.field).unwrap_or_default() == term.value;
            equal == (term.operator == Operator::Equals)
        })
    }

    pub fn matches_subject(&self, subject: &Subject<'_>) -> bool {
        self.matches(|field| Some(subject.get(field)))
    }

    /// The one value that the field must have, if the selector asks for one; for indexes.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let wanted = |term: &&Term| term.field == field && term.operator == Operator::Equals;
        self.terms.iter().find(wanted).map(|term| term.value.as_str())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            write!(formatter, "{term}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Equals => "=",
            Operator::NotEquals => "!=",
        };
        write!(formatter, "{}{operator}", self.field)?;
        for character in self.value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                formatter.write_str("\\")?;
            }
            write!(formatter, "{character}")?;
        }
        Ok(())
    }
}

/// The parts between commas; a comma after a backslash is part of a value.
fn split_at_commas(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_at_operator(part: &str) -> Option<(&str, Operator, &str)> {
    let bytes = part.as_bytes();
    for index in 0..bytes.len() {
        let (operator, length) = match &bytes[index..] {
            [b'!', b'=', ..] => (Operator::NotEquals, 2),
            [b'=', b'=', ..] => (Operator::Equals, 2),
            [b'=', ..] => (Operator::Equals, 1),
            _ => continue,
        };
        return Some((&part[..index], operator, &part[index + length..]));
    }
    None
}

fn unescape(text: &str) -> Result<String, Error> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(plain @ ('\\' | ',' | '=')) => value.push(plain),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(Error(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                // Clients know this text with the number of the character.
                let number = u32::from(character);
                return Err(Error(format!(
                    "invalid field selector: unescaped character in value: {number}"
                )));
            }
            plain => value.push(plain),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_printed_in_its_canonical_form() {
        let cases = [
            ("", ""),
            (",,", ""),
            ("a=b", "a=b"),
            ("a==b", "a=b"),
            ("a!=b", "a!=b"),
            ("b=2,a=1", "a=1,b=2"),
            ("a=", "a="),
            ("a=x\\,y", "a=x\\,y"),
            ("a=x\\=y", "a=x\\=y"),
            ("a=x\\\\", "a=x\\\\"),
            ("a=x y", "a=x y"),
            ("=b", "=b"),
            ("==,= ", "=,= "),
        ];
        for (text, canonical) in cases {
            assert_eq!(parse(text).unwrap().to_string(), canonical, "{text:?}");
        }
    }

    #[test]
    fn broken_text_is_refused() {
        let cases = [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a===c", "invalid field selector: unescaped character in value: 61"),
            ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("a=\\", "invalid field selector: invalid escape sequence: \\"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }

    #[test]
    fn a_field_must_be_one_of_the_kind() {
        let check = |group: &str, kind: &str, text: &str| {
            parse(text).unwrap().for_kind(group, kind).map(|selector| selector.to_string())
        };
        let accepted = [
            ("", "Pod", "spec.nodeName=n", "spec.nodeName=n"),
            ("", "Pod", "spec.host=n", "spec.nodeName=n"),
            ("", "ConfigMap", "metadata.name=n", "metadata.name=n"),
            ("example.com", "Thing", "metadata.namespace=n", "metadata.namespace=n"),
            ("events.k8s.io", "Event", "regarding.kind=Pod", "involvedObject.kind=Pod"),
            ("events.k8s.io", "Event", "reportingController=c", "reportingComponent=c"),
        ];
        for (group, kind, text, result) in accepted {
            assert_eq!(check(group, kind, text).unwrap(), result);
        }
        let refused = [
            ("", "Pod", "spec.x=n", "field label not supported: spec.x"),
            (
                "",
                "Namespace",
                "metadata.namespace=n",
                "field label not supported: \
              metadata.namespace",
            ),
            (
                "events.k8s.io",
                "Event",
                "involvedObject.kind=n",
                "field label not supported: \
              involvedObject.kind",
            ),
            (
                "",
                "ConfigMap",
                "data=n",
                "\"data\" is not a known field selector: only \
              \"metadata.name\", \"metadata.namespace\"",
            ),
        ];
        for (group, kind, text, message) in refused {
            assert_eq!(check(group, kind, text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_subject_matches_by_key_and_by_values() {
        let values = [("status.phase", "Running".to_owned())];
        let subject = Subject { namespace: "default", name: "a", values: &values };
        for text in [
            "metadata.name=a",
            "metadata.namespace=default",
            "status.phase=Running",
            "status.phase!=Failed,metadata.name!=b",
            "spec.nodeName=",
            "",
        ] {
            assert!(parse(text).unwrap().matches_subject(&subject), "{text}");
        }
        for text in ["metadata.name=b", "status.phase!=Running", "spec.nodeName!="] {
            assert!(!parse(text).unwrap().matches_subject(&subject), "{text}");
        }
        let selector = parse("metadata.name=a,status.phase!=Failed").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("status.phase"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_prints_stably(text in "[ab=!,\\\\é ]{0,24}|.{0,24}") {
            if let Ok(selector) = parse(&text) {
                let printed = selector.to_string();
                let again = parse(&printed).unwrap();
                prop_assert_eq!(again.to_string(), printed);
                for term in &selector.terms {
                    prop_assert!(again.terms.contains(term));
                }
            }
        }
    }
}
