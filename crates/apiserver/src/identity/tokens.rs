//! Tokens of service accounts: signed with ES256 and nothing else, and only as good as the account
//! and the object they are bound to.
//!
//! Upstream: pkg/serviceaccount/jwt.go

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::claims::{Bound, Claims};
use super::error::cryptography;
use super::key_files::{self, KeyFiles};
use super::{Error, User, pem, x509};

pub(super) const KEY_FILE: &str = "service-accounts.pem";
const ALGORITHM: &str = "ES256";
/// Longer than any token of ours; what is longer is not looked at.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Tolerated difference between the clocks of servers that share keys.
pub const LEEWAY_SECONDS: i64 = 60;
/// Keys of the past whose tokens are still believed.
const FORMER_KEYS_MAX: usize = 4;
/// Signatures that need not be checked again.
const VERIFIED_MAX: usize = 4096;
/// A point on P-256: a mark and two coordinates.
const POINT_OCTETS: usize = 65;

/// What exists right now, by name; the answer is a uid.
pub trait Live {
    fn service_account_uid(&self, namespace: &str, name: &str) -> Option<String>;
    fn pod_uid(&self, namespace: &str, name: &str) -> Option<String>;
    fn secret_uid(&self, namespace: &str, name: &str) -> Option<String>;
    fn node_uid(&self, name: &str) -> Option<String>;
}

/// Why a token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the token is malformed")]
    Malformed,
    #[error("unexpected signature algorithm; expected [\"ES256\"]")]
    Algorithm,
    #[error("no key has signed this token")]
    UnknownKey,
    #[error("the token's signature is invalid")]
    Signature,
    #[error("token issuer {0:?} is not ours")]
    Issuer(String),
    #[error("token audiences {0:?} is invalid for the target audiences {1:?}")]
    Audiences(Vec<String>, Vec<String>),
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("service account token has been invalidated")]
    Invalidated,
}

/// A token that is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub user: User,
    /// Those asked for that the token is for.
    pub audiences: Vec<String>,
}

/// Signs tokens, and tells whether others are ours.
#[derive(Debug)]
pub struct Tokens {
    pub issuer: String,
    signer: EcdsaKeyPair,
    signer_id: String,
    /// Public keys by their id, the signing one among them.
    keys: BTreeMap<String, Vec<u8>>,
    /// The ids, newest first.
    order: Vec<String>,
    verified: Mutex<BTreeMap<[u8; 32], Arc<Claims>>>,
}

impl Tokens {
    /// Reads the keys, or makes one if there is none.
    pub fn load_or_create(files: &dyn KeyFiles, issuer: &str) -> Result<Tokens, Error> {
        match key_files::read(files, KEY_FILE)? {
            None => Tokens::create(files, issuer, Vec::new()),
            Some(bytes) => Tokens::read(&bytes, issuer)
                .map_err(|why| Error::DamagedKeyFile { name: KEY_FILE.to_owned(), why }),
        }
    }

    /// Signs with another key from now on. Tokens of former keys stay good until they expire, or
    /// until too many keys came after theirs.
    pub fn rotate(&self, files: &dyn KeyFiles) -> Result<Tokens, Error> {
        let former = self.order.iter().take(FORMER_KEYS_MAX);
        let former = former.filter_map(|id| self.keys.get(id)).cloned().collect();
        Tokens::create(files, &self.issuer, former)
    }

    /// Returns the ids of all keys, the signing one first.
    pub fn ids(&self) -> Vec<String> {
        self.order.clone()
    }

    /// Signs a token.
    pub fn issue(&self, claims: &Claims) -> Result<String, Error> {
        let header = json!({"alg": ALGORITHM, "kid": self.signer_id});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims.to_value()));
        let signature = self
            .signer
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(cryptography("sign a token"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// Believes a token or not. Everything but the signature is looked at every time: a token ends
    /// with its account, whenever that ends.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
        live: &dyn Live,
    ) -> Result<Verified, Refusal> {
        let claims = self.signed_claims(token)?;
        if claims.issuer != self.issuer {
            return Err(Refusal::Issuer(claims.issuer.clone()));
        }
        if now + LEEWAY_SECONDS < claims.not_before || now + LEEWAY_SECONDS < claims.issued_at {
            return Err(Refusal::NotYetValid);
        }
        if now - LEEWAY_SECONDS > claims.expires_at {
            return Err(Refusal::Expired);
        }
        let common: Vec<String> =
            audiences.iter().filter(|one| claims.audiences.contains(one)).cloned().collect();
        if common.is_empty() {
            return Err(Refusal::Audiences(claims.audiences.clone(), audiences.to_vec()));
        }
        if !is_alive(&claims, live) {
            return Err(Refusal::Invalidated);
        }
        Ok(Verified { user: claims.user(), audiences: common })
    }

    /// Reports whether one of our keys signed a token, whatever the token is for.
    pub fn has_signed(&self, token: &str) -> bool {
        self.signed_claims(token).is_ok_and(|claims| claims.issuer == self.issuer)
    }

    /// The public keys, as others verify our tokens with them.
    pub fn key_set(&self) -> Value {
        let keys = self.order.iter().filter_map(|id| Some((id, self.keys.get(id)?)));
        let keys: Vec<Value> = keys
            .map(|(id, point)| {
                let (x, y) = point[1..].split_at((POINT_OCTETS - 1) / 2);
                json!({
                    "use": "sig", "kty": "EC", "kid": id, "alg": ALGORITHM, "crv": "P-256",
                    "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
                })
            })
            .collect();
        json!({"keys": keys})
    }

    /// The OpenID discovery document.
    pub fn discovery(&self, key_set_url: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": key_set_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        })
    }

    /// The claims, if one of our keys signed them.
    fn signed_claims(&self, token: &str) -> Result<Arc<Claims>, Refusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::Malformed);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let known =
            self.verified.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(claims) = known {
            return Ok(claims);
        }
        let claims = Arc::new(self.check_signature(token)?);
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert(hash, Arc::clone(&claims));
        Ok(claims)
    }

    fn check_signature(&self, token: &str) -> Result<Claims, Refusal> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Refusal::Malformed)?;
        let header = decode(header)?;
        // The algorithm is ours to choose, never the token's.
        if header["alg"] != ALGORITHM || !header["crit"].is_null() {
            return Err(Refusal::Algorithm);
        }
        let id = header["kid"].as_str().ok_or(Refusal::UnknownKey)?;
        let key = self.keys.get(id).ok_or(Refusal::UnknownKey)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refusal::Malformed)?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
            .verify(signed.as_bytes(), &signature)
            .map_err(|_| Refusal::Signature)?;
        Claims::from_value(&decode(payload)?).ok_or(Refusal::Malformed)
    }

    fn create(files: &dyn KeyFiles, issuer: &str, former: Vec<Vec<u8>>) -> Result<Tokens, Error> {
        let key =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map_err(cryptography("make a key"))?;
        let mut text = pem::encode(pem::PRIVATE_KEY, key.as_ref());
        for point in &former {
            text.push_str(&pem::encode(pem::PUBLIC_KEY, &x509::public_key_info(point)));
        }
        let tokens = Tokens::from_parts(key.as_ref(), former, issuer)
            .map_err(cryptography("read the key that was made"))?;
        key_files::write_private(files, KEY_FILE, text.as_bytes())?;
        Ok(tokens)
    }

    fn read(bytes: &[u8], issuer: &str) -> Result<Tokens, &'static str> {
        let sections = pem::decode(bytes).ok_or("it is not PEM")?;
        let [key] = &sections.private_keys[..] else { return Err("it does not have one key") };
        let mut former = Vec::new();
        for info in &sections.public_keys {
            let start = info.len().checked_sub(POINT_OCTETS).ok_or("a public key is too short")?;
            let point = &info[start..];
            if x509::public_key_info(point) != *info {
                return Err("a public key is not on P-256");
            }
            former.push(point.to_vec());
        }
        Tokens::from_parts(key, former, issuer)
    }

    fn from_parts(
        pkcs8: &[u8],
        former: Vec<Vec<u8>>,
        issuer: &str,
    ) -> Result<Tokens, &'static str> {
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
            .map_err(|_| "its key cannot be read")?;
        let own = signer.public_key().as_ref().to_vec();
        let signer_id = key_id(&own);
        let points = std::iter::once(own).chain(former);
        let named: Vec<(String, Vec<u8>)> = points.map(|point| (key_id(&point), point)).collect();
        Ok(Tokens {
            issuer: issuer.to_owned(),
            signer,
            signer_id,
            order: named.iter().map(|(id, _)| id.clone()).collect(),
            keys: named.into_iter().collect(),
            verified: Mutex::default(),
        })
    }
}

/// A random id for a token, in the form of a UUID.
pub fn new_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(cryptography("draw an id"))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(parts.join("-"))
}

fn key_id(point: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, &x509::public_key_info(point)))
}

fn decode(part: &str) -> Result<Value, Refusal> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Malformed)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| Refusal::Malformed)?;
    if value.is_object() { Ok(value) } else { Err(Refusal::Malformed) }
}

/// Whether what the token is bound to is there, and is the same as when it was issued. Where a pod
/// runs is told and not checked: the pod ends before its node.
fn is_alive(claims: &Claims, live: &dyn Live) -> bool {
    let same = |found: Option<String>, uid: &str| found.is_some_and(|found| found == uid);
    let namespace = claims.namespace.as_str();
    let account = &claims.account;
    same(live.service_account_uid(namespace, &account.name), &account.uid)
        && match &claims.bound {
            Bound::Account => true,
            Bound::Pod { pod, .. } => same(live.pod_uid(namespace, &pod.name), &pod.uid),
            Bound::Secret(one) => same(live.secret_uid(namespace, &one.name), &one.uid),
            Bound::Node(node) => same(live.node_uid(&node.name), &node.uid),
        }
}
