//! An API server and the ways to reach it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::User;
use apiserver::local::local_client;
use apiserver::registry::custom::follow::follow;
use apiserver::server::Server;
use reconcile::leader::Term;
use reconcile::{Caches, Context, Environment, Kind, Object};
use serde_json::Value;
use store::{Retention, Store};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::prepared;
use crate::world::World;

thread_local! {
    /// How long a test waits for what it expects.
    static PATIENCE: Cell<Duration> = const { Cell::new(Duration::from_secs(30)) };
}

/// On virtual time waiting costs nothing, and faults take their time.
pub(crate) fn set_patience(patience: Duration) {
    PATIENCE.set(patience);
}

/// A running API server with its background work.
pub struct Cluster {
    pub server: Arc<Server>,
    pub store: Arc<dyn Store>,
    environment: Arc<dyn Environment>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
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
        let (stop, stopping) = watch::channel(false);
        let started = prepared::start_server(store.clone(), environment, stopping).await;
        let mut tasks = JoinSet::new();
        tasks.spawn(started.roles.follow());
        tasks.spawn(started.configurations.follow());
        tasks.spawn(follow(started.server.clone()));
        Cluster { server: started.server, store, environment: controllers, stop, tasks }
    }

    /// The clock and the chance that controllers are given.
    pub fn environment(&self) -> Arc<dyn Environment> {
        self.environment.clone()
    }

    /// A client that may do everything.
    pub fn admin(&self) -> kube::Client {
        self.client("admin", &["system:masters"])
    }

    pub fn client(&self, name: &str, groups: &[&str]) -> kube::Client {
        local_client(&self.server, User::authenticated(name, groups.iter().copied()))
    }

    /// What controllers are given, as in the program: objects change hands without their text.
    pub fn context(&self) -> Context {
        let client = self.admin();
        let caches = Arc::new(Caches::in_process(client.clone(), self.environment.clone()));
        Context { caches, ..self.context_of(client) }
    }

    /// The same, for those who come by another way.
    pub fn context_of(&self, client: kube::Client) -> Context {
        // Nobody stands for election in a test that does not say so.
        let (_, term) = watch::channel(Term::Alone);
        self.context_with(client.clone(), client, term)
    }

    /// The same, for those whose caches are filled by another way, and who may have a rival.
    pub fn context_with(
        &self,
        client: kube::Client,
        filler: kube::Client,
        term: watch::Receiver<Term>,
    ) -> Context {
        let environment = self.environment.clone();
        Context {
            caches: Arc::new(Caches::new(filler, environment.clone())),
            client,
            environment,
            metrics: Arc::default(),
            health: Arc::default(),
            recorder: Arc::default(),
            tuning: Default::default(),
            elsewhere: Default::default(),
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
    if tokio::time::timeout(PATIENCE.get(), wait).await.is_err() {
        let all: Vec<Value> = cache.all().iter().map(|object| object.value.clone()).collect();
        panic!(
            "{kind}: {}",
            serde_json::to_string_pretty(&all).expect("a simulation must be set up")
        );
    }
}
