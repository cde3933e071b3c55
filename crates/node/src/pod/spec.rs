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
    /// Was added to look into the pod, and counts for nothing.
    Ephemeral,
}

/// A container of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    pub name: &'a str,
    pub role: Role,
    pub restart: Restart,
    pub value: &'a Value,
}

impl Spec<'_> {
    pub fn image(&self) -> &str {
        self.value["image"].as_str().unwrap_or_default()
    }

    /// Whether another run follows one that ended with a code. The first rule that knows the code
    /// decides; the policy is for the rest.
    pub fn runs_again(&self, code: i32) -> bool {
        let rules = self.value["restartPolicyRules"].as_array().into_iter().flatten();
        let is_named = |rule: &&Value| {
            let values = rule["exitCodes"]["values"].as_array().into_iter().flatten();
            let is_listed = values.clone().any(|value| value.as_i64() == Some(code.into()));
            match rule["exitCodes"]["operator"].as_str() {
                Some("In") => is_listed,
                Some("NotIn") => !is_listed,
                _ => false,
            }
        };
        if let Some(rule) = rules.clone().find(is_named) {
            return rule["action"] == "Restart";
        }
        match self.restart {
            Restart::Always => true,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        }
    }
}

/// All containers: those of initialisation first, in order.
pub fn containers(pod: &Object) -> Vec<Spec<'_>> {
    let list = |field: &str| pod.value["spec"][field].as_array().into_iter().flatten();
    let of_pod = of_pod(pod);
    let init = list("initContainers").map(|value| {
        let own = policy(&value["restartPolicy"]);
        let (role, restart) = match own.unwrap_or(of_pod) {
            Restart::Always if own.is_some() => (Role::Sidecar, Restart::Always),
            // One that succeeded is done.
            Restart::Always | Restart::OnFailure => (Role::Init, Restart::OnFailure),
            Restart::Never => (Role::Init, Restart::Never),
        };
        Spec { name: name(value), role, restart, value }
    });
    let main = list("containers").map(|value| {
        let restart = policy(&value["restartPolicy"]).unwrap_or(of_pod);
        Spec { name: name(value), role: Role::Main, restart, value }
    });
    init.chain(main).collect()
}

/// The restart policy of the pod.
pub fn of_pod(pod: &Object) -> Restart {
    policy(&pod.value["spec"]["restartPolicy"]).unwrap_or(Restart::Always)
}

fn policy(value: &Value) -> Option<Restart> {
    match value.as_str()? {
        "Always" => Some(Restart::Always),
        "OnFailure" => Some(Restart::OnFailure),
        "Never" => Some(Restart::Never),
        _ => None,
    }
}

/// How long a container may take to stop.
pub fn grace(pod: &Object) -> Duration {
    let deletion = pod.value["metadata"]["deletionGracePeriodSeconds"].as_u64();
    let own = pod.value["spec"]["terminationGracePeriodSeconds"].as_u64();
    Duration::from_secs(deletion.or(own).unwrap_or(GRACE_SECONDS))
}

/// Whether the pod has come to its end, which is for good.
pub fn is_over(pod: &Object) -> bool {
    matches!(pod.value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}
