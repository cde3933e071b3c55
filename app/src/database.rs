//! A MySQL or etcd for who has none: where the configuration says that it is on this machine and
//! nobody answers there, it is started as a container, and stopped at the end by whoever started
//! it. Its data stay in a volume of the engine.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use node::runtimes::docker::service::{self, Begun, Service};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::config::{Etcd, Mysql, Storage, StoreKind};
use crate::runtimes::{Chosen, Runtime, Wanted};

/// How long a server may take to be there, and how often it is looked.
const APPEARS_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Who says that it is on this machine.
const NEAR: [&str; 4] = ["localhost", "127.0.0.1", "::1", "[::1]"];

const MYSQL_IMAGE: &str = "mysql:8.0";
const MYSQL_NAME: &str = "k8s_storage_mysql_mysql";
const ETCD_IMAGE: &str = "quay.io/coreos/etcd:v3.5.0";
const ETCD_NAME: &str = "k8s_storage_etcd_etcd";
/// The image has no entrypoint.
const ETCD_PROGRAM: &str = "/usr/local/bin/etcd";
const ETCD_TOKEN: &str = "hermes-etcd-token";
/// Of a MySQL whose user is not root.
const ROOT_PASSWORD: &str = "password";

/// Whether a database may be started, and by what.
#[derive(Clone, Debug)]
pub enum Databases {
    Never,
    By(Wanted),
}

/// A server that this process started.
pub struct Started {
    socket: PathBuf,
    name: String,
}

impl Started {
    pub async fn stop(self) {
        match service::stop(&self.socket, &self.name).await {
            Ok(()) => info!(container = self.name, "stopped, its data are kept"),
            Err(error) => warn!(container = self.name, error, "not stopped"),
        }
    }
}

/// Starts the server of a store, if it is missing and may be started. What was begun is noted, so
/// that whoever does not wait for the end can stop it.
pub async fn start_if_missing(
    storage: &Storage,
    databases: &Databases,
    started: &mut Option<Started>,
) {
    let Databases::By(wanted) = databases else { return };
    let missing = match storage.kind {
        StoreKind::Memory | StoreKind::Embedded => None,
        StoreKind::Mysql => mysql(&storage.mysql),
        StoreKind::Etcd => etcd(&storage.etcd),
    };
    let Some((service, address)) = missing else { return };
    if answers(address).await {
        return;
    }
    let kind = storage.kind;
    let chosen = wanted.choose().await;
    let Chosen {
        runtime: Runtime::Docker | Runtime::Podman,
        socket: Some(socket),
        version: Some(_),
        ..
    } = &chosen
    else {
        warn!(%address, "no {kind} server answers, and neither docker nor podman to start one");
        return;
    };
    let (container, image) = (&service.name, &service.image);
    let begun = match service::is_running(socket, &service).await {
        Ok(true) => {
            info!(%address, container, "a {kind} server that others started is waited for");
            Ok(Begun::Elsewhere)
        }
        Ok(false) => {
            info!(%address, container, image, "no {kind} server answers: one is started");
            *started = Some(Started { socket: socket.clone(), name: service.name.clone() });
            service::start(socket, &service).await
        }
        Err(error) => Err(error),
    };
    if begun != Ok(Begun::Here) {
        // It is not ours to stop.
        *started = None;
    }
    if let Err(error) = begun {
        warn!(error, "no {kind} server was started");
        return;
    }
    let began = Instant::now();
    while !answers(address).await {
        if let Err(why) = service::runs(socket, &service.name).await {
            warn!(why, "the {kind} server ended");
            if let Some(ended) = started.take() {
                ended.stop().await;
            }
            return;
        }
        if began.elapsed() > APPEARS_MAX {
            warn!(%address, "the {kind} server does not answer within {} s", APPEARS_MAX.as_secs());
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn answers(address: SocketAddr) -> bool {
    matches!(timeout(CONNECT_MAX, TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// The address of a server that is said to be on this machine.
fn near(host: &str, port: u16) -> Option<SocketAddr> {
    let host = NEAR.contains(&host).then(|| host.trim_matches(['[', ']']))?;
    let mut addresses = (host, port).to_socket_addrs().ok()?;
    let first = addresses.next()?;
    // A name may have both kinds of addresses.
    Some(addresses.chain([first]).find(SocketAddr::is_ipv4).unwrap_or(first))
}

fn mysql(settings: &Mysql) -> Option<(Service, SocketAddr)> {
    let address = near(&settings.host, settings.port)?;
    let password = settings.password.expose().to_owned();
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut env = vec![variable("MYSQL_DATABASE", &settings.database)];
    if settings.user == "root" {
        let password = if password.is_empty() { ROOT_PASSWORD } else { &password };
        env.push(variable("MYSQL_ROOT_PASSWORD", password));
    } else {
        env.push(variable("MYSQL_ROOT_PASSWORD", ROOT_PASSWORD));
        env.push(variable("MYSQL_USER", &settings.user));
        env.push(variable("MYSQL_PASSWORD", &password));
    }
    let service = Service {
        name: MYSQL_NAME.to_owned(),
        image: MYSQL_IMAGE.to_owned(),
        entrypoint: None,
        arguments: vec![
            format!("--port={}", address.port()),
            format!("--bind-address={}", address.ip()),
            // Another port of its own, which nobody asked for.
            "--loose-mysqlx=OFF".to_owned(),
        ],
        env,
        volume: ("k8s_storage_mysql".to_owned(), "/var/lib/mysql".to_owned()),
    };
    Some((service, address))
}

/// One endpoint without TLS; of a cluster others take care.
fn etcd(settings: &Etcd) -> Option<(Service, SocketAddr)> {
    let [endpoint] = &settings.endpoints[..] else { return None };
    let authority = endpoint.strip_prefix("http://")?.trim_end_matches('/');
    let (host, port) = authority.rsplit_once(':')?;
    let address = near(host, port.parse().ok()?)?;
    let peer_port = if address.port() == 2379 { 2380 } else { address.port().checked_add(1)? };
    let (client, peer) = (
        format!("http://{address}"),
        format!("http://{}", SocketAddr::new(address.ip(), peer_port)),
    );
    let option = |name: &str, value: &str| format!("--{name}={value}");
    let service = Service {
        name: ETCD_NAME.to_owned(),
        image: ETCD_IMAGE.to_owned(),
        entrypoint: Some(vec![ETCD_PROGRAM.to_owned()]),
        arguments: vec![
            option("name", "etcd"),
            option("data-dir", "/etcd-data"),
            option("listen-client-urls", &client),
            option("advertise-client-urls", &client),
            option("listen-peer-urls", &peer),
            option("initial-advertise-peer-urls", &peer),
            option("initial-cluster", &format!("etcd={peer}")),
            option("initial-cluster-token", ETCD_TOKEN),
            option("initial-cluster-state", "new"),
        ],
        env: Vec::new(),
        volume: ("k8s_storage_etcd".to_owned(), "/etcd-data".to_owned()),
    };
    Some((service, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_of_this_machine_is_started() {
        for (host, is_near) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("db.example", false),
            ("192.0.2.1", false),
        ] {
            let settings = Mysql { host: host.to_owned(), ..Mysql::default() };
            assert_eq!(mysql(&settings).is_some(), is_near, "{host}");
        }
        for (endpoints, is_near) in [
            (&["http://127.0.0.1:2379"][..], true),
            (&["http://localhost:2379/"], true),
            (&["https://127.0.0.1:2379"], false),
            (&["http://10.0.0.1:2379"], false),
            (&["http://127.0.0.1:2379", "http://127.0.0.1:2389"], false),
        ] {
            let endpoints: Vec<String> = endpoints.iter().map(|it| (*it).to_owned()).collect();
            let settings = Etcd { endpoints, ..Etcd::default() };
            assert_eq!(etcd(&settings).is_some(), is_near, "{settings:?}");
        }
    }

    #[test]
    fn a_server_is_told_what_the_configuration_says() {
        let (service, address) = mysql(&Mysql::default()).expect("it is near");
        assert_eq!((service.name.as_str(), service.image.as_str()), (MYSQL_NAME, MYSQL_IMAGE));
        assert_eq!(address.to_string(), "127.0.0.1:3306");
        let env = |service: &Service| {
            let words = service.env.iter().map(|(name, value)| format!("{name}={value}"));
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(env(&service), "MYSQL_DATABASE=k3 MYSQL_ROOT_PASSWORD=password");
        let user = Mysql { user: "me".to_owned(), ..Mysql::default() };
        let (service, _) = mysql(&user).expect("it is near");
        let expected = "MYSQL_DATABASE=k3 MYSQL_ROOT_PASSWORD=password MYSQL_USER=me \
                        MYSQL_PASSWORD=password";
        assert_eq!(env(&service), expected);
        let (service, _) = etcd(&Etcd::default()).expect("it is near");
        // k3 gave arguments only, to an image that has no program of its own.
        assert_eq!(service.entrypoint.as_deref(), Some(&[ETCD_PROGRAM.to_owned()][..]));
        assert!(service.arguments.contains(&"--listen-peer-urls=http://127.0.0.1:2380".to_owned()));
        assert!(service.arguments.contains(&format!("--initial-cluster-token={ETCD_TOKEN}")));
    }
}
