//! The wrong requests.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::super::world::{World, admin};

/// One wrong request, and what must come of it.
pub struct Case {
    pub name: String,
    pub head: String,
    pub body: Vec<u8>,
    pub status: u16,
    /// The whole message, or its beginning and `…`.
    pub message: String,
    /// Refused by whoever reads HTTP, which knows no Status.
    pub is_of_http: bool,
}

impl Case {
    pub fn bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), &self.body].concat()
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CANNOT: &str = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
const NO_METHOD: &str = "the server does not allow this method on the requested resource";
const NO_RESOURCE: &str = "the server could not find the requested resource";
const NO_PAGE: &str = "404 page not found";
const ACCEPTED_PATCHES: &str = "the body of the request was in an unknown format - accepted media \
    types include: …";

/// An object that patches and deletions are aimed at.
pub async fn prepare(world: &World) {
    let body = r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
    let create = Request::post(MAPS).body(Full::new(Bytes::from(body))).unwrap();
    assert_eq!(world.ask(&admin(), create).await.status, 201);
}

pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(bodies());
    cases.extend(large());
    cases.extend(options());
    cases.extend(routes());
    cases.extend(patches());
    cases.extend(deletions());
    cases.extend(negotiation());
    cases.extend(of_http());
    cases
}

fn request(line: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> (String, Vec<u8>) {
    let body = body.into();
    let mut head = format!("{line} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    (head, body)
}

fn case(name: &str, (head, body): (String, Vec<u8>), status: u16, message: &str) -> Case {
    let (name, message) = (name.to_owned(), message.to_owned());
    Case { name, head, body, status, message, is_of_http: false }
}

/// A creation with a body of a type.
fn created(name: &str, media_type: &str, body: impl Into<Vec<u8>>, message: &str) -> Case {
    let asked = request(&format!("POST {MAPS}"), &[("content-type", media_type)], body);
    case(name, asked, 400, message)
}

fn bodies() -> Vec<Case> {
    let texts: [(&str, &[u8], &str); 27] = [
        ("nothing", b"", "unexpected end of JSON input"),
        ("a brace", b"{", "unexpected end of JSON input"),
        ("two values", b"{} {}", "invalid character '{' after top-level value"),
        ("a comma too many", br#"{"a":1,}"#, "invalid character '}' …"),
        ("a comma in a list", b"[1,]", "invalid character ']' …"),
        ("no quotes", b"{a:1}", "invalid character 'a' …"),
        ("single quotes", b"{'a':1}", "invalid character …"),
        ("a comment", b"{/* */}", "invalid character '/' …"),
        ("half a word", b"tru", "…"),
        ("a leading zero", br#"{"a":01}"#, "invalid character '1' …"),
        ("a lonely minus", br#"{"a":-}"#, "invalid character …"),
        ("half a number", br#"{"a":1.}"#, "invalid character …"),
        ("a huge number", br#"{"a":1e999}"#, "…"),
        ("an unknown escape", br#"{"a":"\q"}"#, "invalid character 'q' in string escape code"),
        ("half an escape", br#"{"a":"\u12"}"#, "invalid character …"),
        ("a line in a string", b"{\"a\":\"\n\"}", "invalid character '\\n' in string literal"),
        ("a zero byte", b"{\"a\":\"\0\"}", "invalid character …"),
        ("no UTF-8", b"{\"a\":\"\xff\xfe\"}", "invalid UTF-8 …"),
        ("UTF-16", b"\xff\xfe{\0}\0", "invalid UTF-8 …"),
        ("a byte order mark", b"\xef\xbb\xbf{}", "invalid character …"),
        ("text", b"hello", "invalid character 'h' looking for beginning of value"),
        ("a number", b"1", "json: cannot unmarshal number …"),
        ("a string", br#""a""#, "json: cannot unmarshal string …"),
        ("a list", b"[]", "json: cannot unmarshal array …"),
        ("metadata of another type", br#"{"metadata":[]}"#, "json: cannot unmarshal array …"),
        ("data of another type", br#"{"data":"x"}"#, "json: cannot unmarshal string …"),
        (
            "a time that is none",
            br#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
            "parsing time \"yesterday\" …",
        ),
    ];
    let mut cases: Vec<Case> = texts
        .into_iter()
        .map(|(name, body, message)| created(name, JSON, body, &format!("{CANNOT}{message}")))
        .collect();
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    cases.push(created("a depth bomb", JSON, deep, &format!("{CANNOT}…")));
    let deep = [br#"{"a":"#.repeat(100_000), b"1".to_vec()].concat();
    cases.push(created("a depth bomb of objects", JSON, deep, &format!("{CANNOT}…")));
    cases.extend(yaml_bodies());
    cases.extend(protobuf_bodies());
    cases
}

fn yaml_bodies() -> Vec<Case> {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..10 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("a{level}: &a{level} [{below}]\n");
    }
    let long = "x".repeat(1 << 20);
    let swollen = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 9_000].join(", "));
    let many = format!("a: &a 1\nb: [{}]\n", vec!["*a"; 100_000].join(", "));
    let texts = [
        ("a billion laughs", laughs),
        ("one long text many times", swollen),
        ("many aliases", many),
        ("YAML that is none", "a: b: c: [".to_owned()),
        ("a tab", "a:\n\t- b\n".to_owned()),
        ("an alias of nothing", "a: *nothing\n".to_owned()),
        ("two documents", "a: 1\n---\nb: 2\n".to_owned()),
        ("YAML that is too deep", "[".repeat(50_000)),
        ("YAML that is deep by lines", (0..2_000).map(|at| " ".repeat(at) + "a:\n").collect()),
        ("a list of YAML", "- a\n- b\n".to_owned()),
        ("not a number", "a: .nan\n".to_owned()),
    ];
    let message = format!("{CANNOT}…");
    let case = |(name, text): (&str, String)| created(name, YAML, text, &message);
    let mut cases: Vec<Case> = texts.into_iter().map(case).collect();
    cases.push(created("YAML that is not UTF-8", YAML, *b"a: \xff\n", &message));
    cases
}

fn protobuf_bodies() -> Vec<Case> {
    let texts: [(&str, &[u8]); 7] = [
        ("protobuf without its mark", b"{}"),
        ("protobuf that ends early", b"k8s\0\x0a\xff"),
        ("protobuf of a huge length", b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("protobuf of an endless number", b"k8s\0\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("protobuf of an unknown wire", b"k8s\0\x0f"),
        ("protobuf of another kind", b"k8s\0\x0a\x0a\x0a\x02v1\x12\x04Node"),
        ("protobuf with broken text", b"k8s\0\x0a\x04\x0a\x02\xff\xfe"),
    ];
    let message = format!("{CANNOT}…");
    texts.into_iter().map(|(name, body)| created(name, PROTOBUF, body, &message)).collect()
}

fn large() -> Vec<Case> {
    const LIMIT: usize = 3 << 20;
    let refused = "Request entity too large: limit is 3145728";
    let large = vec![b' '; LIMIT + 1];
    let json = [("content-type", JSON)];
    let patch = [("content-type", "application/merge-patch+json")];
    vec![
        case("a large body", request(&format!("POST {MAPS}"), &json, large.clone()), 413, refused),
        case("a large patch", request(&format!("PATCH {MAPS}/a"), &patch, large), 413, refused),
        case("a large body in pieces", chunked(&"a".repeat(LIMIT + 1)), 413, refused),
        case("an object larger than any", large_object(), 422, "ConfigMap \"big\" is invalid: …"),
    ]
}

/// Larger than a config map may be, but not than a body.
fn large_object() -> (String, Vec<u8>) {
    let text = "x".repeat((1 << 20) + 1);
    let body = format!(r#"{{"metadata":{{"name":"big"}},"data":{{"k":"{text}"}}}}"#);
    request(&format!("POST {MAPS}"), &[("content-type", JSON)], body)
}

fn chunked(body: &str) -> (String, Vec<u8>) {
    let head = format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    (head, format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes())
}

fn options() -> Vec<Case> {
    let read = |query: &str, status, message: &str| {
        case(query, request(&format!("GET {MAPS}?{query}"), &[], ""), status, message)
    };
    let write = |query: &str, status, message: &str| {
        let body = r#"{"metadata":{"name":"new"}}"#;
        let asked = request(&format!("POST {MAPS}?{query}"), &[("content-type", JSON)], body);
        case(query, asked, status, message)
    };
    let list = "ListOptions.meta.k8s.io \"\" is invalid: ";
    let create = "CreateOptions.meta.k8s.io \"\" is invalid: ";
    let either = "supported values: ";
    vec![
        read("limit=-1", 400, "…"),
        read("limit=1.5", 400, "…"),
        read("limit=99999999999999999999", 400, "…"),
        read("limit=%zz", 400, "…"),
        read("labelSelector=%ff", 400, "…"),
        read("timeoutSeconds=-1&watch=1", 400, "…"),
        read("resourceVersion=x", 422, &format!("{list}…")),
        read("resourceVersion=-5", 422, &format!("{list}…")),
        read("resourceVersion=1.0", 422, &format!("{list}…")),
        read(
            "resourceVersionMatch=Exact",
            422,
            &format!(
                "{list}resourceVersionMatch: Forbidden: \
            resourceVersionMatch is forbidden unless resourceVersion is provided"
            ),
        ),
        read("resourceVersion=1&resourceVersionMatch=Any", 422, &format!("{list}…")),
        read("resourceVersion=0&resourceVersionMatch=Exact", 422, &format!("{list}…")),
        read(
            "sendInitialEvents=true",
            422,
            &format!(
                "{list}sendInitialEvents: Forbidden: \
            sendInitialEvents is forbidden for list"
            ),
        ),
        read("watch=1&sendInitialEvents=true", 422, &format!("{list}…")),
        read("watch=1&resourceVersion=x", 422, &format!("{list}…")),
        read("continue=x", 400, "continue key is not valid: …"),
        read("continue=e30", 400, "continue key is not valid: …"),
        read("continue=%00", 400, "continue key is not valid: …"),
        read(
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0",
            400,
            "continue key is not valid: …",
        ),
        read(
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYSJ9",
            400,
            "continue key is not valid: …",
        ),
        read("labelSelector=%3D", 400, "…"),
        read("labelSelector=a%20in", 400, "…"),
        read("labelSelector=a%20in%20(", 400, "…"),
        read("labelSelector=a%20near%20(b)", 400, "…"),
        read("labelSelector=-a", 400, "…"),
        read("labelSelector=a%3Db%20c", 400, "…"),
        read("labelSelector=a%3Ex", 400, "…"),
        read("labelSelector=%00", 400, "…"),
        read("fieldSelector=a", 400, "invalid selector: …"),
        read("fieldSelector=spec.x%3Dy", 400, "…"),
        read("fieldSelector=metadata.name%3Da%5C", 400, "invalid …"),
        write(
            "dryRun=Yes",
            422,
            &format!("{create}dryRun: Unsupported value: \"Yes\": {either}\"All\""),
        ),
        write("dryRun=", 422, &format!("{create}dryRun: …")),
        write("fieldValidation=No", 422, &format!("{create}fieldValidation: Unsupported value: …")),
        write("fieldManager=%07", 422, &format!("{create}fieldManager: Invalid value: …")),
        write(
            &format!("fieldManager={}", "m".repeat(129)),
            422,
            &format!(
                "{create}fieldManager: \
            Too long: may not be more than 128 bytes"
            ),
        ),
        write("fieldValidation=Strict&%gg=1", 400, "…"),
    ]
}

fn routes() -> Vec<Case> {
    let lines = [
        (format!("POST {MAPS}/a"), 405, NO_METHOD),
        (format!("PUT {MAPS}"), 405, NO_METHOD),
        (format!("PATCH {MAPS}"), 405, NO_METHOD),
        (format!("OPTIONS {MAPS}"), 405, NO_METHOD),
        (format!("TRACE {MAPS}"), 405, NO_METHOD),
        (format!("BREW {MAPS}"), 405, NO_METHOD),
        ("POST /api/v1/namespaces/default/componentstatuses".to_owned(), 404, NO_RESOURCE),
        ("GET /apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(), 405, NO_METHOD),
        ("DELETE /api/v1/namespaces/default/bindings/x".to_owned(), 405, NO_METHOD),
        ("GET /api/v1/things".to_owned(), 404, NO_RESOURCE),
        ("GET /api/v1/namespaces/default/things/x".to_owned(), 404, NO_RESOURCE),
        (format!("GET {MAPS}/a/nothing"), 404, NO_RESOURCE),
        (format!("GET {MAPS}/a/status"), 404, NO_RESOURCE),
        ("GET /api/v1/namespaces/default/nodes/x".to_owned(), 404, NO_RESOURCE),
        ("GET /api/v2/pods".to_owned(), 404, NO_PAGE),
        ("GET /apis/nothing.example.com/v1/things".to_owned(), 404, NO_PAGE),
        ("GET /apis/apps/v7/deployments".to_owned(), 404, NO_PAGE),
        ("GET /apis/nothing.example.com".to_owned(), 404, NO_PAGE),
        ("GET /apis/apps/v7".to_owned(), 404, NO_PAGE),
        ("GET /nothing".to_owned(), 404, NO_PAGE),
        ("GET /api/v1/../../etc/passwd".to_owned(), 404, NO_PAGE),
        (format!("GET {MAPS}/../secrets"), 404, NO_PAGE),
        (format!("GET {MAPS}/%2e%2e/secrets"), 404, NO_PAGE),
        (format!("GET {MAPS}/..%2fsecrets"), 404, NO_PAGE),
        (format!("GET {MAPS}//a"), 404, NO_PAGE),
        (format!("GET {MAPS}/%zz"), 404, NO_PAGE),
        (format!("GET {MAPS}/%ff"), 404, NO_PAGE),
        ("GET /api/v1/namespaces/default/namespaces/kube-system".to_owned(), 404, NO_PAGE),
        (format!("GET {MAPS}/missing"), 404, "configmaps \"missing\" not found"),
        (format!("GET {MAPS}/%00"), 404, "configmaps …"),
        (format!("GET {MAPS}/{}", "x".repeat(300)), 404, "configmaps \"xxx…"),
        (format!("GET {MAPS}/{}", "x".repeat(9_000)), 400, "…"),
        (format!("GET {MAPS}?labelSelector={}", "x".repeat(9_000)), 400, "…"),
    ];
    let asked = |(line, status, message): (String, u16, &str)| {
        let name = line.chars().take(90).collect::<String>();
        let body = if line.starts_with("GET") { "" } else { "{}" };
        case(&name, request(&line, &[("content-type", JSON)], body), status, message)
    };
    lines.into_iter().map(asked).collect()
}

fn patches() -> Vec<Case> {
    const JSON_PATCH: &str = "application/json-patch+json";
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    let many = format!("[{}]", vec![r#"{"op":"test","path":"/x"}"#; 10_001].join(","));
    let copies = {
        let copy = r#"{"op":"copy","from":"/data","path":"/data/k"}"#;
        format!("[{}]", vec![copy; 60].join(","))
    };
    let rejected = "…";
    let texts = [
        (JSON_PATCH, "{".to_owned(), 400, "…"),
        (JSON_PATCH, "{}".to_owned(), 400, "…"),
        (JSON_PATCH, "[1]".to_owned(), 400, "…"),
        (JSON_PATCH, r#"[{"op":"test","path":"/data/k","value":"x"}]"#.to_owned(), 422, rejected),
        (JSON_PATCH, r#"[{"op":"remove","path":"/nothing"}]"#.to_owned(), 422, rejected),
        (JSON_PATCH, r#"[{"op":"add","path":"/a/b","value":1}]"#.to_owned(), 422, rejected),
        (JSON_PATCH, r#"[{"op":"explode","path":"/a"}]"#.to_owned(), 422, rejected),
        (
            JSON_PATCH,
            many,
            413,
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        (JSON_PATCH, copies, 422, "…"),
        (MERGE, "[".to_owned(), 400, "…"),
        (MERGE, "[]".to_owned(), 400, "…"),
        (MERGE, "1".to_owned(), 400, "…"),
        (
            MERGE,
            r#"{"metadata":{"name":"b"}}"#.to_owned(),
            422,
            "ConfigMap \"a\" is invalid: \
            metadata.name: Invalid value: \"b\": field is immutable",
        ),
        (
            MERGE,
            r#"{"metadata":{"uid":"x"}}"#.to_owned(),
            409,
            "Operation cannot be fulfilled on \
            configmaps \"a\": …",
        ),
        (
            MERGE,
            r#"{"metadata":{"resourceVersion":"1"}}"#.to_owned(),
            409,
            "Operation cannot be \
            fulfilled on configmaps \"a\": the object has been modified; please apply your \
            changes to the latest version and try again",
        ),
        (MERGE, r#"{"data":{"k":1}}"#.to_owned(), 422, "ConfigMap \"a\" is invalid: …"),
        (MERGE, r#"{"metadata":null}"#.to_owned(), 422, "ConfigMap \"a\" is invalid: …"),
        (STRATEGIC, "[]".to_owned(), 400, "…"),
        (STRATEGIC, r#"{"$patch":"explode"}"#.to_owned(), 422, "…"),
        (STRATEGIC, r#"{"data":{"$retainKeys":1}}"#.to_owned(), 400, "…"),
        (JSON, "{}".to_owned(), 415, ACCEPTED_PATCHES),
        ("text/plain", "{}".to_owned(), 415, ACCEPTED_PATCHES),
        ("", "{}".to_owned(), 415, ACCEPTED_PATCHES),
    ];
    let asked = |(media_type, body, status, message): (&str, String, u16, &str)| {
        let name = format!("{media_type} {}", body.chars().take(60).collect::<String>());
        let line = format!("PATCH {MAPS}/a");
        case(&name, request(&line, &[("content-type", media_type)], body), status, message)
    };
    texts.into_iter().map(asked).collect()
}

fn deletions() -> Vec<Case> {
    let options = "DeleteOptions.meta.k8s.io \"\" is invalid: …";
    let texts = [
        ("propagationPolicy=Never", "", 400, "…"),
        ("gracePeriodSeconds=x", "", 400, "…"),
        ("dryRun=Yes", "", 422, options),
        ("", "{", 400, "…"),
        ("", "[]", 400, "…"),
        ("", r#"{"kind":"Pod","apiVersion":"v1"}"#, 400, "…"),
        ("", r#"{"propagationPolicy":"Never"}"#, 400, "…"),
        ("", r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#, 400, "…"),
        ("", r#"{"dryRun":["Yes"]}"#, 422, options),
        ("", r#"{"preconditions":{"uid":"x"}}"#, 409, "Operation cannot be fulfilled on …"),
        ("", r#"{"preconditions":{"resourceVersion":"1"}}"#, 409, "Operation cannot be …"),
    ];
    let asked = |(query, body, status, message): (&str, &str, u16, &str)| {
        let line = format!("DELETE {MAPS}/a?{query}");
        let name = format!("{line} {body}");
        case(&name, request(&line, &[("content-type", JSON)], body), status, message)
    };
    texts.into_iter().map(asked).collect()
}

fn negotiation() -> Vec<Case> {
    let unknown =
        "the body of the request was in an unknown format - accepted media types include: …";
    let types =
        ["text/plain", "application/xml", "application/cbor", "nothing", "application/json2"];
    let bodies = types.map(|media_type| {
        let asked = request(&format!("POST {MAPS}"), &[("content-type", media_type)], "{}");
        case(media_type, asked, 415, unknown)
    });
    let accepts = [
        "text/plain",
        "application/cbor",
        "application/json;as=Nothing;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v9",
        "image/png;q=0.5",
    ];
    let answers = accepts.map(|accept| {
        let asked = request(&format!("GET {MAPS}"), &[("accept", accept)], "");
        case(accept, asked, 406, "only the following media types are accepted: …")
    });
    bodies.into_iter().chain(answers).collect()
}

/// Not HTTP, or HTTP that contradicts itself: whoever reads it says so with a plain 400 or 431.
fn of_http() -> Vec<Case> {
    let texts: [(&str, String, u16); 8] = [
        ("no HTTP at all", "\x16\x03\x01 hello\r\n\r\n".to_owned(), 400),
        ("a version that is none", "GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("a header without a colon", "GET /version HTTP/1.1\r\nhost\r\n\r\n".to_owned(), 400),
        (
            "a length that is none",
            format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n"),
            400,
        ),
        (
            "two lengths",
            format!(
                "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"
            ),
            400,
        ),
        (
            "a transfer that nobody knows",
            format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: rot13\r\n\r\n"),
            400,
        ),
        (
            "a head without an end",
            format!("GET /version HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(1 << 20)),
            431,
        ),
        (
            "pieces that are none",
            format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
            400,
        ),
    ];
    texts
        .into_iter()
        .map(|(name, head, status)| {
            let (name, message) = (name.to_owned(), String::new());
            Case { name, head, body: Vec::new(), status, message, is_of_http: true }
        })
        .collect()
}
