//! How servers and nodes of other processes know each other. All hold the keys of one cluster, so
//! each issues its own certificate: a node is known by its name, a server by `SERVER_NAME`, and
//! nobody else is answered.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use link::Duplex;
use link::remote::Connect;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs as provider;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme, version};
use rustls_pki_types::ServerName;
use store::Environment;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::certificates::{Authority, ClientRequest, Issued};
use super::tls::{Holder, certified};
use super::{AlternativeName, Error, User};
use crate::time;

/// Who asks nodes. The name alone may do nothing at an API server.
pub const SERVER_NAME: &str = "system:apiserver";
const SERVER_SECONDS: i64 = 30 * 86_400;
/// How long a connection and its handshake may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The keys of the cluster, for those who speak to its other processes.
#[derive(Clone)]
pub struct Peers {
    pub authority: Arc<Authority>,
    pub environment: Arc<dyn Environment>,
}

impl Peers {
    /// How a server reaches a node that says it is there.
    pub fn connect(&self, node: &str, address: SocketAddr) -> Result<Arc<dyn Connect>, Error> {
        self.connect_with(self.own(Role::Server)?, node, address)
    }

    /// The same by a certificate of somebody else, whom no node answers.
    #[cfg(test)]
    pub fn connect_as(&self, user: &str, address: SocketAddr) -> Result<Arc<dyn Connect>, Error> {
        self.connect_with(self.own(Role::User(user.to_owned()))?, "node-1", address)
    }

    fn connect_with(
        &self,
        own: Arc<Own>,
        node: &str,
        address: SocketAddr,
    ) -> Result<Arc<dyn Connect>, Error> {
        let provider = Arc::new(provider::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(failed("choose versions of TLS"))?
            .with_root_certificates(self.roots()?)
            .with_client_cert_resolver(own);
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Arc::new(Dialled { connector, node: node.to_owned(), address }))
    }

    /// How a node answers servers, and nobody else.
    pub fn answer(&self, node: &str, address: IpAddr) -> Result<Answering, Error> {
        let names = vec![AlternativeName::Dns(node.to_owned()), AlternativeName::Address(address)];
        let provider = Arc::new(provider::default_provider());
        let roots = Arc::new(self.roots()?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let verifier = verifier.build().map_err(|error| {
            failed("make the verifier of servers")(rustls::Error::General(error.to_string()))
        })?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(failed("choose versions of TLS"))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.own(Role::Node(names))?);
        // Every connection shows who it is.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Answering { acceptor, environment: self.environment.clone() })
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        for authority in self.authority.bundle() {
            roots.add(authority).map_err(failed("take the authority in"))?;
        }
        Ok(roots)
    }

    fn own(&self, role: Role) -> Result<Arc<Own>, Error> {
        let issued = role.issue(&self.authority, self.now())?;
        let current = RwLock::new((certified(&issued)?, issued.renewal()));
        Ok(Arc::new(Own { peers: self.clone(), role, current }))
    }

    fn now(&self) -> i64 {
        time::unix_seconds(self.environment.now())
    }
}

/// Takes connections of servers.
#[derive(Clone)]
pub struct Answering {
    acceptor: TlsAcceptor,
    environment: Arc<dyn Environment>,
}

impl Answering {
    /// The connection, once it is known that a server is at its other end.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<impl Duplex + use<>> {
        let accepted = tokio::time::timeout(CONNECT_MAX, self.acceptor.accept(stream)).await;
        let stream = accepted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let holder = shown.and_then(|certificate| Holder::of_certificate(certificate));
        let user =
            holder.and_then(|holder| holder.user(time::unix_seconds(self.environment.now())));
        match user {
            Some(user) if &*user.name == SERVER_NAME => Ok(stream),
            _ => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only the API servers of the cluster are answered",
            )),
        }
    }
}

struct Dialled {
    connector: TlsConnector,
    node: String,
    address: SocketAddr,
}

#[async_trait]
impl Connect for Dialled {
    async fn connect(&self) -> io::Result<Box<dyn Duplex>> {
        let address = self.address;
        let connecting = async {
            let name = ServerName::try_from(self.node.clone()).map_err(io::Error::other)?;
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            self.connector.connect(name, stream).await
        };
        let connected = tokio::time::timeout(CONNECT_MAX, connecting).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let about = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        connected.map(|stream| Box::new(stream) as Box<dyn Duplex>).map_err(about)
    }
}

/// What a certificate is for.
#[derive(Clone, Debug)]
enum Role {
    Server,
    #[cfg(test)]
    User(String),
    Node(Vec<AlternativeName>),
}

impl Role {
    fn issue(&self, authority: &Authority, now: i64) -> Result<Issued, Error> {
        match self {
            Role::Server => issue_for(SERVER_NAME, authority, now),
            #[cfg(test)]
            Role::User(name) => issue_for(name, authority, now),
            Role::Node(names) => authority.issue_serving(names, now),
        }
    }
}

fn issue_for(name: &str, authority: &Authority, now: i64) -> Result<Issued, Error> {
    let user = User::authenticated(name, [""; 0]);
    let request = ClientRequest { user: &user, lifetime_seconds: SERVER_SECONDS };
    authority.issue_client(request, now)
}

/// The certificate of this process, replaced when it has become old.
struct Own {
    peers: Peers,
    role: Role,
    /// With when it is to be replaced.
    current: RwLock<(Arc<CertifiedKey>, i64)>,
}

impl fmt::Debug for Own {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Own").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Own {
    fn current(&self) -> Arc<CertifiedKey> {
        let now = self.peers.now();
        let (held, renewal) = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        if now < renewal {
            return held;
        }
        let issued = self.role.issue(&self.peers.authority, now);
        let next = issued.and_then(|issued| Ok((certified(&issued)?, issued.renewal())));
        match next {
            Ok(next) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
                next.0
            }
            Err(error) => {
                tracing::warn!(%error, "a certificate between processes was not replaced");
                held
            }
        }
    }
}

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn failed(doing: &'static str) -> impl FnOnce(rustls::Error) -> Error {
    move |source| Error::Tls { doing, source }
}
