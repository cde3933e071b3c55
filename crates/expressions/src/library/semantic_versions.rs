//! Semantic versions.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/semver.go

use std::cmp::Ordering;

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{Opaque, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

/// `major.minor.patch-pre.release+build`; what is built does not count in comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Version {
    pub(crate) fn compare(&self, other: &Version) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.len(), other.pre.len()) {
            (0, 0) => Ordering::Equal,
            // A release comes after what was before it.
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        })
    }
}

macro_rules! part {
    ($name:literal, $index:literal) => {
        Function {
            name: $name,
            overloads: &[concat!("kubernetes.Semver.", $name, "() int")],
            cost: Cost::One,
            call: |_, values| {
                let version = version_of(values.first()).ok_or_else(Failure::no_such_overload)?;
                Ok(Value::Int(i64::try_from(version.numbers[$index]).unwrap_or(i64::MAX)))
            },
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "semver",
        overloads: &["semver(string) kubernetes.Semver", "semver(string, bool) kubernetes.Semver"],
        cost: Cost::Scan(0),
        call: semver,
    },
    Function {
        name: "isSemver",
        overloads: &["isSemver(string) bool", "isSemver(string, bool) bool"],
        cost: Cost::Scan(0),
        call: is_semver,
    },
    part!("major", 0),
    part!("minor", 1),
    part!("patch", 2),
];

fn version_of<'v>(value: Option<&'v Value<'_>>) -> Option<&'v Version> {
    match value {
        Some(Value::Opaque(opaque)) => match opaque.as_ref() {
            Opaque::Version(version) => Some(version),
            _ => None,
        },
        _ => None,
    }
}

/// The order of two versions, if these are versions.
pub(crate) fn order(values: &[Value<'_>]) -> Option<Ordering> {
    Some(version_of(values.first())?.compare(version_of(values.get(1))?))
}

fn read(fuel: &mut Fuel, values: &[Value<'_>]) -> Result<Option<Version>, Failure> {
    let text = values[0].as_str().ok_or_else(Failure::no_such_overload)?;
    fuel.burn(text.len() as u64 * 2)?;
    let lenient = matches!(values.get(1), Some(Value::Bool(true)));
    Ok(if lenient { parse(&normalize(text)) } else { parse(text) })
}

fn semver<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match read(fuel, values)? {
        Some(version) => Ok(Value::opaque(Opaque::Version(version))),
        None => Err(Failure::evaluation("No Major.Minor.Patch elements found")),
    }
}

fn is_semver<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(read(fuel, values)?.is_some()))
}

/// `v1.2` is read as `1.2.0`; zeros before a number are dropped.
fn normalize(text: &str) -> String {
    let text = text.trim().strip_prefix('v').unwrap_or(text.trim());
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut parts: Vec<&str> = numbers
        .split('.')
        .map(|part| {
            let trimmed = part.trim_start_matches('0');
            if trimmed.is_empty() && !part.is_empty() { "0" } else { trimmed }
        })
        .collect();
    while parts.len() < 3 {
        parts.push("0");
    }
    format!("{}{rest}", parts.join("."))
}

fn parse(text: &str) -> Option<Version> {
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (numbers, pre) = match text.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre)),
        None => (text, None),
    };
    let numbers: Vec<u64> = numbers.split('.').map(number).collect::<Option<_>>()?;
    let numbers: [u64; 3] = numbers.try_into().ok()?;
    if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
        return None;
    }
    let pre = match pre {
        None => Vec::new(),
        Some(pre) => pre.split('.').map(identifier).collect::<Option<_>>()?,
    };
    Some(Version { numbers, pre })
}

fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: &str) -> Option<Identifier> {
    if !is_identifier(text) {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text).map(Identifier::Number);
    }
    Some(Identifier::Text(text.to_owned()))
}
