//! Quantities such as `100m`, `1.5Gi` and `1e3`.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/quantity.go

use std::cmp::Ordering;

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::library::semantic_versions;
use crate::value::{Opaque, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

/// Thousand-millionths; what is smaller is rounded up, away from zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    nano: i128,
}

const NANO: i128 = 1_000_000_000;

impl Quantity {
    pub(crate) fn compare(&self, other: &Quantity) -> Ordering {
        self.nano.cmp(&other.nano)
    }

    fn whole(&self) -> Option<i64> {
        (self.nano % NANO == 0).then(|| i64::try_from(self.nano / NANO).ok()).flatten()
    }
}

macro_rules! comparison {
    ($name:literal, $result:literal, $map:expr) => {
        Function {
            name: $name,
            overloads: &[
                concat!("kubernetes.Quantity.", $name, "(kubernetes.Quantity) ", $result),
                concat!("kubernetes.Semver.", $name, "(kubernetes.Semver) ", $result),
            ],
            cost: Cost::One,
            call: |_, values| Ok(($map)(order(values)?)),
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "quantity",
        overloads: &["quantity(string) kubernetes.Quantity"],
        cost: Cost::Scan(0),
        call: quantity,
    },
    Function {
        name: "isQuantity",
        overloads: &["isQuantity(string) bool"],
        cost: Cost::Scan(0),
        call: is_quantity,
    },
    Function {
        name: "sign",
        overloads: &["kubernetes.Quantity.sign() int"],
        cost: Cost::One,
        call: sign,
    },
    Function {
        name: "isInteger",
        overloads: &["kubernetes.Quantity.isInteger() bool"],
        cost: Cost::One,
        call: is_integer,
    },
    Function {
        name: "asInteger",
        overloads: &["kubernetes.Quantity.asInteger() int"],
        cost: Cost::One,
        call: as_integer,
    },
    Function {
        name: "asApproximateFloat",
        overloads: &["kubernetes.Quantity.asApproximateFloat() double"],
        cost: Cost::One,
        call: as_float,
    },
    Function {
        name: "add",
        overloads: &[
            "kubernetes.Quantity.add(kubernetes.Quantity) kubernetes.Quantity",
            "kubernetes.Quantity.add(int) kubernetes.Quantity",
        ],
        cost: Cost::One,
        call: |_, values| combine(values, i128::checked_add),
    },
    Function {
        name: "sub",
        overloads: &[
            "kubernetes.Quantity.sub(kubernetes.Quantity) kubernetes.Quantity",
            "kubernetes.Quantity.sub(int) kubernetes.Quantity",
        ],
        cost: Cost::One,
        call: |_, values| combine(values, i128::checked_sub),
    },
    comparison!("isGreaterThan", "bool", |order: Ordering| Value::Bool(order.is_gt())),
    comparison!("isLessThan", "bool", |order: Ordering| Value::Bool(order.is_lt())),
    comparison!("compareTo", "int", |order: Ordering| Value::Int(order as i64)),
];

fn quantity_of<'v>(value: Option<&'v Value<'_>>) -> Result<&'v Quantity, Failure> {
    match value {
        Some(Value::Opaque(opaque)) => match opaque.as_ref() {
            Opaque::Quantity(quantity) => Ok(quantity),
            _ => Err(Failure::no_such_overload()),
        },
        _ => Err(Failure::no_such_overload()),
    }
}

fn order(values: &[Value<'_>]) -> Result<Ordering, Failure> {
    if let Some(order) = semantic_versions::order(values) {
        return Ok(order);
    }
    Ok(quantity_of(values.first())?.compare(quantity_of(values.get(1))?))
}

fn quantity<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let text = values[0].as_str().ok_or_else(Failure::no_such_overload)?;
    fuel.burn(text.len() as u64)?;
    match parse(text) {
        Some(quantity) => Ok(Value::opaque(Opaque::Quantity(quantity))),
        None => Err(Failure::evaluation(
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )),
    }
}

fn is_quantity<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let text = values[0].as_str().ok_or_else(Failure::no_such_overload)?;
    fuel.burn(text.len() as u64)?;
    Ok(Value::Bool(parse(text).is_some()))
}

fn sign<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(quantity_of(values.first())?.nano.signum() as i64))
}

fn is_integer<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(quantity_of(values.first())?.whole().is_some()))
}

fn as_integer<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let whole = quantity_of(values.first())?.whole();
    whole.map(Value::Int).ok_or_else(|| Failure::evaluation("cannot convert value to integer"))
}

fn as_float<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(quantity_of(values.first())?.nano as f64 / NANO as f64))
}

fn combine<'a>(values: &[Value<'a>], with: fn(i128, i128) -> Option<i128>) -> Outcome<'a> {
    let left = quantity_of(values.first())?.nano;
    let right = match values.get(1) {
        Some(Value::Int(value)) => i128::from(*value) * NANO,
        other => quantity_of(other)?.nano,
    };
    let nano = with(left, right).ok_or_else(|| Failure::evaluation("quantity overflow"))?;
    Ok(Value::opaque(Opaque::Quantity(Quantity { nano })))
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = rest.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 64 {
        return None;
    }
    let scale = scale(suffix)?;
    // digits * scale / 10^fraction, rounded away from zero.
    let mut numerator: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        numerator = numerator.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    let (mut up, mut down) = (NANO, 10i128.checked_pow(fraction.len() as u32)?);
    match scale {
        Scale::Power { base, exponent } if exponent >= 0 => {
            up = up.checked_mul(base.checked_pow(exponent as u32)?)?;
        }
        Scale::Power { base, exponent } => {
            down = down.checked_mul(base.checked_pow(exponent.unsigned_abs())?)?;
        }
    }
    let shared = greatest_common_divisor(up, down);
    let (up, down) = (up / shared, down / shared);
    let product = numerator.checked_mul(up)?;
    let nano = product / down + i128::from(product % down != 0);
    Some(Quantity { nano: if negative { -nano } else { nano } })
}

fn greatest_common_divisor(left: i128, right: i128) -> i128 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

enum Scale {
    Power { base: i128, exponent: i32 },
}

fn scale(suffix: &str) -> Option<Scale> {
    let power = |base, exponent| Some(Scale::Power { base, exponent });
    match suffix {
        "" => power(10, 0),
        "n" => power(10, -9),
        "u" => power(10, -6),
        "m" => power(10, -3),
        "k" => power(10, 3),
        "M" => power(10, 6),
        "G" => power(10, 9),
        "T" => power(10, 12),
        "P" => power(10, 15),
        "E" => power(10, 18),
        "Ki" => power(1024, 1),
        "Mi" => power(1024, 2),
        "Gi" => power(1024, 3),
        "Ti" => power(1024, 4),
        "Pi" => power(1024, 5),
        "Ei" => power(1024, 6),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let plain = !unsigned.is_empty()
                && unsigned.len() <= 3
                && unsigned.bytes().all(|byte| byte.is_ascii_digit());
            if plain { power(10, exponent.parse().ok()?) } else { None }
        }
    }
}
