//! Certificates as bytes: written for keys on P-256, read for any key.
//!
//! Written by hand, because a client certificate names every group of its user in an organization
//! of its own, and the library we had in mind (rcgen 0.14) writes one of each kind only. Whether a
//! certificate holds is never decided here: that is rustls's.
//!
//! Upstream: RFC 5280

use std::net::IpAddr;

use super::der::{
    self, BOOLEAN, GENERALIZED_TIME, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE,
    SET, UTC_TIME, UTF8_STRING, bit_string, context, context_constructed, element, sequence,
};

/// The contents of object identifiers.
mod oid {
    pub const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    pub const ORGANIZATION: &[u8] = &[0x55, 4, 10];
    /// 1.3.6.1.4.1.57683.2, by which Kubernetes finds a user's uid.
    pub const USER_UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];
    pub const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
    pub const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    pub const PRIME_256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    pub const SUBJECT_KEY: &[u8] = &[0x55, 0x1d, 14];
    pub const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
    pub const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];
    pub const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
    pub const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 35];
    pub const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
    pub const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
    pub const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
}

/// The subject of a certificate: who it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    pub common_name: String,
    pub organizations: Vec<String>,
    /// Empty for most.
    pub uid: String,
}

/// What a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Signs others, which sign no more.
    Authority,
    Server(Vec<AlternativeName>),
    Client,
}

/// A name a client may have used to get here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlternativeName {
    Dns(String),
    Address(IpAddr),
}

/// What is to be signed.
#[derive(Debug)]
pub struct Statement<'a> {
    pub serial: [u8; 16],
    pub issuer: &'a Name,
    pub subject: &'a Name,
    pub purpose: &'a Purpose,
    pub not_before: i64,
    pub not_after: i64,
    /// The point on the curve.
    pub public_key: &'a [u8],
    pub key_id: &'a [u8],
    pub issuer_key_id: &'a [u8],
}

/// The part of a certificate that is signed.
pub fn statement(statement: &Statement<'_>) -> Vec<u8> {
    let mut serial = statement.serial;
    // Positive, and not shorter than it looks.
    serial[0] = serial[0] & 0x7f | 0x40;
    let validity = sequence(&[&der::time(statement.not_before), &der::time(statement.not_after)]);
    sequence(&[
        &element(context_constructed(0), &element(INTEGER, &[2])),
        &element(INTEGER, &serial),
        &signature_algorithm(),
        &write_name(statement.issuer),
        &validity,
        &write_name(statement.subject),
        &public_key_info(statement.public_key),
        &element(context_constructed(3), &extensions(statement)),
    ])
}

/// A certificate: a statement and the signature of it.
pub fn certificate(statement: &[u8], signature: &[u8]) -> Vec<u8> {
    sequence(&[statement, &signature_algorithm(), &bit_string(signature)])
}

/// A point on P-256 as a `SubjectPublicKeyInfo`.
pub fn public_key_info(point: &[u8]) -> Vec<u8> {
    let algorithm = sequence(&[&object(oid::EC_PUBLIC_KEY), &object(oid::PRIME_256)]);
    sequence(&[&algorithm, &bit_string(point)])
}

/// What is read from a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub subject: Name,
    pub not_before: i64,
    pub not_after: i64,
    /// The `SubjectPublicKeyInfo`, whole.
    pub public_key: Vec<u8>,
    pub alternative_names: Vec<AlternativeName>,
    pub authority_key_id: Vec<u8>,
}

/// Reads a certificate. `None` if it is not one, or says something twice that has one answer.
pub fn summary(certificate: &[u8]) -> Option<Summary> {
    let mut statement =
        Reader::new(certificate).expect(SEQUENCE)?.reader().expect(SEQUENCE)?.reader();
    statement.expect(context_constructed(0))?;
    statement.expect(INTEGER)?;
    statement.expect(SEQUENCE)?;
    statement.expect(SEQUENCE)?;
    let mut validity = statement.expect(SEQUENCE)?.reader();
    let mut moment = || {
        let next = validity.next()?;
        matches!(next.tag, UTC_TIME | GENERALIZED_TIME).then(|| next.unix_seconds())?
    };
    let (not_before, not_after) = (moment()?, moment()?);
    let subject = read_name(statement.expect(SEQUENCE)?.reader())?;
    let public_key = element(SEQUENCE, statement.expect(SEQUENCE)?.content);
    let extension = |wanted: &[u8]| {
        let mut rest = statement;
        let all = rest.find(|element| element.tag == context_constructed(3))?;
        all.reader().expect(SEQUENCE)?.reader().find_map(|extension| {
            let mut parts = extension.reader();
            let id = parts.expect(OBJECT_IDENTIFIER)?;
            parts.expect(BOOLEAN);
            (id.content == wanted).then(|| parts.expect(OCTET_STRING))?.map(|value| value.content)
        })
    };
    let alternative_names = extension(oid::ALTERNATIVE_NAMES).map(read_names).unwrap_or_default();
    let authority_key_id = extension(oid::AUTHORITY_KEY)
        .and_then(|bytes| Reader::new(bytes).expect(SEQUENCE)?.reader().expect(context(0)))
        .map(|id| id.content.to_vec())
        .unwrap_or_default();
    Some(Summary {
        subject,
        not_before,
        not_after,
        public_key,
        alternative_names,
        authority_key_id,
    })
}

fn object(id: &[u8]) -> Vec<u8> {
    element(OBJECT_IDENTIFIER, id)
}

fn signature_algorithm() -> Vec<u8> {
    sequence(&[&object(oid::ECDSA_WITH_SHA256)])
}

fn write_name(name: &Name) -> Vec<u8> {
    let part = |id: &[u8], value: &str| {
        element(SET, &sequence(&[&object(id), &element(UTF8_STRING, value.as_bytes())]))
    };
    let mut parts: Vec<u8> =
        name.organizations.iter().flat_map(|one| part(oid::ORGANIZATION, one)).collect();
    parts.extend(part(oid::COMMON_NAME, &name.common_name));
    if !name.uid.is_empty() {
        parts.extend(part(oid::USER_UID, &name.uid));
    }
    element(SEQUENCE, &parts)
}

fn read_name(parts: Reader<'_>) -> Option<Name> {
    let mut name = Name::default();
    for attribute in parts.flat_map(|set| set.reader()) {
        let mut pair = attribute.reader();
        let id = pair.expect(OBJECT_IDENTIFIER)?;
        let value = pair.next()?;
        match id.content {
            oid::ORGANIZATION => name.organizations.push(value.text()?.to_owned()),
            oid::COMMON_NAME if name.common_name.is_empty() => {
                name.common_name = value.text()?.to_owned();
            }
            oid::USER_UID if name.uid.is_empty() => name.uid = value.text()?.to_owned(),
            oid::COMMON_NAME | oid::USER_UID => return None,
            _ => {}
        }
    }
    Some(name)
}

fn extensions(statement: &Statement<'_>) -> Vec<u8> {
    let critical = |id: &[u8], value: &[u8]| {
        sequence(&[&object(id), &element(BOOLEAN, &[0xff]), &element(OCTET_STRING, value)])
    };
    let plain = |id: &[u8], value: &[u8]| sequence(&[&object(id), &element(OCTET_STRING, value)]);
    let constraints = match statement.purpose {
        Purpose::Authority => sequence(&[&element(BOOLEAN, &[0xff]), &element(INTEGER, &[0])]),
        _ => sequence(&[]),
    };
    // Digital signatures; authorities also sign certificates and lists of revoked ones.
    let usage: &[u8] = match statement.purpose {
        Purpose::Authority => &[1, 0x86],
        _ => &[7, 0x80],
    };
    let mut all = vec![
        critical(oid::BASIC_CONSTRAINTS, &constraints),
        critical(oid::KEY_USAGE, &element(der::BIT_STRING, usage)),
        plain(oid::SUBJECT_KEY, &element(OCTET_STRING, statement.key_id)),
        plain(oid::AUTHORITY_KEY, &sequence(&[&element(context(0), statement.issuer_key_id)])),
    ];
    match statement.purpose {
        Purpose::Authority => {}
        Purpose::Client => {
            all.push(plain(oid::EXTENDED_KEY_USAGE, &sequence(&[&object(oid::CLIENT_AUTH)])));
        }
        Purpose::Server(names) => {
            all.push(plain(oid::EXTENDED_KEY_USAGE, &sequence(&[&object(oid::SERVER_AUTH)])));
            let names: Vec<u8> = names.iter().flat_map(write_alternative_name).collect();
            all.push(plain(oid::ALTERNATIVE_NAMES, &element(SEQUENCE, &names)));
        }
    }
    element(SEQUENCE, &all.concat())
}

fn write_alternative_name(name: &AlternativeName) -> Vec<u8> {
    match name {
        AlternativeName::Dns(name) => element(context(2), name.as_bytes()),
        AlternativeName::Address(IpAddr::V4(address)) => element(context(7), &address.octets()),
        AlternativeName::Address(IpAddr::V6(address)) => element(context(7), &address.octets()),
    }
}

fn read_names(bytes: &[u8]) -> Vec<AlternativeName> {
    const DNS: u8 = context(2);
    const ADDRESS: u8 = context(7);
    let names = Reader::new(bytes).expect(SEQUENCE).map(|names| names.reader());
    let read = |name: der::Element<'_>| match (name.tag, name.content.len()) {
        (DNS, _) => Some(AlternativeName::Dns(std::str::from_utf8(name.content).ok()?.to_owned())),
        (ADDRESS, 4) => {
            let octets: [u8; 4] = name.content.try_into().ok()?;
            Some(AlternativeName::Address(octets.into()))
        }
        (ADDRESS, 16) => {
            let octets: [u8; 16] = name.content.try_into().ok()?;
            Some(AlternativeName::Address(octets.into()))
        }
        _ => None,
    };
    names.into_iter().flatten().filter_map(read).collect()
}
