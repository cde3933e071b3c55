//! OpenID discovery: how other programs verify tokens of service accounts.
//!
//! Upstream: pkg/routes/openidmetadata.go

use http::header::CACHE_CONTROL;
use serde_json::Value;

use super::tokens::Tokens;
use crate::answer::{Answer, JSON};

const KEY_SET_PATH: &str = "/openid/v1/jwks";
const KEY_SET_TYPE: &str = "application/jwk-set+json";
const CACHED: &str = "public, max-age=3600";

/// Answers `/.well-known/openid-configuration`.
pub fn configuration(tokens: &Tokens) -> Answer {
    document(JSON, &tokens.discovery(&format!("{}{KEY_SET_PATH}", tokens.issuer)))
}

/// Answers `/openid/v1/jwks`.
pub fn key_set(tokens: &Tokens) -> Answer {
    document(KEY_SET_TYPE, &tokens.key_set())
}

fn document(content_type: &'static str, document: &Value) -> Answer {
    Answer::of(200, content_type, document.to_string()).with(CACHE_CONTROL, CACHED)
}
