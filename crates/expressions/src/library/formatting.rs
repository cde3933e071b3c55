//! `format.format([...])`: text with places for values.
//!
//! Upstream: github.com/google/cel-go ext/formatting.go

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::library::conversions::{show, show_double};
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, Failure>;

/// The most digits after the point.
const PRECISION_MAX: usize = 100;

pub(crate) const FUNCTIONS: &[Function] = &[Function {
    name: "format",
    overloads: &["string.format(list(dyn)) string"],
    cost: Cost::Format,
    call: format_text,
}];

fn format_text<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(template), Value::List(list)] = values else {
        return Err(Failure::no_such_overload());
    };
    let template = template.as_str();
    let mut out = String::new();
    let mut next = 0;
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = precision(rest)?;
        let Some(verb) = after.chars().next() else {
            return Err(Failure::evaluation("unexpected end of string"));
        };
        rest = &after[verb.len_utf8()..];
        let Some(value) = list.get(next) else {
            return Err(Failure::evaluation(format!("index {next} out of range")));
        };
        next += 1;
        clause(fuel, verb, precision, &value?, &mut out)?;
    }
    out.push_str(rest);
    fuel.burn(out.len() as u64)?;
    Ok(Value::text(out))
}

fn precision(text: &str) -> Result<(usize, &str), Failure> {
    let Some(after) = text.strip_prefix('.') else { return Ok((6, text)) };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    match after[..digits].parse::<usize>() {
        Ok(precision) if precision <= PRECISION_MAX => Ok((precision, &after[digits..])),
        _ => Err(Failure::evaluation("could not parse format precision")),
    }
}

fn clause(
    fuel: &mut Fuel,
    verb: char,
    precision: usize,
    value: &Value<'_>,
    out: &mut String,
) -> Result<(), Failure> {
    let unfit = |wanted: &str| {
        let found = value.type_name();
        Failure::evaluation(format!("error during formatting: {wanted}, was given {found}"))
    };
    match (verb, value) {
        ('s', value) => write_value(fuel, value, out)?,
        ('d', Value::Int(value)) => out.push_str(&value.to_string()),
        ('d', Value::Uint(value)) => out.push_str(&value.to_string()),
        ('d', _) => return Err(unfit("decimal clause can only be used on integers")),
        ('f', Value::Double(value)) if value.is_finite() => {
            out.push_str(&format!("{value:.precision$}"));
        }
        ('f' | 'e', Value::Double(value)) if !value.is_finite() => {
            out.push_str(&show_double(*value));
        }
        ('f', _) => return Err(unfit("fixed-point clause can only be used on doubles")),
        ('e', Value::Double(value)) => out.push_str(&scientific(*value, precision)),
        ('e', _) => return Err(unfit("scientific clause can only be used on doubles")),
        ('b', Value::Int(value)) => signed(out, *value, |value| format!("{value:b}")),
        ('b', Value::Uint(value)) => out.push_str(&format!("{value:b}")),
        ('b', Value::Bool(value)) => out.push(if *value { '1' } else { '0' }),
        ('b', _) => return Err(unfit("only integers and bools can be formatted as binary")),
        ('o', Value::Int(value)) => signed(out, *value, |value| format!("{value:o}")),
        ('o', Value::Uint(value)) => out.push_str(&format!("{value:o}")),
        ('o', _) => return Err(unfit("octal clause can only be used on integers")),
        ('x', Value::Int(value)) => signed(out, *value, |value| format!("{value:x}")),
        ('X', Value::Int(value)) => signed(out, *value, |value| format!("{value:X}")),
        ('x', Value::Uint(value)) => out.push_str(&format!("{value:x}")),
        ('X', Value::Uint(value)) => out.push_str(&format!("{value:X}")),
        ('x' | 'X', Value::String(text)) => hexadecimal(fuel, text.as_str().as_bytes(), verb, out)?,
        ('x' | 'X', Value::Bytes(bytes)) => hexadecimal(fuel, bytes, verb, out)?,
        ('x' | 'X', _) => {
            return Err(unfit("only integers, byte buffers, and strings can be formatted as hex"));
        }
        _ => {
            let message = format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            );
            return Err(Failure::evaluation(message));
        }
    }
    Ok(())
}

fn signed(out: &mut String, value: i64, write: fn(u64) -> String) {
    if value < 0 {
        out.push('-');
    }
    out.push_str(&write(value.unsigned_abs()));
}

fn hexadecimal(fuel: &mut Fuel, bytes: &[u8], verb: char, out: &mut String) -> Result<(), Failure> {
    fuel.burn(bytes.len() as u64 * 4)?;
    for byte in bytes {
        out.push_str(&if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
    }
    Ok(())
}

/// Two digits of exponent at least.
fn scientific(value: f64, precision: usize) -> String {
    let shown = format!("{value:.precision$e}");
    let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Any value; lists and maps with what they hold.
fn write_value(fuel: &mut Fuel, value: &Value<'_>, out: &mut String) -> Result<(), Failure> {
    fuel.burn(8)?;
    match value {
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_value(fuel, &item?, out)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (index, key) in map.keys().iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_value(fuel, key, out)?;
                out.push_str(": ");
                let Some(value) = map.get(key) else { continue };
                write_value(fuel, &value?, out)?;
            }
            out.push('}');
        }
        Value::Bytes(bytes) => {
            fuel.burn(bytes.len() as u64)?;
            out.push_str(&String::from_utf8_lossy(bytes));
        }
        Value::Optional(_) | Value::Opaque(_) => {
            let found = value.type_name();
            let message = format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, \
                 ints, doubles, maps, lists, types, durations, and timestamps, was given {found}"
            );
            return Err(Failure::evaluation(message));
        }
        other => {
            let shown = show(other);
            fuel.burn(shown.len() as u64)?;
            out.push_str(&shown);
        }
    }
    Ok(())
}
