//! Images of virtual machines, as users bring them in: sent from a file, read from servers, copied;
//! what cannot be is said in a condition and leaves nothing behind. And who may ask machines for
//! something beside their objects.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::node::Machine;
use crate::sandbox::Sandbox;

const ALLOWED: &str = "jsonpath={.status.allowed}";
const GROUP: &str = "subresources.kubevirt.io";
const MIB: usize = 1 << 20;

/// Serves the files of a directory.
fn serve(directory: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 4_096];
            let read = stream.read(&mut asked).unwrap_or(0);
            let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
            let path = asked.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
            let answer = match std::fs::read(directory.join(path)) {
                Ok(bytes) => {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", bytes.len());
                    [format!("{head}connection: close\r\n\r\n").into_bytes(), bytes].concat()
                }
                Err(_) => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
            };
            let _ = stream.write_all(&answer);
        }
    });
    format!("http://{address}")
}

/// Serves one image. Who asks first gets half of it and then nothing; that it came so far is told.
fn serve_haltingly(bytes: Vec<u8>) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut halted = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4_096]);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
            let _ = stream.write_all(head.as_bytes());
            match halted.is_empty() {
                true => {
                    let _ = stream.write_all(&bytes[..bytes.len() / 2]);
                    halted.push(stream);
                    let _ = tell.send(());
                }
                false => drop(stream.write_all(&bytes)),
            }
        }
    });
    (format!("http://{address}/image"), told)
}

/// The program is killed while it reads an image: the next begins again, and counts that.
fn one_that_was_cut_short_is_begun_again(machine: &mut Machine, raw: &[u8]) {
    let (url, halted) = serve_haltingly(raw.to_vec());
    let source = json!({"http": {"url": url}});
    machine.kubectl(&["apply", "-f", "-"], &volume("halted", source).to_string());
    halted.recv_timeout(Duration::from_secs(60)).expect("it is asked for");
    phase(machine, "halted", "ImportInProgress");
    machine.restart();
    phase(machine, "halted", "Succeeded");
    let count = "get dv halted -o jsonpath={.status.restartCount}";
    assert_eq!(machine.until(count, |_| true), "1");
    let found = std::fs::read(disk(machine, "halted")).expect("a disk");
    assert!(found[..2 * MIB] == *raw, "it is whole");
}

/// Images of every sort, good and bad.
fn images(directory: &Path) -> Vec<u8> {
    let mut raw = vec![0; 2 * MIB];
    raw[MIB..MIB + 5].copy_from_slice(b"hello");
    std::fs::write(directory.join("raw"), &raw).expect("written");
    let make = "qemu-img convert -O qcow2 raw qcow2; xz -k raw; \
        qemu-img create -q -f qcow2 -b qcow2 -F qcow2 backed; \
        qemu-img create -q -f qcow2 huge 1T";
    let done = Command::new("sh").args(["-ec", make]).current_dir(directory).status();
    assert!(done.expect("a shell").success());
    raw
}

/// What a registry has of an image with a disk in it, as files.
fn layers(directory: &Path) {
    let make = "mkdir -p disk v2/vm/disk/blobs v2/vm/disk/manifests; cp qcow2 disk/disk.qcow2; \
        tar -czf layer --owner=107 --group=107 disk/disk.qcow2; \
        sum=sha256:$(sha256sum < layer | cut -d' ' -f1); \
        printf '{\"layers\": [{\"digest\": \"%s\", \"size\": %s}]}' $sum $(stat -c %s layer) > manifest; \
        mv layer v2/vm/disk/blobs/$sum; \
        own=sha256:$(sha256sum < manifest | cut -d' ' -f1); \
        mv manifest v2/vm/disk/manifests/$own; \
        printf '{\"manifests\": [{\"digest\": \"%s\", \"platform\": {\"architecture\": \"%s\"}}]}' \
            $own $(dpkg --print-architecture) > v2/vm/disk/manifests/1";
    let done = Command::new("sh").args(["-ec", make]).current_dir(directory).status();
    assert!(done.expect("a shell").success());
}

fn start(config: &str) -> Machine {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", config);
    let mut machine = Machine { sandbox, started: None };
    machine.begin();
    machine.until("get crd -o name", |names| names.contains("virtualmachinerestores"));
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "disks"}, "provisioner": "setpoint.dev/local-path",
        "parameters": {"path": machine.sandbox.work().join("volumes")},
        "volumeBindingMode": "WaitForFirstConsumer"});
    machine.kubectl(&["apply", "-f", "-"], &class.to_string());
    machine
}

fn volume(name: &str, source: Value) -> Value {
    json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": {"name": name, "annotations":
            {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}},
        "spec": {"source": source, "pvc": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "disks", "resources": {"requests": {"storage": "3Mi"}}}}})
}

/// The disk of a claim.
fn disk(machine: &Machine, claim: &str) -> PathBuf {
    let line = format!("get pvc {claim} -o jsonpath={{.spec.volumeName}}");
    let name = machine.until(&line, |name| !name.is_empty());
    let path = ["{.spec.local.path}", "{.spec.hostPath.path}"];
    let path = path
        .map(|path| machine.kubectl(&["get", "pv", &name, "-o", &format!("jsonpath={path}")], ""));
    Path::new(&path.concat()).join("disk.img")
}

fn phase(machine: &Machine, name: &str, phase: &str) {
    let line = format!("get dv {name} -o jsonpath={{.status.phase}}");
    machine.until(&line, |found| found == phase);
}

#[test]
fn images_are_sent_read_and_copied_and_are_whole() {
    let mut machine = start("machines: {images: everything}\n");
    let place = machine.sandbox.work();
    let raw = images(&place);
    let file = place.join("qcow2").display().to_string();
    let add = ["vm", "image", "add", "sent", &file, "--size", "3Mi", "--storage-class", "disks"];
    let sent = machine.sandbox.run(&[&add[..], &["-o", "json"]].concat());
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let lines: Vec<Value> =
        sent.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let phases: Vec<&str> = lines.iter().filter_map(|line| line["phase"].as_str()).collect();
    let at = |phase: &str| phases.iter().position(|one| *one == phase);
    assert!(at("UploadReady") < at("Uploading") && at("Uploading") < at("Succeeded"), "{phases:?}");
    assert_eq!(lines.last().expect("lines")["progress"], "100.0%");
    let url = serve(place.clone());
    let packed = json!({"http": {"url": format!("{url}/raw.xz")}});
    layers(&place);
    let registry = url.replace("http://", "docker://");
    let all = [
        volume("pulled", json!({"registry": {"url": format!("{registry}/vm/disk:1")}})),
        volume("read", packed),
        volume("copied", json!({"pvc": {"name": "sent"}})),
        volume("empty", json!({"blank": {}})),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    machine.kubectl(&["apply", "-f", "-"], &list.to_string());
    for name in ["pulled", "read", "copied", "empty", "sent"] {
        phase(&machine, name, "Succeeded");
        let found = std::fs::read(disk(&machine, name)).expect("a disk");
        assert_eq!(found.len(), 3 * MIB, "{name}");
        let zeros = vec![0; 2 * MIB];
        let expected = if name == "empty" { &zeros } else { &raw };
        assert!(found[..2 * MIB] == **expected, "{name} holds something else");
    }
    let listed = machine.sandbox.run(&["vm", "image", "ls", "-o", "json"]);
    assert_eq!(listed.json().as_array().map(Vec::len), Some(5), "{listed:?}");
    a_machine_is_waited_for_and_shown(&machine);
    wrong_files_are_refused(&machine);
    asked_for_by_those_who_may(&machine);
    one_that_was_cut_short_is_begun_again(&mut machine, &raw);
}

/// `--wait` ends with the state of the machine, and `doctor` reports the accelerator that it uses.
fn a_machine_is_waited_for_and_shown(machine: &Machine) {
    let vm = |words: &[&str]| machine.sandbox.run(&[&["vm"], words].concat());
    let sizes = ["--size", "3Mi", "--memory", "64Mi", "--storage-class", "disks"];
    let create = ["create", "web", "--image", "sent", "--wait", "--timeout", "60s"];
    let created = vm(&[&create[..], &sizes].concat());
    assert_eq!(created.code, Some(0), "{created:?}");
    let told = "machine web created\nmachine web is running on node ";
    assert!(created.stdout.starts_with(told), "{created:?}");
    let shown = vm(&["show", "web"]).stdout;
    for line in ["status    Running", "cpu       1", "disk      root 3Mi from pvc://sent"] {
        assert!(shown.lines().any(|one| one == line), "{line}: {shown}");
    }
    let shown = vm(&["show", "web", "-o", "json"]).json();
    assert_eq!((&shown["name"], &shown["status"]), (&json!("web"), &json!("Running")), "{shown}");
    assert_eq!(vm(&["show", "nothing"]).code, Some(5));
    let guests = machine.sandbox.processes("qemu-system");
    let line = std::fs::read(format!("/proc/{}/cmdline", guests[0])).unwrap_or_default();
    let has_kvm = String::from_utf8_lossy(&line).contains("\0-accel\0kvm");
    let doctor = machine.sandbox.run(&["doctor", "-o", "json"]).json();
    let findings = doctor["findings"].as_array().expect("findings").iter();
    let kvm = findings.into_iter().find(|one| one["what"] == "kvm").expect("a finding");
    assert_eq!(kvm["verdict"] == "well", has_kvm, "{kvm}");
    assert_eq!(vm(&["delete", "web"]).stdout, "machine web deleted\n");
}

fn wrong_files_are_refused(machine: &Machine) {
    let add = |name: &str, file: &str, more: &[&str]| {
        let file = machine.sandbox.work().join(file).display().to_string();
        let words =
            ["vm", "image", "add", name, &file, "--size", "3Mi", "--storage-class", "disks"];
        let ended = machine.sandbox.run(&[&words[..], more].concat());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.error().to_owned()
    };
    let said = add("nothing", "nothing", &[]);
    assert!(said.contains("neither a file nor begins with http"), "{said}");
    let said = add("backed", "backed", &[]);
    assert!(said.contains("the image needs another file"), "{said}");
    let zeros = format!("sha256:{}", "0".repeat(64));
    let said = add("other", "raw", &["--checksum", &zeros]);
    assert!(said.contains("the checksum is sha256:"), "{said}");
    let ended = machine.sandbox.run(&["vm", "create", "m", "--image", "unknown"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.error().contains("add it with `setpoint vm image add"), "{ended:?}");
}

/// The group is found by clients, and roles of every cluster say who may ask.
fn asked_for_by_those_who_may(machine: &Machine) {
    let found = machine.kubectl(&["get", "--raw", &format!("/apis/{GROUP}/v1")], "");
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let names = found["resources"].as_array().expect("resources").iter();
    let names: Vec<&str> = names.filter_map(|one| one["name"].as_str()).collect();
    for name in ["virtualmachines/start", "virtualmachineinstances/console", "datavolumes/upload"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let versions = machine.kubectl(&["api-versions"], "");
    assert!(versions.contains(&format!("{GROUP}/v1")), "{versions}");
    for (role, user) in [("view", "viewer"), ("edit", "editor")] {
        let words = ["create", "rolebinding", user, "--clusterrole", role, "--user", user];
        machine.kubectl(&words, "");
    }
    // Not `kubectl auth can-i`: it knows no group that has nothing but parts of others' objects.
    let may = |user: &str, verb: &str, resource: &str, part: &str| {
        let attributes = json!({"namespace": "default", "group": GROUP, "verb": verb,
            "resource": resource, "subresource": part});
        let review = json!({"apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}});
        let words = ["create", "--validate=false", "-f", "-", "--as", user, "-o", ALLOWED];
        machine.kubectl(&words, &review.to_string())
    };
    assert_eq!(may("editor", "update", "virtualmachines", "start"), "true");
    assert_eq!(may("viewer", "update", "virtualmachines", "start"), "false");
    assert_eq!(may("editor", "get", "virtualmachineinstances", "console"), "true");
    assert_eq!(may("viewer", "get", "virtualmachineinstances", "console"), "false");
    let listed = machine.run(&["get", "vm,dv,wukongs", "--as", "viewer"], "");
    assert_eq!(listed.code, Some(0), "{listed:?}");
}

#[test]
fn bad_images_are_told_of_and_leave_nothing() {
    // Nothing of this machine may be read from.
    let machine = start("");
    let place = machine.sandbox.work();
    images(&place);
    let url = serve(place);
    let http = |url: String| json!({"http": {"url": url}});
    let registry = |registry: Value| json!({"registry": registry});
    let inside = url.replace("http://", "docker://") + "/x";
    let cases = [
        ("loopback", http(format!("{url}/raw")), "where images are not read from"),
        ("metadata", http("http://169.254.169.254/x".into()), "where images are not read from"),
        ("scheme", http("ftp://example.com/x".into()), "is not a URL that images can be read from"),
        (
            "elsewhere",
            json!({"pvc": {"namespace": "kube-system", "name": "x"}}),
            "a claim can be copied within its namespace only",
        ),
        ("registry", registry(json!({"url": inside})), "where images are not read from"),
        (
            "secret",
            registry(json!({"url": inside, "secretRef": "s"})),
            "spec.source.registry.secretRef",
        ),
        ("s3", json!({"s3": {"url": "https://example.com/x"}}), "fills no volumes from"),
    ];
    let items: Vec<Value> =
        cases.iter().map(|(name, source, _)| volume(name, source.clone())).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    machine.kubectl(&["apply", "-f", "-"], &list.to_string());
    for (name, _, why) in &cases {
        phase(&machine, name, "Failed");
        let message = "{.status.conditions[?(@.type==\"Running\")].message}";
        let line = format!("get dv {name} -o jsonpath={message}");
        machine.until(&line, |said| said.contains(why));
        let left = std::fs::read_dir(disk(&machine, name).parent().expect("a directory"));
        assert_eq!(left.into_iter().flatten().count(), 0, "{name} leaves something");
    }
    // What may come to be is tried again, and says so.
    let missing = volume("later", json!({"pvc": {"name": "missing"}}));
    machine.kubectl(&["apply", "-f", "-"], &missing.to_string());
    let restarts = "get dv later -o jsonpath={.status.restartCount}";
    machine.until(restarts, |count| count.parse::<u32>().is_ok_and(|count| count > 0));
}
