//! Puts a server together: its keys, what exists at birth, and who may do what.
//!
//! Spawns nothing and listens nowhere: whoever starts it drives the parts it hands out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::time_provider::DefaultTimeProvider;
use store::{Environment, Store, Timestamp};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::admission::follow::Configurations;
use crate::allocation::ranges::Range;
use crate::bootstrap::{Roles, bootstrap};
use crate::console::sessions::Sessions;
use crate::expiry::{EVENT_AGE, Expiry};
use crate::first_objects::Cluster;
use crate::identity::certificates::{Authority, ClientRequest, Issued};
use crate::identity::key_files::Directory;
use crate::identity::kubeconfig::{Credential, Entry, Selection};
use crate::identity::peers::Peers;
use crate::identity::rotation::KeyState;
use crate::identity::tls::{self, Serving};
use crate::identity::tokens::Tokens;
use crate::identity::{self, AlternativeName, GROUP_MASTERS, User};
use crate::profile::Profile;
use crate::rbac::Authorizer;
use crate::resources::{Registry, Served};
use crate::secrets_at_rest::store::SealedStore;
use crate::secrets_at_rest::{self, Sealer};
use crate::server::Server;
use crate::webhooks::addresses::LoopbackWebhooks;
use crate::{admission, status, time};

/// Where services get their addresses from when nobody says.
/// Of the names of a cluster that says nothing else.
const DOMAIN: &str = "cluster.local";
const SERVICE_RANGE: &str = "10.96.0.0/16";
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Addresses that are only for examples.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ELSEWHERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const ADMIN_NAME: &str = "setpoint-admin";
const ADMIN_SECONDS: i64 = 365 * 86_400;
/// When two thirds of the life of a credential are over.
const ADMIN_RENEWAL_SECONDS: i64 = ADMIN_SECONDS / 3 * 2;
/// How often to look whether the serving certificate is old. The clock may jump, so nobody sleeps
/// until the day itself.
const RENEWAL_CHECK: Duration = Duration::from_secs(3_600);
/// Interval at which revocations are read.
const REVOCATION_CHECK: Duration = Duration::from_secs(2);

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

/// What few servers need to be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where services get their addresses from, one range for each family; the first is the usual.
    pub service_ranges: Vec<Range>,
    /// How long events are kept.
    pub event_age: Duration,
    /// In whose manner new objects begin.
    pub profile: Profile,
    /// Of the names of the cluster.
    pub domain: String,
    /// Whether others are told where it listens. One that serves only its own process has nothing
    /// to tell.
    pub is_advertised: bool,
    /// Whether other processes on the same store may have nodes.
    pub is_shared: bool,
    pub admission: admission::Settings,
    pub loopback_webhooks: LoopbackWebhooks,
}

impl Default for Settings {
    fn default() -> Settings {
        let usual = Range::parse(SERVICE_RANGE).expect("the range is written as one");
        Settings {
            service_ranges: vec![usual],
            event_age: EVENT_AGE,
            domain: DOMAIN.to_owned(),
            profile: Profile::default(),
            is_advertised: true,
            is_shared: false,
            admission: admission::Settings::default(),
            loopback_webhooks: LoopbackWebhooks::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not prepare the keys in {directory}; check who may write there")]
    Keys {
        directory: PathBuf,
        #[source]
        source: identity::Error,
    },
    #[error(
        "the store has sealed secrets, and {directory} has no secrets.keys to open them; put the \
         file back from a backup or from the machine that wrote them"
    )]
    KeysMissing { directory: PathBuf },
    #[error("the secrets of the store cannot be opened: {why}")]
    Secrets { why: String },
    #[error("could not {doing}: {why}; check the store")]
    Store { doing: &'static str, why: String },
}

/// A server that is ready to serve.
pub struct Handle {
    pub server: Arc<Server>,
    pub tls: Arc<ServerConfig>,
    /// To be followed for as long as the server serves.
    pub roles: Roles,
    /// To be followed likewise.
    pub configurations: Configurations,
    pub keys: Keys,
    /// Ends what is only kept for a time; to be run for as long as the server serves.
    pub expiry: Expiry,
}

/// Loads or makes the keys, makes the first objects, and learns the roles.
pub async fn start(
    options: Options,
    store: Arc<dyn Store>,
    environment: Arc<dyn Environment>,
) -> Result<Handle, Error> {
    start_with(options, Settings::default(), store, environment).await
}

/// The same for a server with settings of its own.
pub async fn start_with(
    options: Options,
    settings: Settings,
    store: Arc<dyn Store>,
    environment: Arc<dyn Environment>,
) -> Result<Handle, Error> {
    let (keys, tokens, tls) = prepare(&options, &settings, &environment)
        .map_err(|source| Error::Keys { directory: options.directory.clone(), source })?;
    let store = seal_secrets(&options, store, environment.now()).await?;
    let registry = Registry::builtin();
    let address = || SocketAddr::new(advertised(options.listen.ip()), options.listen.port());
    let cluster = Cluster {
        service_ranges: settings.service_ranges,
        advertised: settings.is_advertised.then(address),
        authority_pem: keys.authority.bundle_pem(),
    };
    let made = bootstrap(&*store, &registry, &*environment, &cluster).await;
    made.map_err(failed("make the first objects"))?;
    let expiry = Expiry::new(store.clone(), environment.clone(), settings.event_age);
    let authorizer = Arc::new(Authorizer::new());
    let roles = Roles::load(store.clone(), &registry, authorizer.clone())
        .await
        .map_err(failed("read the roles"))?;
    let configurations = Configurations::load(store.clone(), &registry)
        .await
        .map_err(failed("read the webhook configurations"))?;
    let server = Arc::new(Server {
        offers: Arc::default(),
        moments: Default::default(),
        reach: Default::default(),
        store,
        registry: Served::new(registry),
        definitions: Default::default(),
        authorizer,
        environment,
        documents: Default::default(),
        tokens,
        keys: keys.state.clone(),
        known_tokens: Default::default(),
        sessions: keys.sessions.clone(),
        quota_turns: Default::default(),
        webhooks: configurations.webhooks(),
        policies: configurations.policies(),
        webhook_client: Default::default(),
        admission: settings.admission,
        loopback_webhooks: settings.loopback_webhooks,
        traffic: Default::default(),
        metrics: Default::default(),
        audit: Default::default(),
        profile: settings.profile,
        beside: Default::default(),
        connected: Default::default(),
        stop: options.stop,
    });
    if settings.is_shared {
        let (authority, environment) = (keys.authority.clone(), keys.environment.clone());
        server.connected.share(Peers { authority, environment });
    }
    let caught_up = server.definitions.catch_up(&server).await;
    caught_up.map_err(failed("read the definitions of custom resources"))?;
    let tls = Arc::new(tls);
    Ok(Handle { server, tls, roles, configurations, keys, expiry })
}

/// The address that others are told. One who listens everywhere is at the address from which it
/// would speak to others; no packet is sent to find out.
fn advertised(listen: IpAddr) -> IpAddr {
    if !listen.is_unspecified() {
        return listen;
    }
    let (own, other): (SocketAddr, SocketAddr) = match listen {
        IpAddr::V4(_) => ((Ipv4Addr::UNSPECIFIED, 0).into(), (ELSEWHERE, 9).into()),
        IpAddr::V6(_) => ((Ipv6Addr::UNSPECIFIED, 0).into(), (ELSEWHERE_V6, 9).into()),
    };
    let found = UdpSocket::bind(own).and_then(|socket| {
        socket.connect(other)?;
        socket.local_addr()
    });
    match (found, listen) {
        (Ok(address), _) => address.ip(),
        (Err(_), IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (Err(_), IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Returns the store with objects of confidential kinds encrypted, those included that were written
/// before their kind was. Never makes a key where another one encrypted what is there.
async fn seal_secrets(
    options: &Options,
    store: Arc<dyn Store>,
    now: Timestamp,
) -> Result<Arc<dyn Store>, Error> {
    let directory = options.directory.clone();
    let files = Directory { path: directory.clone() };
    let keys = |source| Error::Keys { directory: directory.clone(), source };
    let sealer = match Sealer::load(&files).map_err(keys)? {
        Some(sealer) => sealer,
        None => {
            let has_sealed = secrets_at_rest::store::has_sealed(&*store).await;
            if has_sealed.map_err(|error| Error::Secrets { why: error.to_string() })? {
                return Err(Error::KeysMissing { directory });
            }
            Sealer::load_or_create(&files).map_err(keys)?
        }
    };
    let store = SealedStore::new(store, sealer);
    store.probe().await.map_err(|error| Error::Secrets { why: error.to_string() })?;
    let resealed = store.reseal(now).await;
    match resealed.map_err(|error| Error::Secrets { why: error.to_string() })? {
        0 => {}
        objects => info!(objects, "encrypted objects with the newest key"),
    }
    Ok(Arc::new(store))
}

fn prepare(
    options: &Options,
    settings: &Settings,
    environment: &Arc<dyn Environment>,
) -> Result<(Keys, Tokens, ServerConfig), identity::Error> {
    let files = Directory { path: options.directory.clone() };
    let now = time::unix_seconds(environment.now());
    let authority = Arc::new(Authority::load_or_create(&files, now)?);
    if authority.needs_renewal(now) {
        warn!("the certificate authority is old, or the clock is wrong");
    }
    let names = names(options, settings);
    let issued = authority.serving(&files, &names, now)?;
    let serving = Serving::new(&issued)?;
    let tokens = Tokens::load_or_create(&files, ISSUER)?;
    let tls = tls::server_config(tls::Options {
        serving: serving.clone(),
        client_authorities: authority.bundle(),
        clock: Arc::new(DefaultTimeProvider),
    })?;
    let environment = environment.clone();
    let admin_renewal = now + ADMIN_RENEWAL_SECONDS;
    let state = Arc::new(KeyState::default());
    state.reload_revocations(&files)?;
    state.reload_inventory(&files, now)?;
    let keys = Keys {
        files,
        authority,
        names,
        issued,
        serving,
        admin_renewal,
        environment,
        state,
        sessions: Arc::new(Sessions::load(Directory { path: options.directory.clone() })),
    };
    Ok((keys, tokens, tls))
}

/// Every name by which a client may know the server.
fn names(options: &Options, settings: &Settings) -> Vec<AlternativeName> {
    let dns = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        &format!("kubernetes.default.svc.{}", settings.domain),
        &options.host,
    ];
    let mut addresses =
        vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), options.listen.ip()];
    // The Service `kubernetes` has the first address of those for services.
    addresses.extend(settings.service_ranges.iter().map(|range| range.nth(0)));
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
    authority: Arc<Authority>,
    names: Vec<AlternativeName>,
    issued: Issued,
    serving: Arc<Serving>,
    /// When the administrator is to get another credential.
    admin_renewal: i64,
    environment: Arc<dyn Environment>,
    state: Arc<KeyState>,
    /// Sessions of the console, which end when administrators' certificates are revoked.
    sessions: Arc<Sessions>,
}

impl Keys {
    /// Issues a credential that may do everything.
    pub fn admin(&self) -> Result<Admin, Error> {
        let user = User::authenticated(ADMIN_NAME, [GROUP_MASTERS]);
        let request = ClientRequest { user: &user, lifetime_seconds: ADMIN_SECONDS };
        let issued = self
            .authority
            .issue_client(request, self.now().max(self.state.admin_accepted_from()))
            .map_err(|source| Error::Keys { directory: self.files.path.clone(), source })?;
        Ok(Admin {
            authority_pem: self.authority.bundle_pem(),
            certificate_pem: issued.certificate_pem(),
            key_pem: issued.key_pem(),
        })
    }

    /// Replaces the serving certificate whenever it has become old; never returns.
    pub async fn renew(self) {
        self.renew_and_publish(|_| true).await;
    }

    /// Replaces the serving certificate whenever it has become old, and hands out another
    /// credential of the administrator before the one of the start ends; never returns. Whoever
    /// publishes says whether it worked; if not, it is tried again.
    pub async fn renew_and_publish(mut self, publish: impl Fn(&Admin) -> bool) {
        let mut checked = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(REVOCATION_CHECK).await;
            self.follow_revocations(&publish);
            if checked.elapsed() < RENEWAL_CHECK {
                continue;
            }
            checked = tokio::time::Instant::now();
            self.renew_if_due(&publish);
            if let Err(error) = self.state.reload_inventory(&self.files, self.now()) {
                warn!(%error, "the inventory of keys could not be read");
            }
        }
    }

    /// Ends what revoked certificates began, and hands out another one.
    fn follow_revocations(&self, publish: &impl Fn(&Admin) -> bool) {
        match self.state.reload_revocations(&self.files) {
            Ok(false) => return,
            Ok(true) => info!("revoked certificates of administrators"),
            Err(error) => return warn!(%error, "revocations could not be read"),
        }
        if let Err(error) = self.sessions.end_all() {
            warn!(%error, "sessions of the console were not ended");
        }
        match self.admin() {
            Ok(admin) if publish(&admin) => info!("replaced the administrator's certificate"),
            Ok(_) => warn!("the administrator's certificate could not be handed out"),
            Err(error) => warn!(%error, "the administrator's certificate could not be replaced"),
        }
    }

    fn renew_if_due(&mut self, publish: &impl Fn(&Admin) -> bool) {
        let now = self.now();
        if self.issued.needs_renewal(now) {
            match self.replace(now) {
                Ok(()) => info!("the serving certificate was replaced"),
                Err(error) => warn!(%error, "the serving certificate could not be replaced"),
            }
        }
        if now < self.admin_renewal {
            return;
        }
        match self.admin() {
            Ok(admin) if publish(&admin) => {
                self.admin_renewal = now + ADMIN_RENEWAL_SECONDS;
                info!("the administrator's certificate was replaced");
            }
            Ok(_) => warn!("the administrator's certificate could not be handed out"),
            Err(error) => warn!(%error, "the administrator's certificate could not be replaced"),
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
    pub authority_pem: String,
    certificate_pem: String,
    key_pem: String,
}

impl Admin {
    /// How a client at a URL is the administrator.
    pub fn entry<'a>(&'a self, name: &'a str, server: &'a str) -> Entry<'a> {
        let Admin { authority_pem, certificate_pem, key_pem } = self;
        let credential = Credential::Certificate { certificate_pem, key_pem };
        Entry { name, server, authority_pem, credential, selection: Selection::WhereThereIsNone }
    }
}

fn failed(doing: &'static str) -> impl FnOnce(status::Error) -> Error {
    move |error| Error::Store { doing, why: error.message }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicI64, Ordering};

    use store::{System, Timestamp};

    use super::*;
    use crate::identity::key_files::tests::Scratch;

    #[test]
    fn a_server_has_every_name_it_is_called_by_and_no_name_twice() {
        let of = |listen: &str| {
            let (_, stop) = watch::channel(false);
            let listen = listen.parse().unwrap();
            let options = Options { directory: "d".into(), listen, host: "box".to_owned(), stop };
            names(&options, &Settings::default())
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

    /// A clock that stands until it is moved.
    struct Clock(AtomicI64);

    impl Environment for Clock {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }

        fn random(&self) -> u64 {
            System.random()
        }
    }

    #[test]
    fn certificates_are_replaced_before_they_end_and_the_authority_stays() {
        const DAY: i64 = 86_400 * 1_000_000;
        let scratch = Scratch::new("renewal");
        let clock = Arc::new(Clock(AtomicI64::new(20_000 * DAY)));
        let environment: Arc<dyn Environment> = clock.clone();
        let (_, stop) = watch::channel(false);
        let listen = "127.0.0.1:6443".parse().unwrap();
        let host = "box".to_owned();
        let options = Options { directory: scratch.0.clone(), listen, host, stop };
        let (mut keys, ..) = prepare(&options, &Settings::default(), &environment).unwrap();
        let authority = keys.authority.bundle_pem();
        let file = scratch.0.join("serving.pem");
        let mut served = std::fs::read(&file).unwrap();
        let published = Cell::new(0);
        let mut is_published = true;
        // Days from the start, how many credentials were handed out by then, and whether the
        // serving certificate is another one.
        for (day, expected, replaced, works) in [
            (1, 0, false, true),
            (242, 0, false, true),
            (244, 1, true, false),
            (245, 2, false, true),
            (246, 2, false, true),
            (489, 3, true, true),
        ] {
            clock.0.store((20_000 + day) * DAY, Ordering::Relaxed);
            is_published = works;
            keys.renew_if_due(&|admin: &Admin| {
                assert!(admin.certificate_pem.contains("CERTIFICATE"));
                published.set(published.get() + 1);
                is_published
            });
            assert_eq!(published.get(), expected, "day {day}");
            let now = std::fs::read(&file).unwrap();
            assert_eq!(now != served, replaced, "day {day}");
            assert!(keys.issued.not_after > (20_000 + day + 100) * 86_400, "day {day}");
            served = now;
        }
        assert!(is_published);
        assert_eq!(keys.authority.bundle_pem(), authority);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // A start finds what was made, and replaces it if it is old.
        clock.0.store((20_000 + 490) * DAY, Ordering::Relaxed);
        let (again, ..) = prepare(&options, &Settings::default(), &environment).unwrap();
        assert_eq!(again.issued.certificate, keys.issued.certificate);
        clock.0.store((20_000 + 900) * DAY, Ordering::Relaxed);
        let (again, ..) = prepare(&options, &Settings::default(), &environment).unwrap();
        assert_ne!(again.issued.certificate, keys.issued.certificate);
        assert_eq!(again.authority.bundle_pem(), authority);
    }
}
