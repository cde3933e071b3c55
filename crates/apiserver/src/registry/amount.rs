//! Quantities inside objects: how the rules of kinds read and compare them.

use serde_json::Value;

use super::checks::{self, Errors};
use super::field::Field;
use crate::quantity::Quantity;

/// The quantity at a place, if there is one that can be read.
pub fn read(value: &Value) -> Option<Quantity> {
    Quantity::read(value)
}

pub fn is_integer(quantity: &Quantity) -> bool {
    quantity.rounded_up(0) == *quantity
}

pub fn is_negative(value: &Value) -> bool {
    read(value).is_some_and(|it| it.is_negative())
}

pub fn is_positive(value: &Value) -> bool {
    read(value).is_some_and(|it| it > Quantity::ZERO)
}

pub fn non_negative(field: &Field<'_>, errors: &mut Errors) {
    if is_negative(field.value) {
        errors.push(field.invalid(checks::NEGATIVE));
    }
}

pub fn positive(field: &Field<'_>, errors: &mut Errors) {
    if !is_positive(field.value) {
        errors.push(field.invalid(checks::NOT_POSITIVE));
    }
}
