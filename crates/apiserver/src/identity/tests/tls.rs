//! Real handshakes, over bytes in memory.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion, version,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::identity::certificates::{Authority, ClientRequest, Issued};
use crate::identity::key_files::tests::Memory;
use crate::identity::tls::{Holder, Options, Serving, server_config};
use crate::identity::x509::AlternativeName;
use crate::identity::{CREDENTIAL_ID, User};

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;
const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

#[derive(Debug)]
struct At(i64);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0 as u64)))
    }
}

struct World {
    authority: Authority,
    serving: Arc<Serving>,
}

impl World {
    fn new() -> World {
        let authority = Authority::load_or_create(&Memory::default(), NOW).unwrap();
        let issued = authority.issue_serving(&names(), NOW).unwrap();
        World { serving: Serving::new(&issued).unwrap(), authority }
    }

    fn server(&self, now: i64) -> Arc<ServerConfig> {
        let options = Options {
            serving: Arc::clone(&self.serving),
            client_authorities: self.authority.bundle(),
            clock: Arc::new(At(now)),
        };
        Arc::new(server_config(options).unwrap())
    }

    fn client_certificate(&self, name: &str, groups: &[&str]) -> Issued {
        let user = User::authenticated(name, groups);
        let request = ClientRequest { user: &user, lifetime_seconds: DAY };
        self.authority.issue_client(request, NOW).unwrap()
    }
}

struct Client<'a> {
    trusts: Vec<CertificateDer<'static>>,
    shows: Option<&'a Issued>,
    version: &'static SupportedProtocolVersion,
    now: i64,
}

impl Client<'_> {
    fn of(world: &World) -> Client<'static> {
        let trusts = world.authority.bundle();
        Client { trusts, shows: None, version: &version::TLS13, now: NOW }
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for root in &self.trusts {
            roots.add(root.clone()).unwrap();
        }
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(At(self.now)))
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.shows {
            None => builder.with_no_client_auth(),
            Some(issued) => builder
                .with_client_auth_cert(vec![issued.certificate.clone()], issued.private_key())
                .unwrap(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = Resumption::in_memory_sessions(8);
        Arc::new(config)
    }
}

fn names() -> Vec<AlternativeName> {
    vec![
        AlternativeName::Dns("kubernetes.default.svc".to_owned()),
        AlternativeName::Address("127.0.0.1".parse().unwrap()),
    ]
}

/// Carries bytes until nobody has any more to say.
fn shake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: &str,
) -> Result<(ClientConnection, ServerConnection), rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(client, name)?;
    let mut server = ServerConnection::new(server)?;
    loop {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut moved = !wire.is_empty();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        moved |= !wire.is_empty();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
        if !moved {
            return Ok((client, server));
        }
    }
}

fn user_of(server: &ServerConnection, now: i64) -> Option<User> {
    user_of_certificate(server.peer_certificates()?.first()?, now)
}

fn user_of_certificate(certificate: &[u8], now: i64) -> Option<User> {
    Holder::of_certificate(certificate)?.user(now).map(|user| User::clone(&user))
}

#[test]
fn a_client_may_come_without_a_certificate() {
    let world = World::new();
    for version in VERSIONS {
        for name in ["kubernetes.default.svc", "127.0.0.1"] {
            let client = Client { version, ..Client::of(&world) };
            let (client, server) = shake(client.config(), world.server(NOW), name).unwrap();
            assert!(!client.is_handshaking() && !server.is_handshaking());
            assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
            assert_eq!(user_of(&server, NOW), None);
        }
    }
}

#[test]
fn a_client_certificate_makes_a_user_with_groups() {
    let world = World::new();
    let issued = world.client_certificate("ann", &["team", "system:masters"]);
    for version in VERSIONS {
        let client = Client { version, shows: Some(&issued), ..Client::of(&world) };
        let (_, server) = shake(client.config(), world.server(NOW), "127.0.0.1").unwrap();
        let user = user_of(&server, NOW).unwrap();
        assert_eq!(&*user.name, "ann");
        let groups: Vec<&str> = user.groups.iter().map(|group| &**group).collect();
        assert_eq!(groups, ["team", "system:masters", "system:authenticated"]);
        assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        assert_eq!(user_of(&server, NOW + 2 * DAY), None, "it has expired meanwhile");
    }
}

#[test]
fn a_certificate_that_does_not_hold_ends_the_handshake() {
    let (world, other) = (World::new(), World::new());
    let good = world.client_certificate("ann", &[]);
    let foreign = other.client_certificate("ann", &["system:masters"]);
    let serving = world.authority.issue_serving(&names(), NOW).unwrap();
    let cases = [
        ("of another authority", &foreign, NOW),
        ("expired", &good, NOW + 2 * DAY),
        ("not valid yet", &good, NOW - 2 * DAY),
        ("for a server", &serving, NOW),
    ];
    for (what, issued, now) in cases {
        for version in VERSIONS {
            let client = Client { version, shows: Some(issued), ..Client::of(&world) };
            let shaken = shake(client.config(), world.server(now), "127.0.0.1");
            assert!(shaken.is_err(), "{what}");
        }
    }
}

#[test]
fn a_client_refuses_a_server_that_is_not_the_one() {
    let (world, other) = (World::new(), World::new());
    let cases = [
        ("of another authority", other.authority.bundle(), "127.0.0.1", NOW),
        ("another name", world.authority.bundle(), "example.com", NOW),
        ("another address", world.authority.bundle(), "127.0.0.2", NOW),
        ("expired", world.authority.bundle(), "127.0.0.1", NOW + 366 * DAY),
    ];
    for (what, trusts, name, now) in cases {
        let client = Client { trusts, now, ..Client::of(&world) };
        assert!(shake(client.config(), world.server(NOW), name).is_err(), "{what}");
    }
}

#[test]
fn a_swapped_certificate_is_served_from_the_next_handshake_on() {
    let world = World::new();
    let server = world.server(NOW);
    let served = |(client, _): (ClientConnection, ServerConnection)| {
        client.peer_certificates().unwrap()[0].clone().into_owned()
    };
    let client = || Client::of(&world).config();
    let first = served(shake(client(), Arc::clone(&server), "127.0.0.1").unwrap());
    let renewed = world.authority.issue_serving(&names(), NOW + 60).unwrap();
    world.serving.swap(&renewed).unwrap();
    let second = served(shake(client(), server, "127.0.0.1").unwrap());
    assert_ne!(first, second);
    assert_eq!(second, renewed.certificate);
}

#[test]
fn a_resumed_session_is_of_the_same_user() {
    let world = World::new();
    let issued = world.client_certificate("ann", &["team"]);
    for version in VERSIONS {
        let client = Client { version, shows: Some(&issued), ..Client::of(&world) }.config();
        let server = world.server(NOW);
        shake(Arc::clone(&client), Arc::clone(&server), "127.0.0.1").unwrap();
        let (_, server) = shake(client, server, "127.0.0.1").unwrap();
        assert_eq!(server.handshake_kind(), Some(HandshakeKind::Resumed));
        assert_eq!(&*user_of(&server, NOW).unwrap().name, "ann");
        assert_eq!(user_of(&server, NOW + 2 * DAY), None);
    }
}

#[test]
fn junk_is_nobody() {
    let world = World::new();
    let good = world.client_certificate("ann", &[]).certificate;
    assert!(user_of_certificate(&good, NOW).is_some());
    for length in 0..good.len() {
        assert_eq!(user_of_certificate(&good[..length], NOW), None, "cut at {length}");
    }
    let nameless = world.client_certificate("", &["system:masters"]);
    assert_eq!(user_of_certificate(&nameless.certificate, NOW), None);
}
