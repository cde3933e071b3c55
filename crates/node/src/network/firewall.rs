//! Lets packets of pods through a firewall of the machine that forwards nothing by itself, as the
//! one that Docker sets up. What one table of rules drops no other can let through, so that ours
//! have to stand in that one. They name interfaces of our pods only, and go with the network.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::{Marks, Mode, Network};

/// Where its program is; a service may have no search path.
const PROGRAMS: [&str; 4] =
    ["/usr/sbin/iptables", "/sbin/iptables", "/usr/bin/iptables", "/usr/local/sbin/iptables"];
/// How long others may hold its lock, in seconds.
const LOCK_MAX: &str = "5";
/// How often it is looked at: whoever sets it up may do so after us.
const LOOK: Duration = Duration::from_secs(30);

/// Keeps it open for pods until it is dropped.
pub async fn keep_open(network: &Arc<Network>) {
    if network.mode == Mode::Loopback || network.rootless().is_some() {
        return std::future::pending().await;
    }
    loop {
        let marks = network.marks.clone();
        let _ = tokio::task::spawn_blocking(move || open(&marks)).await;
        tokio::time::sleep(LOOK).await;
    }
}

/// Adds what is missing, if anything is dropped at all.
pub fn open(marks: &Marks) {
    let Some(rules) = run(&["-S", "FORWARD"]) else { return };
    if !drops(&rules) {
        return;
    }
    for rule in rules_of(marks) {
        let words: Vec<&str> = rule.iter().map(String::as_str).collect();
        if run(&[&["-C", "FORWARD"], &words[..]].concat()).is_some() {
            continue;
        }
        match run(&[&["-I", "FORWARD", "1"], &words[..]].concat()) {
            Some(_) => tracing::info!(rule = words.join(" "), "the firewall lets pods through"),
            None => tracing::warn!("the firewall of this machine drops packets of pods"),
        }
    }
}

/// Takes ours away.
pub fn close(marks: &Marks) {
    let Some(rules) = run(&["-S", "FORWARD"]) else { return };
    if !rules.contains(&marks.pods) {
        return;
    }
    for rule in rules_of(marks) {
        let words: Vec<&str> = rule.iter().map(String::as_str).collect();
        run(&[&["-D", "FORWARD"], &words[..]].concat());
    }
}

fn drops(rules: &str) -> bool {
    let is_drop = |line: &str| {
        line == "-P FORWARD DROP" || line.ends_with("-j DROP") || line.contains("-j REJECT")
    };
    rules.lines().map(str::trim).any(is_drop)
}

fn rules_of(marks: &Marks) -> [Vec<String>; 2] {
    ["-i", "-o"].map(|direction| {
        let interfaces = format!("{}+", marks.pods);
        [direction, &interfaces, "-m", "comment", "--comment", "setpoint", "-j", "ACCEPT"]
            .map(str::to_owned)
            .into()
    })
}

/// What it says, if it is there and agrees.
fn run(words: &[&str]) -> Option<String> {
    let program = PROGRAMS.iter().find(|program| Path::new(program).exists())?;
    let mut command = Command::new(program);
    command.args(["-w", LOCK_MAX]).args(words).stdin(Stdio::null());
    let ended = command.output().ok().filter(|ended| ended.status.success())?;
    Some(String::from_utf8_lossy(&ended.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_firewall_that_drops_is_touched() {
        assert!(!drops("-P FORWARD ACCEPT\n"));
        assert!(!drops("-P FORWARD ACCEPT\n-A FORWARD -j DOCKER-USER\n"));
        assert!(drops("-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n"));
        assert!(drops("-P FORWARD ACCEPT\n-A FORWARD -i eth0 -j DROP\n"));
    }
}
