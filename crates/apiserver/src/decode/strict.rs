//! A value against its type: what is unknown is found and dropped, what has a wrong type is
//! refused, and the rest is written as Go's encoder writes it, all in place and in one pass.
//!
//! Objects and the tables of facts are both sorted by name, so that one walk joins them. Doing it
//! twice changes nothing.
//!
//! Upstream: sigs.k8s.io/json, encoding/json

use serde_json::{Map, Number, Value};

use super::path::Path;
use super::time::{self, Canonical, Precision};
use super::{ADDED_BYTES_MAX, CanonicalQuantity, Error, PROBLEMS_MAX, base64};
use crate::facts::{Field, Go, Shape, Type};

/// What was found on the way.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// The paths of fields that the type does not have: `spec.containers[0].nothing`.
    pub unknown: Vec<String>,
}

/// Makes a value what Go would write after it read it into the type.
pub fn normalise(
    value: &mut Value,
    of: &'static Type,
    quantity: CanonicalQuantity,
) -> Result<Decoded, Error> {
    let mut walk = Walk { quantity, unknown: Vec::new(), left: ADDED_BYTES_MAX };
    match value {
        Value::Object(map) => walk.object(map, of, &Path::ROOT)?,
        Value::Null => *value = zero_object(of),
        other => return Err(mismatch(other, &go_name_of(of), &Path::ROOT)),
    }
    Ok(Decoded { unknown: walk.unknown })
}

struct Walk {
    quantity: CanonicalQuantity,
    unknown: Vec<String>,
    /// How many bytes may still be added.
    left: usize,
}

impl Walk {
    fn object(
        &mut self,
        map: &mut Map<String, Value>,
        of: &'static Type,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        let mut fields = of.fields;
        let mut absent: Vec<&'static Field> = Vec::new();
        let mut failure = None;
        map.retain(|key, value| {
            if failure.is_some() {
                return true;
            }
            while let [field, rest @ ..] = fields
                && field.name < key.as_str()
            {
                fields = rest;
                if !field.omit {
                    absent.push(field);
                }
            }
            match fields {
                [field, rest @ ..] if field.name == key => {
                    fields = rest;
                    let kept = self.field(value, field, &path.field(of, field.name));
                    kept.unwrap_or_else(|error| {
                        failure = Some(error);
                        true
                    })
                }
                _ => {
                    if self.unknown.len() < PROBLEMS_MAX {
                        self.unknown.push(path.key(key).to_string());
                    }
                    false
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        absent.extend(fields.iter().filter(|field| !field.omit));
        for field in absent {
            self.add(field)?;
            map.insert(field.name.to_owned(), zero(field));
        }
        Ok(())
    }

    /// Takes about what a field costs that was not given.
    fn add(&mut self, field: &Field) -> Result<(), Error> {
        self.left = self.left.checked_sub(field.name.len() + 6).ok_or(Error::TooLarge)?;
        Ok(())
    }

    /// Whether the field is written at all.
    fn field(
        &mut self,
        value: &mut Value,
        field: &'static Field,
        path: &Path<'_>,
    ) -> Result<bool, Error> {
        if !value.is_null() {
            self.value(value, &field.shape, path)?;
        }
        // Also a time that turned out to be none.
        if value.is_null() {
            if !field.omit {
                *value = zero(field);
            }
            return Ok(!field.omit);
        }
        Ok(!(field.omit && field.go != Go::Pointer && is_empty(value)))
    }

    /// A value that is not null.
    fn value(
        &mut self,
        value: &mut Value,
        shape: &'static Shape,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        match (shape, &mut *value) {
            (Shape::String, Value::String(_)) | (Shape::Boolean, Value::Bool(_)) => Ok(()),
            (Shape::Object(of), Value::Object(map)) => self.object(map, of.get(), path),
            (Shape::List(element), Value::Array(list)) => self.list(list, element, path),
            (Shape::Map(element), Value::Object(map)) => self.map(map, element, path),
            (Shape::Integer32, Value::Number(number)) if is_int32(number) => Ok(()),
            (Shape::Integer64, Value::Number(number)) if number.is_i64() => Ok(()),
            (Shape::Double, Value::Number(number)) => {
                make_whole(number);
                Ok(())
            }
            (Shape::RawObject | Shape::FieldsV1 | Shape::Any, _) => Ok(()),
            (Shape::Bytes, Value::String(text)) => {
                if let std::borrow::Cow::Owned(clean) =
                    base64::canonical(text).map_err(Error::Type)?
                {
                    *text = clean;
                }
                Ok(())
            }
            (Shape::Time, Value::String(_)) => time(value, Precision::Seconds),
            (Shape::MicroTime, Value::String(_)) => time(value, Precision::Microseconds),
            (Shape::Quantity, _) => self.quantity(value),
            (Shape::IntOrString, other) => int_or_string(other),
            (Shape::SchemaOrArray(of), Value::Object(map))
            | (Shape::SchemaOrBool(of), Value::Object(map))
            | (Shape::SchemaOrStrings(of), Value::Object(map)) => self.object(map, of.get(), path),
            (Shape::SchemaOrBool(_), Value::Bool(_)) => Ok(()),
            (Shape::SchemaOrArray(of), Value::Array(list)) => {
                for (index, element) in list.iter_mut().enumerate() {
                    self.schema(element, of.get(), &path.index(index))?;
                }
                Ok(())
            }
            (Shape::SchemaOrStrings(_), Value::Array(list)) => self.list(list, &STRING, path),
            (Shape::Time | Shape::MicroTime, other) => Err(mismatch(other, "string", &Path::ROOT)),
            (shape, other) => Err(mismatch(other, &go_name(shape), path)),
        }
    }

    fn schema(
        &mut self,
        value: &mut Value,
        of: &'static Type,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        match value {
            Value::Object(map) => self.object(map, of, path),
            Value::Null => {
                *value = zero_object(of);
                Ok(())
            }
            other => Err(mismatch(other, &go_name_of(of), path)),
        }
    }

    fn list(
        &mut self,
        list: &mut [Value],
        shape: &'static Shape,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        for (index, element) in list.iter_mut().enumerate() {
            self.element(element, shape, &path.index(index))?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        map: &mut Map<String, Value>,
        shape: &'static Shape,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        for (key, element) in map {
            self.element(element, shape, &path.key(key))?;
        }
        Ok(())
    }

    /// An element of a list or map: where it is null, Go has the zero of its type.
    fn element(
        &mut self,
        element: &mut Value,
        shape: &'static Shape,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        if element.is_null() {
            *element = match shape {
                // Upstream stores these as empty bytes, and answers so from then on.
                Shape::Bytes => Value::String(String::new()),
                shape => {
                    if let Shape::Object(of) = shape {
                        let always = of.get().fields.iter().filter(|field| !field.omit);
                        always.into_iter().try_for_each(|field| self.add(field))?;
                    }
                    zero_of(shape)
                }
            };
            return Ok(());
        }
        self.value(element, shape, path)
    }

    fn quantity(&self, value: &mut Value) -> Result<(), Error> {
        let canonical = match &*value {
            Value::String(text) => (self.quantity)(text),
            Value::Number(number) => (self.quantity)(&number.to_string()),
            _ => None,
        };
        let Some(canonical) = canonical else {
            let problem = "quantities must match the regular expression \
                           '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
            return Err(Error::Type(problem.to_owned()));
        };
        if value.as_str() != Some(&canonical) {
            *value = Value::String(canonical);
        }
        Ok(())
    }
}

static STRING: Shape = Shape::String;

fn time(value: &mut Value, precision: Precision) -> Result<(), Error> {
    let text = value.as_str().unwrap_or_default();
    match time::canonical(text, precision).map_err(Error::Type)? {
        Canonical::Same => {}
        Canonical::Zero => *value = Value::Null,
        Canonical::Text(text) => *value = Value::String(text),
    }
    Ok(())
}

fn int_or_string(value: &Value) -> Result<(), Error> {
    match value {
        Value::String(_) => Ok(()),
        Value::Number(number) if is_int32(number) => Ok(()),
        other => Err(mismatch(other, "int32", &Path::ROOT)),
    }
}

fn is_int32(number: &Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// Go writes a float without a fraction as an integer, up to where it changes to exponents.
fn make_whole(number: &mut Number) {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if let Some(float) = number.as_f64().filter(|_| number.is_f64())
        && float.fract() == 0.0
        && float.abs() <= EXACT_MAX
    {
        *number = Number::from(float as i64);
    }
}

/// What Go's `omitempty` leaves out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// What Go writes for a field to which nothing was given.
fn zero(field: &Field) -> Value {
    match field.go {
        Go::Value => zero_of(&field.shape),
        Go::Pointer | Go::Slice | Go::Map => Value::Null,
    }
}

fn zero_of(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::String(String::new()),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Integer32 | Shape::Integer64 | Shape::Double | Shape::IntOrString => Value::from(0),
        Shape::Boolean => Value::Bool(false),
        Shape::Object(of) => zero_object(of.get()),
        _ => Value::Null,
    }
}

fn zero_object(of: &Type) -> Value {
    let always = of.fields.iter().filter(|field| !field.omit);
    Value::Object(always.map(|field| (field.name.to_owned(), zero(field))).collect())
}

/// What Go's decoder says of a value that does not fit.
fn mismatch(value: &Value, wanted: &str, path: &Path<'_>) -> Error {
    let given = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        // The digits are said only where a number was wanted.
        Value::Number(number) if wanted.starts_with("int") => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    let place = match path.in_go() {
        Some(place) => format!("struct field {place}"),
        None => "value".to_owned(),
    };
    Error::Type(format!("json: cannot unmarshal {given} into Go {place} of type {wanted}"))
}

/// What Go calls the type of a shape, as far as the facts tell: types that are strings by another
/// name are called strings.
fn go_name(shape: &Shape) -> String {
    match shape {
        Shape::String | Shape::Time | Shape::MicroTime => "string".to_owned(),
        Shape::Integer32 | Shape::IntOrString => "int32".to_owned(),
        Shape::Integer64 => "int64".to_owned(),
        Shape::Double => "float64".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::RawObject => "runtime.RawExtension".to_owned(),
        Shape::FieldsV1 => "v1.FieldsV1".to_owned(),
        Shape::Any => "v1.JSON".to_owned(),
        Shape::SchemaOrArray(_) => "v1.JSONSchemaPropsOrArray".to_owned(),
        Shape::SchemaOrBool(_) => "v1.JSONSchemaPropsOrBool".to_owned(),
        Shape::SchemaOrStrings(_) => "v1.JSONSchemaPropsOrStringArray".to_owned(),
        Shape::Object(of) => go_name_of(of.get()),
        Shape::List(element) => format!("[]{}", go_name(element)),
        Shape::Map(element) => format!("map[string]{}", go_name(element)),
    }
}

/// `v1.Deployment`: the last two parts of the name.
fn go_name_of(of: &Type) -> String {
    let mut parts = of.name.rsplitn(3, '.');
    let name = parts.next().unwrap_or_default();
    format!("{}.{name}", parts.next().unwrap_or_default())
}
