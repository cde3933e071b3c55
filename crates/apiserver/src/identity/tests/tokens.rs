//! Tokens, and what people try with them.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::identity::claims::{Bound, Claims, Reference};
use crate::identity::key_files::KeyFiles;
use crate::identity::key_files::tests::Memory;
use crate::identity::static_tokens::StaticTokens;
use crate::identity::token_requests::{Bearer, BoundKind, Request, token_request, token_review};
use crate::identity::tokens::{Live, Refusal, Tokens};
use crate::identity::{Error, User, key_files::Privacy};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const NOW: i64 = 1_800_000_000;

/// What exists: uids by path.
#[derive(Clone)]
struct World(BTreeMap<String, String>);

impl World {
    fn new() -> World {
        let all = [
            ("serviceaccounts/ns/sa", "sa-1"),
            ("pods/ns/p", "pod-1"),
            ("secrets/ns/s", "secret-1"),
            ("nodes/n", "node-1"),
        ];
        World(all.map(|(path, uid)| (path.to_owned(), uid.to_owned())).into())
    }

    fn without(&self, path: &str) -> World {
        let mut world = self.clone();
        world.0.remove(path);
        world
    }

    fn with(&self, path: &str, uid: &str) -> World {
        let mut world = self.clone();
        world.0.insert(path.to_owned(), uid.to_owned());
        world
    }
}

impl Live for World {
    fn service_account_uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.0.get(&format!("serviceaccounts/{namespace}/{name}")).cloned()
    }
    fn pod_uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.0.get(&format!("pods/{namespace}/{name}")).cloned()
    }
    fn secret_uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.0.get(&format!("secrets/{namespace}/{name}")).cloned()
    }
    fn node_uid(&self, name: &str) -> Option<String> {
        self.0.get(&format!("nodes/{name}")).cloned()
    }
}

fn tokens() -> Tokens {
    Tokens::load_or_create(&Memory::default(), ISSUER).unwrap()
}

fn reference(name: &str, uid: &str) -> Reference {
    Reference { name: name.to_owned(), uid: uid.to_owned() }
}

fn claims() -> Claims {
    Claims {
        issuer: ISSUER.to_owned(),
        namespace: "ns".to_owned(),
        account: reference("sa", "sa-1"),
        bound: Bound::Account,
        audiences: vec![ISSUER.to_owned()],
        issued_at: NOW,
        not_before: NOW,
        expires_at: NOW + 3600,
        id: "id-1".to_owned(),
    }
}

fn audiences() -> Vec<String> {
    vec![ISSUER.to_owned()]
}

fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn header_of(token: &str) -> Value {
    let header = token.split('.').next().unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap()
}

#[test]
fn a_token_makes_the_user_of_its_account() {
    let tokens = tokens();
    let node = Some(reference("n", "node-1"));
    let bound = Bound::Pod { pod: reference("p", "pod-1"), node };
    let token = tokens.issue(&Claims { bound, ..claims() }).unwrap();
    // Twice: the second time the signature is known.
    for _ in 0..2 {
        let verified = tokens.verify(&token, &audiences(), NOW, &World::new()).unwrap();
        let expected = json!({
            "username": "system:serviceaccount:ns:sa", "uid": "sa-1",
            "groups": [
                "system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"
            ],
            "extra": {
                "authentication.kubernetes.io/credential-id": ["JTI=id-1"],
                "authentication.kubernetes.io/node-name": ["n"],
                "authentication.kubernetes.io/node-uid": ["node-1"],
                "authentication.kubernetes.io/pod-name": ["p"],
                "authentication.kubernetes.io/pod-uid": ["pod-1"],
            }
        });
        assert_eq!(verified.user.to_info(), expected);
        assert_eq!(verified.audiences, audiences());
    }
}

#[test]
fn claims_that_do_not_hold_are_refused() {
    let tokens = tokens();
    let issue = |claims: Claims| tokens.issue(&claims).unwrap();
    let check = |token: &str, now: i64, wanted: &[String]| {
        tokens.verify(token, wanted, now, &World::new()).map(|_| ())
    };
    let good = issue(claims());
    assert_eq!(check(&good, NOW, &audiences()), Ok(()));
    // Clocks may differ by a minute.
    assert_eq!(check(&good, NOW + 3660, &audiences()), Ok(()));
    assert_eq!(check(&good, NOW + 3661, &audiences()), Err(Refusal::Expired));
    assert_eq!(check(&good, NOW - 60, &audiences()), Ok(()));
    assert_eq!(check(&good, NOW - 61, &audiences()), Err(Refusal::NotYetValid));
    let later = issue(Claims { not_before: NOW + 70, ..claims() });
    assert_eq!(check(&later, NOW, &audiences()), Err(Refusal::NotYetValid));
    let foreign = issue(Claims { issuer: "https://other".to_owned(), ..claims() });
    assert!(matches!(check(&foreign, NOW, &audiences()), Err(Refusal::Issuer(_))));
    for wrong in [vec![], vec!["vault".to_owned()], vec!["vault".to_owned(), String::new()]] {
        assert!(matches!(check(&good, NOW, &wrong), Err(Refusal::Audiences(..))), "{wrong:?}");
    }
    let vault = issue(Claims { audiences: vec!["vault".to_owned(), "b".to_owned()], ..claims() });
    assert!(matches!(check(&vault, NOW, &audiences()), Err(Refusal::Audiences(..))));
    let wanted = ["a".to_owned(), "b".to_owned()];
    let verified = tokens.verify(&vault, &wanted, NOW, &World::new()).unwrap();
    assert_eq!(verified.audiences, ["b"]);
}

#[test]
fn forged_tokens_are_refused() {
    let tokens = tokens();
    let good = tokens.issue(&claims()).unwrap();
    let parts: Vec<&str> = good.split('.').collect();
    let (payload, signature) = (parts[1], parts[2]);
    let id = header_of(&good)["kid"].clone();
    let point = {
        let set = tokens.key_set();
        let coordinate =
            |name: &str| URL_SAFE_NO_PAD.decode(set["keys"][0][name].as_str().unwrap()).unwrap();
        [vec![4], coordinate("x"), coordinate("y")].concat()
    };
    let info = crate::identity::x509::public_key_info(&point);
    let hs256 = |key: &[u8]| {
        let signed = format!("{}.{payload}", encode(&json!({"alg": "HS256", "kid": id})));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    };
    let with_header = |header: Value| format!("{}.{payload}.{signature}", encode(&header));
    let other_key = {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref()).unwrap();
        let signed = format!("{}.{payload}", parts[0]);
        let signature = key.sign(&random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    };
    let mut raised = claims().to_value();
    raised["exp"] = json!(NOW * 2);
    let none = encode(&json!({"alg": "none", "kid": id}));
    let zero = URL_SAFE_NO_PAD.encode([0; 64]);
    let cases = [
        (format!("{none}.{payload}."), Refusal::Algorithm),
        (format!("{none}.{payload}.{signature}"), Refusal::Algorithm),
        (with_header(json!({"alg": "None", "kid": id})), Refusal::Algorithm),
        (with_header(json!({"alg": "es256", "kid": id})), Refusal::Algorithm),
        (with_header(json!({"alg": "RS256", "kid": id})), Refusal::Algorithm),
        (with_header(json!({"alg": "ES384", "kid": id})), Refusal::Algorithm),
        (with_header(json!({"alg": ["ES256"], "kid": id})), Refusal::Algorithm),
        (with_header(json!({"alg": "ES256", "kid": id, "crit": ["x"]})), Refusal::Algorithm),
        (hs256(&point), Refusal::Algorithm),
        (hs256(&info), Refusal::Algorithm),
        (with_header(json!({"alg": "ES256"})), Refusal::UnknownKey),
        (with_header(json!({"alg": "ES256", "kid": "other"})), Refusal::UnknownKey),
        (with_header(json!({"alg": "ES256", "kid": id, "jwk": {"kty": "EC"}})), Refusal::Signature),
        (other_key, Refusal::Signature),
        (format!("{}.{}.{signature}", parts[0], encode(&raised)), Refusal::Signature),
        (format!("{}.{payload}.{zero}", parts[0]), Refusal::Signature),
        (format!("{}.{payload}.", parts[0]), Refusal::Signature),
        (format!("{}.{payload}.{signature}=", parts[0]), Refusal::Malformed),
        (format!("{}.{payload}", parts[0]), Refusal::Malformed),
        (format!("{good}.x"), Refusal::Malformed),
        (String::new(), Refusal::Malformed),
        ("..".to_owned(), Refusal::Malformed),
        ("a.b.c".to_owned(), Refusal::Malformed),
        ("x".repeat(20_000), Refusal::Malformed),
    ];
    for (token, expected) in cases {
        let refused = tokens.verify(&token, &audiences(), NOW, &World::new()).unwrap_err();
        assert_eq!(refused, expected, "{token}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let tokens = tokens();
    let good = tokens.issue(&claims()).unwrap();
    for place in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[place] ^= 1;
        let Ok(token) = String::from_utf8(bytes) else { continue };
        let verified = tokens.verify(&token, &audiences(), NOW, &World::new());
        assert!(verified.is_err(), "flipped at {place}");
    }
}

#[test]
fn a_token_ends_with_what_it_is_bound_to() {
    let tokens = tokens();
    let pod = Bound::Pod { pod: reference("p", "pod-1"), node: Some(reference("n", "node-1")) };
    let secret = Bound::Secret(reference("s", "secret-1"));
    let node = Bound::Node(reference("n", "node-1"));
    let world = World::new();
    let cases = [
        ("account deleted", Bound::Account, world.without("serviceaccounts/ns/sa"), false),
        ("account recreated", Bound::Account, world.with("serviceaccounts/ns/sa", "sa-2"), false),
        ("pod irrelevant", Bound::Account, world.without("pods/ns/p"), true),
        ("pod deleted", pod.clone(), world.without("pods/ns/p"), false),
        ("pod recreated", pod.clone(), world.with("pods/ns/p", "pod-2"), false),
        ("pod's account deleted", pod.clone(), world.without("serviceaccounts/ns/sa"), false),
        ("pod's node gone first", pod, world.without("nodes/n"), true),
        ("secret deleted", secret.clone(), world.without("secrets/ns/s"), false),
        ("secret recreated", secret, world.with("secrets/ns/s", "secret-2"), false),
        ("node deleted", node.clone(), world.without("nodes/n"), false),
        ("node recreated", node, world.with("nodes/n", "node-2"), false),
    ];
    for (what, bound, after, good) in cases {
        let token = tokens.issue(&Claims { bound, ..claims() }).unwrap();
        assert!(tokens.verify(&token, &audiences(), NOW, &world).is_ok(), "{what}");
        let verified = tokens.verify(&token, &audiences(), NOW, &after);
        let expected = if good { Ok(()) } else { Err(Refusal::Invalidated) };
        assert_eq!(verified.map(|_| ()), expected, "{what}");
    }
}

#[test]
fn keys_rotate_and_former_tokens_stay_good_for_a_while() {
    let files = Memory::default();
    let mut tokens = Tokens::load_or_create(&files, ISSUER).unwrap();
    let first = tokens.issue(&claims()).unwrap();
    let valid = |tokens: &Tokens| tokens.verify(&first, &audiences(), NOW, &World::new());
    tokens = tokens.rotate(&files).unwrap();
    assert_eq!(tokens.key_set()["keys"].as_array().unwrap().len(), 2);
    assert!(valid(&tokens).is_ok());
    let second = tokens.issue(&claims()).unwrap();
    assert_ne!(header_of(&first)["kid"], header_of(&second)["kid"]);

    let again = Tokens::load_or_create(&files, ISSUER).unwrap();
    assert_eq!(again.key_set(), tokens.key_set());
    assert!(valid(&again).is_ok());
    assert!(again.verify(&second, &audiences(), NOW, &World::new()).is_ok());
    for _ in 0..4 {
        tokens = tokens.rotate(&files).unwrap();
    }
    assert_eq!(valid(&tokens), Err(Refusal::UnknownKey));

    for bad in [&b""[..], b"junk", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
    {
        files.write("service-accounts.pem", bad, Privacy::Private).unwrap();
        let error = Tokens::load_or_create(&files, ISSUER).unwrap_err();
        assert!(matches!(error, Error::DamagedKeyFile { .. }));
    }
}

#[test]
fn others_can_discover_our_keys() {
    let tokens = tokens();
    let token = tokens.issue(&claims()).unwrap();
    let key = &tokens.key_set()["keys"][0];
    assert_eq!(key["kid"], header_of(&token)["kid"]);
    assert_eq!(
        (&key["kty"], &key["crv"], &key["alg"]),
        (&json!("EC"), &json!("P-256"), &json!("ES256"))
    );
    assert_eq!(key["x"].as_str().unwrap().len(), 43);
    let document = tokens.discovery("https://127.0.0.1/openid/v1/jwks");
    assert_eq!(document["issuer"], ISSUER);
    assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256"]));
}

fn request(tokens: &Tokens, body: Value) -> Result<(Value, Vec<String>), crate::status::Error> {
    let account = json!({"metadata": {"name": "sa", "namespace": "ns", "uid": "sa-1"}});
    let find = |kind: BoundKind, name: &str| {
        let found = |uid: &str, spec: Value| {
            Some(json!({"metadata": {"name": name, "uid": uid}, "spec": spec}))
        };
        match (kind, name) {
            (BoundKind::Pod, "p") => {
                found("pod-1", json!({"serviceAccountName": "sa", "nodeName": "n"}))
            }
            (BoundKind::Pod, "other") => found("pod-2", json!({"serviceAccountName": "x"})),
            (BoundKind::Secret, "s") => found("secret-1", json!({})),
            (BoundKind::Node, "n") => found("node-1", json!({})),
            _ => None,
        }
    };
    let request = Request { body: &body, account: &account, find: &find, now: NOW };
    token_request(tokens, &request).map(|granted| (granted.object, granted.warnings))
}

#[test]
fn a_token_lives_as_long_as_was_asked() {
    let tokens = tokens();
    let cases = [
        (json!({}), 3600, 0),
        (json!({"spec": {"expirationSeconds": 600}}), 600, 0),
        (json!({"spec": {"expirationSeconds": 3607}}), 3607, 0),
        (json!({"spec": {"expirationSeconds": 90_000_000}}), 31_536_000, 1),
    ];
    for (body, seconds, warned) in cases {
        let (object, warnings) = request(&tokens, body).unwrap();
        assert_eq!(object["spec"]["expirationSeconds"], seconds);
        assert_eq!(warnings.len(), warned, "{warnings:?}");
        let token = object["status"]["token"].as_str().unwrap();
        let verify = |now: i64| tokens.verify(token, &audiences(), now, &World::new());
        assert!(verify(NOW + seconds).is_ok());
        assert_eq!(verify(NOW + seconds + 61), Err(Refusal::Expired));
    }
    let (object, _) = request(&tokens, json!({})).unwrap();
    assert_eq!(object["status"]["expirationTimestamp"], "2027-01-15T09:00:00Z");
}

#[test]
fn a_token_is_bound_as_asked() {
    let tokens = tokens();
    let bind = |kind: &str, name: &str| {
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": name});
        json!({"spec": {"boundObjectRef": reference}})
    };
    let world = World::new();
    let bound =
        [("Pod", "p", "pods/ns/p"), ("Secret", "s", "secrets/ns/s"), ("Node", "n", "nodes/n")];
    for (kind, name, path) in bound {
        let (object, _) = request(&tokens, bind(kind, name)).unwrap();
        let token = object["status"]["token"].as_str().unwrap();
        assert!(tokens.verify(token, &audiences(), NOW, &world).is_ok(), "{kind}");
        let gone = tokens.verify(token, &audiences(), NOW, &world.without(path));
        assert_eq!(gone, Err(Refusal::Invalidated), "{kind}");
    }
    let other = json!({"spec": {"audiences": ["vault"]}});
    let (object, _) = request(&tokens, other).unwrap();
    let token = object["status"]["token"].as_str().unwrap();
    assert!(tokens.verify(token, &audiences(), NOW, &world).is_err());
    assert!(tokens.verify(token, &["vault".to_owned()], NOW, &world).is_ok());
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let bound = |version: &str, kind: &str, name: &str, uid: &str| {
        json!({"spec": {"boundObjectRef":
            {"apiVersion": version, "kind": kind, "name": name, "uid": uid}}})
    };
    let invalid = r#"TokenRequest.authentication.k8s.io "" is invalid: "#;
    let cases = [
        (
            json!({"spec": {"expirationSeconds": 599}}),
            422,
            format!(
                "{invalid}spec.expirationSeconds: Invalid value: 599: may not specify a duration \
                 less than 10 minutes"
            ),
        ),
        (
            json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
            422,
            format!(
                "{invalid}spec.expirationSeconds: Invalid value: 4294967297: may not specify a \
                 duration larger than 2^32 seconds"
            ),
        ),
        (
            json!({"metadata": {"name": "x"}}),
            422,
            format!(
                "{invalid}metadata.name: Invalid value: \"x\": must match the service account \
                 name if specified"
            ),
        ),
        (bound("v1", "Pod", "gone", ""), 404, r#"pods "gone" not found"#.to_owned()),
        (
            bound("v1", "Pod", "other", ""),
            400,
            concat!(
                r#"cannot bind token for serviceaccount "sa" to pod running with different "#,
                r#"serviceaccount name."#,
            )
            .to_owned(),
        ),
        (
            bound("v1", "ConfigMap", "c", ""),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap".to_owned(),
        ),
        (
            bound("apps/v1", "Pod", "p", ""),
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod".to_owned(),
        ),
        (
            bound("v1", "Pod", "p", "pod-0"),
            409,
            concat!(
                r#"Operation cannot be fulfilled on Pod "p": the UID in the bound object "#,
                r#"reference (pod-0) does not match the UID in record. The object might "#,
                r#"have been deleted and then recreated"#,
            )
            .to_owned(),
        ),
    ];
    let tokens = tokens();
    for (body, code, message) in cases {
        let error = request(&tokens, body).unwrap_err();
        assert_eq!((error.code, error.message), (code, message));
    }
}

#[test]
fn a_review_tells_who_a_token_is() {
    let tokens = tokens();
    let mut known = StaticTokens::default();
    known.insert("opensesame", User::authenticated("ann", ["g"]));
    let world = World::new();
    let bearer = Bearer { known: &known, tokens: &tokens, live: &world, now: NOW };
    let review =
        |spec: Value| token_review(&bearer, &json!({"spec": spec})).unwrap()["status"].clone();
    let good = tokens.issue(&claims()).unwrap();
    let status = review(json!({"token": good}));
    assert_eq!(status["authenticated"], true);
    assert_eq!(status["user"]["username"], "system:serviceaccount:ns:sa");
    assert_eq!(status["audiences"], json!([ISSUER]));
    let status = review(json!({"token": "opensesame"}));
    assert_eq!(status["user"]["username"], "ann");
    for spec in [
        json!({"token": "junk"}),
        json!({"token": good, "audiences": ["vault"]}),
        json!({"token": "opensesame", "audiences": ["vault"]}),
    ] {
        let status = review(spec);
        assert!(status["authenticated"].is_null());
        assert!(status["error"].as_str().unwrap().starts_with("[invalid bearer token, "));
    }
    let error = token_review(&bearer, &json!({"spec": {}})).unwrap_err();
    assert_eq!(error.message, "token is required for TokenReview in authentication");
}
