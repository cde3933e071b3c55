//! What every server of a test begins with, made once for the process: keys, the first objects, and
//! the table of kinds. A server that starts from here makes no key and writes no first object.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use apiserver::admission::follow::Configurations;
use apiserver::bootstrap::Roles;
use apiserver::identity::key_files::{KeyFiles, Privacy};
use apiserver::identity::tokens::Tokens;
use apiserver::rbac::Authorizer;
use apiserver::resources::{Registry, Served};
use apiserver::server::Server;
use apiserver::start::{Options, start};
use bytes::Bytes;
use reconcile::Environment;
use store::{
    Commit, Key, KeyRange, Mutation, Operation, PageRequest, Precondition, Provenance, Retention,
    Store,
};
use tokio::sync::watch;

use crate::world::World;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// On whose behalf the first objects are written.
const ACTOR: &str = "system:apiserver";
/// What a store takes in one commit is bounded; this many first objects always fit.
const OPERATIONS_MAX: usize = 50;

/// What is the same for all servers of this process.
struct Prepared {
    entries: Vec<(Key, Bytes)>,
    keys: Kept,
    registry: Registry,
}

/// Key files, kept in memory.
struct Kept(BTreeMap<String, Vec<u8>>);

impl KeyFiles for Kept {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.get(name).cloned())
    }

    fn write(&self, name: &str, _: &[u8], _: Privacy) -> io::Result<()> {
        Err(io::Error::other(format!("{name} must be there already")))
    }
}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

/// A server on a store of its own, and what has to be followed while it serves.
pub struct Started {
    pub server: Arc<Server>,
    pub roles: Roles,
    pub configurations: Configurations,
}

/// Starts a server over an empty store.
pub async fn start_server(
    store: Arc<dyn Store>,
    environment: Arc<dyn store::Environment>,
    stop: watch::Receiver<bool>,
) -> Started {
    let prepared = PREPARED.get_or_init(prepare);
    restore(&*store, &*environment, prepared).await;
    let registry = prepared.registry.with([]);
    let authorizer = Arc::new(Authorizer::new());
    let roles = Roles::load(store.clone(), &registry, authorizer.clone()).await;
    let configurations = Configurations::load(store.clone(), &registry).await;
    let configurations = configurations.map_err(|error| error.message).expect("no webhooks");
    let server = Arc::new(Server {
        offers: Arc::default(),
        store,
        registry: Served::new(registry),
        definitions: Default::default(),
        authorizer,
        environment,
        documents: Default::default(),
        tokens: Tokens::load_or_create(&prepared.keys, ISSUER).expect("the keys must be there"),
        known_tokens: Default::default(),
        keys: Default::default(),
        sessions: Default::default(),
        quota_turns: Default::default(),
        webhooks: configurations.webhooks(),
        policies: configurations.policies(),
        audit: Default::default(),
        webhook_client: Default::default(),
        admission: Default::default(),
        loopback_webhooks: Default::default(),
        traffic: Default::default(),
        metrics: Default::default(),
        beside: Default::default(),
        connected: Default::default(),
        profile: Default::default(),
        moments: Default::default(),
        reach: Default::default(),
        stop,
    });
    let roles = roles.map_err(|error| error.message).expect("the first roles must be readable");
    Started { server, roles, configurations }
}

async fn restore(store: &dyn Store, environment: &dyn store::Environment, prepared: &Prepared) {
    for entries in prepared.entries.chunks(OPERATIONS_MAX) {
        let put = |(key, value): &(Key, Bytes)| Operation {
            key: key.clone(),
            mutation: Mutation::Put(value.clone()),
            when: Precondition::Absent,
        };
        let operations = entries.iter().map(put).collect();
        let provenance = Provenance::of(environment.now(), ACTOR);
        let commit = Commit { operations, epoch: None, provenance };
        store.commit(commit).await.expect("the first objects must fit");
    }
}

/// Starts one real server to learn what it makes.
fn prepare() -> Prepared {
    // A runtime inside a runtime is refused, a thread of its own is not.
    let thread = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime must start");
        runtime.block_on(learn())
    });
    thread.join().expect("a first server must start")
}

async fn learn() -> Prepared {
    let chance = Environment::random(&reconcile::environment::System);
    let directory = std::env::temp_dir().join(format!("testkit-{chance:016x}"));
    let world = Arc::new(World::new(0));
    let store = store::backends::memory::open(Retention::default(), world.clone());
    let (_stop, stopping) = watch::channel(false);
    let options = Options {
        directory: directory.clone(),
        listen: "127.0.0.1:6443".parse().expect("the address is written as one"),
        host: "localhost".to_owned(),
        stop: stopping,
    };
    start(options, store.clone(), world).await.expect("a first server must start");
    let page = PageRequest { limit: None, ..PageRequest::default() };
    let page = store.list(&KeyRange::all(), page, None).await.expect("a store must be readable");
    let entries = page.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone()));
    let keys = Kept(files_in(&directory).expect("the keys must be readable"));
    let _ = std::fs::remove_dir_all(&directory);
    Prepared { entries: entries.collect(), keys, registry: Registry::builtin() }
}

fn files_in(directory: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for file in std::fs::read_dir(directory)? {
        let file = file?;
        if file.file_type()?.is_file() {
            let name = file.file_name().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(file.path())?);
        }
    }
    Ok(files)
}
