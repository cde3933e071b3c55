//! Remedies for known reasons and messages.

/// Part of a reason or message, and the remedy.
const HINTS: &[(&str, &str)] = &[
    (
        "images are not supported by the process runtime",
        "set `command` for the container, or start the cluster with `--runtime docker`",
    ),
    ("ImagePull", "check the name of the image and the credentials for its registry"),
    ("ErrImage", "check the name of the image and the credentials for its registry"),
    ("InvalidImageName", "correct the name of the image"),
    ("CrashLoopBackOff", "read its output: setpoint logs POD --previous"),
    ("CreateContainerConfigError", "create the ConfigMap or Secret that it refers to"),
    ("CreateContainerError", "check its command and the paths of its volumes"),
    ("OOMKilled", "raise its memory limit"),
    (
        "Insufficient",
        "request less, stop other pods, or add a node: setpoint plan --what-if nodes=+1",
    ),
    ("untolerated taint", "tolerate the taint, or remove it from a node"),
    ("didn't match Pod's node affinity", "correct nodeSelector or affinity, or label a node"),
    (
        "unbound immediate PersistentVolumeClaims",
        "see why the claim is not bound: setpoint why pvc/NAME",
    ),
    ("were unschedulable", "allow pods on a node again: setpoint uncordon NODE"),
    ("no nodes available", "start a node"),
    ("exceeded quota", "raise the quota of the namespace, or delete objects in it"),
    ("FailedMount", "check the volumes that it names"),
    ("ContainersNotReady", "read its output: setpoint logs POD"),
    ("DeadlineExceeded", "raise its deadline, or see what took so long: setpoint why pod/POD"),
    ("BackoffLimitExceeded", "read the output of its pods: setpoint logs POD"),
    ("Suspended", "resume it: set spec.suspend to false"),
    ("finalizer", "check that the controller of the finalizer is running"),
];

/// Returns the remedy for a reason or message; empty if none is known.
pub fn hint(text: &str) -> &'static str {
    HINTS.iter().find(|(sign, _)| text.contains(sign)).map_or("", |(_, hint)| hint)
}
