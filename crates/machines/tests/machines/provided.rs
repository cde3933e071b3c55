//! What stands in for the add-ons, on trial: the controllers of machines, instances and volumes,
//! and the launcher of a node, each as the user that its role is for, against a hypervisor that
//! outlives them.

use std::pin::Pin;
use std::sync::LazyLock;

use machines::kinds::{CLAIM, DATA_VOLUME, MACHINE, RESTORE, SNAPSHOT};
use machines::{manifests, provider, roles};
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::faults::{Fault, Planned, Sort};
use testkit::manifests::bare;
use testkit::record::Made;
use testkit::simulation::{self, Also, Trial};

use crate::guests;
use crate::host::{self, Binder};
use crate::simulation::{WHILE, Workload, change};
use crate::world::install_these;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
/// What says how far the disks of claims are.
const CLAIMS_ROUTE: &str = "/api/v1/namespaces/*/persistentvolumeclaims/*";
/// The claims of a machine's disks.
const DISKS: [&str; 2] = ["root", "data"];
/// Plans of each trial in the default suite; the long one has more.
const SAMPLES_MAX: usize = 6;

/// The controllers are on trial; the node is played.
fn controllers(name: &'static str, workload: Workload) -> Trial {
    let component = |context| Box::pin(provide(context)) as Task;
    let play = |context: Context| {
        Box::pin(async move {
            tokio::join!(around(context.clone()), launch(context));
        }) as Task
    };
    Trial { name, seed: 1, component, workload, play }
}

/// The launcher is on trial; the controllers are played.
fn launcher(name: &'static str, workload: Workload) -> Trial {
    let component = |context| Box::pin(launch(context)) as Task;
    let play = |context: Context| {
        Box::pin(async move {
            tokio::join!(around(context.clone()), provide(context));
        }) as Task
    };
    Trial { name, seed: 1, component, workload, play }
}

/// Whoever may not ask yet has nothing to show.
async fn provide(context: Context) {
    host::until_installed().await;
    provider::run(context).await;
}

async fn launch(context: Context) {
    host::until_installed().await;
    host::launch(context).await;
}

async fn around(context: Context) {
    tokio::join!(host::witness(context.clone()), reconcile::run::run(context.clone(), Binder),);
}

fn try_everything(trial: Trial) {
    try_with(trial, Also::default());
}

/// A launcher is alone on its node: what it writes has no term, and nobody leads in its place.
fn try_alone(trial: Trial) {
    try_with(trial, Also { is_led: false, ..Also::default() });
}

fn try_with(trial: Trial, also: Also) {
    let also = Also { oracles: guests::ALL, samples_max: SAMPLES_MAX, ..also };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > 20, "{plans}");
}

async fn install(cluster: &Cluster) {
    static BARE: LazyLock<Vec<Value>> =
        LazyLock::new(|| manifests::add_ons().into_iter().map(bare).collect());
    install_these(cluster, &roles::add_ons()).await;
    install_these(cluster, &BARE).await;
    cluster.create(NODE, host::node()).await;
    host::installed();
}

/// A machine with one disk that is made for it, and one of its user's.
fn machine(strategy: &str) -> Value {
    let volume = |name: &str| json!({"name": name, "dataVolume": {"name": name}});
    json!({"metadata": {"namespace": "default", "name": "m"}, "spec": {"runStrategy": strategy,
        "template": {"metadata": {"labels": {"app": "m"}},
            "spec": {"domain": {"devices": {}}, "terminationGracePeriodSeconds": 30,
            "tolerations": host::tolerations(),
            "volumes": [volume("root"), {"name": "data",
                "persistentVolumeClaim": {"claimName": "data"}}]}}}})
}

async fn make(cluster: &Cluster, strategy: &str) {
    install(cluster).await;
    let claim = json!({"resources": {"requests": {"storage": "1Mi"}},
        "accessModes": ["ReadWriteOnce"]});
    let volume = json!({"metadata": {"namespace": "default", "name": "root"},
        "spec": {"source": {"blank": {}}, "pvc": claim}});
    cluster.create(DATA_VOLUME, volume).await;
    let own = json!({"metadata": {"namespace": "default", "name": "data"}, "spec": claim});
    cluster.create(CLAIM, own).await;
    cluster.create(MACHINE, machine(strategy)).await;
}

async fn delete(context: &Context, name: &str) {
    let found = context.get_live(MACHINE, &Name::new("default", name)).await.expect("readable");
    let target = Target::of(MACHINE, &found.expect("it is there"));
    let requests = context.requests("test", Default::default());
    requests.delete(&target, &Default::default()).await.expect("deleted");
}

/// It is made, and its guest switches itself off once.
const RUNS: Workload = |cluster, context| {
    Box::pin(async move {
        make(&cluster, "Always").await;
        tokio::time::sleep(WHILE).await;
        host::switch_off(&context, "m").await;
        tokio::time::sleep(WHILE).await;
    })
};

/// What a service says while it leads to a machine that it selects, and to nothing.
fn service(app: &str) -> Value {
    let ports = json!([{"name": "ssh", "port": 22}, {"name": "web", "port": 80}]);
    json!({"metadata": {"namespace": "default", "name": "s"},
        "spec": {"selector": {"app": app}, "ports": ports}})
}

/// A service leads to it while its guest is switched off and comes again; another to nothing any
/// more.
const SERVES: Workload = |cluster, context| {
    Box::pin(async move {
        make(&cluster, "Always").await;
        cluster.create(SERVICE, service("m")).await;
        let mut other = service("m");
        other["metadata"]["name"] = json!("other");
        cluster.create(SERVICE, other).await;
        tokio::time::sleep(WHILE).await;
        let away = json!({"spec": {"selector": {"app": "nobody"}}});
        change(&context, SERVICE, "other", away).await;
        tokio::time::sleep(WHILE).await;
        host::switch_off(&context, "m").await;
        tokio::time::sleep(WHILE).await;
        host::tell_of_ports(&context, "m").await;
    })
};

/// It is stopped, and deleted later.
const STOPS: Workload = |cluster, context| {
    Box::pin(async move {
        make(&cluster, "Always").await;
        tokio::time::sleep(WHILE).await;
        change(&context, MACHINE, "m", json!({"spec": {"runStrategy": "Halted"}})).await;
        tokio::time::sleep(WHILE).await;
        delete(&context, "m").await;
        tokio::time::sleep(WHILE).await;
    })
};

fn named(name: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})
}

/// Its disks are kept as they are, changed, and brought back.
const RETURNS: Workload = |cluster, context| {
    Box::pin(async move {
        make(&cluster, "Halted").await;
        tokio::time::sleep(WHILE).await;
        let source = json!({"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "m"});
        cluster.create(SNAPSHOT, named("s", json!({"source": source}))).await;
        tokio::time::sleep(WHILE).await;
        DISKS.iter().for_each(|claim| host::write(claim, 7));
        let back = json!({"target": source, "virtualMachineSnapshotName": "s"});
        cluster.create(RESTORE, named("r", back)).await;
        tokio::time::sleep(WHILE).await;
        host::tell_of_disks(&context, &DISKS).await;
        change(&context, MACHINE, "m", json!({"spec": {"runStrategy": "Always"}})).await;
        tokio::time::sleep(WHILE).await;
    })
};

/// It is deleted while it runs.
const GOES: Workload = |cluster, context| {
    Box::pin(async move {
        make(&cluster, "RerunOnFailure").await;
        tokio::time::sleep(WHILE).await;
        delete(&context, "m").await;
        tokio::time::sleep(WHILE).await;
    })
};

#[test]
fn no_fault_of_the_controllers_starts_a_machine_twice() {
    try_everything(controllers("system:machine-provider/runs", RUNS));
}

#[test]
fn no_fault_of_the_controllers_starts_one_that_was_stopped() {
    try_everything(controllers("system:machine-provider/stops", STOPS));
}

#[test]
fn no_fault_of_the_controllers_leaves_a_machine_behind() {
    try_everything(controllers("system:machine-provider/goes", GOES));
}

#[test]
fn no_fault_of_the_launcher_starts_a_machine_twice() {
    try_alone(launcher("system:machine-launcher/runs", RUNS));
}

#[test]
fn no_fault_of_the_launcher_starts_one_that_was_stopped() {
    try_alone(launcher("system:machine-launcher/stops", STOPS));
}

#[test]
fn no_fault_of_the_launcher_brings_half_a_machine_back() {
    try_alone(launcher("system:machine-launcher/returns", RETURNS));
}

#[test]
fn no_fault_of_the_launcher_leads_a_service_astray() {
    try_alone(launcher("system:machine-launcher/serves", SERVES));
}

/// Each word on how far a disk is, is refused once: it is said again, and nothing more.
#[test]
fn an_import_whose_end_was_refused_was_not_cut_short() {
    let trial = launcher("system:machine-launcher/runs", RUNS);
    let sort = Sort { method: "PATCH".to_owned(), route: CLAIMS_ROUTE.to_owned() };
    let is_word = |made: &&Made| made.sort == sort;
    let words = simulation::run(trial, 1, Vec::new()).made.iter().filter(is_word).count();
    assert!(words >= 2, "that it begins and that it ends: {words}");
    for (number, code) in (0..words).flat_map(|number| [409, 500].map(|code| (number, code))) {
        let planned = Planned { sort: sort.clone(), number, fault: Fault::Refuse(code) };
        let run = simulation::run(trial, 1, vec![planned]);
        assert!(run.is_settled && run.is_spent, "word {number}, {code}");
        let volume = run.objects.values().find(|one| one["kind"] == "DataVolume");
        let volume = volume.expect("the volume is there");
        assert_eq!(volume["status"]["phase"], "Succeeded", "{volume}");
        assert_eq!(volume["status"]["restartCount"], 0, "word {number}, {code}");
    }
}
