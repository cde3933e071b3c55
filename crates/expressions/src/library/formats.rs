//! Named formats: `format.dns1123Label().validate(text)` gives what is wrong, if anything.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/format.go

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::{Function, times};
use crate::value::{Opaque, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

/// A format by its name.
#[derive(Clone, Debug)]
pub struct Format {
    pub(crate) name: &'static str,
    /// What is wrong with a text.
    judge: fn(&str) -> Vec<String>,
}

const FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", judge: |text| label(text, 63, false) },
    Format { name: "dns1123Subdomain", judge: |text| subdomain(text, false) },
    Format { name: "dns1035Label", judge: |text| dns1035(text, false) },
    Format { name: "dns1123LabelPrefix", judge: |text| label(text, 63, true) },
    Format { name: "dns1123SubdomainPrefix", judge: |text| subdomain(text, true) },
    Format { name: "dns1035LabelPrefix", judge: |text| dns1035(text, true) },
    Format { name: "qualifiedName", judge: qualified_name },
    Format { name: "labelValue", judge: label_value },
    Format { name: "uri", judge: uri },
    Format { name: "uuid", judge: uuid },
    Format { name: "byte", judge: byte },
    Format { name: "date", judge: date },
    Format { name: "datetime", judge: datetime },
];

macro_rules! format {
    ($name:literal) => {
        Function {
            name: concat!("format.", $name),
            overloads: &[concat!("format.", $name, "() kubernetes.NamedFormat")],
            cost: Cost::One,
            call: |_, _| named($name).ok_or_else(Failure::no_such_overload),
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    format!("dns1123Label"),
    format!("dns1123Subdomain"),
    format!("dns1035Label"),
    format!("dns1123LabelPrefix"),
    format!("dns1123SubdomainPrefix"),
    format!("dns1035LabelPrefix"),
    format!("qualifiedName"),
    format!("labelValue"),
    format!("uri"),
    format!("uuid"),
    format!("byte"),
    format!("date"),
    format!("datetime"),
    Function {
        name: "format.named",
        overloads: &["format.named(string) optional(kubernetes.NamedFormat)"],
        cost: Cost::One,
        call: by_name,
    },
    Function {
        name: "validate",
        overloads: &["kubernetes.NamedFormat.validate(string) optional(list(string))"],
        cost: Cost::Validate,
        call: validate,
    },
];

fn named<'a>(name: &str) -> Option<Value<'a>> {
    let format = FORMATS.into_iter().find(|format| format.name == name)?;
    Some(Value::opaque(Opaque::Format(format)))
}

fn by_name<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let name = values[0].as_str().ok_or_else(Failure::no_such_overload)?;
    Ok(named(name).map_or(Value::Optional(None), Value::some))
}

fn validate<'a>(fuel: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (Some(Value::Opaque(opaque)), Some(Value::String(text))) = (values.first(), values.get(1))
    else {
        return Err(Failure::no_such_overload());
    };
    let Opaque::Format(format) = opaque.as_ref() else { return Err(Failure::no_such_overload()) };
    fuel.burn(text.as_str().len() as u64 * 4)?;
    let faults = (format.judge)(text.as_str());
    if faults.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(faults.into_iter().map(Value::text).collect())))
}

fn too_long(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| std::format!("must be no more than {max} bytes"))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Starts and ends well, and holds only what may stand between.
fn framed(text: &str, edge: fn(u8) -> bool, between: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| edge(*byte))
        && bytes.last().is_some_and(|byte| edge(*byte))
        && bytes.iter().all(|byte| edge(*byte) || between(*byte))
}

/// A prefix may end in a dash, because something follows it.
fn without_dash(text: &str, is_prefix: bool) -> String {
    match text.strip_suffix('-') {
        Some(rest) if is_prefix => std::format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn is_label(text: &str) -> bool {
    framed(text, is_lower, |byte| byte == b'-')
}

fn label(text: &str, max: usize, is_prefix: bool) -> Vec<String> {
    let text = without_dash(text, is_prefix);
    let shape = (!is_label(&text)).then(|| {
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
         must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
         used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    });
    too_long(&text, max).into_iter().chain(shape).collect()
}

fn subdomain(text: &str, is_prefix: bool) -> Vec<String> {
    let text = without_dash(text, is_prefix);
    let shape = (!text.split('.').all(is_label)).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
         characters, '-' or '.', and must start and end with an alphanumeric character \
         (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned()
    });
    too_long(&text, 253).into_iter().chain(shape).collect()
}

fn dns1035(text: &str, is_prefix: bool) -> Vec<String> {
    let text = without_dash(text, is_prefix);
    let fits = is_label(&text) && text.starts_with(|first: char| first.is_ascii_lowercase());
    let shape = (!fits).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
         alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
         'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    });
    too_long(&text, 63).into_iter().chain(shape).collect()
}

fn is_name(text: &str) -> bool {
    framed(text, |byte| byte.is_ascii_alphanumeric(), |byte| b"-_.".contains(&byte))
}

fn qualified_name(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let wrong = subdomain(prefix, false);
            faults.extend(wrong.iter().map(|fault| std::format!("prefix part {fault}")));
        }
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if let Some(fault) = too_long(name, 63) {
        faults.push(std::format!("name part {fault}"));
    }
    if !is_name(name) {
        faults.push(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
             regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        );
    }
    faults
}

fn label_value(text: &str) -> Vec<String> {
    let shape = (!text.is_empty() && !is_name(text)).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
         '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
         'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .to_owned()
    });
    too_long(text, 63).into_iter().chain(shape).collect()
}

fn unless(is_right: bool, fault: &str) -> Vec<String> {
    if is_right { Vec::new() } else { vec![fault.to_owned()] }
}

fn uri(text: &str) -> Vec<String> {
    unless(crate::library::urls::is_absolute(text), "invalid URI")
}

fn uuid(text: &str) -> Vec<String> {
    let dashes = [8, 13, 18, 23];
    let fits = text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| {
            if dashes.contains(&index) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        });
    unless(fits, "does not match the UUID format")
}

fn byte(text: &str) -> Vec<String> {
    use base64::Engine;
    unless(base64::engine::general_purpose::STANDARD.decode(text).is_ok(), "invalid base64")
}

fn date(text: &str) -> Vec<String> {
    unless(times::parse_date(text).is_some(), "invalid date")
}

fn datetime(text: &str) -> Vec<String> {
    unless(times::parse_timestamp(text).is_some(), "invalid datetime")
}
