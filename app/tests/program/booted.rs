//! A virtual machine that really boots, asked for with kubectl and talked to over its console.
//!
//! The guest is a kernel and a shell (`servers::guest_image`). One machine goes through everything,
//! because each boot takes seconds where processors are played by a program.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::node::Machine;
use crate::sandbox::Sandbox;
use crate::served;

/// How long a guest may take to boot on a slow machine that does other things too.
const BOOT_MAX: Duration = Duration::from_secs(120);
/// A password in the cloud-init data of the guest, which only the guest may see.
const PASSWORD: &str = "booted-marker-7Kq2";
/// Where the guest writes: behind its kernel.
const BLOCK: u32 = 90_000;

/// The processes of all guests.
fn processes(machine: &Machine) -> Vec<u64> {
    let place = machine.sandbox.data().join("machines/machines");
    let all = std::fs::read_dir(place).into_iter().flatten().flatten();
    let records = all.filter_map(|entry| {
        let text = std::fs::read(entry.path().join("process.json")).ok()?;
        serde_json::from_slice::<Value>(&text).ok()?["pid"].as_u64()
    });
    records.collect()
}

fn is_guest(pid: u64) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("qemu-system")
}

/// Serves one file to whoever asks.
pub fn serve(file: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let bytes = std::fs::read(file).expect("the image of a guest");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4_096]);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes));
        }
    });
    format!("http://{address}/guest.img")
}

/// `setpoint vm console`, with somebody before it.
pub struct Console {
    child: Child,
    keys: ChildStdin,
    said: Receiver<Vec<u8>>,
    seen: String,
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Console {
    /// Returns when the guest's shell answers. What is typed before it is there is lost, and a
    /// program that has only begun may not know its machines yet.
    fn open(machine: &Machine, name: &str) -> Console {
        Console::by(|| machine.sandbox.command(&["vm", "console", name]))
    }

    /// The same, by a command that connects.
    pub fn by(command: impl Fn() -> Command) -> Console {
        let began = Instant::now();
        let mut console = Console::connect(command());
        while !console.wait_for("/ # ", Duration::from_secs(1)) {
            assert!(began.elapsed() < BOOT_MAX, "no shell: {}", console.seen);
            if console.keys.write_all(b"\n").and_then(|()| console.keys.flush()).is_err() {
                console = Console::connect(command());
            }
        }
        console
    }

    fn connect(mut command: Command) -> Console {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it must start");
        let keys = child.stdin.take().expect("stdin is piped");
        let mut output = child.stdout.take().expect("stdout is piped");
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4_096];
            while let Ok(read @ 1..) = output.read(&mut piece) {
                if sender.send(piece[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Console { child, keys, said, seen: String::new() }
    }

    fn type_in(&mut self, text: &str) {
        let typed = self.keys.write_all(text.as_bytes()).and_then(|()| self.keys.flush());
        typed.unwrap_or_else(|error| panic!("{error}: {}", self.seen));
    }

    fn wait_for(&mut self, what: &str, at_most: Duration) -> bool {
        let began = Instant::now();
        while !self.seen.contains(what) {
            let Some(left) = at_most.checked_sub(began.elapsed()) else { return false };
            match self.said.recv_timeout(left) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(RecvTimeoutError::Timeout) => return false,
                // It has ended; whoever types notices.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(left),
            }
        }
        true
    }

    /// What a command says.
    pub fn run(&mut self, command: &str) -> String {
        self.seen.clear();
        self.type_in(&format!("{command}; echo end-$((40+2))\n"));
        let answered = self.wait_for("end-42", BOOT_MAX);
        assert!(answered, "{command} is not answered: {}", self.seen);
        self.seen.clone()
    }

    fn write_on_disk(&mut self, word: &str) {
        self.run(&format!("echo {word} | dd of=/dev/vda bs=512 seek={BLOCK} conv=notrunc; sync"));
    }

    fn read_from_disk(&mut self) -> String {
        self.run(&format!("dd if=/dev/vda bs=512 skip={BLOCK} count=1 2>/dev/null | head -c8"))
    }
}

pub fn manifests(sandbox: &Sandbox, url: &str) -> String {
    let place = sandbox.work().join("volumes");
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "disks"}, "provisioner": "setpoint.dev/local-path",
        "parameters": {"path": place}, "allowVolumeExpansion": true,
        "volumeBindingMode": "WaitForFirstConsumer"});
    let wukong = json!({"apiVersion": "vm.novasphere.dev/v1alpha1", "kind": "Wukong",
        "metadata": {"name": "w"}, "spec": {
            "cpu": 1, "memory": "160Mi",
            "cloudInitUser": {"name": "ada", "password": PASSWORD},
            "sshKeySecret": "keys",
            "networks": [{"name": "default"}],
            "disks": [{"name": "root", "size": "64Mi", "boot": true, "image": url,
                "storageClassName": "disks"}]}});
    let keys = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"id_rsa.pub": public_key(sandbox)}});
    json!({"apiVersion": "v1", "kind": "List", "items": [class, keys, wukong]}).to_string()
}

/// A key whose owner is let in.
fn public_key(sandbox: &Sandbox) -> String {
    let file = sandbox.work().join("key");
    let mut made = Command::new("ssh-keygen");
    made.args(["-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f"]).arg(&file);
    assert!(made.status().expect("ssh-keygen must be there").success());
    std::fs::read_to_string(file.with_extension("pub")).expect("a public key")
}

/// A guest with an agent tells of itself, and lets in who has the key.
fn tells_of_itself_and_lets_in(machine: &Machine, pid: u64) {
    let system = "get vmi w-vm -o jsonpath={.status.guestOSInfo.id}";
    machine.until(system, |id| id == "tiny");
    let instance = machine.kubectl(&["get", "vmi", "w-vm", "-o", "json"], "");
    let instance: Value = serde_json::from_str(&instance).expect("JSON");
    let status = &instance["status"];
    let conditions = status["conditions"].as_array().expect("conditions");
    let connected = conditions.iter().find(|one| one["type"] == "AgentConnected");
    assert_eq!(connected.expect("an agent")["status"], "True");
    let interface = &status["interfaces"][0];
    let shown = ["infoSource", "interfaceName", "ipAddress"].map(|field| &interface[field]);
    assert_eq!(shown, ["domain, guest-agent", "eth0", "10.0.2.2"], "{interface}");
    let path = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/w-vm";
    let said = machine.kubectl(&["get", "--raw", &format!("{path}/guestosinfo")], "");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["hostname"], &said["os"]["id"]), (&json!("w-vm"), &json!("tiny")), "{said}");
    let used = machine.sandbox.run(&["vm", "top", "-o", "json"]).json();
    let figures = ["processorMilliseconds", "memoryBytes", "readBytes"];
    let figures = figures.map(|field| used[0][field].as_u64().unwrap_or(0));
    assert!(figures.iter().all(|figure| *figure > 0), "{used}");
    assert!(used[0]["receivedBytes"].is_u64() && used[0]["sentBytes"].is_u64(), "{used}");
    // That a program plays its processors is said if and only if one does.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_played = String::from_utf8_lossy(&line).contains("\0-accel\0tcg");
    let is_said = conditions.iter().any(|one| one["type"] == "SoftwareEmulation");
    assert_eq!(is_said, is_played, "{status}");
    let key = machine.sandbox.work().join("key").display().to_string();
    let quiet = ["-i", &key, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"];
    let words =
        [&["vm", "ssh", "vm/w", "ada", "--"], &quiet[..], &["cat /proc/$PPID/comm; id -un"]];
    let ended = machine.sandbox.run(&words.concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("dropbear") && ended.stdout.contains("ada"), "{ended:?}");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its groups");
    let own = std::fs::read_to_string("/proc/self/status").expect("ourselves");
    if own.contains("CapEff:\t000001ffffffffff") {
        assert!(needs_root(pid) || !status.contains("\nUid:\t0\t"), "QEMU is root: {status}");
        assert!(groups.lines().any(|line| line.contains("/machines/")), "{groups}");
    }
}

/// The password is in no file of the data directory, no history and no export.
fn hides_its_password(machine: &Machine) {
    let sandbox = &machine.sandbox;
    let mut export = sandbox.command(&["export", "marked.setpoint"]);
    let exported = export.env("SETPOINT_PASSPHRASE", "twelve words").output().expect("an export");
    assert!(exported.status.success(), "{exported:?}");
    let history = sandbox.run(&["history", "vm/w-vm", "-o", "json"]);
    assert!(!history.stdout.contains(PASSWORD), "{history:?}");
    let mut directories = vec![sandbox.data(), sandbox.work()];
    let mut looked_at = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("a file has a type"));
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let bytes = std::fs::read(&path).unwrap_or_default();
                let mut windows = bytes.windows(PASSWORD.len());
                assert!(!windows.any(|it| it == PASSWORD.as_bytes()), "{}", path.display());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 5, "{looked_at} files");
}

/// Whether a guest is run by hardware that nobody but root is let in to.
fn needs_root(pid: u64) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_hardware = String::from_utf8_lossy(&line).contains("\0-accel\0kvm");
    let mode = std::fs::metadata("/dev/kvm").map_or(0, |found| found.permissions().mode());
    is_hardware && mode & 0o066 == 0
}

#[test]
fn a_machine_boots_answers_grows_outlives_the_program_and_is_brought_back() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let url = serve(&servers::guest_image(&target).expect("an image"));
    let mut sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "machines: {images: everything}\n");
    sandbox.set("PATH", std::env::var("PATH").unwrap_or_default());
    let mut host = Machine { sandbox, started: None };
    host.begin();
    let machine = &host;
    machine.until("get crd -o name", |names| names.contains("virtualmachinerestores"));
    machine.until("get validatingwebhookconfigurations -o name", |names| {
        names.contains("novasphere-validating")
    });
    machine.kubectl(&["apply", "-f", "-"], &manifests(&machine.sandbox, &url));
    let phase = "get wukong w -o jsonpath={.status.phase}";
    machine.until(phase, |phase| phase == "Running");
    let volume = machine.kubectl(&["get", "dv", "w-root", "--no-headers"], "");
    assert!(volume.contains("Succeeded   100.0%"), "{volume}");
    let mut console = Console::open(machine, "w");
    let pid = processes(machine)[0];
    let user_data = console.run("cat /seed/user-data");
    assert!(user_data.contains("name: ada") && user_data.contains(PASSWORD), "{user_data}");
    hides_its_password(machine);
    console.write_on_disk("before");
    tells_of_itself_and_lets_in(machine, pid);
    served::expose(machine, "w-vm");
    let port = served::node_port(machine, "ssh");
    served::answers(port);
    served::answers_a_pod(machine);
    let leading = served::slices(machine);
    assert_eq!(leading.len(), 1, "{leading:?}");

    takes_a_network_and_processors(machine, &mut console);

    // A disk that grows is seen to.
    let larger = r#"[{"op": "replace", "path": "/spec/disks/0/size", "value": "96Mi"}]"#;
    machine.kubectl(&["patch", "wukong", "w", "--type=json", "-p", larger], "");
    console.run("until grep -q 196608 /sys/block/vda/size; do sleep 0.1; done");
    drop(console);

    // The program is killed; the guest notices nothing.
    host.restart();
    let machine = &host;
    assert!(is_guest(pid), "the guest goes on");
    machine.until("get vm w-vm -o jsonpath={.status.printableStatus}", |it| it == "Running");
    let console = Console::open(machine, "w");
    assert_eq!(processes(machine), [pid], "it is the same");
    served::answers(port);
    assert_eq!(served::slices(machine), leading, "what leads to it is found again");

    keeps_and_brings_back(machine, console);
    // It was stopped and started since.
    served::answers(port);
    machine.kubectl(&["delete", "wukong", "w", "--timeout=60s"], "");
    machine.until("get wukong,vm,vmi,dv,pvc -o name", str::is_empty);
    assert_eq!(processes(machine), [0; 0]);
    served::is_over(machine, port);
}

/// What a Wukong asks for while its machine runs is in the guest without a restart, or is said to
/// need one.
fn takes_a_network_and_processors(machine: &Machine, console: &mut Console) {
    let bridge = format!("svb{}", std::process::id() % 1_000_000);
    let change = |spec: Value| {
        let patch = json!({"spec": spec}).to_string();
        machine.kubectl(&["patch", "wukong", "w", "--type=merge", "-p", &patch], "");
    };
    let lan = json!({"name": "lan", "type": "bridge", "bridgeName": bridge,
        "ipConfig": {"mode": "static", "address": "10.78.0.1/24"}});
    change(json!({"networks": [{"name": "default"}, lan], "cpu": 2}));
    console.run("until [ -e /sys/class/net/eth1 ]; do sleep 0.1; done");
    console.run("until [ $(nproc) = 2 ]; do sleep 0.1; done");
    let told = "get wukong w -o jsonpath={.status.networks[1]}";
    let told = machine.until(told, |told| told.contains("10.78.0.1"));
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let seen = console.run("cat /sys/class/net/eth1/address");
    assert!(seen.contains(told["macAddress"].as_str().expect("an address")), "{seen}: {told}");
    let required = "get vm w-vm -o \
        jsonpath={.status.conditions[?(@.type==\"RestartRequired\")].message}";
    assert_eq!(machine.until(required, |_| true), "");
    change(json!({"networks": [{"name": "default"}]}));
    console.run("while [ -e /sys/class/net/eth1 ]; do sleep 0.1; done");
    let place = Path::new("/sys/class/net").join(&bridge);
    let began = Instant::now();
    while place.exists() {
        assert!(began.elapsed() < BOOT_MAX, "the bridge stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    change(json!({"memory": "168Mi"}));
    machine.until(required, |why| why.starts_with("memory updated in template spec"));
}

/// Another that holds what differs: made at once, and its base stays as it is.
fn is_linked(machine: &Machine) {
    let done = machine.sandbox.run(&["vm", "clone", "w", "link", "--linked"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    machine.until("get dv link-root -o jsonpath={.status.phase}", |phase| phase == "Succeeded");
    let mut console = Console::open(machine, "link");
    assert!(console.read_from_disk().contains("after"), "it has what the other has");
    console.write_on_disk("linked");
    assert!(console.read_from_disk().contains("linked"));
    let seen = console.run("cat /seed/meta-data; cat /sys/class/net/eth0/address");
    assert!(seen.contains("link-vm"), "{seen}");
    let of = |name: &str, field: &str| {
        let words = format!("get {name} -o jsonpath={{{field}}}");
        machine.until(&words, |it| !it.is_empty())
    };
    let identity = of("vmi link-vm", ".spec.domain.firmware.uuid");
    let address = of("vmi link-vm", ".status.interfaces[0].mac");
    assert!(seen.contains(&identity) && seen.contains(&address), "{seen}");
    let other = of("vm w-vm", ".spec.template.spec.domain.devices.interfaces[0].macAddress");
    assert_ne!(address, other);
    let place = machine.sandbox.work().join("volumes");
    let files = std::fs::read_dir(place).into_iter().flatten().flatten();
    let links = files.filter(|entry| entry.path().join("disk.qcow2").exists()).count();
    assert_eq!(links, 1, "it is a file of differences");
    drop(console);
    // Its base neither goes nor is written.
    for what in ["wukong/w", "pvc/w-root", "dv/w-root"] {
        let ended = machine.run(&["delete", what, "--wait=false"], "");
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("is the base of linked clones"), "{ended:?}");
    }
    assert_eq!(machine.sandbox.run(&["vm", "start", "w"]).code, Some(0));
    let why = "get vmi w-vm -o \
        jsonpath={.status.conditions[?(@.type==\"Synchronized\")].message}";
    machine.until(why, |why| why.contains("is the base of linked clones (link-root)"));
    assert_eq!(machine.sandbox.run(&["vm", "stop", "w"]).code, Some(0));
    let done = machine.sandbox.run(&["vm", "delete", "link"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    machine.until("get wukong,vm,vmi,pvc -o name", |names| !names.contains("link"));
    machine.until("get vmi -o name", str::is_empty);
}

/// Another with the same disks, which has them for itself.
fn is_cloned(machine: &Machine) {
    let done = machine.sandbox.run(&["vm", "clone", "w", "copy", "--stopped", "-o", "json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.json()["action"], "clone");
    // Nobody uses it yet, and it waits for that.
    let done = || machine.sandbox.run(&["vm", "start", "copy"]).code;
    machine.until("get vm -o name", |names| names.contains("copy-vm"));
    assert_eq!(done(), Some(0));
    machine.until("get dv copy-root -o jsonpath={.status.phase}", |phase| phase == "Succeeded");
    let status = "get vm copy-vm -o jsonpath={.status.printableStatus}";
    machine.until(status, |it| it == "Running");
    let mut console = Console::open(machine, "copy");
    assert!(console.read_from_disk().contains("after"), "it has what the other had");
    drop(console);
    let done = machine.sandbox.run(&["vm", "delete", "copy"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    machine.until("get wukong,vm,vmi -o name", |names| !names.contains("copy"));
}

/// A snapshot, a write, and back.
fn keeps_and_brings_back(machine: &Machine, mut console: Console) {
    let done = machine.sandbox.run(&["vm", "snapshot", "w", "kept"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let kept = "get wukongsnapshot kept -o jsonpath={.status.phase}";
    machine.until(kept, |phase| phase == "Succeeded");
    let how = "get vmsnapshot -o jsonpath={.items[0].status.indications}";
    assert_eq!(machine.until(how, |how| !how.is_empty()), r#"["Online","GuestAgent"]"#);
    console.write_on_disk("after");
    assert!(console.read_from_disk().contains("after"));
    drop(console);
    let done = machine.sandbox.run(&["vm", "stop", "w"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    machine.until("get vmi -o name", str::is_empty);
    let listed = machine.sandbox.run(&["vm", "ls"]);
    assert!(listed.stdout.contains("w     Stopped"), "{listed:?}");
    is_cloned(machine);
    is_linked(machine);
    let back = r#"{"spec": {"restoreFromSnapshot": "kept"}}"#;
    machine.kubectl(&["patch", "wukong", "w", "--type=merge", "-p", back], "");
    machine.until("get vmrestore -o jsonpath={.items[0].status.complete}", |it| it == "true");
    let status = "get vm w-vm -o jsonpath={.status.printableStatus}";
    // Whoever stopped it has the last word; that it is started already is fine.
    machine.sandbox.run(&["vm", "start", "w"]);
    machine.until(status, |it| it == "Running");
    let mut console = Console::open(machine, "w");
    assert!(console.read_from_disk().contains("before"));
    goes_on_where_it_was(machine, console);
}

/// A snapshot with memory: what runs in the guest goes on, in the same boot of it.
fn goes_on_where_it_was(machine: &Machine, mut console: Console) {
    console.run("(i=0; while true; do i=$((i+1)); echo $i > /count; sleep 0.1; done) & true");
    console.run("until [ -e /count ]; do sleep 0.1; done");
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let id = |said: &str| {
        let mut lines = said.lines().map(str::trim);
        lines.find(|line| line.len() == 36 && line.contains('-')).expect("a boot").to_owned()
    };
    let before = id(&console.run(boot));
    let done = machine.sandbox.run(&["vm", "snapshot", "w", "moment", "--memory"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let kept = "get wukongsnapshot moment -o jsonpath={.status}";
    machine.until(kept, |status| status.contains("Succeeded"));
    drop(console);
    let done = machine.sandbox.run(&["vm", "stop", "w", "--grace-period", "0"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    machine.until("get vmi -o name", str::is_empty);
    let back = r#"{"spec": {"restoreFromSnapshot": "moment"}}"#;
    machine.kubectl(&["patch", "wukong", "w", "--type=merge", "-p", back], "");
    machine
        .until("get vmrestore w-restore-moment -o jsonpath={.status.complete}", |it| it == "true");
    machine.sandbox.run(&["vm", "start", "w"]);
    let status = "get vm w-vm -o jsonpath={.status.printableStatus}";
    machine.until(status, |it| it == "Running");
    let mut console = Console::open(machine, "w");
    assert_eq!(id(&console.run(boot)), before, "it did not boot");
    console.run("n=$(cat /count); until [ $(cat /count) -gt $n ]; do sleep 0.1; done");
}
