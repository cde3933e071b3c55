//! Add-ons that write down what is asked of them: which objects, in which order, and in which order
//! they go. What the objects say is in `goldens/`.

use machines::kinds::WUKONG;
use reconcile::plan::Target;
use serde_json::json;
use testkit::simulation::{self, Run};

use crate::simulation::{WHILE, Workload, trial};
use crate::world::{imaged, install_bare, wukong};

const NAME: &str = "system:serviceaccount:novasphere-system:novasphere-controller-manager/order";

/// What the operator made and deleted, in order.
fn deeds(run: &Run) -> Vec<String> {
    let made = run.made.iter().filter(|made| made.is_success() && !made.is_notice());
    let deeds = made.filter_map(|made| match made.sort.method.as_str() {
        "POST" => Some(format!("make {}", made.key())),
        "DELETE" => Some(format!("delete {}", made.key())),
        "PATCH" if made.path.ends_with("/wukongs/w") => Some("finalizer".to_owned()),
        _ => None,
    });
    deeds.collect()
}

#[test]
fn what_a_machine_needs_comes_and_goes_in_order() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let spec = json!({"disks": imaged("http://images/slow.img"), "networks": [
                {"name": "default"},
                {"name": "lan", "type": "bridge", "physicalInterface": "ens192"}]});
            let made = cluster.create(WUKONG, wukong("w", spec)).await;
            tokio::time::sleep(WHILE).await;
            let requests = context.requests("test", Default::default());
            let target = Target::of(WUKONG, &made);
            requests.delete(&target, &Default::default()).await.expect("deleted");
        })
    };
    let run = simulation::run(trial(NAME, workload), 1, Vec::new());
    assert!(run.is_settled);
    let expected = [
        "finalizer",
        "make network-attachment-definitions/default/w-lan-nad",
        "make nodenetworkconfigurationpolicies/default.w-lan-bridge",
        "make datavolumes/default/w-root",
        "make persistentvolumeclaims/default/w-data",
        "make virtualmachines/default/w-vm",
        "delete virtualmachines/default/w-vm",
        "delete datavolumes/default/w-root",
        "delete persistentvolumeclaims/default/w-data",
        "delete network-attachment-definitions/default/w-lan-nad",
        "delete nodenetworkconfigurationpolicies/default.w-lan-bridge",
        "finalizer",
    ];
    // The claim of a volume may be collected by others first.
    let mut found = deeds(&run);
    found.retain(|deed| deed != "delete persistentvolumeclaims/default/w-root");
    assert_eq!(found, expected);
    let phases = run.history.iter().filter(|change| change.actor == run.actor);
    let mut phases: Vec<String> = phases
        .filter_map(|change| change.new.as_ref().filter(|new| new["kind"] == "Wukong"))
        .filter_map(|new| new["status"]["phase"].as_str().map(str::to_owned))
        .collect();
    phases.dedup();
    assert_eq!(phases, ["Pending", "Creating", "Running"]);
}
