//! GPUs of NVIDIA: which there are, and how a program is told which are its own.
//!
//! `nvidia-smi` is asked where it is installed. It may hang with its driver, so it has a time.
//! Where it says nothing of use, what the driver shows in `/proc` and `/dev` is counted.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use super::{DEVICES_MAX, Sight};
use crate::runtimes::process::system;

pub const RESOURCE: &str = "nvidia.com/gpu";
/// One directory for each GPU, where the driver is loaded.
const DRIVER: &str = "/proc/driver/nvidia/gpus";
const PROGRAM: &str = "nvidia-smi";
const QUESTION: [&str; 2] =
    ["--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits"];
/// How long it may take: a driver that has to be loaded first takes seconds.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// What a label may be long.
const LABEL_MAX: usize = 63;

/// One of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub number: u32,
    /// The rest is empty, or 0, where only the driver could be asked.
    pub uuid: String,
    pub name: String,
    pub memory_mebibytes: u64,
}

/// Those of this machine. They are looked for once: nobody puts one into a machine that runs.
pub fn found() -> &'static [Gpu] {
    static FOUND: OnceLock<Vec<Gpu>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        look(&path, ANSWER_MAX)
    })
}

/// Looks for them, with the programs of a path and so much time.
fn look(path: &OsStr, within: Duration) -> Vec<Gpu> {
    let listed = ask(path, within).and_then(|text| {
        let listed = read(&text);
        if listed.is_none() {
            let said = text.lines().next().unwrap_or_default();
            tracing::warn!(said, "nvidia-smi tells of no GPU; the driver is asked");
        }
        listed
    });
    listed.unwrap_or_else(|| {
        let of_number =
            |number| Gpu { number, uuid: String::new(), name: String::new(), memory_mebibytes: 0 };
        (0..count()).map(of_number).collect()
    })
}

/// How many the driver shows.
fn count() -> u32 {
    let listed = fs::read_dir(DRIVER).into_iter().flatten().flatten().count();
    let listed = u32::try_from(listed).unwrap_or(0);
    // A container may have the devices without the driver's directory.
    let devices = (0..DEVICES_MAX).take_while(|it| Path::new(&format!("/dev/nvidia{it}")).exists());
    listed.max(u32::try_from(devices.count()).unwrap_or(0))
}

/// What `nvidia-smi` says; `None` if it is not there or takes too long.
fn ask(path: &OsStr, within: Duration) -> Option<String> {
    let mut command = Command::new(PROGRAM);
    command.args(QUESTION).env("PATH", path).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
        let _ = tell.send(read.map(|_| text));
    });
    let answer = told.recv_timeout(within);
    if answer.is_err() {
        tracing::warn!(seconds = within.as_secs(), "nvidia-smi does not answer");
    }
    // Who has said everything, or nothing in time, is not needed any more.
    system::kill_group(i32::try_from(child.id()).unwrap_or(0));
    // One that waits for its driver does not die at once; nobody waits for it but this.
    thread::spawn(move || child.wait());
    answer.ok()?.ok()
}

/// Lines such as `0, GPU-5a..., NVIDIA A100-SXM4-40GB, 40960`; `None` if one of them is not.
fn read(text: &str) -> Option<Vec<Gpu>> {
    let gpus: Option<Vec<Gpu>> = text.lines().map(read_line).collect();
    gpus.filter(|gpus| !gpus.is_empty() && gpus.len() <= DEVICES_MAX as usize)
}

fn read_line(line: &str) -> Option<Gpu> {
    let mut fields = line.split(',').map(str::trim);
    let (number, uuid) = (fields.next()?.parse().ok()?, fields.next()?);
    let (name, memory) = (fields.next()?, fields.next()?);
    let is_known = uuid.starts_with("GPU-") && fields.next().is_none();
    // How much memory it has is not always told.
    let memory_mebibytes = memory.parse().unwrap_or(0);
    let (uuid, name) = (uuid.to_owned(), name.to_owned());
    is_known.then_some(Gpu { number, uuid, name, memory_mebibytes })
}

/// What pods may choose a node by, under the names that NVIDIA's own discovery uses.
pub fn labels(gpus: &[Gpu]) -> Vec<(&'static str, String)> {
    let Some(first) = gpus.first().filter(|gpu| !gpu.name.is_empty()) else { return Vec::new() };
    let mut labels = vec![
        ("nvidia.com/gpu.count", gpus.len().to_string()),
        ("nvidia.com/gpu.product", label(&first.name)),
    ];
    if first.memory_mebibytes > 0 {
        labels.push(("nvidia.com/gpu.memory", first.memory_mebibytes.to_string()));
    }
    labels
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let plain: String = text.chars().map(|it| if is_plain(it) { it } else { '-' }).collect();
    let cut: String = plain.chars().take(LABEL_MAX).collect();
    cut.trim_matches(|it: char| !it.is_ascii_alphanumeric()).to_owned()
}

/// What CUDA and the tools of NVIDIA read. Numbers follow the order of the bus, as the driver's.
/// Who hands over GPUs to a container reads the last, and CUDA counts anew what it finds there.
pub fn variables(numbers: &[u32], sight: Sight) -> Vec<(&'static str, String)> {
    let list = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let tools = if numbers.is_empty() { "void".to_owned() } else { list.clone() };
    let tools = ("NVIDIA_VISIBLE_DEVICES", tools);
    match sight {
        Sight::Own => vec![tools],
        Sight::All => vec![
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
            ("CUDA_VISIBLE_DEVICES", list),
            tools,
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory with a program that stands in for `nvidia-smi`.
    struct StandIn(PathBuf);

    impl StandIn {
        fn new(name: &str, script: &str) -> StandIn {
            let name = format!("setpoint-gpu-{name}-{}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            fs::create_dir_all(&directory).unwrap();
            // Written by a process of its own: a file that one of ours holds open for writing, be
            // it between fork and exec, cannot be run.
            let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >$0 && chmod 755 $0";
            let mut shell = Command::new("sh");
            shell.args(["-c", write]).arg(directory.join(PROGRAM)).arg(script);
            assert!(shell.status().unwrap().success());
            StandIn(directory)
        }

        fn look(&self, within: Duration) -> Vec<Gpu> {
            look(self.0.as_os_str(), within)
        }
    }

    impl Drop for StandIn {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_nvidia_smi_lists_is_there() {
        let script = "[ \"$2\" = --format=csv,noheader,nounits ] || exit 1
echo '0, GPU-aa, NVIDIA A100-SXM4-40GB, 40960'
echo '1, GPU-bb, NVIDIA A100-SXM4-40GB, [N/A]'";
        let found = StandIn::new("lists", script).look(Duration::from_secs(60));
        let expected = |number, uuid: &str, memory_mebibytes| Gpu {
            number,
            uuid: uuid.to_owned(),
            name: "NVIDIA A100-SXM4-40GB".to_owned(),
            memory_mebibytes,
        };
        assert_eq!(found, [expected(0, "GPU-aa", 40_960), expected(1, "GPU-bb", 0)]);
        let labels = labels(&found);
        let expected = [
            ("nvidia.com/gpu.count", "2"),
            ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"),
            ("nvidia.com/gpu.memory", "40960"),
        ];
        assert_eq!(labels, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn who_says_nothing_of_use_or_nothing_in_time_is_not_asked_for_more() {
        let shown = usize::try_from(count()).unwrap();
        for (name, script) in [
            ("garbage", "echo 'NVIDIA-SMI has failed because it could not reach the driver.'"),
            ("half", "echo '0, GPU-aa, NVIDIA L4, 23034'; echo 'Unable to determine the device'"),
            ("silent", "exit 9"),
        ] {
            let found = StandIn::new(name, script).look(Duration::from_secs(60));
            assert_eq!(found.len(), shown, "{name}");
            assert!(super::labels(&found).is_empty(), "{name}");
        }
        // What it started holds its output open, and is ended with it.
        let hangs = StandIn::new("hangs", "echo '0, GPU-aa, L4, 1'; /bin/sleep 7531 & wait");
        assert_eq!(hangs.look(Duration::from_millis(50)).len(), shown);
        assert_eq!(look(OsStr::new("/nonexistent"), Duration::from_secs(60)).len(), shown);
    }

    #[test]
    fn names_become_labels() {
        assert_eq!(label("NVIDIA GeForce RTX 4090 (x)"), "NVIDIA-GeForce-RTX-4090--x");
        assert_eq!(label(&"a".repeat(99)).len(), LABEL_MAX);
    }
}
