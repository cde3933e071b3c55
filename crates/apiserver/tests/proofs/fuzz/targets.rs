//! What reads, and what must hold of it: nothing swells, and what is accepted is read again as it
//! was.

use apiserver::decode::{self, DEPTH_MAX, Format, json, yaml};
use apiserver::facts::{self, Type};
use apiserver::patch;
use apiserver::quantity::{self, Quantity};
use apiserver::request::options::Options;
use apiserver::request::path::{self, Path, Target as Asked};
use apiserver::selectors::{fields, labels};
use serde_json::Value;

use super::corpus;

pub struct Target {
    pub name: &'static str,
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// What is put into inputs.
    pub words: &'static [&'static str],
    /// An error says what does not hold.
    pub check: fn(&[u8]) -> Result<(), String>,
}

pub static TARGETS: [Target; 8] = [
    Target { name: "json", corpus: corpus::json, words: JSON_WORDS, check: check_json },
    Target { name: "yaml", corpus: corpus::yaml, words: YAML_WORDS, check: check_yaml },
    Target { name: "protobuf", corpus: corpus::protobuf, words: WIRE_WORDS, check: check_protobuf },
    Target { name: "patch", corpus: corpus::patch, words: PATCH_WORDS, check: check_patch },
    Target { name: "label", corpus: corpus::label, words: LABEL_WORDS, check: check_label },
    Target { name: "field", corpus: corpus::field, words: FIELD_WORDS, check: check_field },
    Target { name: "url", corpus: corpus::url, words: URL_WORDS, check: check_url },
    Target { name: "quantity", corpus: corpus::quantity, words: DIGITS, check: check_quantity },
];

const JSON_WORDS: &[&str] = &[
    "null",
    "true",
    "1e999",
    "-0",
    "\"\\ud83d\"",
    "\\u0000",
    "[[[[[[[[",
    "{\"a\":",
    "spec",
    "9e-9",
    "\"2030-01-01T00:00:00.123456789+23:59\"",
    "containers",
    "\"1Ei\"",
    "metadata",
    "\u{feff}",
];
const YAML_WORDS: &[&str] = &[
    "&a ",
    "*a",
    "<<: ",
    "!!",
    "|2-\n",
    ">+\n",
    "---\n",
    "? ",
    "- ",
    "\n  ",
    "'",
    "{a: b}",
    "~",
    ".nan",
    "0x",
    "%YAML 1.2\n",
    "\t",
    "\u{85}",
    "# c\n",
    "[[[[[[[[",
    "12:30:45",
    "2001-01-01",
];
const WIRE_WORDS: &[&str] = &[
    "\u{0}",
    "\u{1}",
    "\n\u{2}",
    "\u{12}\u{4}",
    "\u{1a}",
    "\u{7f}",
    "k8s\u{0}",
    "\u{8}\u{1}",
    "\t",
];
const PATCH_WORDS: &[&str] = &[
    "\"$patch\":\"delete\",",
    "\"$patch\":\"replace\",",
    "\"$retainKeys\":[\"a\"],",
    "null",
    "/-",
    "\"$setElementOrder/env\":[{\"name\":\"A\"}],",
    "\"$deleteFromPrimitiveList/args\":[1],",
    "/~01",
    "-1",
    "99999999999999999999",
    "\"op\":\"copy\",",
    "[]",
    "{}",
    "\n",
    "/spec/containers",
];
const LABEL_WORDS: &[&str] = &[
    "in",
    "notin",
    "(",
    ")",
    ",",
    "!",
    "=",
    "==",
    "!=",
    ">",
    "<",
    " ",
    "a/b",
    "9223372036854775808",
];
const FIELD_WORDS: &[&str] =
    &["\\", "\\,", "\\=", "=", "==", "!=", ",", "metadata.name", "status.podIPs", " ", "!"];
const URL_WORDS: &[&str] = &[
    "/",
    "//",
    "..",
    "%2e%2e",
    "%2f",
    "%00",
    "%",
    "%ff",
    "?",
    "&",
    "=",
    "+",
    "api",
    "apis",
    "v1",
    "namespaces",
    "watch=true",
    "continue=",
    "resourceVersion=0",
    "limit=-1",
    "sendInitialEvents=1",
    "resourceVersionMatch=NotOlderThan",
    "status",
    "finalize",
    "proxy",
];
const DIGITS: &[&str] = &[
    "0",
    "9",
    "Ei",
    "E",
    "e",
    "m",
    "n",
    "u",
    "k",
    "Ki",
    ".",
    "-",
    "+",
    "e-2147483648",
    "e99",
    "000",
];

/// How much larger what was read may be than what it was read from.
const SWELL: usize = 8;
const SWELL_BASE: usize = 16 << 10;
/// What aliases can make of a small body.
const ALIASED_BYTES_MAX: usize = 32 << 20;
const QUANTITY_BYTES_MAX: usize = 64;

fn pod() -> &'static Type {
    facts::kind("", "v1", "pods").unwrap().type_id.get()
}

fn canonical(text: &str) -> Option<String> {
    quantity::rewritten(text).ok()
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// What was accepted as an object is accepted as it is written, without complaint and unchanged.
fn check_object(input: &[u8], format: Format) -> Result<(), String> {
    let Ok(object) = decode::object(input, format, pod(), canonical) else { return Ok(()) };
    let text = object.value.to_string();
    let most = SWELL * input.len() + SWELL_BASE;
    let aliased = format == Format::Yaml && text.len() < ALIASED_BYTES_MAX;
    expect(text.len() < most || aliased, || format!("grew to {} bytes", text.len()))?;
    let again = decode::object(text.as_bytes(), Format::Json, pod(), canonical);
    let again = again.map_err(|error| format!("{text} is refused: {error}"))?;
    expect(again.problems.is_empty(), || format!("{text}: {:?}", again.problems))?;
    expect(again.value == object.value, || format!("{text} became {}", again.value))
}

fn check_json(input: &[u8]) -> Result<(), String> {
    if let Ok(parsed) = json::parse(input) {
        let text = parsed.value.to_string();
        expect(text.len() < SWELL * input.len() + SWELL_BASE, || format!("{}", text.len()))?;
        let again = json::parse(text.as_bytes()).map_err(|error| format!("{text}: {error}"))?;
        expect(again.value == parsed.value, || format!("{text} became {}", again.value))?;
        expect(again.duplicates.is_empty(), || format!("{:?}", again.duplicates))?;
    }
    check_object(input, Format::Json)
}

fn check_yaml(input: &[u8]) -> Result<(), String> {
    if let Ok(parsed) = yaml::parse(input) {
        let text = parsed.value.to_string();
        expect(text.len() < ALIASED_BYTES_MAX, || format!("grew to {} bytes", text.len()))?;
        let again = json::parse(text.as_bytes()).map_err(|error| format!("{text}: {error}"))?;
        expect(again.value == parsed.value, || format!("{text} became {}", again.value))?;
    }
    check_object(input, Format::Yaml)
}

fn check_protobuf(input: &[u8]) -> Result<(), String> {
    check_object(input, Format::Protobuf)
}

fn check_patch(input: &[u8]) -> Result<(), String> {
    let Some(at) = input.iter().position(|byte| *byte == b'\n') else { return Ok(()) };
    let (object, patch) = (json::parse(&input[..at]), json::parse(&input[at + 1..]));
    let (Ok(object), Ok(patch)) = (object, patch) else { return Ok(()) };
    let (object, patch) = (object.value, patch.value);
    let bound = SWELL * input.len() + SWELL_BASE + patch::json::COPIED_BYTES_MAX;
    let check = |what: &str, result: &Value| {
        let text = result.to_string();
        expect(text.len() < bound, || format!("{what} grew to {} bytes", text.len()))?;
        expect(depth_of(result) <= DEPTH_MAX, || format!("{what} is too deep"))
    };
    let mut patched = object.clone();
    if patch::json::apply(&mut patched, &patch).is_ok() {
        check("a JSON patch", &patched)?;
    }
    let mut patched = object.clone();
    if patch::merge::apply(&mut patched, patch.clone()).is_ok() {
        check("a merge patch", &patched)?;
        let mut twice = patched.clone();
        let _ = patch::merge::apply(&mut twice, patch.clone());
        expect(twice == patched, || format!("twice is {twice}, once {patched}"))?;
    }
    let mut patched = object;
    if patch::strategic::apply(&mut patched, patch, pod()).is_ok() {
        check("a strategic patch", &patched)?;
    }
    Ok(())
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

fn check_label(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    let Ok(selector) = labels::parse(text) else { return Ok(()) };
    let written = selector.to_string();
    expect(written.len() <= SWELL * text.len() + SWELL_BASE, || written.clone())?;
    let again = labels::parse(&written).map_err(|error| format!("{written:?}: {error:?}"))?;
    expect(again.to_string() == written, || format!("{written:?} became {again}"))?;
    for value in [None, Some(""), Some("a"), Some("5")] {
        let (first, second) = (selector.matches(|_| value), again.matches(|_| value));
        expect(first == second, || format!("{written:?} and {value:?}"))?;
    }
    Ok(())
}

fn check_field(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    let Ok(selector) = fields::parse(text) else { return Ok(()) };
    let written = selector.to_string();
    let again = fields::parse(&written).map_err(|error| format!("{written:?}: {error:?}"))?;
    // Their order is by what was written, with one equals sign or two.
    let sorted = |selector: &fields::Selector| {
        let mut terms: Vec<String> =
            selector.terms.iter().map(|term| format!("{term:?}")).collect();
        terms.sort();
        terms
    };
    expect(sorted(&again) == sorted(&selector), || format!("{written:?} became {again}"))?;
    let _ = selector.for_kind("", "Pod");
    Ok(())
}

fn check_url(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Path::Resource(asked) = path::parse(path) {
        let written = written(&asked);
        expect(path::parse(&written) == Path::Resource(asked), || format!("{written:?}"))?;
    }
    if let Ok(options) = Options::parse(query) {
        let _ = options.freshness_of_list();
        let size: usize = options.all.iter().map(|(name, value)| name.len() + value.len()).sum();
        expect(size <= query.len(), || format!("options of {size} bytes"))?;
    }
    Ok(())
}

/// The path that asks for this.
fn written(asked: &Asked) -> String {
    let prefix = if asked.group.is_empty() { "/api".to_owned() } else { escaped(&asked.group) };
    let of_group = if asked.group.is_empty() { prefix } else { format!("/apis/{prefix}") };
    let mut path = format!("{of_group}/{}", escaped(&asked.version));
    let is_itself = asked.resource == "namespaces" && asked.group.is_empty();
    if !asked.namespace.is_empty() && !is_itself {
        path += &format!("/namespaces/{}", escaped(&asked.namespace));
    }
    for part in [&asked.resource, &asked.name, &asked.subresource] {
        if !part.is_empty() {
            path += &format!("/{}", escaped(part));
        }
    }
    if asked.is_proxied() && !asked.rest.is_empty() {
        // Somebody else's path, which is passed on as it is.
        return format!("{path}/{}", asked.rest);
    }
    for part in asked.rest.split('/').filter(|part| !part.is_empty()) {
        path += &format!("/{}", escaped(part));
    }
    path
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn check_quantity(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    let Ok(amount) = Quantity::parse(text) else { return Ok(()) };
    let written = amount.to_string();
    expect(written.len() <= QUANTITY_BYTES_MAX, || format!("{} bytes", written.len()))?;
    let again = Quantity::parse(&written).map_err(|error| format!("{written:?}: {error}"))?;
    expect(again == amount, || format!("{written:?} became {again}"))?;
    expect(again.to_string() == written, || format!("{written:?} became {again}"))?;
    let _ = (amount.value(), amount.milli_value(), amount.rounded_up(-3), amount.times(-7));
    let _ = (amount.plus(&Quantity::from_milli(1)), amount.minus(&amount).is_zero());
    let _ = quantity::rewritten(text);
    expect(amount.cmp(&again).is_eq(), || "an amount differs from itself".to_owned())
}
