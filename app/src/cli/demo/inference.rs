//! A graph of model servers that answers a question: the real frontend and a real worker of Dynamo
//! where a Python has them, else a server that is built in. Which of them, is said.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use inference::kinds::GRAPH;
use inference::value::text;
use reconcile::Kind;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::board::Board;
use super::{Outcome, Part, echo, reason, seconds};
use crate::cli::connect::Target;
use crate::cli::serve::chat::{Question, ask};
use crate::cli::serve::cluster::Cluster;
use crate::cli::serve::list::{parts, progress, state, why};
use crate::cli::verdict::Seen;
use crate::directories;

/// The graph of the documents.
const EXAMPLE: &str = include_str!("../../../../examples/inference/smallest.yaml");
const EXAMPLE_NAME: &str = "smallest";
const ECHO_NAME: &str = "demo";
/// Names of the graph: with Dynamo, and without it.
pub const NAMES: [&str; 2] = [EXAMPLE_NAME, ECHO_NAME];
const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const LOOK: Duration = Duration::from_millis(100);
const QUESTION: &str = "hello";
const TOKENS_MAX: u32 = 16;
/// Characters of an answer that are shown.
const ANSWER_SHOWN_MAX: usize = 30;
/// Who answers where no Python has Dynamo.
pub const ECHO: &str = "the built-in echo server";
/// What is installed, without what it would only need for GPUs.
const VERSION: &str = "1.6.1";
const PACKAGES: [&str; 9] = [
    "uvloop",
    "pydantic",
    "pydantic_core",
    "annotated-types",
    "typing_extensions",
    "typing-inspection",
    "packaging",
    "pyyaml",
    "msgspec",
];
const IS_INSTALLED: &str = "import importlib.util as u, sys
sys.exit(not (u.find_spec('dynamo.frontend') and u.find_spec('dynamo.mocker')))";

/// Whether Dynamo is fetched where no Python has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installing {
    No,
    Yes,
}

/// Serves until a question is answered.
pub async fn run(target: &Target, installing: Installing, board: &Board) -> Result<Outcome> {
    let part = Part::Inference.name();
    board.say(part, "searches for Dynamo");
    let found = tokio::task::spawn_blocking(find_dynamo).await.context("could not look")?;
    let (python, note) = match (found, installing) {
        (Some(python), _) => (Some(python), None),
        (None, Installing::No) => (None, None),
        (None, Installing::Yes) => {
            board.say(part, format!("installs Dynamo {VERSION}, which may take minutes"));
            let installed = tokio::task::spawn_blocking(install_dynamo).await;
            match installed.context("could not install")? {
                Ok(python) => (Some(python), None),
                Err(error) => (None, Some(crate::output::one_line(&error))),
            }
        }
    };
    let began = Instant::now();
    let cluster = Cluster::connect(target).await?;
    until_checked(&cluster).await?;
    let server = match &python {
        Some(_) => format!("Dynamo {VERSION}"),
        None => ECHO.to_owned(),
    };
    let (name, objects) = match &python {
        Some(python) => (EXAMPLE_NAME, of_dynamo(python)?),
        None => (ECHO_NAME, vec![(GRAPH, of_echo(ECHO_NAME)?)]),
    };
    for (kind, mut object) in objects {
        object["metadata"]["namespace"] = json!(cluster.namespace);
        let applied = cluster.requests.apply(kind, &object).await;
        applied.map_err(|error| anyhow!(error.said()))?;
    }
    until_served(&cluster, name, &server, board).await?;
    let serving_after = began.elapsed();
    let (answer, answered_in) = until_answered(&cluster, name).await?;
    let shown: String = answer.text.chars().take(ANSWER_SHOWN_MAX).collect();
    let note = note.map(|note| format!("; Dynamo: {note}")).unwrap_or_default();
    let millis = answered_in.as_millis();
    Ok(Outcome::well(
        format!("{server} answered {shown:?} in {millis} ms{note}"),
        json!({"server": server, "model": answer.model, "answer": answer.text,
            "servingAfterSeconds": seconds(serving_after),
            "answeredInSeconds": seconds(answered_in)}),
    ))
}

/// A graph is refused well only when somebody checks it: the webhooks come soon after the start.
async fn until_checked(cluster: &Cluster) -> Result<()> {
    loop {
        let all = cluster.requests.read(WEBHOOKS).await?;
        let items = all["items"].as_array().map_or(&[][..], Vec::as_slice);
        if items.iter().any(|one| text(&one["metadata"]["name"]).contains("dynamo")) {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

async fn until_served(cluster: &Cluster, name: &str, server: &str, board: &Board) -> Result<()> {
    let mut seen = Seen::default();
    loop {
        let graph = cluster.graph(name).await?;
        let word = state(&graph.value);
        let now = format!("{server}: {word}, {}", progress(&parts(&graph.value)));
        board.say(Part::Inference.name(), now);
        match word {
            "successful" => return Ok(()),
            "failed" => bail!("the graph failed: {}", why(&graph.value)),
            _ => {
                let observed = cluster.reader().observe(graph.value.clone()).await;
                reason::check(cluster.reader(), &observed, &mut seen).await?;
                sleep(LOOK).await;
            }
        }
    }
}

/// A frontend that is ready may not have heard of its workers yet.
async fn until_answered(
    cluster: &Cluster,
    name: &str,
) -> Result<(crate::cli::serve::chat::Answer, Duration)> {
    let question = Question { text: QUESTION, model: None, tokens_max: TOKENS_MAX };
    loop {
        let began = Instant::now();
        match ask(cluster, name, &question).await {
            Ok(answer) if !answer.text.is_empty() => return Ok((answer, began.elapsed())),
            // The time of the whole demonstration bounds this.
            _ => sleep(LOOK).await,
        }
    }
}

/// A frontend that is this program.
fn of_echo(name: &str) -> Result<Value> {
    let program = std::env::current_exe().context("could not find this program's file")?;
    let address = json!({"fieldRef": {"fieldPath": "status.podIP"}});
    let container = json!({"name": "main", "image": "setpoint/echo:1.0.0",
        "command": [program], "args": ["echo-server"],
        "env": [{"name": echo::ADDRESS_VARIABLE, "valueFrom": address}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1}});
    Ok(json!({"apiVersion": GRAPH.api_version(), "kind": GRAPH.kind, "metadata": {"name": name},
        "spec": {"components": [{"name": "Frontend", "type": "frontend",
            "podTemplate": {"spec": {"containers": [container]}}}]}}))
}

/// The example, with the Python that has Dynamo and looked at every second.
fn of_dynamo(python: &Path) -> Result<Vec<(Kind, Value)>> {
    let text = EXAMPLE.replace("python3", &python.display().to_string());
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).context("the example is not YAML")?;
    let probe = |port: &str, path: &str| {
        json!({"httpGet": {"path": path, "port": port}, "periodSeconds": 1,
            "timeoutSeconds": 5, "failureThreshold": 600})
    };
    for document in documents.iter_mut().filter(|one| one["kind"] == GRAPH.kind) {
        let parts = document["spec"]["components"].as_array_mut().context("no components")?;
        for part in parts {
            let port = if part["type"] == "frontend" { "http" } else { "system" };
            let container = &mut part["podTemplate"]["spec"]["containers"][0];
            container["readinessProbe"] = probe(port, "/health");
            if port == "system" {
                container["startupProbe"] = probe(port, "/live");
            }
        }
    }
    let kind = |one: &Value| if one["kind"] == GRAPH.kind { GRAPH } else { CONFIG_MAP };
    Ok(documents.into_iter().map(|one| (kind(&one), one)).collect())
}

/// A Python that has Dynamo: of a variable, of the environment that is active, the usual one, or
/// the one that was installed before.
fn find_dynamo() -> Option<PathBuf> {
    let said = std::env::var_os("SETPOINT_PYTHON").map(PathBuf::from);
    let active = std::env::var_os("VIRTUAL_ENV").map(|it| Path::new(&it).join("bin/python3"));
    let installed = environment().ok().map(|it| it.join("bin/python3"));
    let all = [said, active, super::on_path("python3"), installed];
    all.into_iter().flatten().find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", IS_INSTALLED]).stdin(Stdio::null());
        let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|status| status.success())
    })
}

/// Where Dynamo is installed to.
fn environment() -> Result<PathBuf> {
    Ok(directories::cache()?.join(format!("dynamo-{VERSION}")))
}

fn install_dynamo() -> Result<PathBuf> {
    let place = environment()?;
    let python = super::on_path("python3").context("there is no python3")?;
    let quietly = |command: &mut Command, what: &str| -> Result<()> {
        let ended = command.stdin(Stdio::null()).output();
        let ended = ended.with_context(|| format!("could not {what}"))?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            let last = said.lines().last().unwrap_or_default().to_owned();
            bail!("could not {what}: {last}");
        }
        Ok(())
    };
    let make = "make an environment of Python (Debian: `apt install python3-venv`)";
    quietly(Command::new(python).args(["-m", "venv"]).arg(&place), make)?;
    let of = |name: &str| format!("{name}=={VERSION}");
    let mut pip = Command::new(place.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    pip.args([of("ai-dynamo"), of("ai-dynamo-runtime")]).args(PACKAGES);
    quietly(&mut pip, "install Dynamo")?;
    Ok(place.join("bin/python3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_runs_with_the_python_that_was_found() {
        let objects = of_dynamo(Path::new("/venv/bin/python3")).expect("objects");
        let kinds: Vec<&str> = objects.iter().map(|(kind, _)| kind.kind).collect();
        assert_eq!(kinds, ["ConfigMap", "DynamoGraphDeployment"]);
        let parts = objects[1].1["spec"]["components"].as_array().expect("components");
        let commands: Vec<String> = parts.iter().map(ToString::to_string).collect();
        assert!(commands.iter().all(|one| one.contains("/venv/bin/python3")), "{commands:?}");
        assert_eq!(objects[1].1["metadata"]["name"], EXAMPLE_NAME);
    }
}
