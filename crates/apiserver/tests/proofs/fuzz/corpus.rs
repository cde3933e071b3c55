//! Good inputs, from which others are made.

/// The bytes of a text in which bytes are escaped as Rust escapes them.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'x') => {
                let mut digit = || rest.next().and_then(|byte| (byte as char).to_digit(16));
                let (high, low) = (digit().unwrap_or(0), digit().unwrap_or(0));
                bytes.push((high * 16 + low) as u8);
            }
            Some(other) => bytes.push(other),
            None => bytes.push(b'\\'),
        }
    }
    bytes
}

fn texts(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|text| text.as_bytes().to_vec()).collect()
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"y"},
"annotations":{},"creationTimestamp":"2030-01-01T00:00:00Z"},"spec":{"containers":[{"name":"c",
"image":"i","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1500m","memory":1e9}},
"env":[{"name":"A","value":"b"}],"livenessProbe":{"httpGet":{"port":"web"}}}],"volumes":[{"name":
"v","emptyDir":{"sizeLimit":"1Gi"}}],"priority":-5,"hostNetwork":true,"tolerations":null}}"#;

pub fn json() -> Vec<Vec<u8>> {
    texts(&[
        POD,
        r#"{"kind":"ConfigMap","data":{"a":"1","a":"2","\u00e4\ud83d\ude00":"\n\\\"/"}}"#,
        r#"[1,-0,0.5,1e300,-12345678901234567890,18446744073709551615,true,false,null,"",[],{}]"#,
        r#"{"spec":{"containers":[{"name":"c","unknown":{"deep":[[[[]]]]}}]},"status":{}}"#,
    ])
}

pub fn yaml() -> Vec<Vec<u8>> {
    texts(&[
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: y}}\nspec:\n  containers:\n  \
         - name: c\n    image: \"i\"\n    args: ['a', b, |\n      text\n      more\n    ]\n",
        "a: &anchor {b: [1, 0x1f, 0o17, 1e3, .inf, ~, yes, null]}\nc: *anchor\nd:\n  <<: *anchor\n",
        "? key\n: >-\n  folded\n  text\n? [a, b]\n: !!str 5\n--- # next\nx: y\n...\n",
        "a: 1\na: 2\nb: {c: 1, c: 2}\n'on': off\n12: x\n\"\\u263a\\x41\": \"\\n\"\n",
        POD,
    ])
}

pub fn protobuf() -> Vec<Vec<u8>> {
    let labels = run(11, &[run(1, b"k"), run(2, b"v")].concat());
    let time = run(8, &number(1, 1_893_456_000));
    let metadata = run(1, &[run(1, b"name"), run(3, b"default"), labels, time].concat());
    let cpu = run(1, &[run(1, b"cpu"), run(2, &run(1, b"1500m"))].concat());
    let port = run(6, &[run(1, b"web"), number(3, 80), run(4, b"TCP")].concat());
    let container = run(2, &[run(1, b"c"), run(2, b"image"), port, run(8, &cpu)].concat());
    let volume = run(1, &[run(1, b"v"), run(2, &run(2, &run(1, b"Memory")))].concat());
    let spec = run(2, &[container, volume, number(4, 30), number(11, 1)].concat());
    let pod = [metadata.clone(), spec].concat();
    let of = |object: &[u8]| {
        let kind = run(1, &[run(1, b"v1"), run(2, b"Pod")].concat());
        [b"k8s\0".to_vec(), kind, run(2, object), run(3, b""), run(4, b"")].concat()
    };
    vec![of(&pod), of(&metadata), of(b""), b"k8s\0".to_vec()]
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

fn run(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// An object and, on the next line, a patch.
pub fn patch() -> Vec<Vec<u8>> {
    let pod = POD.replace('\n', "");
    let patches = [
        r#"{"metadata":{"labels":{"x":null,"z":"1"}},"spec":{"containers":[{"name":"d"}]}}"#,
        concat!(
            r#"{"spec":{"$setElementOrder/containers":[{"name":"d"},{"name":"c"}],"containers":["#,
            r#"{"name":"c","$patch":"delete"},{"name":"d","ports":[{"containerPort":81}]}],"#,
            r#""volumes":[{"name":"v","$retainKeys":["name","emptyDir"],"emptyDir":{}}],"#,
            r#""$deleteFromPrimitiveList/args":["a"]}}"#,
        ),
        concat!(
            r#"[{"op":"add","path":"/spec/containers/-","value":{"name":"e"}},{"op":"remove","#,
            r#""path":"/metadata/labels/x"},{"op":"test","path":"/kind","value":"Pod"},{"op":"#,
            r#""copy","from":"/spec","path":"/status"},{"op":"move","from":"/spec/volumes","#,
            r#""path":"/a~1b"},{"op":"replace","path":"/spec/containers/0/name","value":1}]"#,
        ),
    ];
    patches.iter().map(|patch| format!("{pod}\n{patch}").into_bytes()).collect()
}

pub fn label() -> Vec<Vec<u8>> {
    texts(&[
        "app=web",
        "app in (a, b),tier notin (c,),!gone,here",
        "example.com/x==y,z!=1,n>5,m<-3",
        "",
        "in in (in),notin notin (notin)",
    ])
}

pub fn field() -> Vec<Vec<u8>> {
    texts(&[
        "metadata.name=a,spec.nodeName!=b",
        r"status.phase==Running,metadata.name=a\,b\=c\\",
        "",
        "spec.host=x,",
    ])
}

pub fn url() -> Vec<Vec<u8>> {
    texts(&[
        "/api/v1/namespaces/default/pods/a%3Ab/log?follow=true&limitBytes=10",
        "/apis/apps/v1/deployments?watch=1&resourceVersion=5&resourceVersionMatch=Exact&limit=3",
        "/apis/g.example.com/v1/namespaces/a/things/b/scale?dryRun=All&fieldManager=m&force=true",
        "/openapi/v3/api/v1?hash=AB%20CD&pretty&includeObject=None&timeoutSeconds=1",
        "/api/v1/namespaces/a/services/s:80/proxy/x/y/?labelSelector=a%3Db&continue=eyJ2Ijo",
        "/healthz/?verbose&exclude=a",
    ])
}

pub fn quantity() -> Vec<Vec<u8>> {
    texts(&[
        "1",
        "-1.5Gi",
        "+0.000000001",
        "100m",
        "12e6",
        "1E",
        "3n",
        "9223372036854775807",
        ".5k",
    ])
}
