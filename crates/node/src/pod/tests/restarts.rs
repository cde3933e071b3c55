//! Restarts of whole pods: the agent against a real API server and the fake runtime, on virtual
//! time. Each case runs a batch of generated pods on one node.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use reconcile::{Context, Object};
use serde_json::{Value, json};
use testkit::cluster::Cluster;
use testkit::world::World;
use tokio::sync::Notify;

use super::super::restart::{between, delay};
use crate::agent::{self, Options};
use crate::devices::Devices;
use crate::runtime::PodRuntime;
use crate::runtimes::fake::Fake;
use crate::simulated::POD;

/// Observation time of each pod. A container that exits at once starts at 0, 0, 10, 30, 70, 150,
/// 310 and 610 seconds.
const HORIZON: Duration = Duration::from_secs(700);
const STARTS_MAX: usize = 8;
/// Status writes of one pod: a few for each start of each of its containers.
const WRITES_MAX: usize = 4 * 4 * STARTS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    CannotStart,
    Exits(i32),
    KeepsRunning,
}

#[derive(Clone, Debug)]
struct Plan {
    policy: &'static str,
    init: Option<Program>,
    mains: Vec<Program>,
}

fn program() -> impl Strategy<Value = Program> {
    use Program::{CannotStart, Exits, KeepsRunning};
    prop::sample::select(vec![CannotStart, Exits(0), Exits(1), KeepsRunning])
}

fn plan() -> impl Strategy<Value = Plan> {
    let policy = prop::sample::select(vec!["Always", "OnFailure", "Never"]);
    let mains = vec(program(), 1..=4);
    (policy, prop::option::weighted(0.2, program()), mains).prop_map(|(policy, init, mut mains)| {
        mains.truncate(4 - usize::from(init.is_some()));
        Plan { policy, init, mains }
    })
}

impl Plan {
    fn pod(&self, name: &str) -> Value {
        let container = |name: String, program: &Program| {
            let (command, behaviour) = match program {
                Program::CannotStart => ("/no/such/program", String::new()),
                Program::Exits(code) => ("x", format!("exits {code}")),
                Program::KeepsRunning => ("x", "waits x".to_owned()),
            };
            json!({"name": name, "image": "x", "command": [command],
                "env": [{"name": "BEHAVIOUR", "value": behaviour}]})
        };
        let named = |prefix: &str, programs: &[Program]| -> Vec<Value> {
            let all = programs.iter().enumerate();
            all.map(|(at, program)| container(format!("{prefix}{at}"), program)).collect()
        };
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "default", "name": name},
            "spec": {"nodeName": "here", "restartPolicy": self.policy,
                "automountServiceAccountToken": false,
                "initContainers": named("init", self.init.as_slice()),
                "containers": named("main", &self.mains)}})
    }

    /// True if a program runs again after it ended.
    fn restarts(&self, program: Program, is_init: bool) -> bool {
        match (self.policy, program) {
            (_, Program::KeepsRunning) | ("Never", _) => false,
            (_, Program::CannotStart | Program::Exits(1)) => true,
            (policy, _) => policy == "Always" && !is_init,
        }
    }

    fn phase(&self) -> &'static str {
        match self.init {
            None | Some(Program::Exits(0)) => {}
            Some(Program::KeepsRunning) => return "Pending",
            Some(_) => return if self.policy == "Never" { "Failed" } else { "Pending" },
        }
        let any = |wanted: &dyn Fn(Program) -> bool| self.mains.iter().any(|it| wanted(*it));
        if self.policy != "Never" && any(&|it| it == Program::CannotStart) {
            return "Pending";
        }
        if any(&|it| it == Program::KeepsRunning || self.restarts(it, false)) {
            return "Running";
        }
        if any(&|it| it != Program::Exits(0)) { "Failed" } else { "Succeeded" }
    }

    /// The programs that are reached, by container.
    fn reached(&self) -> BTreeMap<String, (Program, bool)> {
        let init = self.init.iter().map(|it| ("init0".to_owned(), (*it, true)));
        let is_reached = matches!(self.init, None | Some(Program::Exits(0)));
        let mains = self.mains.iter().enumerate().filter(|_| is_reached);
        let mains = mains.map(|(at, program)| (format!("main{at}"), (*program, false)));
        init.chain(mains).collect()
    }
}

/// Restart counts in the order they were written, by pod and container.
#[derive(Default)]
struct Written {
    counts: BTreeMap<(String, String), Vec<u64>>,
    writes: BTreeMap<String, usize>,
}

fn statuses(pod: &Object) -> impl Iterator<Item = &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    lists.into_iter().filter_map(|list| pod.value["status"][list].as_array()).flatten()
}

/// Records every version of every pod. Notifies if one is written far too often, because virtual
/// time stands still while the agent is busy.
fn record(admin: &Context, overrun: &Arc<Notify>) -> Arc<Mutex<Written>> {
    let written = Arc::new(Mutex::new(Written::default()));
    let (recorded, overrun) = (written.clone(), overrun.clone());
    admin.cache(POD).subscribe(move |change| {
        let pod = change.object();
        let mut written = recorded.lock().unwrap();
        let writes = written.writes.entry(pod.uid.clone()).or_default();
        *writes += 1;
        if *writes > WRITES_MAX {
            overrun.notify_one();
        }
        for status in statuses(pod) {
            let name = status["name"].as_str().unwrap().to_owned();
            let count = status["restartCount"].as_u64().unwrap();
            written.counts.entry((pod.uid.clone(), name)).or_default().push(count);
        }
    });
    written
}

async fn run(plans: &[Plan]) {
    let world = Arc::new(World::new(7));
    let mut cluster = Cluster::in_world(world.clone()).await;
    let admin = cluster.context();
    let node = cluster.client("system:node:here", &["system:nodes"]);
    let own = Context { client: node, ..admin.clone() };
    let runtime = Arc::new(Fake::with_clock(world.clone()));
    let directory = tempfile();
    let options = Options {
        node: "here".to_owned(),
        directory: directory.clone(),
        api: SocketAddr::from((Ipv4Addr::LOCALHOST, 6443)),
        address: Ipv4Addr::new(10, 1, 2, 3).into(),
        port: None,
        absence: String::new(),
        heartbeat: Default::default(),
        runtime: Some(runtime.clone() as Arc<dyn PodRuntime>),
        devices: Arc::new(Devices::open(&directory, &Default::default())),
        network: None,
        publish_container_ports: false,
        environment: Arc::default(),
        pressure: Arc::default(),
        private: Vec::new(),
    };
    let overrun = Arc::new(Notify::new());
    let written = record(&admin, &overrun);
    let mut pods = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        pods.push(cluster.create(POD, plan.pod(&format!("pod-{number}"))).await);
    }
    cluster.run(agent::run(own, options));
    tokio::select! {
        () = tokio::time::sleep(HORIZON) => {}
        () = overrun.notified() => panic!("a pod is written without end: {plans:?}"),
    }
    let all = admin.cache(POD).all();
    for (plan, made) in plans.iter().zip(&pods) {
        let pod = all.iter().find(|pod| pod.uid == made.uid).unwrap();
        assert_eq!(pod.value["status"]["phase"], plan.phase(), "{plan:?} {}", pod.value);
        for (name, (program, is_init)) in plan.reached() {
            let restarts = plan.restarts(program, is_init);
            check_starts(&runtime, (&pod.uid, &name), (program, restarts));
            let status = statuses(pod).find(|status| status["name"] == *name).unwrap();
            if program == Program::CannotStart && plan.policy == "Never" {
                let ended = &status["state"]["terminated"];
                assert_eq!(
                    (&ended["reason"], &ended["exitCode"], &status["restartCount"]),
                    (&json!("StartError"), &json!(128), &json!(0)),
                    "{plan:?}"
                );
            }
        }
        for ((uid, name), counts) in &written.lock().unwrap().counts {
            assert!(*uid != pod.uid || counts.is_sorted(), "{name} of {plan:?}: {counts:?}");
        }
    }
    drop(cluster);
    let _ = std::fs::remove_dir_all(directory);
}

/// A container starts as often as the back-off allows, and not more often.
fn check_starts(runtime: &Fake, (uid, name): (&str, &str), (program, restarts): (Program, bool)) {
    let requested = runtime.requested.lock().unwrap();
    let of_container = requested.iter().filter(|(id, _)| id.pod == uid && id.name == name);
    let times: Vec<_> = of_container.map(|(_, at)| *at).collect();
    // A program that could not be started is not forgiven its first failure.
    let forgiven = u32::from(program == Program::CannotStart);
    for (number, pair) in (1..).zip(times.windows(2)) {
        let gap = between(pair[0], pair[1]);
        assert!(
            gap >= delay(number + forgiven),
            "{name} {program:?}: start {number} after {gap:?}"
        );
    }
    let expected = match (restarts, program) {
        (false, _) => 1,
        (true, Program::CannotStart) => STARTS_MAX - 1,
        (true, _) => STARTS_MAX,
    };
    assert_eq!(times.len(), expected, "{name} {program:?}: {times:?}");
}

fn tempfile() -> std::path::PathBuf {
    use reconcile::Environment;
    let number = reconcile::environment::System.random();
    std::env::temp_dir().join(format!("setpoint-restarts-{}-{number}", std::process::id()))
}

fn on_virtual_time(work: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 64,
        ..ProptestConfig::default() })]

    #[test]
    fn every_restart_of_every_pod_keeps_to_the_back_off(plans in vec(plan(), 1..24)) {
        on_virtual_time(run(&plans));
    }
}

/// Smallest pod whose reported status must not lead to another attempt.
#[test]
fn a_program_that_cannot_start_fails_once_beside_one_that_runs() {
    let mains = vec![Program::CannotStart, Program::KeepsRunning];
    on_virtual_time(run(&[Plan { policy: "Never", init: None, mains }]));
}
