//! Optional values, and indexing.

use std::rc::Rc;

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::library::conversions::show;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, Failure>;

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "optional.of",
        overloads: &["optional.of(A) optional(A)"],
        cost: Cost::One,
        call: of,
    },
    Function {
        name: "optional.ofNonZeroValue",
        overloads: &["optional.ofNonZeroValue(A) optional(A)"],
        cost: Cost::One,
        call: of_non_zero,
    },
    Function {
        name: "optional.none",
        overloads: &["optional.none() optional(A)"],
        cost: Cost::One,
        call: none,
    },
    Function {
        name: "hasValue",
        overloads: &["optional(A).hasValue() bool"],
        cost: Cost::One,
        call: has_value,
    },
    Function { name: "value", overloads: &["optional(A).value() A"], cost: Cost::One, call: value },
    Function {
        name: "or",
        overloads: &["optional(A).or(optional(A)) optional(A)"],
        cost: Cost::One,
        call: or,
    },
    Function {
        name: "orValue",
        overloads: &["optional(A).orValue(A) A"],
        cost: Cost::One,
        call: or_value,
    },
    Function {
        name: "_?._",
        overloads: &["_?._(A, string) optional(B)"],
        cost: Cost::One,
        call: optional_index,
    },
    Function {
        name: "_[?_]",
        overloads: &[
            "_[?_](list(A), int) optional(A)",
            "_[?_](map(A, B), A) optional(B)",
            "_[?_](optional(list(A)), int) optional(A)",
            "_[?_](optional(map(A, B)), A) optional(B)",
        ],
        cost: Cost::One,
        call: optional_index,
    },
    Function {
        name: "@optionalList",
        overloads: &["@optionalList(optional(A)) list(A)"],
        cost: Cost::One,
        call: as_list,
    },
    Function {
        name: "optional.unwrap",
        overloads: &["optional.unwrap(list(optional(A))) list(A)"],
        cost: Cost::Size(0),
        call: unwrap_all,
    },
    Function {
        name: "unwrapOpt",
        overloads: &["list(optional(A)).unwrapOpt() list(A)"],
        cost: Cost::Size(0),
        call: unwrap_all,
    },
];

fn of<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::some(values[0].clone()))
}

fn of_non_zero<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let is_zero = match &values[0] {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => {
            true
        }
        Value::Double(value) => *value == 0.0,
        Value::Optional(inner) => inner.is_none(),
        value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)) => {
            value.actual_size() == 0
        }
        _ => false,
    };
    Ok(if is_zero { Value::Optional(None) } else { Value::some(values[0].clone()) })
}

fn none<'a>(_: &mut Fuel, _: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Optional(None))
}

fn has_value<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(Failure::no_such_overload()),
    }
}

fn value<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Optional(Some(inner))] => Ok(inner.as_ref().clone()),
        [Value::Optional(None)] => Err(Failure::evaluation("optional.none() dereference")),
        // The host's own: a decision or a check has no such accessor.
        _ => Err(Failure::no_such_overload()),
    }
}

fn or<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Optional(None), other @ Value::Optional(_)] => Ok(other.clone()),
        [first @ Value::Optional(Some(_)), Value::Optional(_)] => Ok(first.clone()),
        _ => Err(Failure::no_such_overload()),
    }
}

fn or_value<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Optional(Some(inner)), _] => Ok(inner.as_ref().clone()),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(Failure::no_such_overload()),
    }
}

fn as_list<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Optional(inner)] => {
            Ok(Value::list(inner.iter().map(|value| value.as_ref().clone()).collect()))
        }
        _ => Err(Failure::no_such_overload()),
    }
}

fn unwrap_all<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = values else { return Err(Failure::no_such_overload()) };
    fuel.burn_items(list.len())?;
    let mut present = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(inner) => present.extend(inner.map(Rc::unwrap_or_clone)),
            _ => return Err(Failure::no_such_overload()),
        }
    }
    Ok(Value::list(present))
}

pub(crate) fn no_such_key(key: &str) -> Failure {
    Failure::evaluation(format!("no such key: {key}"))
}

/// `value[key]`
pub(crate) fn index<'a>(value: &Value<'a>, key: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::List(list) => {
            let Some(position) = whole(key) else {
                return Err(match key {
                    Value::Double(_) => Failure::evaluation("unsupported index value"),
                    _ => Failure::no_such_overload(),
                });
            };
            let found = usize::try_from(position).ok().and_then(|position| list.get(position));
            found.unwrap_or_else(|| {
                Err(Failure::evaluation(format!("index out of bounds: {position}")))
            })
        }
        Value::Map(map) => map.get(key).unwrap_or_else(|| Err(no_such_key(&show(key)))),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_lookup(inner, key),
        _ => Err(Failure::no_such_overload()),
    }
}

fn whole(key: &Value<'_>) -> Option<i64> {
    match key {
        Value::Int(value) => Some(*value),
        Value::Uint(value) => i64::try_from(*value).ok(),
        Value::Double(value) if value.fract() == 0.0 => Some(*value as i64),
        _ => None,
    }
}

/// `value[?key]` and `value.?key`
fn optional_index<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(inner)), key] => optional_lookup(inner, key),
        [value, key] => optional_lookup(value, key),
        _ => Err(Failure::no_such_overload()),
    }
}

fn optional_lookup<'a>(value: &Value<'a>, key: &Value<'a>) -> Outcome<'a> {
    let found = match value {
        Value::List(list) => match whole(key) {
            Some(position) => usize::try_from(position).ok().and_then(|place| list.get(place)),
            None => return Err(Failure::no_such_overload()),
        },
        Value::Map(map) => map.get(key),
        _ => return Err(Failure::no_such_overload()),
    };
    match found {
        Some(value) => Ok(Value::some(value?)),
        None => Ok(Value::Optional(None)),
    }
}
