//! Pods in containers of a private Docker, beside what the engine itself takes for one container.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use servers::Engine;

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

pub async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let engine = Engine::docker()?;
    engine.make_shell(IMAGE)?;
    let socket = engine.socket().display().to_string();
    let arguments = ["--runtime", "docker", "--container-runtime-endpoint", &socket];
    let target = options.launch_with(&arguments)?;
    let mut connection = Connection::open(&target, Http::One).await?;
    objects::namespace(&target, &mut connection, &target.namespace).await?;
    let (mut alone, mut pods) = (Samples::default(), Samples::default());
    for number in 0..SINGLE {
        let start = now();
        run_alone(&engine)?;
        alone.push(start.elapsed());
        engine.ask(("DELETE", &format!("/containers/{OWN}?force=true")), b"")?;
        let name = format!("engine-{number}");
        let expected = expect_running(&target, 1).await?;
        let start = now();
        create(&target, &mut connection, &name).await?;
        let arrived = expected.await?.with_context(|| format!("{name} does not run"))?;
        pods.push(arrived.last.duration_since(start));
        remove_all(&target, &mut connection).await?;
    }
    let (alone, pods) = (alone.percentile(0.5), pods.percentile(0.5));
    report.row("container of Docker alone until it runs, p50", millis(alone), Aim::None, "");
    report.row("pod of one container in Docker until it runs, p50", millis(pods), Aim::None, "");
    let over = pods.saturating_sub(alone);
    report.row("  over the container alone", millis(over), Aim::AtMost(100.0), "");
    let expected = expect_running(&target, MANY).await?;
    let start = now();
    for number in 0..MANY {
        create(&target, &mut connection, &format!("many-{number}")).await?;
    }
    let arrived = expected.await?.context("not all pods run")?;
    let took = millis(arrived.last.duration_since(start));
    report.row(&format!("{MANY} pods in Docker at once until all run"), took, Aim::None, "");
    connection = Connection::open(&target, Http::One).await?;
    remove_all(&target, &mut connection).await
}

/// What `docker run` does.
fn run_alone(engine: &Engine) -> Result<()> {
    let body = json!({"Image": IMAGE, "Entrypoint": ["sleep", "3600"],
        "HostConfig": {"NetworkMode": "none"}});
    let create = format!("/containers/create?name={OWN}");
    let (created, told) = engine.ask(("POST", &create), body.to_string().as_bytes())?;
    ensure!(created == 201, "no container was made: {told}");
    let (started, told) = engine.ask(("POST", &format!("/containers/{OWN}/start")), b"")?;
    ensure!(started == 204, "the container was not started: {told}");
    Ok(())
}

async fn create(target: &Arc<Target>, connection: &mut Connection, name: &str) -> Result<()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "3600"]}]}});
    objects::send(target, connection, ("POST", &objects::pods(target)), &pod).await.map(drop)
}
