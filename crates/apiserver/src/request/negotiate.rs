//! Which representation a client wants.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/negotiation/negotiate.go

use crate::status::Error;

/// How far a form of answers has come that has two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Stable,
    Beta,
}

/// How an answer is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Object(Encoding),
    /// Rows and columns, as kubectl prints them; of `meta.k8s.io/v1` or `v1beta1`.
    Table {
        stage: Stage,
        encoding: Encoding,
    },
    /// Only the metadata.
    Metadata {
        stage: Stage,
        encoding: Encoding,
    },
    /// Discovery of all groups in one answer.
    AggregatedDiscovery {
        stage: Stage,
    },
}

impl Representation {
    pub fn encoding(self) -> Encoding {
        match self {
            Representation::Object(encoding)
            | Representation::Table { encoding, .. }
            | Representation::Metadata { encoding, .. } => encoding,
            Representation::AggregatedDiscovery { .. } => Encoding::Json,
        }
    }
}

/// What can be had of the thing that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// An object or a list of a kind.
    Full,
    /// Something that has neither a table nor metadata worth having alone: reviews, bindings.
    Plain,
    /// Events, one line each, which YAML cannot be.
    Events,
    /// Discovery.
    Discovery,
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
const ACCEPTED_EVENTS: &str = "application/json;stream=watch";

/// The bodies that can be read, for error messages.
pub const ACCEPTED_BODIES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Reads an `Accept` header: the first clause that can be served wins, in order of `q`.
pub fn negotiate(accept: &str, offer: Offer) -> Result<Representation, Error> {
    if accept.trim().is_empty() {
        return Ok(Representation::Object(Encoding::Json));
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').map(Clause::parse).collect();
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality));
    let wanted = clauses.iter().filter(|clause| clause.quality > 0);
    let mut served = wanted.filter_map(Clause::representation);
    served.find(|wanted| offer.has(*wanted)).ok_or_else(|| {
        Error::not_acceptable(if offer == Offer::Events { ACCEPTED_EVENTS } else { ACCEPTED })
    })
}

impl Offer {
    fn has(self, wanted: Representation) -> bool {
        use Representation::{AggregatedDiscovery, Metadata, Object, Table};
        match (self, wanted) {
            (Offer::Discovery, Object(_) | AggregatedDiscovery { .. })
            | (Offer::Plain, Object(_))
            | (Offer::Full, Object(_) | Table { .. } | Metadata { .. }) => true,
            (Offer::Events, Object(_) | Table { .. } | Metadata { .. }) => {
                wanted.encoding() == Encoding::Json
            }
            _ => false,
        }
    }
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
            ("Table", "meta.k8s.io", "v1") => {
                Some(Representation::Table { stage: Stage::Stable, encoding })
            }
            ("Table", "meta.k8s.io", "v1beta1") => {
                Some(Representation::Table { stage: Stage::Beta, encoding })
            }
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", version) => {
                let stage = match version {
                    "v1" => Stage::Stable,
                    "v1beta1" => Stage::Beta,
                    _ => return None,
                };
                Some(Representation::Metadata { stage, encoding })
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => {
                Some(Representation::AggregatedDiscovery { stage: Stage::Stable })
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                Some(Representation::AggregatedDiscovery { stage: Stage::Beta })
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
            (format!("{table},application/json"), Table { stage: Stage::Stable, encoding: Json }),
            (
                format!("application/json;q=0.5,{table}"),
                Table { stage: Stage::Stable, encoding: Json },
            ),
            (table.replace("json", "yaml"), Table { stage: Stage::Stable, encoding: Yaml }),
            ("application/yaml;q=0,application/json;q=0.1".to_owned(), Object(Json)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1".to_owned(),
                Metadata { stage: Stage::Stable, encoding: Json },
            ),
        ];
        for (accept, expected) in cases {
            assert_eq!(negotiate(&accept, Offer::Full).unwrap(), expected, "{accept}");
        }
        let groups = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let both = format!("{groups},application/json");
        let expected = AggregatedDiscovery { stage: Stage::Stable };
        assert_eq!(negotiate(&both, Offer::Discovery).unwrap(), expected);
        assert_eq!(negotiate(&both, Offer::Full).unwrap(), Object(Json));
    }

    #[test]
    fn what_cannot_be_had_is_not_acceptable() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let cases = [
            ("application/vnd.kubernetes.protobuf", Offer::Full),
            ("application/cbor", Offer::Full),
            ("text/html", Offer::Full),
            ("application/json;as=Table;v=v2;g=meta.k8s.io", Offer::Full),
            ("application/json;as=Cake;v=v1;g=meta.k8s.io", Offer::Full),
            (table, Offer::Plain),
            (table, Offer::Discovery),
            ("application/yaml", Offer::Events),
        ];
        for (accept, offer) in cases {
            let error = negotiate(accept, offer).unwrap_err();
            assert_eq!((error.code, &*error.reason), (406, "NotAcceptable"), "{accept}");
            let accepted = if offer == Offer::Events { ACCEPTED_EVENTS } else { ACCEPTED };
            let text = format!("only the following media types are accepted: {accepted}");
            assert_eq!(error.message, text);
        }
        let both = format!("{table},application/json");
        let plain = Representation::Object(Encoding::Json);
        assert_eq!(negotiate(&both, Offer::Plain).unwrap(), plain);
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
