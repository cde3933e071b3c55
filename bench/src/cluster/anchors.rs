//! What the Go control plane does on the same machine, or on a larger one where nothing else is
//! known: kube-apiserver 1.36.4 and etcd 3.6.8 with their client limits lifted, and the thresholds
//! that scheduler_perf sets itself.

/// Pods created and bound a second.
pub const CREATED: [(u32, f64); 2] = [(1_000, 271.0), (5_000, 195.0)];
/// Pods bound a second that were there before the scheduler.
pub const WAITING: [(u32, f64); 2] = [(1_000, 190.0), (5_000, 156.0)];
/// Milliseconds until a Deployment of so many is ready, and until a Job of so many runs.
pub const DEPLOYMENT: [(u32, f64); 1] = [(1_000, 6_980.0)];
pub const JOB: [(u32, f64); 3] = [(1, 40.0), (100, 910.0), (1_000, 7_850.0)];
/// Milliseconds from an edit to its effect.
pub const EDIT: f64 = 20.0;
/// Pods a second with 5,000 nodes on a larger machine.
pub const NODE_AFFINITY: f64 = 220.0;
pub const SPREAD: f64 = 85.0;
pub const ANTI_AFFINITY: f64 = 60.0;
pub const PREEMPTION: f64 = 160.0;
pub const GANGS: f64 = 630.0;
/// Milliseconds until one watcher knows.
pub const WATCH_WORST: f64 = 11.0;

/// The anchor for a size, if there is one.
pub fn of(anchors: &[(u32, f64)], size: u32) -> Option<f64> {
    anchors.iter().find(|(known, _)| *known == size).map(|(_, anchor)| *anchor)
}

/// How many times the anchor's rate.
pub fn rate(figure: f64, anchor: Option<f64>) -> String {
    anchor.map_or_else(String::new, |anchor| format!("{:.1} x {anchor} /s", figure / anchor))
}

/// How many times as fast as the anchor.
pub fn time(figure: f64, anchor: Option<f64>) -> String {
    anchor.map_or_else(String::new, |anchor| {
        format!("{:.1} x as fast as {anchor} ms", anchor / figure)
    })
}
