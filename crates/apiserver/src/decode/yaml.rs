//! YAML bodies, read as kubectl reads them: YAML 1.1 numbers and booleans, whole floats are
//! integers, merge keys are followed.
//!
//! The last value of a key given twice counts, and all such keys are named with their lines. Where
//! kubectl makes a boolean of the key `on`, the text is kept.
//!
//! Upstream: sigs.k8s.io/yaml

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Options, Spanned};

use super::{DEPTH_MAX, Error, PROBLEMS_MAX, Parsed};

/// The most nodes of a body, after aliases were replaced by what they stand for.
const NODES_MAX: usize = 400_000;
/// How many nodes aliases may add: the bound of a bomb.
const REPLAYED_MAX: usize = 200_000;
const ALIASES_MAX: usize = 10_000;
/// What the stack of any thread holds: a level of YAML takes kilobytes of it, and a stack that
/// overflows ends the process. What is deeper is read on a stack of its own.
const SHALLOW_MAX: usize = 40;
const DEEP_STACK_BYTES: usize = 32 << 20;

/// Reads one YAML document.
pub fn parse(body: &[u8]) -> Result<Parsed, Error> {
    let text = std::str::from_utf8(body).map_err(|error| {
        Error::Syntax(format!("yaml: invalid UTF-8 at byte {} of the body", error.valid_up_to()))
    })?;
    match parse_within(text, SHALLOW_MAX) {
        Ok(parsed) => Ok(parsed),
        // Too deep, or wrong anyway; neither happens often.
        Err(_) => parse_deep(text),
    }
}

fn parse_deep(text: &str) -> Result<Parsed, Error> {
    let unable = |_| Error::Syntax("yaml: could not be read".to_owned());
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES);
        let reading = thread.spawn_scoped(scope, || parse_within(text, DEPTH_MAX));
        reading.map_err(|error| Error::Syntax(format!("yaml: {error}")))?.join().map_err(unable)?
    })
}

fn parse_within(text: &str, depth_max: usize) -> Result<Parsed, Error> {
    // Lines of keys cost time, and few bodies have a key twice: only those are read again.
    match read(text, &Reading { depth_max, duplicates: None }, DuplicateKeyPolicy::Error) {
        Ok(value) => Ok(Parsed { value, duplicates: Vec::new() }),
        Err(error) if is_duplicate(&error) => parse_with_duplicates(text, &error, depth_max),
        Err(error) => Err(explain(&error)),
    }
}

fn parse_with_duplicates(
    text: &str,
    first: &serde_saphyr::Error,
    depth_max: usize,
) -> Result<Parsed, Error> {
    let reading = Reading { depth_max, duplicates: Some(RefCell::default()) };
    let value = read(text, &reading, DuplicateKeyPolicy::LastWins);
    let value = value.map_err(|error| explain(&error))?;
    let mut lines = reading.duplicates.map(RefCell::into_inner).unwrap_or_default();
    // Keys that are numbers are merged before they are seen.
    if let (true, serde_saphyr::Error::DuplicateMappingKey { key, location }) =
        (lines.is_empty(), first.without_snippet())
    {
        lines.push(duplicate(location.line(), key.as_deref().unwrap_or_default()));
    }
    let problem = format!("yaml: unmarshal errors:\n{}", lines.join("\n"));
    Ok(Parsed { value, duplicates: vec![problem] })
}

fn duplicate(line: u64, key: &str) -> String {
    format!("  line {line}: key {key:?} already set in map")
}

fn is_duplicate(error: &serde_saphyr::Error) -> bool {
    matches!(error.without_snippet(), serde_saphyr::Error::DuplicateMappingKey { .. })
}

/// In one line, and without the text around it.
fn explain(error: &serde_saphyr::Error) -> Error {
    let message = error.without_snippet().to_string();
    let message = message.lines().next().unwrap_or_default();
    Error::Syntax(format!("yaml: {message}"))
}

fn read(
    text: &str,
    reading: &Reading,
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<Value, serde_saphyr::Error> {
    let options = options(duplicate_keys, reading.depth_max);
    let seed = Node { reading, depth: 0 };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        seed.deserialize(deserializer)
    })
}

fn options(duplicate_keys: DuplicateKeyPolicy, depth_max: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
            max_depth: depth_max,
            flow_nesting_limit: depth_max,
            max_aliases: ALIASES_MAX,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPLAYED_MAX,
        },
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        strict_booleans: false,
        with_snippet: false,
    }
}

/// What is collected while a document is read.
struct Reading {
    depth_max: usize,
    /// A line for each key given twice; None if nobody asks.
    duplicates: Option<RefCell<Vec<String>>>,
}

/// A node of the document, to be read.
#[derive(Clone, Copy)]
struct Node<'a> {
    reading: &'a Reading,
    depth: usize,
}

impl Node<'_> {
    fn child<E: serde::de::Error>(&self) -> Result<Self, E> {
        match self.depth < self.reading.depth_max {
            true => Ok(Node { depth: self.depth + 1, ..*self }),
            false => Err(E::custom("exceeded max depth")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    /// JSON has one kind of number, and kubectl writes a whole one without a point.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
            return Ok((value as i64).into());
        }
        let number = Number::from_f64(value).map(Value::Number);
        number.ok_or_else(|| E::custom(format!("json: unsupported value: {value}")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let child = self.child()?;
        let mut list = Vec::new();
        while let Some(element) = sequence.next_element_seed(child)? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let child = self.child()?;
        let mut map = Map::new();
        match &self.reading.duplicates {
            None => {
                while let Some(Key(key)) = entries.next_key()? {
                    map.insert(key, entries.next_value_seed(child)?);
                }
            }
            Some(duplicates) => {
                while let Some(key) = entries.next_key::<Spanned<Key>>()? {
                    let line = key.referenced.line();
                    let Key(key) = key.value;
                    let mut duplicates = duplicates.borrow_mut();
                    if map.contains_key(&key) && duplicates.len() < PROBLEMS_MAX {
                        duplicates.push(duplicate(line, &key));
                    }
                    drop(duplicates);
                    map.insert(key, entries.next_value_seed(child)?);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// A key, which is text whatever it looks like.
struct Key(String);

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, value: &str) -> Result<Key, E> {
        Ok(Key(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Key, E> {
        Ok(Key(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn scalars_are_what_kubectl_reads() {
        let cases = [
            ("0644", json!(420)),
            ("0o644", json!(420)),
            ("0x1f", json!(31)),
            ("1_000", json!(1000)),
            ("yes", json!(true)),
            ("on", json!(true)),
            ("NO", json!(false)),
            ("off", json!(false)),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            ("1.5", json!(1.5)),
            ("~", json!(null)),
            ("null", json!(null)),
            ("", json!(null)),
            ("\"yes\"", json!("yes")),
            ("'1'", json!("1")),
            ("1.2.3", json!("1.2.3")),
            ("100Mi", json!("100Mi")),
            ("9223372036854775807", json!(i64::MAX)),
        ];
        for (text, expected) in cases {
            assert_eq!(value(&format!("a: {text}\n")), json!({"a": expected}), "{text}");
        }
    }

    #[test]
    fn documents_are_read_whole() {
        let text = "---\na: &x {b: 1}\nc:\n  <<: *x\n  d: [1, {e: f}]\n1: one\ntrue: two\n";
        let expected = json!({
            "a": {"b": 1}, "c": {"b": 1, "d": [1, {"e": "f"}]}, "1": "one", "true": "two"
        });
        assert_eq!(value(text), expected);
        assert_eq!(value("{\"a\": [1, \"x\\u00e9\"]}"), json!({"a": [1, "xé"]}));
        assert_eq!(value("a: |\n  b\n  c\n"), json!({"a": "b\nc\n"}));
    }

    #[test]
    fn keys_given_twice_are_named_with_their_lines_and_the_last_counts() {
        let parsed = parse(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
        let expected = "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  \
                        line 5: key \"a\" already set in map";
        assert_eq!(parsed.duplicates, [expected]);
        assert_eq!(parsed.value, json!({"a": 3, "b": {"c": 2}}));
    }

    #[test]
    fn bad_documents_are_refused() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned()
            + &(b'b'..=b'i')
                .map(|c| {
                    let (name, other) = (char::from(c), char::from(c - 1));
                    format!("{name}: &{name} [{}]\n", vec![format!("*{other}"); 10].join(","))
                })
                .collect::<String>();
        let deep = "[".repeat(DEPTH_MAX * 4);
        let deep_block: String =
            (0..DEPTH_MAX + 10).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        for text in ["a: [", "a: b: c", "\tx: 1\n y", "a: *b", "a: 1\n---\nb: 2\n", "a: .inf"]
            .into_iter()
            .map(str::to_owned)
            .chain([bomb, deep, deep_block])
        {
            let result = parse(text.as_bytes());
            let start: String = text.chars().take(40).collect();
            assert!(matches!(&result, Err(Error::Syntax(_))), "{start}: {result:?}");
        }
        assert!(parse(b"a: \xff").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-c0-9:\\-\\[\\]{}&*<>|,'\"# \n\t~?!]{0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}
