//! Functions on lists: Kubernetes' own, and those of the lists extension.

use std::cmp::Ordering;

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::operators::overflow;
use crate::library::{Function, strings};
use crate::value::{List, Value, compare, equal};

type Outcome<'a> = Result<Value<'a>, Failure>;

macro_rules! for_ordered {
    ($name:literal, $result:literal) => {
        &[
            concat!("list(int).", $name, "() ", $result),
            concat!("list(uint).", $name, "() ", $result),
            concat!("list(double).", $name, "() ", $result),
            concat!("list(bool).", $name, "() ", $result),
            concat!("list(duration).", $name, "() ", $result),
            concat!("list(timestamp).", $name, "() ", $result),
            concat!("list(string).", $name, "() ", $result),
            concat!("list(bytes).", $name, "() ", $result),
        ]
    };
}

macro_rules! extreme {
    ($name:literal) => {
        &[
            concat!("list(int).", $name, "() int"),
            concat!("list(uint).", $name, "() uint"),
            concat!("list(double).", $name, "() double"),
            concat!("list(bool).", $name, "() bool"),
            concat!("list(duration).", $name, "() duration"),
            concat!("list(timestamp).", $name, "() timestamp"),
            concat!("list(string).", $name, "() string"),
            concat!("list(bytes).", $name, "() bytes"),
        ]
    };
}

pub(crate) const KUBERNETES: &[Function] = &[
    Function {
        name: "isSorted",
        overloads: for_ordered!("isSorted", "bool"),
        cost: Cost::Traverse,
        call: is_sorted,
    },
    Function {
        name: "sum",
        overloads: &[
            "list(int).sum() int",
            "list(uint).sum() uint",
            "list(double).sum() double",
            "list(duration).sum() duration",
        ],
        cost: Cost::Traverse,
        call: sum,
    },
    Function {
        name: "min",
        overloads: extreme!("min"),
        cost: Cost::Traverse,
        call: |fuel, values| extreme(fuel, values, Ordering::Less, "min"),
    },
    Function {
        name: "max",
        overloads: extreme!("max"),
        cost: Cost::Traverse,
        call: |fuel, values| extreme(fuel, values, Ordering::Greater, "max"),
    },
    Function {
        name: "indexOf",
        overloads: &[
            "list(A).indexOf(A) int",
            "string.indexOf(string) int",
            "string.indexOf(string, int) int",
        ],
        cost: Cost::Traverse,
        call: index_of,
    },
    Function {
        name: "lastIndexOf",
        overloads: &[
            "list(A).lastIndexOf(A) int",
            "string.lastIndexOf(string) int",
            "string.lastIndexOf(string, int) int",
        ],
        cost: Cost::Traverse,
        call: last_index_of,
    },
];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "lists.range",
        overloads: &["lists.range(int) list(int)"],
        cost: Cost::Range,
        call: range,
    },
    Function {
        name: "slice",
        overloads: &["list(A).slice(int, int) list(A)"],
        cost: Cost::Size(0),
        call: slice,
    },
    Function {
        name: "flatten",
        overloads: &["list(list(A)).flatten() list(A)", "list(dyn).flatten(int) list(dyn)"],
        cost: Cost::Size(0),
        call: flatten,
    },
    Function {
        name: "reverse",
        overloads: &["list(A).reverse() list(A)"],
        cost: Cost::Size(0),
        call: reverse,
    },
    Function {
        name: "distinct",
        overloads: &["list(A).distinct() list(A)"],
        cost: Cost::Square,
        call: distinct,
    },
    Function { name: "sort", overloads: &["list(A).sort() list(A)"], cost: Cost::Sort, call: sort },
    Function {
        name: "@sortByKeys",
        overloads: &["@sortByKeys(list(A), list(B)) list(A)"],
        cost: Cost::Sort,
        call: sort_by_keys,
    },
    Function {
        name: "first",
        overloads: &["list(A).first() optional(A)"],
        cost: Cost::One,
        call: first,
    },
    Function {
        name: "last",
        overloads: &["list(A).last() optional(A)"],
        cost: Cost::One,
        call: last,
    },
];

fn list_of<'v, 'a>(values: &'v [Value<'a>]) -> Result<&'v List<'a>, Failure> {
    match values.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Failure::no_such_overload()),
    }
}

/// For two values that are compared.
fn burn_text(fuel: &mut Fuel, value: &Value<'_>) -> Result<(), Failure> {
    fuel.burn(12 + value.as_str().map_or(0, |text| text.len() as u64 / 8))
}

fn is_sorted<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let mut previous: Option<Value<'a>> = None;
    for item in list_of(values)?.iter() {
        let item = item?;
        burn_text(fuel, &item)?;
        if let Some(previous) = &previous
            && compare(previous, &item)?.is_gt()
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let mut total: Option<Value<'a>> = None;
    for item in list_of(values)?.iter() {
        fuel.burn(12)?;
        total = Some(match (total, item?) {
            (None, item) => item,
            (Some(Value::Int(left)), Value::Int(right)) => {
                Value::Int(left.checked_add(right).ok_or_else(|| overflow("integer"))?)
            }
            (Some(Value::Uint(left)), Value::Uint(right)) => {
                Value::Uint(left.checked_add(right).ok_or_else(|| overflow("unsigned integer"))?)
            }
            (Some(Value::Double(left)), Value::Double(right)) => Value::Double(left + right),
            (Some(Value::Duration(left)), Value::Duration(right)) => {
                Value::Duration(left.checked_add(right).ok_or_else(|| overflow("duration"))?)
            }
            _ => return Err(Failure::no_such_overload()),
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn extreme<'a>(fuel: &mut Fuel, values: &[Value<'a>], wanted: Ordering, name: &str) -> Outcome<'a> {
    let mut best: Option<Value<'a>> = None;
    for item in list_of(values)?.iter() {
        let item = item?;
        burn_text(fuel, &item)?;
        match &best {
            Some(known) if compare(&item, known)? != wanted => {}
            _ => best = Some(item),
        }
    }
    best.ok_or_else(|| Failure::evaluation(format!("{name} called on empty list")))
}

fn index_of<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    if let Some(Value::String(_)) = values.first() {
        let find = |text: &str, part: &str| text.find(part);
        return strings::position(fuel, values, find).map(Value::Int);
    }
    for (index, item) in list_of(values)?.iter().enumerate() {
        if equal(fuel, &item?, &values[1])? {
            return Ok(Value::Int(index as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn last_index_of<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    if let Some(Value::String(_)) = values.first() {
        let find = |text: &str, part: &str| text.rfind(part);
        return strings::position(fuel, values, find).map(Value::Int);
    }
    let list = list_of(values)?;
    for index in (0..list.len()).rev() {
        let Some(item) = list.get(index) else { break };
        if equal(fuel, &item?, &values[1])? {
            return Ok(Value::Int(index as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn range<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(count)] = values else { return Err(Failure::no_such_overload()) };
    let count = usize::try_from(*count).unwrap_or(0);
    fuel.burn_items(count)?;
    Ok(Value::list((0..count as i64).map(Value::Int).collect()))
}

fn slice<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (list, [_, Value::Int(start), Value::Int(end)]) = (list_of(values)?, values) else {
        return Err(Failure::no_such_overload());
    };
    let length = list.len() as i64;
    if *start < 0 || *end < 0 {
        let message = format!("cannot slice({start}, {end}), negative indexes not supported");
        return Err(Failure::evaluation(message));
    }
    if start > end {
        let message = format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        );
        return Err(Failure::evaluation(message));
    }
    if *end > length {
        let message = format!("cannot slice({start}, {end}), list is length {length}");
        return Err(Failure::evaluation(message));
    }
    fuel.burn_items((end - start) as usize)?;
    let items = (*start as usize..*end as usize).filter_map(|index| list.get(index));
    Ok(Value::list(items.collect::<Result<_, _>>()?))
}

fn flatten<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let depth = match values.get(1) {
        None => 1,
        Some(Value::Int(depth)) if *depth < 0 => {
            return Err(Failure::evaluation("level must be non-negative"));
        }
        Some(Value::Int(depth)) => *depth,
        Some(_) => return Err(Failure::no_such_overload()),
    };
    let mut flat = Vec::new();
    flatten_into(fuel, list_of(values)?, depth, &mut flat)?;
    Ok(Value::list(flat))
}

/// Lists nest no deeper than the expression and the JSON they come from.
fn flatten_into<'a>(
    fuel: &mut Fuel,
    list: &List<'a>,
    depth: i64,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), Failure> {
    for item in list.iter() {
        fuel.burn_items(1)?;
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(fuel, &inner, depth - 1, flat)?,
            other => flat.push(other),
        }
    }
    Ok(())
}

fn reverse<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let list = list_of(values)?;
    fuel.burn_items(list.len())?;
    let mut items = list.to_vec()?;
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    'items: for item in list_of(values)?.iter() {
        let item = item?;
        for known in &kept {
            if equal(fuel, known, &item)? {
                continue 'items;
            }
        }
        fuel.burn_items(1)?;
        kept.push(item);
    }
    Ok(Value::list(kept))
}

fn sort<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let list = list_of(values)?;
    fuel.burn_items(list.len())?;
    let items = list.to_vec()?;
    sorted(fuel, items.clone(), items)
}

fn sort_by_keys<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::List(keys)] = values else {
        return Err(Failure::no_such_overload());
    };
    fuel.burn_items(list.len() + keys.len())?;
    sorted(fuel, keys.to_vec()?, list.to_vec()?)
}

fn sorted<'a>(fuel: &mut Fuel, keys: Vec<Value<'a>>, items: Vec<Value<'a>>) -> Outcome<'a> {
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(items).collect();
    let mut failure = None;
    pairs.sort_by(|(left, _), (right, _)| {
        let order = burn_text(fuel, left).and_then(|()| {
            // Keys of one list are of one type.
            match std::mem::discriminant(left) == std::mem::discriminant(right) {
                true => compare(left, right),
                false => Err(Failure::evaluation("list elements must have the same type")),
            }
        });
        order.unwrap_or_else(|found| {
            failure.get_or_insert(found);
            Ordering::Equal
        })
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect())),
    }
}

fn first<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    end_of(list_of(values)?, 0)
}

fn last<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let list = list_of(values)?;
    end_of(list, list.len().wrapping_sub(1))
}

fn end_of<'a>(list: &List<'a>, index: usize) -> Outcome<'a> {
    match list.get(index) {
        Some(item) => Ok(Value::some(item?)),
        None => Ok(Value::Optional(None)),
    }
}
