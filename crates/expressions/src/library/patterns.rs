//! Regular expressions, in linear time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{Text, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

/// A compiled pattern takes at most this many bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Compiled patterns a thread keeps.
const KEPT_MAX: usize = 256;
/// Compiling is dear, so that an expression cannot make up patterns without end.
const COMPILE_FUEL: u64 = 1 << 20;

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "matches",
        overloads: &["string.matches(string) bool", "matches(string, string) bool"],
        cost: Cost::Matches,
        call: matches,
    },
    Function {
        name: "find",
        overloads: &["string.find(string) string"],
        cost: Cost::Matches,
        call: find,
    },
    Function {
        name: "findAll",
        overloads: &[
            "string.findAll(string) list(string)",
            "string.findAll(string, int) list(string)",
        ],
        cost: Cost::Matches,
        call: find_all,
    },
];

/// A pattern of RE2's syntax.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Failure> {
    let built = RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build();
    built.map_err(|_| Failure::evaluation(format!("error parsing regexp: `{pattern}`")))
}

thread_local! {
    static KEPT: RefCell<HashMap<Box<str>, Rc<Regex>>> = RefCell::new(HashMap::new());
}

fn compiled(fuel: &mut Fuel, pattern: &str) -> Result<Rc<Regex>, Failure> {
    let known = KEPT.with_borrow(|kept| kept.get(pattern).cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    fuel.burn(COMPILE_FUEL)?;
    let built = Rc::new(compile(pattern)?);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(pattern.into(), Rc::clone(&built));
    });
    Ok(built)
}

fn both<'v>(values: &'v [Value<'_>]) -> Result<(&'v str, &'v str), Failure> {
    match values {
        [Value::String(text), Value::String(pattern), ..] => Ok((text.as_str(), pattern.as_str())),
        _ => Err(Failure::no_such_overload()),
    }
}

fn matches<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, pattern) = both(values)?;
    let regex = compiled(fuel, pattern)?;
    fuel.burn(text.len() as u64)?;
    Ok(Value::Bool(regex.is_match(text)))
}

/// A part of the first value.
fn part<'a>(values: &[Value<'a>], start: usize, end: usize) -> Value<'a> {
    match &values[0] {
        Value::String(Text::Borrowed(text)) => Value::borrowed(&text[start..end]),
        Value::String(Text::Shared(text)) => Value::text(&text[start..end]),
        _ => Value::Null,
    }
}

fn find<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, pattern) = both(values)?;
    let regex = compiled(fuel, pattern)?;
    fuel.burn(text.len() as u64)?;
    Ok(match regex.find(text) {
        Some(found) => part(values, found.start(), found.end()),
        None => Value::borrowed(""),
    })
}

fn find_all<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (text, pattern) = both(values)?;
    let regex = compiled(fuel, pattern)?;
    let count = match values.get(2) {
        None => usize::MAX,
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
        Some(_) => return Err(Failure::no_such_overload()),
    };
    let mut all = Vec::new();
    // Each search may look at the rest of the text again.
    for found in regex.find_iter(text).take(count) {
        fuel.burn((text.len() - found.start()) as u64 / 8 + 16)?;
        all.push(part(values, found.start(), found.end()));
    }
    fuel.burn(text.len() as u64)?;
    Ok(Value::list(all))
}
