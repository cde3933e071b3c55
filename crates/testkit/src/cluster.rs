//! An API server and the ways to reach it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::User;
use apiserver::local::local_client;
use apiserver::registry::custom::follow::follow;
use apiserver::server::Server;
use apiserver::start::{Options, start};
use reconcile::leader::Term;
use reconcile::{Caches, Context, Environment, Kind, Object};
use serde_json::Value;
use store::{Retention, Store};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::world::World;

/// How long a test waits for what it expects.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running API server with its background work.
pub struct Cluster {
    pub server: Arc<Server>,
    pub store: Arc<dyn Store>,
    environment: Arc<dyn Environment>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    directory: PathBuf,
}

impl Cluster {
    pub async fn start() -> Cluster {
        Cluster::with(Arc::new(store::System), Arc::new(reconcile::environment::System)).await
    }

    /// On virtual time and a seed.
    pub async fn in_world(world: Arc<World>) -> Cluster {
        Cluster::with(world.clone(), world).await
    }

    async fn with(
        environment: Arc<dyn store::Environment>,
        controllers: Arc<dyn Environment>,
    ) -> Cluster {
        let store = store::backends::memory::open(Retention::default(), environment.clone());
        let directory = std::env::temp_dir().join(format!("testkit-{:016x}", chance()));
        let (stop, stopping) = watch::channel(false);
        let options = Options {
            directory: directory.clone(),
            listen: "127.0.0.1:0".parse().expect("a simulation must be set up"),
            host: "localhost".to_owned(),
            stop: stopping,
        };
        let handle =
            start(options, store.clone(), environment).await.expect("a simulation must be set up");
        let mut tasks = JoinSet::new();
        tasks.spawn(handle.roles.follow());
        tasks.spawn(follow(handle.server.clone()));
        Cluster { server: handle.server, store, environment: controllers, stop, tasks, directory }
    }

    /// A client that may do everything.
    pub fn admin(&self) -> kube::Client {
        self.client("admin", &["system:masters"])
    }

    pub fn client(&self, name: &str, groups: &[&str]) -> kube::Client {
        local_client(&self.server, User::authenticated(name, groups.iter().copied()))
    }

    /// What controllers are given.
    pub fn context(&self) -> Context {
        self.context_of(self.admin())
    }

    /// The same, for those who come by another way.
    pub fn context_of(&self, client: kube::Client) -> Context {
        let environment = self.environment.clone();
        // Nobody stands for election in a test that does not say so.
        let (_, term) = watch::channel(Term::Alone);
        Context {
            caches: Arc::new(Caches::new(client.clone(), environment.clone())),
            client,
            environment,
            metrics: Arc::default(),
            health: Arc::default(),
            recorder: Arc::default(),
            term,
            stop: self.stop.subscribe(),
        }
    }

    /// Runs something beside the test for as long as the cluster lives.
    pub fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    pub async fn create(&self, kind: Kind, object: Value) -> Object {
        let context = self.context();
        context
            .requests("test", Default::default())
            .create(kind, &object)
            .await
            .expect("a simulation must be set up")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Waits until a condition holds of a kind's objects; panics with what there is if it never does.
pub async fn until(context: &Context, kind: Kind, holds: impl Fn(&[Arc<Object>]) -> bool) {
    let cache = context.cache(kind);
    let wait = async {
        loop {
            let seen = cache.seen();
            if cache.is_ready() && holds(&cache.all()) {
                return;
            }
            cache.reaches(seen + 1).await;
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        let all: Vec<Value> = cache.all().iter().map(|object| object.value.clone()).collect();
        panic!(
            "{kind}: {}",
            serde_json::to_string_pretty(&all).expect("a simulation must be set up")
        );
    }
}

fn chance() -> u64 {
    Environment::random(&reconcile::environment::System)
}
