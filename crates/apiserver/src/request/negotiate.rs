//! Which representation a client wants.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/negotiation/negotiate.go

use crate::status::Error;

/// How an answer is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Object(Encoding),
    /// Rows and columns, as kubectl prints them; of `meta.k8s.io/v1` or `v1beta1`.
    Table {
        beta: bool,
    },
    /// Only the metadata.
    Metadata {
        beta: bool,
        encoding: Encoding,
    },
    /// Discovery of all groups in one answer.
    AggregatedDiscovery {
        beta: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
}

/// What can be asked for; the seam for protobuf is one more row and one more `Encoding`.
const ENCODINGS: &[(&str, Encoding)] =
    &[("application/json", Encoding::Json), ("application/yaml", Encoding::Yaml)];

/// For error messages.
pub const ACCEPTED: &str = "application/json, application/yaml";

/// The bodies that can be read, for error messages.
pub const ACCEPTED_BODIES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Reads an `Accept` header: the first clause that can be served wins, in order of `q`.
pub fn negotiate(accept: &str) -> Result<Representation, Error> {
    if accept.trim().is_empty() {
        return Ok(Representation::Object(Encoding::Json));
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').map(Clause::parse).collect();
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality));
    let served = clauses.iter().find_map(Clause::representation);
    served.ok_or_else(|| Error::not_acceptable(ACCEPTED))
}

struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// In thousandths.
    quality: u32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Clause<'a> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q");
        let quality = quality.and_then(|(_, value)| value.parse::<f64>().ok()).unwrap_or(1.0);
        Clause { media_type, parameters, quality: (quality.clamp(0.0, 1.0) * 1_000.0) as u32 }
    }

    fn parameter(&self, name: &str) -> &'a str {
        let found = self.parameters.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).unwrap_or_default()
    }

    fn representation(&self) -> Option<Representation> {
        let encoding = match self.media_type {
            "*/*" | "application/*" => Encoding::Json,
            other => ENCODINGS.iter().find(|(known, _)| *known == other)?.1,
        };
        let (group, version) = (self.parameter("g"), self.parameter("v"));
        match (self.parameter("as"), group, version) {
            ("", _, _) => Some(Representation::Object(encoding)),
            ("Table", "meta.k8s.io", "v1") => Some(Representation::Table { beta: false }),
            ("Table", "meta.k8s.io", "v1beta1") => Some(Representation::Table { beta: true }),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", version) => {
                let beta = match version {
                    "v1" => false,
                    "v1beta1" => true,
                    _ => return None,
                };
                Some(Representation::Metadata { beta, encoding })
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => {
                Some(Representation::AggregatedDiscovery { beta: false })
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                Some(Representation::AggregatedDiscovery { beta: true })
            }
            _ => None,
        }
    }
}

/// How a request's body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyType {
    Json,
    Yaml,
    Protobuf,
}

/// Reads a `Content-Type`; none at all is JSON.
pub fn body_type(content_type: &str) -> Result<BodyType, Error> {
    match media_type(content_type) {
        "" | "application/json" => Ok(BodyType::Json),
        "application/yaml" => Ok(BodyType::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(BodyType::Protobuf),
        _ => Err(Error::unsupported_media_type(ACCEPTED_BODIES)),
    }
}

/// The media type without its parameters.
pub fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        use Encoding::{Json, Yaml};
        use Representation::{AggregatedDiscovery, Metadata, Object, Table};
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let cases = [
            ("".to_owned(), Object(Json)),
            ("*/*".to_owned(), Object(Json)),
            ("application/yaml".to_owned(), Object(Yaml)),
            ("application/vnd.kubernetes.protobuf,application/json".to_owned(), Object(Json)),
            (format!("{table},application/json"), Table { beta: false }),
            (format!("application/json;q=0.5,{table}"), Table { beta: false }),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1".to_owned(),
                Metadata { beta: false, encoding: Json },
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                 application/json"
                    .to_owned(),
                AggregatedDiscovery { beta: false },
            ),
        ];
        for (accept, expected) in cases {
            assert_eq!(negotiate(&accept).unwrap(), expected, "{accept}");
        }
        assert_eq!(negotiate("application/vnd.kubernetes.protobuf").unwrap_err().code, 406);
        assert_eq!(negotiate("text/html").unwrap_err().code, 406);
    }

    #[test]
    fn bodies_are_json_unless_they_say_otherwise() {
        let cases = [
            ("", BodyType::Json),
            ("application/json; charset=utf-8", BodyType::Json),
            ("application/yaml", BodyType::Yaml),
            ("application/vnd.kubernetes.protobuf", BodyType::Protobuf),
        ];
        for (content_type, expected) in cases {
            assert_eq!(body_type(content_type).unwrap(), expected, "{content_type}");
        }
        let error = body_type("text/plain").unwrap_err();
        assert_eq!(error.code, 415);
        assert!(error.message.ends_with(ACCEPTED_BODIES), "{}", error.message);
    }
}
