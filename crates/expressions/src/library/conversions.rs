//! Conversions between types.

use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::library::operators::overflow;
use crate::library::times::{show_duration, show_timestamp};
use crate::value::{Opaque, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "type", overloads: &["type(A) type"], cost: Cost::One, call: type_of },
    Function { name: "dyn", overloads: &["dyn(A) dyn"], cost: Cost::Dyn, call: to_dyn },
    Function {
        name: "int",
        overloads: &[
            "int(int) int",
            "int(uint) int",
            "int(double) int",
            "int(string) int",
            "int(timestamp) int",
            "int(duration) int",
        ],
        cost: Cost::One,
        call: to_int,
    },
    Function {
        name: "uint",
        overloads: &["uint(uint) uint", "uint(int) uint", "uint(double) uint", "uint(string) uint"],
        cost: Cost::One,
        call: to_uint,
    },
    Function {
        name: "double",
        overloads: &[
            "double(double) double",
            "double(int) double",
            "double(uint) double",
            "double(string) double",
        ],
        cost: Cost::One,
        call: to_double,
    },
    Function {
        name: "bool",
        overloads: &["bool(bool) bool", "bool(string) bool"],
        cost: Cost::One,
        call: to_bool,
    },
    Function {
        name: "string",
        overloads: &[
            "string(string) string",
            "string(bool) string",
            "string(int) string",
            "string(uint) string",
            "string(double) string",
            "string(bytes) string",
            "string(timestamp) string",
            "string(duration) string",
            "string(net.IP) string",
            "string(net.CIDR) string",
        ],
        cost: Cost::ToString,
        call: to_string,
    },
    Function {
        name: "bytes",
        overloads: &["bytes(bytes) bytes", "bytes(string) bytes"],
        cost: Cost::ToBytes,
        call: to_bytes,
    },
    Function {
        name: "base64.encode",
        overloads: &["base64.encode(bytes) string"],
        cost: Cost::Scan(0),
        call: encode,
    },
    Function {
        name: "base64.decode",
        overloads: &["base64.decode(string) bytes"],
        cost: Cost::Scan(0),
        call: decode,
    },
];

fn type_of<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Type(values[0].type_name().into()))
}

fn to_dyn<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(values[0].clone())
}

fn malformed(text: &str, kind: &str) -> Failure {
    Failure::evaluation(format!("cannot convert \"{text}\" to {kind}: invalid syntax"))
}

fn to_int<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let value = match &values[0] {
        Value::Int(value) => *value,
        Value::Uint(value) => i64::try_from(*value).map_err(|_| overflow("integer"))?,
        Value::Double(value) => {
            if !(*value > -9.223_372_036_854_776e18 && *value < 9.223_372_036_854_775e18) {
                return Err(overflow("integer"));
            }
            *value as i64
        }
        Value::String(text) => {
            text.as_str().parse().map_err(|_| malformed(text.as_str(), "int"))?
        }
        Value::Timestamp(time) => time.as_second(),
        Value::Duration(nanoseconds) => *nanoseconds,
        _ => return Err(Failure::no_such_overload()),
    };
    Ok(Value::Int(value))
}

fn to_uint<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let value = match &values[0] {
        Value::Uint(value) => *value,
        Value::Int(value) => u64::try_from(*value).map_err(|_| overflow("unsigned integer"))?,
        Value::Double(value) => {
            if !(*value >= 0.0 && *value < 1.844_674_407_370_955e19) {
                return Err(overflow("unsigned integer"));
            }
            *value as u64
        }
        Value::String(text) => {
            text.as_str().parse().map_err(|_| malformed(text.as_str(), "uint"))?
        }
        _ => return Err(Failure::no_such_overload()),
    };
    Ok(Value::Uint(value))
}

fn to_double<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let value = match &values[0] {
        Value::Double(value) => *value,
        Value::Int(value) => *value as f64,
        Value::Uint(value) => *value as f64,
        Value::String(text) => {
            text.as_str().parse().map_err(|_| malformed(text.as_str(), "double"))?
        }
        _ => return Err(Failure::no_such_overload()),
    };
    Ok(Value::Double(value))
}

fn to_bool<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match &values[0] {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::String(text) => match text.as_str() {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(Value::Bool(false)),
            other => Err(malformed(other, "bool")),
        },
        _ => Err(Failure::no_such_overload()),
    }
}

fn to_string<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match &values[0] {
        Value::String(text) => Ok(Value::String(text.clone())),
        Value::Bytes(bytes) => {
            fuel.burn(bytes.len() as u64)?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Value::text(text)),
                Err(_) => {
                    Err(Failure::evaluation("invalid UTF-8 in bytes, cannot convert to string"))
                }
            }
        }
        value @ (Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Timestamp(_)
        | Value::Duration(_)) => Ok(Value::text(show(value))),
        Value::Opaque(opaque) => match opaque.as_ref() {
            Opaque::Ip(address) => Ok(Value::text(address.to_string())),
            Opaque::Cidr(address, length) => Ok(Value::text(format!("{address}/{length}"))),
            _ => Err(Failure::no_such_overload()),
        },
        _ => Err(Failure::no_such_overload()),
    }
}

fn to_bytes<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match &values[0] {
        Value::Bytes(bytes) => Ok(Value::Bytes(Rc::clone(bytes))),
        Value::String(text) => {
            fuel.burn(text.as_str().len() as u64)?;
            Ok(Value::Bytes(text.as_str().as_bytes().into()))
        }
        _ => Err(Failure::no_such_overload()),
    }
}

fn encode<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Bytes(bytes)] = values else { return Err(Failure::no_such_overload()) };
    fuel.burn(bytes.len() as u64 * 2)?;
    Ok(Value::text(STANDARD.encode(bytes)))
}

fn decode<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = values else { return Err(Failure::no_such_overload()) };
    fuel.burn(text.as_str().len() as u64)?;
    let text = text.as_str();
    let decoded = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text));
    match decoded {
        Ok(bytes) => Ok(Value::Bytes(bytes.into())),
        Err(_) => Err(Failure::evaluation("illegal base64 data")),
    }
}

/// A double as Go prints it: whole numbers without a point.
pub(crate) fn show_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1.0e-4..1.0e21).contains(&magnitude) {
        let shown = format!("{value:e}");
        let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value}")
}

/// A scalar as a message shows it.
pub(crate) fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => show_double(*value),
        Value::String(text) => text.as_str().to_owned(),
        Value::Timestamp(time) => show_timestamp(*time),
        Value::Duration(nanoseconds) => show_duration(*nanoseconds),
        Value::Type(name) => name.to_string(),
        other => other.type_name().to_owned(),
    }
}
