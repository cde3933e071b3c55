//! Lists as sets.

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{List, Value, equal};

type Outcome<'a> = Result<Value<'a>, Failure>;

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sets.contains",
        overloads: &["sets.contains(list(A), list(A)) bool"],
        cost: Cost::Sets(1),
        call: contains,
    },
    Function {
        name: "sets.equivalent",
        overloads: &["sets.equivalent(list(A), list(A)) bool"],
        cost: Cost::Sets(2),
        call: equivalent,
    },
    Function {
        name: "sets.intersects",
        overloads: &["sets.intersects(list(A), list(A)) bool"],
        cost: Cost::Sets(1),
        call: intersects,
    },
];

fn both<'v, 'a>(values: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>), Failure> {
    match values {
        [Value::List(left), Value::List(right)] => Ok((left, right)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn has<'a>(fuel: &mut Fuel, list: &List<'a>, wanted: &Value<'a>) -> Result<bool, Failure> {
    for item in list.iter() {
        if equal(fuel, &item?, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_all<'a>(fuel: &mut Fuel, list: &List<'a>, wanted: &List<'a>) -> Result<bool, Failure> {
    for item in wanted.iter() {
        if !has(fuel, list, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (left, right) = both(values)?;
    Ok(Value::Bool(has_all(fuel, left, right)?))
}

fn equivalent<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (left, right) = both(values)?;
    Ok(Value::Bool(has_all(fuel, left, right)? && has_all(fuel, right, left)?))
}

fn intersects<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (left, right) = both(values)?;
    for item in left.iter() {
        if has(fuel, right, &item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
