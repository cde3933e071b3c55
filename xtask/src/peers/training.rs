//! PyTorch, Hugging Face and the SDK of Kubeflow: progress and loss of scripts that report nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Cache, output};

/// Pinned versions. Those of PyTorch on PyPI bring libraries for GPUs: 5.4 GB on disk.
const PACKAGES: [&str; 5] = [
    "torch==2.15.0",
    "transformers==5.23.0",
    "accelerate==1.15.0",
    "kubeflow==0.5.0",
    "uv==0.13.8",
];
/// Modules that jobs install for themselves, by the SDK and by uv.
const ADDED: [&str; 2] = ["einops", "added"];
/// Installs a package with uv, from a wheel of its own, and imports it.
const UV: &str = r"
import os, subprocess, zipfile
path = os.path.join(os.environ['HOME'], 'added-1.0-py3-none-any.whl')
info = 'added-1.0.dist-info/'
with zipfile.ZipFile(path, 'w') as wheel:
    wheel.writestr('added.py', '')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: added\nVersion: 1.0\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'RECORD', '')
subprocess.check_call(['uv', 'pip', 'install', '--no-index', path])
import added
print('Epoch 1/1 loss=0.5')
";
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/training");
/// Directory of the module `setpoint`.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python");
/// Trains as users of the SDK do. The function is sent as it stands.
const SDK: &str = "
import os, sys
from kubeflow.trainer import CustomTrainer, TrainerClient

def learn():
    import time
    import einops
    import torch
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for epoch in range(1, 11):
        loss = ((weight - 1) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f'Epoch [{epoch}/10], Loss: {loss.item():.4f}', flush=True)
        time.sleep(0.2)

client = TrainerClient()
path = os.path.dirname(sys.executable) + ':' + os.environ['PATH']
trainer = CustomTrainer(func=learn, num_nodes=2, packages_to_install=['einops'], env={'PATH': path})
name = client.train(trainer=trainer, runtime='torch-local')
job = client.wait_for_job_status(name, timeout=280, polling_interval=1)
assert job.status == 'Complete', job.status
print(name)
";

pub fn run(cache: &Cache) -> Result<()> {
    let python = install(&cache.directory)?;
    let cluster = Cluster::start(&cache.program, &python)?;
    cluster.train("ddp", &["ddp.py", "--nodes", "2"])?;
    cluster.check_progress("ddp", "loss")?;
    cluster.train("huggingface", &["huggingface.py"])?;
    cluster.check_progress("huggingface", "loss")?;
    cluster.train_with_callback()?;
    cluster.check_progress("callback", "loss")?;
    let mut sdk = cluster.command(&python);
    let kubeconfig = cluster.data.join("kubeconfig");
    // The SDK reads the source of the function from its file.
    let script = cluster.data.join("sdk.py");
    fs::write(&script, SDK)?;
    let printed = output(sdk.arg(&script).env("KUBECONFIG", kubeconfig))?;
    let name = printed.lines().last().unwrap_or_default();
    cluster.check_progress(name, "loss")?;
    fs::write(cluster.data.join("uv.py"), UV)?;
    cluster.train("uv", &[&cluster.data.join("uv.py").display().to_string()])?;
    for module in ADDED {
        let find = format!("import importlib.util as u; print(u.find_spec('{module}'))");
        let found = output(cluster.command(&python).args(["-c", &find]))?;
        ensure!(found.trim() == "None", "{module} is in the user's environment: {found}");
    }
    Ok(())
}

/// Makes a virtual environment with the packages, once per set of versions.
fn install(cache: &Path) -> Result<PathBuf> {
    let environment = cache.join(format!("training-{}", PACKAGES.join("-").replace("==", "-")));
    let python = environment.join("bin/python3");
    let is_installed = environment.join("installed");
    if is_installed.exists() {
        return Ok(python);
    }
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]);
    output(pip.args(PACKAGES))?;
    fs::write(&is_installed, "")?;
    Ok(python)
}

/// A running control plane with pods as processes. Dropping it ends everything.
struct Cluster {
    program: PathBuf,
    data: PathBuf,
    path: String,
}

impl Cluster {
    fn start(program: &Path, python: &Path) -> Result<Cluster> {
        let data = std::env::temp_dir().join(format!("setpoint-peers-{}", std::process::id()));
        fs::create_dir_all(&data)?;
        let bin = python.parent().context("an interpreter is in a directory")?;
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let cluster = Cluster { program: program.to_owned(), data, path };
        output(cluster.setpoint().args(["up", "--listen", "127.0.0.1:0", "--runtime", "process"]))?;
        Ok(cluster)
    }

    /// A command that finds the environment first, and neither configuration nor credentials.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path).env("HOME", &self.data).current_dir(&self.data);
        command.env("SETPOINT_DATA_DIR", &self.data).env_remove("KUBECONFIG");
        command
    }

    fn setpoint(&self) -> Command {
        self.command(&self.program)
    }

    fn train(&self, name: &str, words: &[&str]) -> Result<()> {
        let (script, options) = words.split_first().context("a script")?;
        let mut train = self.setpoint();
        train.arg("train").arg(Path::new(EXAMPLES).join(script)).args(options);
        output(train.args(["--name", name, "--watch", "--timeout", "5m"])).map(|_| ())
    }

    /// Trains with the callback of the Python module, and prints nothing that could be read.
    fn train_with_callback(&self) -> Result<()> {
        let example = fs::read_to_string(Path::new(EXAMPLES).join("huggingface.py"))?;
        let silent = "import os, sys; sys.stdout = sys.stderr = open(os.devnull, 'w')";
        let callback = "callbacks=[setpoint.callback()], train_dataset=";
        let script = example.replacen("train_dataset=", callback, 1);
        let script = script.replacen("import tempfile", "import setpoint, tempfile", 1);
        let script = script.replacen("def main():", &format!("{silent}\n\ndef main():"), 1);
        let file = self.data.join("callback.py");
        fs::write(&file, script)?;
        let module = format!("PYTHONPATH={MODULE}");
        self.train("callback", &[&file.display().to_string(), "-e", &module])
    }

    /// Fails unless `train show` has progress and a metric.
    fn check_progress(&self, name: &str, metric: &str) -> Result<()> {
        let shown = output(self.setpoint().args(["train", "-o", "json", "show", name]))?;
        let shown: Value = serde_json::from_str(&shown).context("train show prints JSON")?;
        let progress = shown["progress"].to_string();
        println!("xtask: {name}: {progress}");
        ensure!(progress.contains("100"), "{name} has no progress: {shown}");
        ensure!(progress.contains(metric), "{name} has no {metric}: {shown}");
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = output(self.setpoint().args(["down", "--pods"])) {
            eprintln!("xtask: {error:#}");
        }
        drop(fs::remove_dir_all(&self.data));
    }
}
