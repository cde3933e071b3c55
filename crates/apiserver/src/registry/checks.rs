//! Checks that many kinds share.

use serde_json::Value;

use super::edit;
use super::field::Field;
use super::names::{self, Faults};
use crate::field_error::FieldError;

pub type Errors = Vec<FieldError>;

pub const NEGATIVE: &str = "must be greater than or equal to 0";
pub const NOT_POSITIVE: &str = "must be greater than zero";
pub const IMMUTABLE: &str = "field is immutable";

/// A text that must be one of a few.
pub fn one_of(field: &Field<'_>, supported: &[&str], errors: &mut Errors) {
    match field.as_text() {
        "" => errors.push(field.required("")),
        text if supported.contains(&text) => {}
        _ => errors.push(field.not_supported(supported)),
    }
}

/// A text that may be absent, and else must be one of a few.
pub fn absent_or_one_of(field: &Field<'_>, supported: &[&str], errors: &mut Errors) {
    if field.is_set() && !supported.contains(&field.as_text()) {
        errors.push(field.not_supported(supported));
    }
}

/// An invalid text for each fault of it.
pub fn faults(field: &Field<'_>, faults: impl IntoIterator<Item = String>, errors: &mut Errors) {
    errors.extend(faults.into_iter().map(|fault| field.invalid(fault)));
}

/// A text that must be there and keep a rule.
pub fn named(field: &Field<'_>, rule: fn(&str) -> Faults, errors: &mut Errors) {
    match field.as_text() {
        "" => errors.push(field.required("")),
        text => faults(field, rule(text), errors),
    }
}

/// A text that may be absent, and else must keep a rule.
pub fn absent_or_named(field: &Field<'_>, rule: fn(&str) -> Faults, errors: &mut Errors) {
    if !field.as_text().is_empty() {
        faults(field, rule(field.as_text()), errors);
    }
}

pub fn present(field: &Field<'_>, errors: &mut Errors) {
    if field.as_text().is_empty() {
        errors.push(field.required(""));
    }
}

pub fn non_negative(field: &Field<'_>, errors: &mut Errors) {
    if field.as_int().is_some_and(|value| value < 0) {
        errors.push(field.invalid(NEGATIVE));
    }
}

pub fn in_range(field: &Field<'_>, low: i64, high: i64, errors: &mut Errors) {
    if let Some(value) = field.as_int() {
        faults(field, names::in_range(value, low, high), errors);
    }
}

pub fn address(field: &Field<'_>, errors: &mut Errors) {
    faults(field, names::address(field.as_text()), errors);
}

pub fn cidr(field: &Field<'_>, errors: &mut Errors) {
    faults(field, names::cidr(field.as_text()), errors);
}

/// A port by number or by the name a container gave it.
pub fn port_number_or_name(field: &Field<'_>, errors: &mut Errors) {
    match field.value {
        Value::String(name) => faults(field, names::port_name(name), errors),
        Value::Number(number) => {
            faults(field, names::port_number(number.as_i64().unwrap_or(-1)), errors);
        }
        _ => errors.push(field.invalid_value(0, names::range(1, 65535))),
    }
}

/// A number or a percentage, neither below zero.
pub fn count_or_percent(field: &Field<'_>, errors: &mut Errors) {
    match field.value {
        Value::String(text) => faults(field, names::percent(text), errors),
        _ => non_negative(field, errors),
    }
}

/// A percentage must not go beyond the whole.
pub fn not_more_than_whole(field: &Field<'_>, errors: &mut Errors) {
    if percent_of(field.value).is_some_and(|percent| percent > 100) {
        errors.push(field.invalid("must not be greater than 100%"));
    }
}

/// The number before the percent sign.
pub fn percent_of(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('%')?.parse().ok()
}

/// Zero as a number or as a percentage.
pub fn is_zero(value: &Value) -> bool {
    value.as_i64() == Some(0) || percent_of(value) == Some(0)
}

/// A field that must stay what it was.
pub fn immutable(field: &Field<'_>, old: &Value, errors: &mut Errors) {
    if !edit::same(field.value, old) {
        errors.push(field.invalid(IMMUTABLE));
    }
}

/// Labels: a map of keys and values that both keep the rules of labels.
pub fn labels(field: &Field<'_>, errors: &mut Errors) {
    let Some(map) = field.value.as_object() else { return };
    for (key, value) in map {
        for fault in names::qualified_name(key) {
            errors.push(field.invalid_value(key.as_str(), fault));
        }
        let value = value.as_str().unwrap_or("");
        for fault in names::label_value(value) {
            errors.push(field.invalid_value(value, fault));
        }
    }
}

/// A name that selects: required and of a label key's form.
pub fn label_name(field: &Field<'_>, errors: &mut Errors) {
    faults(field, names::qualified_name(field.as_text()), errors);
}
