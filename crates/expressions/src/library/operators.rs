//! Arithmetic, comparison, membership, size.

use std::rc::Rc;

use crate::cost::Cost;
use crate::declared::ListKind;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{List, Map, Value, compare, equal};

type Outcome<'a> = Result<Value<'a>, Failure>;

macro_rules! ordered {
    ($name:literal) => {
        &[
            concat!($name, "(bool, bool) bool"),
            concat!($name, "(int, int) bool"),
            concat!($name, "(uint, uint) bool"),
            concat!($name, "(double, double) bool"),
            concat!($name, "(string, string) bool"),
            concat!($name, "(bytes, bytes) bool"),
            concat!($name, "(timestamp, timestamp) bool"),
            concat!($name, "(duration, duration) bool"),
            concat!($name, "(int, double) bool"),
            concat!($name, "(int, uint) bool"),
            concat!($name, "(uint, double) bool"),
            concat!($name, "(uint, int) bool"),
            concat!($name, "(double, int) bool"),
            concat!($name, "(double, uint) bool"),
        ]
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "_&&_",
        overloads: &["_&&_(bool, bool) bool"],
        cost: Cost::Logical,
        call: refuse,
    },
    Function {
        name: "_||_",
        overloads: &["_||_(bool, bool) bool"],
        cost: Cost::Logical,
        call: refuse,
    },
    Function {
        name: "_?_:_",
        overloads: &["_?_:_(bool, A, A) A"],
        cost: Cost::Conditional,
        call: refuse,
    },
    Function { name: "!_", overloads: &["!_(bool) bool"], cost: Cost::One, call: not },
    Function {
        name: "-_",
        overloads: &["-_(int) int", "-_(double) double"],
        cost: Cost::One,
        call: negate,
    },
    Function { name: "_==_", overloads: &["_==_(A, A) bool"], cost: Cost::Compare, call: equals },
    Function {
        name: "_!=_",
        overloads: &["_!=_(A, A) bool"],
        cost: Cost::Compare,
        call: not_equals,
    },
    Function { name: "_<_", overloads: ordered!("_<_"), cost: Cost::Order, call: less },
    Function { name: "_<=_", overloads: ordered!("_<=_"), cost: Cost::Order, call: less_or_equal },
    Function { name: "_>_", overloads: ordered!("_>_"), cost: Cost::Order, call: greater },
    Function {
        name: "_>=_",
        overloads: ordered!("_>=_"),
        cost: Cost::Order,
        call: greater_or_equal,
    },
    Function {
        name: "_+_",
        overloads: &[
            "_+_(int, int) int",
            "_+_(uint, uint) uint",
            "_+_(double, double) double",
            "_+_(string, string) string",
            "_+_(bytes, bytes) bytes",
            "_+_(list(A), list(A)) list(A)",
            "_+_(timestamp, duration) timestamp",
            "_+_(duration, timestamp) timestamp",
            "_+_(duration, duration) duration",
        ],
        cost: Cost::Add,
        call: add,
    },
    Function {
        name: "_-_",
        overloads: &[
            "_-_(int, int) int",
            "_-_(uint, uint) uint",
            "_-_(double, double) double",
            "_-_(timestamp, timestamp) duration",
            "_-_(timestamp, duration) timestamp",
            "_-_(duration, duration) duration",
        ],
        cost: Cost::One,
        call: subtract,
    },
    Function {
        name: "_*_",
        overloads: &["_*_(int, int) int", "_*_(uint, uint) uint", "_*_(double, double) double"],
        cost: Cost::One,
        call: multiply,
    },
    Function {
        name: "_/_",
        overloads: &["_/_(int, int) int", "_/_(uint, uint) uint", "_/_(double, double) double"],
        cost: Cost::One,
        call: divide,
    },
    Function {
        name: "_%_",
        overloads: &["_%_(int, int) int", "_%_(uint, uint) uint"],
        cost: Cost::One,
        call: remainder,
    },
    Function {
        name: "@in",
        overloads: &["@in(A, list(A)) bool", "@in(A, map(A, B)) bool"],
        cost: Cost::Member,
        call: member,
    },
    Function {
        name: "_[_]",
        overloads: &[
            "_[_](list(A), int) A",
            "_[_](map(A, B), A) B",
            "_[_](optional(list(A)), int) optional(A)",
            "_[_](optional(map(A, B)), A) optional(B)",
        ],
        cost: Cost::One,
        call: |_, values| crate::library::optionals::index(&values[0], &values[1]),
    },
    Function {
        name: "size",
        overloads: &[
            "size(string) int",
            "size(bytes) int",
            "size(list(A)) int",
            "size(map(A, B)) int",
            "string.size() int",
            "bytes.size() int",
            "list(A).size() int",
            "map(A, B).size() int",
        ],
        cost: Cost::One,
        call: size,
    },
];

/// What only macros call.
pub(crate) const INTERNAL: &[Function] = &[
    Function {
        name: "@not_strictly_false",
        overloads: &["@not_strictly_false(bool) bool"],
        cost: Cost::One,
        call: refuse,
    },
    Function {
        name: "cel.@mapInsert",
        overloads: &[
            "cel.@mapInsert(map(A, B), A, B) map(A, B)",
            "cel.@mapInsert(map(A, B), map(A, B)) map(A, B)",
        ],
        cost: Cost::One,
        call: refuse,
    },
];

/// For what the evaluation does itself.
fn refuse<'a>(_: &mut Fuel, _: &[Value<'a>]) -> Outcome<'a> {
    Err(Failure::no_such_overload())
}

fn not<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Failure::no_such_overload()),
    }
}

pub(crate) fn overflow(kind: &str) -> Failure {
    Failure::evaluation(format!("{kind} overflow"))
}

fn negate<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Int(value)] => {
            value.checked_neg().map(Value::Int).ok_or_else(|| overflow("integer"))
        }
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn equals<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(equal(fuel, &values[0], &values[1])?))
}

fn not_equals<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(!equal(fuel, &values[0], &values[1])?))
}

fn less<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(compare(&values[0], &values[1])?.is_lt()))
}

fn less_or_equal<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(compare(&values[0], &values[1])?.is_le()))
}

fn greater<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(compare(&values[0], &values[1])?.is_gt()))
}

fn greater_or_equal<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(compare(&values[0], &values[1])?.is_ge()))
}

fn add<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Int(left), Value::Int(right)] => {
            left.checked_add(*right).map(Value::Int).ok_or_else(|| overflow("integer"))
        }
        [Value::Uint(left), Value::Uint(right)] => {
            let sum = left.checked_add(*right);
            sum.map(Value::Uint).ok_or_else(|| overflow("unsigned integer"))
        }
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left + right)),
        [Value::String(left), Value::String(right)] => {
            let (left, right) = (left.as_str(), right.as_str());
            fuel.burn((left.len() + right.len()) as u64)?;
            let mut joined = String::with_capacity(left.len() + right.len());
            joined.push_str(left);
            joined.push_str(right);
            Ok(Value::text(joined))
        }
        [Value::Bytes(left), Value::Bytes(right)] => {
            fuel.burn((left.len() + right.len()) as u64)?;
            Ok(Value::Bytes([left.as_ref(), right.as_ref()].concat().into()))
        }
        [Value::List(left), Value::List(right)] => add_lists(fuel, left, right),
        [Value::Timestamp(time), Value::Duration(span)]
        | [Value::Duration(span), Value::Timestamp(time)] => {
            let sum = time.checked_add(jiff::SignedDuration::from_nanos(*span));
            sum.map(Value::Timestamp).map_err(|_| overflow("timestamp"))
        }
        [Value::Duration(left), Value::Duration(right)] => {
            left.checked_add(*right).map(Value::Duration).ok_or_else(|| overflow("duration"))
        }
        _ => Err(Failure::no_such_overload()),
    }
}

/// Lists follow each other; sets and keyed lists are merged, the right side winning.
fn add_lists<'a>(fuel: &mut Fuel, left: &List<'a>, right: &List<'a>) -> Outcome<'a> {
    let kind = left.kind();
    fuel.burn_items(left.len() + right.len())?;
    let mut items = left.to_vec()?;
    if *kind == ListKind::Atomic {
        items.reserve_exact(right.len());
        for item in right.iter() {
            items.push(item?);
        }
        return Ok(Value::list(items));
    }
    let known = items.len();
    for item in right.iter() {
        let item = item?;
        let mut place = None;
        for (index, own) in items[..known].iter().enumerate() {
            if crate::value::matches(fuel, kind, own, &item)? {
                place = Some(index);
                break;
            }
        }
        match place {
            Some(index) => items[index] = item,
            None => items.push(item),
        }
    }
    Ok(Value::List(List::Made { items: Rc::new(items), kind }))
}

fn subtract<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Int(left), Value::Int(right)] => {
            left.checked_sub(*right).map(Value::Int).ok_or_else(|| overflow("integer"))
        }
        [Value::Uint(left), Value::Uint(right)] => {
            let rest = left.checked_sub(*right);
            rest.map(Value::Uint).ok_or_else(|| overflow("unsigned integer"))
        }
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left - right)),
        [Value::Timestamp(left), Value::Timestamp(right)] => {
            let nanoseconds = left.as_nanosecond() - right.as_nanosecond();
            let span = i64::try_from(nanoseconds).map_err(|_| overflow("duration"))?;
            Ok(Value::Duration(span))
        }
        [Value::Timestamp(time), Value::Duration(span)] => {
            let rest = time.checked_sub(jiff::SignedDuration::from_nanos(*span));
            rest.map(Value::Timestamp).map_err(|_| overflow("timestamp"))
        }
        [Value::Duration(left), Value::Duration(right)] => {
            left.checked_sub(*right).map(Value::Duration).ok_or_else(|| overflow("duration"))
        }
        _ => Err(Failure::no_such_overload()),
    }
}

fn multiply<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Int(left), Value::Int(right)] => {
            left.checked_mul(*right).map(Value::Int).ok_or_else(|| overflow("integer"))
        }
        [Value::Uint(left), Value::Uint(right)] => {
            let product = left.checked_mul(*right);
            product.map(Value::Uint).ok_or_else(|| overflow("unsigned integer"))
        }
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left * right)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn divide<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Failure::evaluation("division by zero"))
        }
        [Value::Int(left), Value::Int(right)] => {
            left.checked_div(*right).map(Value::Int).ok_or_else(|| overflow("integer"))
        }
        [Value::Uint(left), Value::Uint(right)] => Ok(Value::Uint(left / right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left / right)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn remainder<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Failure::evaluation("modulus by zero"))
        }
        [Value::Int(left), Value::Int(right)] => {
            left.checked_rem(*right).map(Value::Int).ok_or_else(|| overflow("integer"))
        }
        [Value::Uint(left), Value::Uint(right)] => Ok(Value::Uint(left % right)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn member<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [wanted, Value::List(list)] => {
            for item in list.iter() {
                if equal(fuel, wanted, &item?)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [wanted, Value::Map(map)] => Ok(Value::Bool(map.get(wanted).is_some())),
        _ => Err(Failure::no_such_overload()),
    }
}

fn size<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_))] => {
            if let Value::String(text) = value {
                fuel.burn(text.as_str().len() as u64 / 16)?;
            }
            Ok(Value::Int(value.actual_size() as i64))
        }
        [Value::Map(map @ Map::Made(_))] | [Value::Map(map)] => Ok(Value::Int(map.len() as i64)),
        _ => Err(Failure::no_such_overload()),
    }
}
