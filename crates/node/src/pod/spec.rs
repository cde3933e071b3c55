//! What a pod's specification says of its containers, in the words of this crate.

use std::time::Duration;

use reconcile::Object;
use serde_json::Value;

/// Grace where nothing is said.
const GRACE_SECONDS: u64 = 30;

/// When a container that ended runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Always,
    OnFailure,
    Never,
}

/// The part that a container plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next.
    Init,
    /// An init container that goes on.
    Sidecar,
    Main,
}

/// A container of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    pub name: &'a str,
    pub role: Role,
    pub restart: Restart,
    pub value: &'a Value,
}

/// All containers: those of initialisation first, in order.
pub fn containers(pod: &Object) -> Vec<Spec<'_>> {
    let list = |field: &str| pod.value["spec"][field].as_array().into_iter().flatten();
    let of_pod = of_pod(pod);
    let init = list("initContainers").map(|value| {
        let is_sidecar = value["restartPolicy"] == "Always";
        let role = if is_sidecar { Role::Sidecar } else { Role::Init };
        let restart = match (role, of_pod) {
            (Role::Sidecar, _) => Restart::Always,
            // One that succeeded is done.
            (_, Restart::Always | Restart::OnFailure) => Restart::OnFailure,
            (_, Restart::Never) => Restart::Never,
        };
        Spec { name: name(value), role, restart, value }
    });
    let main = list("containers");
    let main =
        main.map(|value| Spec { name: name(value), role: Role::Main, restart: of_pod, value });
    init.chain(main).collect()
}

/// The restart policy of the pod.
pub fn of_pod(pod: &Object) -> Restart {
    match pod.value["spec"]["restartPolicy"].as_str() {
        Some("Never") => Restart::Never,
        Some("OnFailure") => Restart::OnFailure,
        _ => Restart::Always,
    }
}

/// How long a container may take to stop.
pub fn grace(pod: &Object) -> Duration {
    let deletion = pod.value["metadata"]["deletionGracePeriodSeconds"].as_u64();
    let own = pod.value["spec"]["terminationGracePeriodSeconds"].as_u64();
    Duration::from_secs(deletion.or(own).unwrap_or(GRACE_SECONDS))
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}
