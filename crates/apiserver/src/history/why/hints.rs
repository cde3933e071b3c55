//! What to do about what is waited for, where that is known.

/// What is found in a reason or a message, and what helps.
const HINTS: &[(&str, &str)] = &[
    ("ImagePull", "look at the name of the image and at the credentials for its registry"),
    ("ErrImage", "look at the name of the image and at the credentials for its registry"),
    ("InvalidImageName", "correct the name of the image"),
    ("CrashLoopBackOff", "see what the container wrote: kubectl logs --previous"),
    ("CreateContainerConfigError", "make the ConfigMap or Secret that it refers to"),
    ("CreateContainerError", "look at its command and at the paths of its volumes"),
    ("OOMKilled", "give it a larger limit of memory"),
    (
        "Insufficient",
        "ask for less, free something, or add a node: setpoint plan --what-if nodes=+1",
    ),
    ("untolerated taint", "tolerate the taint, or remove it from a node"),
    ("didn't match Pod's node affinity", "correct nodeSelector or affinity, or label a node"),
    (
        "unbound immediate PersistentVolumeClaims",
        "look why the claim is not bound: setpoint why pvc/NAME",
    ),
    ("were unschedulable", "allow pods on a node again: kubectl uncordon NODE"),
    ("no nodes available", "start a node"),
    ("exceeded quota", "raise the quota of the namespace, or delete something in it"),
    ("FailedMount", "look at the volumes that it names"),
    ("ContainersNotReady", "see what the containers wrote: kubectl logs"),
    ("DeadlineExceeded", "give it more time, or look what took so long: setpoint why on its pods"),
    ("BackoffLimitExceeded", "see what its pods wrote: kubectl logs"),
    ("Suspended", "resume it: set spec.suspend to false"),
    ("finalizer", "whoever owns the finalizer has to finish; see whether it runs"),
];

/// What helps against something that a component said.
pub fn hint(text: &str) -> &'static str {
    HINTS.iter().find(|(sign, _)| text.contains(sign)).map_or("", |(_, hint)| hint)
}
