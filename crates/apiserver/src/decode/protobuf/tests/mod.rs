//! Bytes in, objects out: those of every kind there and back, and bytes that mean harm.

mod encoder;

use proptest::prelude::*;
use serde_json::{Value, json};

use self::encoder::{encode, number, run, varint};
use super::message::DEPTH_MAX;
use super::*;
use crate::decode::{self, Format, Object, strict};
use crate::facts::{self, Field, Shape};
use crate::quantity;

fn canonical(text: &str) -> Option<String> {
    quantity::rewritten(text).ok()
}

fn type_of(short: &str) -> &'static Type {
    facts::type_by_name(&format!("io.k8s.api.{short}")).unwrap()
}

fn read(short: &str, raw: &[u8]) -> Result<Value, Error> {
    let body = [b"k8s\0".to_vec(), run(2, raw)].concat();
    decode::object(&body, Format::Protobuf, type_of(short), canonical).map(|object| object.value)
}

#[track_caller]
fn check(short: &str, raw: &[&[u8]], expected: Value) {
    assert_eq!(read(short, &raw.concat()).unwrap(), expected);
}

#[track_caller]
fn check_refused(short: &str, raw: &[u8], expected: &str) {
    match read(short, raw) {
        Err(Error::Syntax(text)) => assert_eq!(text, expected),
        other => panic!("{other:?}"),
    }
}

/// What client-go sends for a ConfigMap: fields that are values are there though they are empty.
#[test]
fn a_config_map_is_what_its_json_is() {
    let meta = [run(1, b"a"), run(2, b""), run(3, b"default"), run(6, b""), run(8, b"")];
    let meta = [meta.concat(), number(7, 0), run(11, &[run(1, b"k"), run(2, b"v")].concat())];
    let data = [run(1, b"key"), run(2, b"value")].concat();
    let raw =
        [run(1, &meta.concat()), run(2, &data), run(3, &[run(1, b"b"), run(2, b"\xff")].concat())];
    let type_meta = [run(1, b"v1"), run(2, b"ConfigMap")].concat();
    let body = [b"k8s\0".to_vec(), run(1, &type_meta), run(2, &raw.concat())].concat();
    let Object { value, problems } =
        decode::object(&body, Format::Protobuf, type_of("core.v1.ConfigMap"), canonical).unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "labels": {"k": "v"}},
        "data": {"key": "value"}, "binaryData": {"b": "/w=="}});
    assert_eq!(value, expected);
    assert!(problems.is_empty());
}

#[test]
fn inlined_structs_are_not_seen() {
    let source = run(2, &run(2, &run(1, b"Memory")));
    let spec = run(1, &[run(1, b"v"), source].concat());
    let value = read("core.v1.Pod", &run(2, &spec)).unwrap();
    assert_eq!(value["spec"]["volumes"], json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]));
    check(
        "admissionregistration.v1.NamedRuleWithOperations",
        &[&run(1, b"n"), &run(2, &[run(1, b"CREATE"), run(2, &run(3, b"pods"))].concat())],
        json!({"resourceNames": ["n"], "operations": ["CREATE"], "resources": ["pods"]}),
    );
}

#[test]
fn special_messages_are_written_as_json_has_them() {
    let port = |raw: &[u8]| read("core.v1.HTTPGetAction", &run(2, raw)).unwrap()["port"].clone();
    assert_eq!(port(&[number(1, 0), number(2, 80), run(3, b"")].concat()), json!(80));
    assert_eq!(port(&[number(1, 1), number(2, 0), run(3, b"web")].concat()), json!("web"));
    assert_eq!(port(&number(2, -1_i64 as u64)), json!(-1));

    let entry = |raw: &[u8]| run(1, &[run(1, b"cpu"), run(2, raw)].concat());
    let limit = |raw: &[u8]| {
        read("core.v1.ResourceRequirements", &entry(raw)).unwrap()["limits"]["cpu"].clone()
    };
    assert_eq!(limit(&run(1, b"1000m")), json!("1"));
    assert_eq!(limit(b""), json!("0"));

    let created = |raw: &[u8]| {
        let value = read("core.v1.ConfigMap", &run(1, &run(8, raw))).unwrap();
        value["metadata"]["creationTimestamp"].clone()
    };
    assert_eq!(created(b""), Value::Null);
    assert_eq!(created(&[number(1, 0), number(2, 0)].concat()), json!("1970-01-01T00:00:00Z"));
    assert_eq!(
        created(&[number(1, 1_709_251_199), number(2, 999_999_999)].concat()),
        json!("2024-02-29T23:59:59Z")
    );
    let renewed = |raw: &[u8]| {
        read("coordination.v1.Lease", &run(2, &run(4, raw))).unwrap()["spec"]["renewTime"].clone()
    };
    let raw = [number(1, 1_709_251_199), number(2, 123_456_789)].concat();
    assert_eq!(renewed(&raw), json!("2024-02-29T23:59:59.123456Z"));
    assert_eq!(renewed(b""), Value::Null);

    let data = |raw: &[u8]| read("apps.v1.ControllerRevision", &run(2, &run(1, raw))).unwrap();
    assert_eq!(data(br#"{"a":[1,null]}"#)["data"], json!({"a": [1, null]}));
    let extra = run(6, &[run(1, b"k"), run(2, &[run(1, b"x"), run(1, b"y")].concat())].concat());
    let request = read("certificates.v1.CertificateSigningRequestSpec", &extra).unwrap();
    assert_eq!(request["extra"], json!({"k": ["x", "y"]}));
}

#[test]
fn numbers_may_be_packed_and_messages_may_come_in_parts() {
    let groups = |raw: &[&[u8]]| {
        read("core.v1.PodSecurityContext", &raw.concat()).unwrap()["supplementalGroups"].clone()
    };
    assert_eq!(groups(&[&number(4, 1), &number(4, 300)]), json!([1, 300]));
    assert_eq!(groups(&[&run(4, b"\x01\xac\x02"), &number(4, 5)]), json!([1, 300, 5]));
    check(
        "core.v1.ConfigMap",
        &[&run(1, &run(1, b"a")), &run(1, &run(3, b"b")), &run(1, &run(1, b"c"))],
        json!({"metadata": {"name": "c", "namespace": "b"}}),
    );
}

#[test]
fn numbers_that_are_not_known_are_skipped() {
    let group = b"\xa3\x06\x08\x01\xa3\x06\x12\x01a\xa4\x06\xa4\x06";
    let fixed = b"\xa1\x0612345678\xa5\x061234";
    let large = [varint(80_000 << 3), varint(1)].concat();
    let unknown = [&number(99, 5), &run(100, b"x"), &group[..], &fixed[..]].concat();
    check(
        "core.v1.ConfigMap",
        &[&unknown, &run(1, &[unknown.clone(), run(1, b"a")].concat()), &large],
        json!({"metadata": {"name": "a"}}),
    );
}

#[test]
fn broken_bytes_are_refused_with_a_reason() {
    let within = |problem: &str| format!("invalid protobuf in ConfigMap: {problem}");
    let cases: &[(&[u8], &str)] = &[
        (b"\x0a", "a number is cut off"),
        (b"\x80", "a number is cut off"),
        (b"\x0a\x05abc", "a field of 5 bytes has only 3"),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "a field of 18446744073709551615 bytes has only 0",
        ),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a number is longer than ten bytes"),
        (b"\x08\x01", "field 1 has wire type Varint, not Bytes"),
        (b"\x22\x01a", "field 4 has wire type Bytes, not Varint"),
        (b"\x02\x00", "a field has the number 0"),
        (b"\x0f", "there is no wire type 7"),
        (b"\xa4\x06", "a group ends that did not begin"),
        (b"\xa3\x06", "a group does not end"),
    ];
    for (raw, problem) in cases {
        check_refused("core.v1.ConfigMap", raw, &within(problem));
    }
    let name = run(1, &run(1, b"\xff"));
    let text = "invalid protobuf in ObjectMeta: field 1 is not UTF-8";
    check_refused("core.v1.ConfigMap", &name, text);
    let text = "invalid protobuf in IntOrString: there is no type 2";
    check_refused("core.v1.HTTPGetAction", &run(2, &number(1, 2)), text);
    let text = "invalid protobuf in Time: the year is out of range";
    check_refused("core.v1.ConfigMap", &run(1, &run(8, &number(1, 1 << 50))), text);
}

#[test]
fn envelopes_are_checked() {
    let of = type_of("core.v1.ConfigMap");
    let text = |body: &[u8]| parse(body, of).unwrap_err().to_string();
    assert!(text(b"").starts_with("the body does not begin as protobuf"));
    assert!(text(b"{}").starts_with("the body does not begin as protobuf"));
    let kind = [b"k8s\0".to_vec(), run(1, &run(2, b"Pod"))].concat();
    assert_eq!(text(&kind), "the body is of kind \"Pod\"");
    let packed = [b"k8s\0".to_vec(), run(3, b"gzip")].concat();
    assert_eq!(text(&packed), "the content encoding \"gzip\" is not supported");
    assert_eq!(parse(b"k8s\0", of).unwrap(), json!({}));
}

#[test]
fn depth_is_limited() {
    let of = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let of = facts::type_by_name(of).unwrap();
    let not = of.field("not").unwrap().pb;
    let nested = |depth: usize| (1..depth).fold(Vec::new(), |inner, _| run(not, &inner));
    let body = |depth| [b"k8s\0".to_vec(), run(2, &nested(depth))].concat();
    assert!(parse(&body(DEPTH_MAX), of).is_ok());
    let refused = Err(Error::Syntax("exceeded max depth".to_owned()));
    assert_eq!(parse(&body(DEPTH_MAX + 1), of), refused);
    assert_eq!(parse(&body(10_000), of), refused);

    let default = of.field("default").unwrap().pb;
    let most = decode::DEPTH_MAX - 1;
    let lists = [vec![b'['; most], vec![b']'; most]].concat();
    let body = |json: &[u8]| [b"k8s\0".to_vec(), run(2, &run(default, &run(1, json)))].concat();
    assert!(parse(&body(&lists), of).is_ok());
    let deeper = [b"[", &lists[..], b"]"].concat();
    assert_eq!(parse(&body(&deeper), of), refused);
}

/// A source of choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn text(&mut self) -> String {
        let length = self.below(4);
        (0..length).map(|_| ['a', 'é', '/', '0', '"'][self.below(5) as usize]).collect()
    }

    fn object(&mut self, of: &'static Type, depth: u64) -> Value {
        // What is of the envelope is not in messages, not even where a kind is within another.
        let is_there =
            |choices: &mut Choices, field: &Field| field.pb > 0 && choices.below(depth + 2) == 0;
        let fields: Vec<_> = of.fields.iter().filter(|field| is_there(self, field)).collect();
        let mut value =
            |field: &'static Field| (field.name.to_owned(), self.value(&field.shape, depth));
        Value::Object(fields.into_iter().map(&mut value).collect())
    }

    fn value(&mut self, shape: &'static Shape, depth: u64) -> Value {
        match shape {
            Shape::String => json!(self.text()),
            Shape::Integer32 => json!(self.0 as i32 >> self.below(32)),
            Shape::Integer64 => json!(self.0 as i64 >> self.below(64)),
            Shape::Double => json!(self.below(100) as f64 / 4.0),
            Shape::Boolean => json!(self.below(2) == 0),
            Shape::Bytes => special::base64(&self.0.to_le_bytes()[..self.below(8) as usize]),
            Shape::Time => json!(format!("20{:02}-02-28T03:04:05Z", self.below(100))),
            Shape::MicroTime => json!(format!("1999-12-31T03:04:05.{:06}Z", self.below(1_000_000))),
            Shape::Quantity => json!(format!("{}Mi", self.below(5_000))),
            Shape::IntOrString if self.below(2) == 0 => json!(self.text()),
            Shape::IntOrString => json!(self.0 as i32),
            Shape::RawObject | Shape::FieldsV1 | Shape::Any => {
                json!({"f:a": {self.text(): [1.5, null]}})
            }
            Shape::SchemaOrBool(_) if self.below(2) == 0 => json!(self.below(2) == 0),
            Shape::SchemaOrStrings(_) if self.below(2) == 0 => json!([self.text(), "x"]),
            Shape::SchemaOrArray(of) if self.below(2) == 0 => {
                json!([self.object(of.get(), depth + 4)])
            }
            Shape::SchemaOrArray(of) | Shape::SchemaOrBool(of) | Shape::SchemaOrStrings(of) => {
                self.object(of.get(), depth + 4)
            }
            Shape::Object(of) => self.object(of.get(), depth + 1),
            // Never empty: protobuf does not tell an empty list from none.
            Shape::List(element) => {
                (0..=self.below(2)).map(|_| self.value(element, depth + 1)).collect()
            }
            Shape::Map(element) => {
                let entry =
                    |choices: &mut Choices| (choices.text(), choices.value(element, depth + 1));
                Value::Object((0..=self.below(2)).map(|_| entry(self)).collect())
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn objects_of_all_kinds_come_back(seed in 1_u64.., index in 0_usize..1_000) {
        let kinds = facts::kinds();
        let of = kinds[index % kinds.len()].type_id.get();
        let mut object = Choices(seed).object(of, 0);
        object["apiVersion"] = json!("v1");
        object["kind"] = json!(of.short_name());
        strict::normalise(&mut object, of, canonical).unwrap();
        let body = encode(&object, of);
        let found = decode::object(&body, Format::Protobuf, of, canonical).unwrap();
        prop_assert_eq!(found.value, object);
        // What is cut off is refused or less, never a panic.
        let _ = parse(&body[..seed as usize % body.len()], of);
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        index in 0_usize..10_000,
    ) {
        let types = facts::types();
        let of = &types[index % types.len()];
        let _ = parse(&bytes, of);
        let _ = parse(&[b"k8s\0", &bytes[..]].concat(), of);
        let _ = parse(&[b"k8s\0".to_vec(), run(2, &bytes)].concat(), of);
    }

    #[test]
    fn no_change_of_a_byte_makes_it_panic(
        seed in 1_u64..,
        at in any::<usize>(),
        byte in any::<u8>(),
    ) {
        let kinds = facts::kinds();
        let of = kinds[seed as usize % kinds.len()].type_id.get();
        let mut body = encode(&Choices(seed).object(of, 0), of);
        let length = body.len();
        body[at % length] = byte;
        let _ = decode::object(&body, Format::Protobuf, of, canonical);
    }
}
