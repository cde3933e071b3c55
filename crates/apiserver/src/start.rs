//! Puts a server together: its keys, what exists at birth, and who may do what.
//!
//! Spawns nothing and listens nowhere: whoever starts it drives the parts it hands out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::time_provider::DefaultTimeProvider;
use store::{Environment, Store};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::bootstrap::{Roles, bootstrap};
use crate::identity::certificates::{Authority, ClientRequest, Issued};
use crate::identity::key_files::Directory;
use crate::identity::kubeconfig::{Credential, Entry};
use crate::identity::tls::{self, Serving};
use crate::identity::tokens::Tokens;
use crate::identity::{self, AlternativeName, GROUP_MASTERS, User};
use crate::rbac::Authorizer;
use crate::resources::Registry;
use crate::server::Server;
use crate::{status, time};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The address of the Service `kubernetes`: the first of those for services.
const SERVICE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));
const ADMIN_NAME: &str = "setpoint-admin";
const ADMIN_SECONDS: i64 = 365 * 86_400;
/// How often to look whether the serving certificate is old. The clock may jump, so nobody sleeps
/// until the day itself.
const RENEWAL_CHECK: Duration = Duration::from_secs(3_600);

/// What a server needs to be told.
pub struct Options {
    /// Where keys and certificates are kept.
    pub directory: PathBuf,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The name by which other machines reach it.
    pub host: String,
    /// True from when the server is to stop.
    pub stop: watch::Receiver<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not prepare the keys in {directory}; check who may write there")]
    Keys {
        directory: PathBuf,
        #[source]
        source: identity::Error,
    },
    #[error("could not {doing}: {why}; check the store")]
    Store { doing: &'static str, why: String },
}

/// A server that is ready to serve.
pub struct Handle {
    pub server: Arc<Server>,
    pub tls: Arc<ServerConfig>,
    /// To be followed for as long as the server serves.
    pub roles: Roles,
    pub keys: Keys,
}

/// Loads or makes the keys, makes the first objects, and learns the roles.
pub async fn start(
    options: Options,
    store: Arc<dyn Store>,
    environment: Arc<dyn Environment>,
) -> Result<Handle, Error> {
    let (keys, tokens, tls) = prepare(&options, &environment)
        .map_err(|source| Error::Keys { directory: options.directory.clone(), source })?;
    let registry = Registry::builtin();
    bootstrap(&*store, &registry, &*environment).await.map_err(failed("make the first objects"))?;
    let authorizer = Arc::new(Authorizer::new());
    let roles = Roles::load(store.clone(), &registry, authorizer.clone())
        .await
        .map_err(failed("read the roles"))?;
    let server = Arc::new(Server {
        store,
        registry,
        authorizer,
        environment,
        documents: Default::default(),
        tokens,
        known_tokens: Default::default(),
        traffic: Default::default(),
        metrics: Default::default(),
        stop: options.stop,
    });
    Ok(Handle { server, tls: Arc::new(tls), roles, keys })
}

fn prepare(
    options: &Options,
    environment: &Arc<dyn Environment>,
) -> Result<(Keys, Tokens, ServerConfig), identity::Error> {
    let files = Directory { path: options.directory.clone() };
    let now = time::unix_seconds(environment.now());
    let authority = Authority::load_or_create(&files, now)?;
    if authority.needs_renewal(now) {
        warn!("the certificate authority is old, or the clock is wrong");
    }
    let names = names(options);
    let issued = authority.serving(&files, &names, now)?;
    let serving = Serving::new(&issued)?;
    let tokens = Tokens::load_or_create(&files, ISSUER)?;
    let tls = tls::server_config(tls::Options {
        serving: serving.clone(),
        client_authorities: authority.bundle(),
        clock: Arc::new(DefaultTimeProvider),
    })?;
    let environment = environment.clone();
    Ok((Keys { files, authority, names, issued, serving, environment }, tokens, tls))
}

/// Every name by which a client may know the server.
fn names(options: &Options) -> Vec<AlternativeName> {
    let dns = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        &options.host,
    ];
    let addresses = [
        Ipv4Addr::LOCALHOST.into(),
        Ipv6Addr::LOCALHOST.into(),
        SERVICE_ADDRESS,
        options.listen.ip(),
    ];
    let dns = dns.into_iter().filter(|name| !name.is_empty() && name.is_ascii());
    let addresses = addresses.into_iter().filter(|address| !address.is_unspecified());
    let mut names: Vec<AlternativeName> = dns
        .map(|name| AlternativeName::Dns(name.to_owned()))
        .chain(addresses.map(AlternativeName::Address))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The authority of the cluster, and the certificate that is served.
pub struct Keys {
    files: Directory,
    authority: Authority,
    names: Vec<AlternativeName>,
    issued: Issued,
    serving: Arc<Serving>,
    environment: Arc<dyn Environment>,
}

impl Keys {
    /// Issues a credential that may do everything.
    pub fn admin(&self) -> Result<Admin, Error> {
        let user = User::authenticated(ADMIN_NAME, [GROUP_MASTERS]);
        let request = ClientRequest { user: &user, lifetime_seconds: ADMIN_SECONDS };
        let issued = self
            .authority
            .issue_client(request, self.now())
            .map_err(|source| Error::Keys { directory: self.files.path.clone(), source })?;
        Ok(Admin {
            authority_pem: self.authority.bundle_pem(),
            certificate_pem: issued.certificate_pem(),
            key_pem: issued.key_pem(),
        })
    }

    /// Replaces the serving certificate whenever it has become old; never returns.
    pub async fn renew(mut self) {
        loop {
            tokio::time::sleep(RENEWAL_CHECK).await;
            let now = self.now();
            if !self.issued.needs_renewal(now) {
                continue;
            }
            match self.replace(now) {
                Ok(()) => info!("the serving certificate was replaced"),
                Err(error) => warn!(%error, "the serving certificate could not be replaced"),
            }
        }
    }

    fn replace(&mut self, now: i64) -> Result<(), identity::Error> {
        let issued = self.authority.serving(&self.files, &self.names, now)?;
        self.serving.swap(&issued)?;
        self.issued = issued;
        Ok(())
    }

    fn now(&self) -> i64 {
        time::unix_seconds(self.environment.now())
    }
}

/// A credential of an administrator.
pub struct Admin {
    authority_pem: String,
    certificate_pem: String,
    key_pem: String,
}

impl Admin {
    /// How a client at a URL is the administrator.
    pub fn entry<'a>(&'a self, name: &'a str, server: &'a str) -> Entry<'a> {
        let Admin { authority_pem, certificate_pem, key_pem } = self;
        let credential = Credential::Certificate { certificate_pem, key_pem };
        Entry { name, server, authority_pem, credential }
    }
}

fn failed(doing: &'static str) -> impl FnOnce(status::Error) -> Error {
    move |error| Error::Store { doing, why: error.message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_every_name_it_is_called_by_and_no_name_twice() {
        let of = |listen: &str| {
            let (_, stop) = watch::channel(false);
            let listen = listen.parse().unwrap();
            names(&Options { directory: "d".into(), listen, host: "box".to_owned(), stop })
        };
        let dns = |name: &str| AlternativeName::Dns(name.to_owned());
        let address = |text: &str| AlternativeName::Address(text.parse().unwrap());
        let local = of("127.0.0.1:6443");
        for name in ["localhost", "box", "kubernetes", "kubernetes.default.svc"] {
            assert!(local.contains(&dns(name)), "{name}");
        }
        for text in ["127.0.0.1", "::1", "10.96.0.1"] {
            assert_eq!(local.iter().filter(|name| **name == address(text)).count(), 1, "{text}");
        }
        assert_eq!(of("0.0.0.0:6443"), local, "nobody can call it by no address");
        assert!(of("192.0.2.7:1").contains(&address("192.0.2.7")));
    }
}
