//! What containers may use and do, with privilege: tests on real processes. Without privilege there
//! is nothing to check, as nothing of it can be given.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::cgroups::Cgroups;
use super::system;
use super::tests::{directory, open};
use crate::confinement::{Filter, Isolation, Limits, Processes, Quality, Security, Share};
use crate::contract::{ended, has_written, lacks_root, shell};
use crate::runtime::{ContainerSpec, Mount, PodRuntime, Propagation};

/// What a program wrote.
pub fn written(runtime: &Arc<dyn PodRuntime>, spec: &ContainerSpec) -> String {
    let log = fs::read_to_string(runtime.log(&spec.id)).expect("a log");
    let lines = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Runs a script to its end; what it wrote.
async fn run(runtime: &Arc<dyn PodRuntime>, script: &str, change: impl Fn(&mut Spec)) -> String {
    let mut spec = shell("confined", script);
    change(&mut spec);
    runtime.start(&spec).await.expect("it starts");
    ended(runtime, &spec.id).await;
    let written = written(runtime, &spec);
    runtime.remove_pod(&spec.id.pod).await;
    written
}

type Spec = ContainerSpec;

#[tokio::test]
async fn a_container_that_uses_up_its_memory_is_told_from_one_that_was_killed() {
    let directory = directory("memory");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    let mut spec = shell("memory", "exec tail /dev/zero");
    spec.limits.own.memory_bytes = Some(16 << 20);
    spec.limits.quality = Quality::Burstable;
    runtime.start(&spec).await.expect("it starts");
    let exit = ended(&runtime, &spec.id).await;
    assert_eq!((exit.code, exit.reason), (137, Some("OOMKilled")));
    runtime.remove_pod("memory").await;
    assert!(Cgroups::open(&directory.0).pods().is_empty());
}

#[tokio::test]
async fn a_container_that_forks_without_end_stays_within_its_pod() {
    let directory = directory("forks");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    // Each leaves its session and its parent, and does not listen.
    let script = "trap '' TERM; echo ready; n=0; while [ $n -lt 200 ]; do \
                  (trap '' TERM; setsid sleep 876 &) 2>/dev/null; n=$((n+1)); done; \
                  echo done; sleep 876";
    let mut spec = shell("forks", script);
    spec.limits = Limits { processes: Some(24), ..Limits::default() };
    runtime.start(&spec).await.expect("it starts");
    has_written(&runtime, &spec.id, "ready").await;
    let count = || {
        let groups = Path::new("/proc").read_dir().expect("/proc");
        let is_it = |entry: &fs::DirEntry| {
            let name = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            name == b"sleep\0876\0"
        };
        groups.flatten().filter(is_it).count()
    };
    while count() < 10 {
        tokio::task::yield_now().await;
    }
    assert!(count() <= 24);
    runtime.stop(&spec.id, std::time::Duration::from_millis(20)).await.expect("it stops");
    assert_eq!(count(), 0);
    runtime.remove_pod("forks").await;
    assert!(Cgroups::open(&directory.0).pods().is_empty());
}

#[tokio::test]
async fn a_container_is_who_it_is_said_to_be_and_may_do_little() {
    let directory = directory("identity");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    let who = run(&runtime, "id -u; id -g; id -G", |spec| {
        (spec.user, spec.group) = (Some(1234), Some(5678));
        spec.security.groups = vec![77, 88];
    });
    assert_eq!(who.await, "1234\n5678\n5678 77 88\n");
    let bounds = "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status | cut -f2";
    assert_eq!(run(&runtime, bounds, |_| {}).await, "00000000a80425fb\n00000000a80425fb\n0\n");
    let few = run(&runtime, bounds, |spec| {
        spec.security.drop = vec!["ALL".to_owned()];
        spec.security.add = vec!["NET_BIND_SERVICE".to_owned()];
        spec.security.no_new_privileges = true;
    });
    assert_eq!(few.await, "0000000000000400\n0000000000000400\n1\n");
    let nobody = run(&runtime, bounds, |spec| spec.user = Some(1234));
    assert!(nobody.await.starts_with("0000000000000000\n"));
    let filtered = "unshare -U true 2>/dev/null || echo refused; grep Seccomp: /proc/self/status";
    let filtered = run(&runtime, filtered, |spec| {
        spec.security.filter = Filter::RuntimeDefault;
    });
    assert_eq!(filtered.await, "refused\nSeccomp:\t2\n");
    let mut odd = shell("odd", "true");
    odd.security.filter = Filter::Localhost("mine.json".to_owned());
    let refusal = runtime.start(&odd).await.expect_err("it reads no profiles");
    assert!(refusal.message.contains("localhost/mine.json"), "{refusal}");
}

#[tokio::test]
async fn a_container_sees_its_own_processes_and_names_and_cannot_write_what_is_not_its_own() {
    let directory = directory("world");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    let seen = "hostname; ls -d /proc/[0-9]* | wc -l; cat /proc/kcore 2>/dev/null | wc -c; \
                echo 1 2>/dev/null >/proc/sys/kernel/panic || echo fixed; \
                ls /proc/1/root >/dev/null 2>&1 || echo hidden; \
                touch /sys/x 2>/dev/null || echo fixed";
    let seen = run(&runtime, seen, |spec| spec.security.hostname = Some("of-pod".to_owned())).await;
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], "of-pod");
    assert!(lines[1].parse::<u32>().expect("a number") <= 5, "{seen}");
    assert_eq!(&lines[2..], ["0", "fixed", "hidden", "fixed"], "{seen}");
    let host = run(&runtime, "readlink /proc/self/ns/pid /proc/self/ns/ipc", |spec| {
        spec.security.processes = Processes::OfHost;
        spec.security.host_ipc = true;
        spec.security.privileged = true;
    });
    let own =
        ["pid", "ipc"].map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")).expect("a link"));
    assert_eq!(host.await, own.map(|it| format!("{}\n", it.display())).concat());
    let volume = directory.0.join("volume");
    fs::create_dir_all(&volume).expect("a directory");
    let script = "touch /tmp/x /opt/x /usr/x 2>/dev/null || echo fixed; \
                  touch /setpoint-data/x && echo written; echo gone >/dev/null && echo null";
    let fixed = run(&runtime, script, |spec| {
        spec.security.read_only_root = true;
        let target = "/setpoint-data".into();
        let source = volume.clone();
        spec.mounts = vec![Mount { source, target, ..Mount::default() }];
    });
    assert_eq!(fixed.await, "fixed\nwritten\nnull\n");
    assert!(volume.join("x").exists());
}

#[tokio::test]
async fn containers_of_a_pod_share_what_the_pod_shares() {
    let directory = directory("shared");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    let security = |processes| Security {
        processes,
        hostname: Some("shared".to_owned()),
        ..Security::default()
    };
    for (processes, sees) in [(Processes::OfPod, "yes"), (Processes::Own, "no")] {
        let mut one = shell("shared", "echo ready; exec sleep 765");
        one.security = security(processes);
        let script = "readlink /proc/self/ns/ipc; \
                      grep -l '76[5]' /proc/[0-9]*/cmdline >/dev/null 2>&1 && echo yes || echo no";
        let mut two = shell("shared", script);
        (two.id.name, two.security) = ("two".to_owned(), one.security.clone());
        runtime.start(&one).await.expect("it starts");
        has_written(&runtime, &one.id, "ready").await;
        runtime.start(&two).await.expect("it starts");
        ended(&runtime, &two.id).await;
        let exec = ["readlink", "/proc/self/ns/ipc"].map(str::to_owned);
        let ipc = runtime.exec(&one.id, &exec).await.expect("it runs").output;
        let ipc = String::from_utf8(ipc).expect("text");
        assert_eq!(written(&runtime, &two), format!("{ipc}{sees}\n"));
        assert_eq!(runtime.of_pod("shared").len(), 2);
        runtime.stop(&one.id, std::time::Duration::from_secs(9)).await.expect("it stops");
        runtime.remove_pod("shared").await;
        assert!(runtime.containers().is_empty());
        assert!(!directory.0.join("pods/shared").exists());
    }
}

#[tokio::test]
async fn a_container_that_is_added_sees_the_processes_of_its_target() {
    let directory = directory("target");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    let one = shell("target", "echo ready; exec sleep 764");
    runtime.start(&one).await.expect("it starts");
    has_written(&runtime, &one.id, "ready").await;
    let added = |name: &str, target: &str| {
        let script = "grep -l '76[4]' /proc/[0-9]*/cmdline >/dev/null && echo seen; \
                      readlink /proc/self/ns/pid";
        let mut added = shell("target", script);
        added.id.name = name.to_owned();
        added.security.processes_of = Some(target.to_owned());
        added
    };
    let two = added("two", "main");
    runtime.start(&two).await.expect("it starts");
    ended(&runtime, &two.id).await;
    let exec = ["readlink", "/proc/self/ns/pid"].map(str::to_owned);
    let processes = runtime.exec(&one.id, &exec).await.expect("it runs").output;
    let processes = String::from_utf8(processes).expect("text");
    assert_eq!(written(&runtime, &two), format!("seen\n{processes}"));
    let refusal = runtime.start(&added("three", "none")).await.expect_err("nobody is there");
    assert!(refusal.message.contains("target container \"none\" is not running"), "{refusal}");
    runtime.stop(&one.id, std::time::Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("target").await;
}

/// A file system that this test mounts and takes away, shared with whoever copies it.
struct Shared(std::path::PathBuf);

impl Shared {
    fn mount(place: std::path::PathBuf) -> Shared {
        fs::create_dir_all(&place).expect("a directory");
        let text = super::mounts::text(&place).expect("a path");
        system::mount(c"tmpfs", &text, (Some(c"tmpfs"), 0)).expect("it is mounted");
        let shared = Shared(place);
        super::mounts::mount(Path::new("none"), &shared.0, libc::MS_SHARED).expect("it is shared");
        shared
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = crate::volumes::system::unmount(&self.0.join("within"));
        let _ = crate::volumes::system::unmount(&self.0);
    }
}

#[tokio::test]
async fn mounts_are_seen_on_the_other_side_where_a_volume_says_so() {
    let directory = directory("propagation");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    let host = Shared::mount(directory.0.join("shared"));
    fs::create_dir_all(host.0.join("within")).expect("a directory");
    let volume = |propagation| Mount {
        source: host.0.clone(),
        target: "/setpoint-data".into(),
        propagation,
        ..Mount::default()
    };
    // Told by the runtime's exec, which begins when the host has mounted something.
    let look = ["sh", "-c", "cat /setpoint-data/within/file || true"].map(str::to_owned);
    for (name, propagation, expected) in [
        ("none", Propagation::None, ""),
        ("from-host", Propagation::FromHost, "of the host\n"),
        ("both", Propagation::Both, "of the host\n"),
    ] {
        let mut spec = shell(name, "echo ready; exec sleep 763");
        spec.mounts = vec![volume(propagation)];
        runtime.start(&spec).await.expect("it starts");
        has_written(&runtime, &spec.id, "ready").await;
        let inner = host.0.join("within");
        let text = super::mounts::text(&inner).expect("a path");
        system::mount(c"tmpfs", &text, (Some(c"tmpfs"), 0)).expect("it is mounted");
        fs::write(inner.join("file"), "of the host\n").expect("a file");
        let seen = runtime.exec(&spec.id, &look).await.expect("it runs").output;
        let seen = String::from_utf8(seen).expect("text");
        let seen: String = seen.lines().filter(|line| !line.starts_with("cat:")).collect();
        assert_eq!(seen, expected.trim_end(), "{name}");
        crate::volumes::system::unmount(&inner).expect("it is unmounted");
        runtime.stop(&spec.id, std::time::Duration::ZERO).await.expect("it stops");
        runtime.remove_pod(name).await;
    }
    let script = "mount -t tmpfs none /setpoint-data/within && echo x >/setpoint-data/within/own";
    for (propagation, is_seen) in [(Propagation::FromHost, false), (Propagation::Both, true)] {
        run(&runtime, script, |spec| {
            (spec.security.privileged, spec.mounts) = (true, vec![volume(propagation)]);
        })
        .await;
        assert_eq!(host.0.join("within/own").exists(), is_seen);
    }
    let mut plain = shell("plain", "true");
    plain.mounts = vec![volume(Propagation::Both)];
    super::mounts::mount(Path::new("none"), &host.0, libc::MS_PRIVATE).expect("it is not shared");
    let refusal = runtime.start(&plain).await.expect_err("it is not shared");
    assert!(refusal.message.contains("not a shared mount"), "{refusal}");
}

#[tokio::test]
async fn limits_are_in_the_groups_and_go_with_the_pod() {
    let directory = directory("groups");
    let runtime = open(&directory.0);
    if lacks_root() {
        return;
    }
    let own = Share { cpu_shares: Some(512), cpu_quota: Some(50_000), memory_bytes: Some(1 << 26) };
    let mut spec = shell("groups", "cat /proc/self/cgroup /proc/self/oom_score_adj; sleep 765");
    let pod = Share { memory_bytes: Some(1 << 27), ..own.clone() };
    let quality = Quality::Burstable;
    spec.limits = Limits { quality, own, pod, processes: Some(99), oom_score: 500 };
    runtime.start(&spec).await.expect("it starts");
    has_written(&runtime, &spec.id, "500").await;
    let written = written(&runtime, &spec);
    assert!(written.contains("/kubepods/burstable/podgroups/main.0"), "{written}");
    let group = Cgroups::open(&directory.0).group(&spec.id, &spec.limits).expect("there are some");
    let read = |above: usize, file: &str| {
        group.hierarchies.iter().find_map(|one| {
            let directory = one.base.join(&group.path);
            fs::read_to_string(directory.ancestors().nth(above)?.join(file)).ok()
        })
    };
    let first = |files: [&str; 2], above| files.iter().find_map(|file| read(above, file));
    let limits = ["memory.limit_in_bytes", "memory.max"];
    assert_eq!(first(limits, 0).as_deref(), Some("67108864\n"));
    assert_eq!(first(limits, 1).as_deref(), Some("134217728\n"));
    assert_eq!(first(["pids.max", "pids.max"], 1).as_deref(), Some("99\n"));
    let quota = first(["cpu.cfs_quota_us", "cpu.max"], 0).expect("a quota");
    assert!(quota.starts_with("50000"), "{quota}");
    runtime.stop(&spec.id, std::time::Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("groups").await;
    assert!(group.hierarchies.iter().all(|one| !one.base.exists()));
}

fn isolated(spec: &mut Spec) {
    spec.security.isolation = Isolation::Isolated { readable: Vec::new() };
    spec.security.no_new_privileges = true;
    spec.security.hostname = Some("isolated".to_owned());
}

/// As root and, in `tests.rs`, without privilege.
pub async fn an_isolated_container_sees_programs_and_nothing_else(directory: &Path) {
    let runtime = open(directory);
    let own = directory.join("isolated");
    fs::create_dir_all(own.join("readable")).expect("a directory");
    fs::write(own.join("secret"), "secret\n").expect("a file");
    fs::write(own.join("readable/file"), "readable\n").expect("a file");
    let at = own.display();
    let script = format!(
        "cat {at}/secret 2>/dev/null; cat {at}/readable/file; ls /home /root /mnt | grep -v :; \
         touch /usr/x /etc/x {at}/readable/x 2>/dev/null || echo read-only; \
         cat /etc/shadow 2>/dev/null; echo x >/tmp/x && echo y >/dev/shm/y && cat /tmp/x; \
         echo out >/dev/stdout; ls /dev | tr '\\n' ' '; echo; test -c /dev/sda && echo disk; \
         test -d /proc/1 && hostname"
    );
    let written = run(&runtime, &script, |spec| {
        isolated(spec);
        let readable = vec![own.join("readable")];
        spec.security.isolation = Isolation::Isolated { readable };
    });
    let written = written.await;
    let lines: Vec<&str> = written.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[..4], ["readable", "read-only", "x", "out"], "{written}");
    assert!(lines[4].contains("null ptmx pts"), "{written}");
    assert_eq!(lines[5..], ["isolated"], "{written}");
    let script = "touch /tmp/x 2>/dev/null || echo fixed; echo x >/dev/null && echo null; \
                  cat /dev/word";
    let fixed = run(&runtime, script, |spec| {
        isolated(spec);
        spec.security.read_only_root = true;
        let (source, target) = (own.join("secret"), "/dev/word".into());
        spec.mounts = vec![Mount { source, target, ..Mount::default() }];
    });
    assert_eq!(fixed.await, "fixed\nnull\nsecret\n");
}

#[tokio::test]
async fn an_isolated_container_is_isolated_where_root_runs_it() {
    let directory = directory("isolated");
    if system::is_root() {
        an_isolated_container_sees_programs_and_nothing_else(&directory.0).await;
    }
}

#[tokio::test]
async fn the_root_of_an_isolated_pod_is_an_ordinary_user_of_the_host() {
    let directory = directory("mapped");
    let runtime = open(&directory.0);
    if !system::is_root() {
        return;
    }
    let volume = directory.0.join("volume");
    fs::create_dir_all(&volume).expect("a directory");
    fs::write(volume.join("of-root"), "").expect("a file");
    let volumes = |spec: &mut Spec| {
        let (source, target) = (volume.clone(), "/data".into());
        spec.mounts = vec![Mount { source, target, ..Mount::default() }];
    };
    let script = "id -u; cut -c1-40 /proc/self/uid_map | tr -s ' ' | cut -d' ' -f2,4; \
                  stat -c %u /data/of-root; touch /data/new && stat -c %u /data/new; \
                  grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status | cut -f2";
    let written = run(&runtime, script, |spec| {
        isolated(spec);
        volumes(spec);
    });
    let capabilities = "00000000a80425fb";
    assert_eq!(written.await, format!("0\n0 65536\n0\n0\n{capabilities}\n1\n0\n"));
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(volume.join("new")).expect("it"));
    assert_eq!(owner, 0, "volumes belong to the same ids inside and outside");
    let mut spec = shell("mapped", "echo ready; exec sleep 760");
    isolated(&mut spec);
    spec.user = Some(1234);
    runtime.start(&spec).await.expect("it starts");
    has_written(&runtime, &spec.id, "ready").await;
    let exec = ["id", "-u"].map(str::to_owned);
    let who = runtime.exec(&spec.id, &exec).await.expect("it runs").output;
    assert_eq!(String::from_utf8_lossy(&who).trim(), "1234");
    let started = super::record::Place::of(&directory.0, &spec.id).started().expect("a record");
    let status = fs::metadata(format!("/proc/{}", started.pid)).expect("it runs");
    let host = std::os::unix::fs::MetadataExt::uid(&status);
    assert!(host >= 0x1000_0000 && host % 65_536 == 1234, "{host}");
    drop(runtime);
    let runtime = open(&directory.0);
    let who = runtime.exec(&spec.id, &exec).await.expect("it runs").output;
    assert_eq!(String::from_utf8_lossy(&who).trim(), "1234");
    runtime.stop(&spec.id, std::time::Duration::ZERO).await.expect("it stops");
    runtime.remove_pod("mapped").await;
}
