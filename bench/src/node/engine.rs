//! Pods in containers of a private Docker or containerd, beside what those take for one container.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use servers::{Containerd, Engine};

use super::{Options, expect_running, remove_all};
use crate::api::client::{Connection, Http};
use crate::api::report::{Aim, Report, millis};
use crate::api::target::Target;
use crate::cluster::objects;
use crate::statistics::{Samples, now};

const IMAGE: &str = "setpoint.test/shell:1";
const SINGLE: usize = 10;
const MANY: usize = 50;
/// The name of the engine's own container.
const OWN: &str = "bench";

/// What runs containers, and can run one without us.
pub trait Runner {
    /// As it is called in the report, and by `--runtime`.
    fn names(&self) -> (&'static str, &'static str);
    fn socket(&self) -> &Path;
    /// Starts one container; returns when it runs.
    fn run_alone(&self) -> Result<()>;
    fn remove(&self) -> Result<()>;
}

pub async fn run(options: &Options, runner: &dyn Runner, report: &mut Report) -> Result<()> {
    let (called, name) = runner.names();
    let socket = runner.socket().display().to_string();
    let arguments = ["--runtime", name, "--container-runtime-endpoint", &socket];
    let target = options.launch_with(&arguments)?;
    let mut connection = Connection::open(&target, Http::One).await?;
    objects::namespace(&target, &mut connection, &target.namespace).await?;
    let (mut alone, mut pods) = (Samples::default(), Samples::default());
    for number in 0..SINGLE {
        let start = now();
        runner.run_alone()?;
        alone.push(start.elapsed());
        runner.remove()?;
        let name = format!("engine-{number}");
        let expected = expect_running(&target, 1).await?;
        let start = now();
        create(&target, &mut connection, &name).await?;
        let arrived = expected.await?.with_context(|| format!("{name} does not run"))?;
        pods.push(arrived.last.duration_since(start));
        remove_all(&target, &mut connection).await?;
    }
    let (alone, pods) = (alone.percentile(0.5), pods.percentile(0.5));
    let what = format!("container of {called} alone, p50");
    report.row(&what, millis(alone), Aim::None, "");
    let what = format!("pod of one container in {called}, p50");
    report.row(&what, millis(pods), Aim::None, "");
    let over = pods.saturating_sub(alone);
    report.row("  over the container alone", millis(over), Aim::AtMost(100.0), "");
    let expected = expect_running(&target, MANY).await?;
    let start = now();
    for number in 0..MANY {
        create(&target, &mut connection, &format!("many-{number}")).await?;
    }
    let arrived = expected.await?.context("not all pods run")?;
    let took = millis(arrived.last.duration_since(start));
    report.row(&format!("{MANY} pods in {called} at once until all run"), took, Aim::None, "");
    connection = Connection::open(&target, Http::One).await?;
    remove_all(&target, &mut connection).await
}

/// A private Docker, asked over its socket for what `docker run` asks for.
pub struct Docker(Engine);

impl Docker {
    pub fn start() -> Result<Docker> {
        let engine = Engine::docker()?;
        engine.make_shell(IMAGE)?;
        Ok(Docker(engine))
    }
}

impl Runner for Docker {
    fn names(&self) -> (&'static str, &'static str) {
        ("Docker", "docker")
    }

    fn socket(&self) -> &Path {
        self.0.socket()
    }

    fn run_alone(&self) -> Result<()> {
        let body = json!({"Image": IMAGE, "Entrypoint": ["sleep", "3600"],
            "HostConfig": {"NetworkMode": "none"}});
        let create = format!("/containers/create?name={OWN}");
        let (created, told) = self.0.ask(("POST", &create), body.to_string().as_bytes())?;
        ensure!(created == 201, "no container was made: {told}");
        let (started, told) = self.0.ask(("POST", &format!("/containers/{OWN}/start")), b"")?;
        ensure!(started == 204, "the container was not started: {told}");
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        self.0.ask(("DELETE", &format!("/containers/{OWN}?force=true")), b"")?;
        Ok(())
    }
}

/// A private containerd, asked by its own program.
pub struct Ctr(Containerd);

impl Ctr {
    pub fn start() -> Result<Ctr> {
        let containerd = Containerd::start()?;
        containerd.make_shell(IMAGE)?;
        Ok(Ctr(containerd))
    }

    fn ask(&self, words: &[&str]) -> Result<()> {
        let ended = self.0.ctr(words).output()?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        ensure!(ended.status.success(), "ctr {words:?}: {said}");
        Ok(())
    }
}

impl Runner for Ctr {
    fn names(&self) -> (&'static str, &'static str) {
        ("containerd", "containerd")
    }

    fn socket(&self) -> &Path {
        self.0.socket()
    }

    fn run_alone(&self) -> Result<()> {
        let run = ["run", "--detach", "--snapshotter", "native"];
        self.ask(&[&run[..], &[IMAGE, OWN, "sleep", "3600"]].concat())
    }

    fn remove(&self) -> Result<()> {
        self.ask(&["tasks", "rm", "--force", OWN])?;
        self.ask(&["containers", "rm", OWN])
    }
}

async fn create(target: &Arc<Target>, connection: &mut Connection, name: &str) -> Result<()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "3600"]}]}});
    objects::send(target, connection, ("POST", &objects::pods(target)), &pod).await.map(drop)
}
