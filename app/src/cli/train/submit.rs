//! Creates a TrainJob from a script or a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use reconcile::environment::System;
use reconcile::{Environment, Kind, Name, Object};
use serde_json::{Value, json};
use training::kinds::{CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME};

use super::cluster::Cluster;
use super::follow;
use crate::cli::exit::{self, Failure};
use crate::cli::readable::Named;
use crate::cli::wait::parse_duration;
use crate::cli::{Context, known, manifests, removal};
use crate::config::is_name;
use crate::output;
use crate::python::{HINT, Python};

/// Characters of a script's name that become part of its job's.
const NAME_LENGTH_MAX: usize = 30;
/// Objects that a file may hold.
const OBJECTS_MAX: usize = 100;
/// Which runtime runs scripts: on nodes that are this machine, and elsewhere.
const RUNTIME: &str = "torch-local";
const RUNTIME_ELSEWHERE: &str = "torch-distributed";
/// What another machine finds the script in, and how large it may be: a variable has 128 KiB.
const SCRIPT_VARIABLE: &str = "SETPOINT_SCRIPT";
const SCRIPT_BYTES_MAX: usize = 120_000;
const NODES: &str = "/api/v1/nodes?limit=500";
/// As many pods as a Job numbers, and more processes than any machine runs.
const NODES_MAX: i64 = 100_000;
const PROCESSES_MAX: i64 = 65_536;
/// Runtimes that pull images, by the names that nodes have for them.
const ENGINES: [&str; 4] = ["docker", "podman", "containerd", "cri-o"];
/// Starts the processes of a node.
const LAUNCHER: &str = include_str!("launcher.py");

#[derive(Args, Clone)]
pub struct Submit {
    /// The script to run on every node.
    #[arg(value_name = "FILE.py")]
    script: Option<PathBuf>,

    /// What the script is given; after `--` also what begins with a dash.
    #[arg(value_name = "ARGS", trailing_var_arg = true, requires = "script")]
    arguments: Vec<String>,

    /// A file with a TrainJob and, before it, runtimes of its own; in YAML or JSON. `-` is what
    /// comes on standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "script")]
    file: Option<PathBuf>,

    /// How many nodes train.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: Option<u32>,

    /// How many processes each node runs.
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=PROCESSES_MAX))]
    procs: Option<u32>,

    /// The ClusterTrainingRuntime; else the one that the file names, torch-local, or on another
    /// cluster torch-distributed.
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,

    /// Set an environment variable of the trainer. NAME alone takes the value of your shell. May be
    /// given more than once.
    #[arg(short, long, value_name = "NAME[=VALUE]", value_parser = parse_variable)]
    env: Vec<Variable>,

    /// The name of the job; else the file's, or one that is made of the script's.
    #[arg(long)]
    name: Option<String>,

    /// Show progress and output until the job has ended.
    #[arg(short, long)]
    watch: bool,

    /// Wait until the job has ended; print its state on stderr.
    #[arg(long, conflicts_with = "watch")]
    wait: bool,

    /// Delete the job of the same name first, if it exists.
    #[arg(long)]
    replace: bool,

    /// Time limit of --wait or --watch; the job continues.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

impl Submit {
    pub fn is_empty(&self) -> bool {
        self.script.is_none() && self.file.is_none()
    }
}

pub async fn submit(cluster: &Cluster, asked: &Submit, context: &Context) -> Result<ExitCode> {
    let (mut job, runtimes) = match (&asked.script, &asked.file) {
        (Some(script), _) => {
            let nodes = cluster.requests.read(NODES).await.unwrap_or_default();
            let engine = engine(&nodes).filter(|_| cluster.is_local);
            if let (Some(engine), None) = (engine, &asked.runtime) {
                return Err(needs_an_image(engine).into());
            }
            (of_script(asked, script, interpreter(cluster, engine)?)?, Vec::new())
        }
        (None, Some(file)) => of_file(file)?,
        (None, None) => bail!("name a script or a file with a TrainJob"),
    };
    if let Some(name) = &asked.name {
        job["metadata"]["name"] = json!(name);
    }
    if let Some(runtime) = &asked.runtime {
        job["spec"]["runtimeRef"] = json!({"name": runtime});
    }
    for (field, number) in [("numNodes", asked.nodes), ("numProcPerNode", asked.procs)] {
        if let Some(number) = number {
            job["spec"]["trainer"][field] = json!(number);
        }
    }
    set_variables(&mut job["spec"]["trainer"], &asked.env);
    for (kind, mut runtime) in runtimes {
        place(&mut runtime, kind, &cluster.namespace);
        let applied = cluster.requests.apply(kind, &runtime).await;
        applied.map_err(|error| cluster.explained(&error))?;
    }
    if asked.script.is_some() {
        let runtime = job["spec"]["runtimeRef"]["name"].as_str().unwrap_or_default();
        cluster.until_runtime(runtime).await?;
    }
    place(&mut job, TRAIN_JOB, &cluster.namespace);
    if let Some(script) = &asked.script {
        show_directory(cluster, script, &job).await?;
    }
    let made = create(cluster, asked, &job).await?;
    let name = made.name.name.to_string();
    context.output.print(&Made { kind: TRAIN_JOB.kind, name: name.clone() })?;
    if !asked.watch && !asked.wait {
        return Ok(ExitCode::SUCCESS);
    }
    let manner =
        follow::Manner { shows_output: asked.watch, timeout: asked.timeout, is_ours: true };
    let namespace = made.name.namespace.to_string();
    follow::follow(&Cluster { namespace, ..cluster.clone() }, &name, manner, context).await
}

/// Lets isolated pods of a local cluster read the directory of a script.
async fn show_directory(cluster: &Cluster, script: &Path, job: &Value) -> Result<()> {
    let path = script.canonicalize();
    let path = path.with_context(|| format!("could not find {}", script.display()))?;
    let (Some(data), Some(directory)) = (&cluster.data, path.parent()) else { return Ok(()) };
    let namespace = job["metadata"]["namespace"].as_str().unwrap_or_default();
    let program = job["spec"]["trainer"]["command"][0].as_str().unwrap_or_default();
    Named { data, namespace, directory, program }.add(&cluster.requests).await
}

/// Creates a job; with --replace, after the one of the same name was deleted.
async fn create(cluster: &Cluster, asked: &Submit, job: &Value) -> Result<Object> {
    let name = job["metadata"]["name"].as_str().unwrap_or_default();
    if asked.replace && !name.is_empty() {
        let namespace = job["metadata"]["namespace"].as_str().unwrap_or_default();
        let removed =
            removal::remove(&cluster.requests, TRAIN_JOB, &Name::new(namespace, name)).await?;
        if removed {
            output::remark(format!("deleted TrainJob {name}"));
        }
    }
    cluster.requests.create(TRAIN_JOB, job).await.map_err(|error| match error.code() {
        Some(409) => {
            let what = format!("TrainJob {name:?} already exists");
            let hint = format!(
                "`--replace` deletes it and runs it again; `setpoint train rm {name}` only \
                 deletes it"
            );
            anyhow!(Failure::new(exit::CONFLICT, what).known(&known::CONFLICT).hint(hint))
        }
        _ => cluster.explained(&error),
    })
}

fn place(object: &mut Value, kind: Kind, namespace: &str) {
    if kind.namespaced && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!(namespace);
    }
}

/// The runtime of containers that a script would be run by, where no node runs plain processes.
fn engine(nodes: &Value) -> Option<&str> {
    let nodes = nodes["items"].as_array().into_iter().flatten();
    let versions =
        nodes.filter_map(|it| it["status"]["nodeInfo"]["containerRuntimeVersion"].as_str());
    let names: Vec<&str> = versions.filter_map(|version| version.split("://").next()).collect();
    let is_engine = |name: &&str| ENGINES.contains(name);
    names.iter().copied().find(is_engine).filter(|_| names.iter().all(is_engine))
}

fn needs_an_image(engine: &str) -> Failure {
    let what = format!(
        "pods of this node are containers of {engine}, and {RUNTIME} runs scripts with the Python \
         of the machine"
    );
    Failure::new(exit::FAILED, what).hint(format!(
        "`setpoint down; setpoint up --runtime process` runs pods as processes; `--runtime \
         {RUNTIME_ELSEWHERE}` sends the script to an image with PyTorch"
    ))
}

#[derive(serde::Serialize)]
struct Made {
    kind: &'static str,
    name: String,
}

impl std::fmt::Display for Made {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.name;
        write!(formatter, "Created TrainJob {name}. Follow it with `setpoint train logs -f {name}`")
    }
}

fn of_script(asked: &Submit, script: &Path, python: Option<String>) -> Result<Value> {
    let path = script.canonicalize();
    let path = path.with_context(|| format!("could not find {}", script.display()))?;
    let directory = std::env::current_dir().context("could not find the working directory")?;
    let is_local = python.is_some();
    let python = python.unwrap_or_else(|| "python3".to_owned());
    let mut command = vec![python, "-uc".to_owned(), LAUNCHER.to_owned()];
    command.extend([directory, path].map(|path| literal(&path.to_string_lossy())));
    command.extend(asked.arguments.iter().map(|argument| literal(argument)));
    let runtime = if is_local { RUNTIME } else { RUNTIME_ELSEWHERE };
    let mut trainer = json!({"command": command});
    if !is_local {
        trainer["env"] = json!([{"name": SCRIPT_VARIABLE, "value": source(script)?}]);
    }
    Ok(json!({
        "apiVersion": TRAIN_JOB.api_version(),
        "kind": TRAIN_JOB.kind,
        "metadata": {"name": name_of(script)},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer},
    }))
}

/// The text of a script, for machines that do not have it.
fn source(script: &Path) -> Result<String> {
    let text = std::fs::read_to_string(script);
    let text = text.with_context(|| format!("could not read {}", script.display()))?;
    if text.len() > SCRIPT_BYTES_MAX {
        bail!(
            "{} is too large to be sent to another cluster; put it into an image and use -f",
            script.display()
        );
    }
    Ok(literal(&text))
}

/// A text that a pod is given as it is: what looks like a variable would be replaced on the way.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// Returns the Python of a script that runs on this machine; `None` if it runs elsewhere. The one
/// that the server was configured with comes first, then that of the caller, which may be of a
/// virtual environment, then the one that the server found.
fn interpreter(cluster: &Cluster, engine: Option<&str>) -> Result<Option<String>> {
    if !cluster.is_local || engine.is_some() {
        return Ok(None);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    choose_python(cluster.python.as_ref(), node::python::search(&path)).map(Some)
}

fn choose_python(of_server: Option<&Python>, of_caller: Option<PathBuf>) -> Result<String> {
    match (of_server, of_caller) {
        (Some(Python { configured: true, .. }), _) | (Some(_), None) => Ok("python3".to_owned()),
        (_, Some(found)) => Ok(found.to_string_lossy().into_owned()),
        (None, None) => {
            let what = "no python3 was found on your PATH nor on that of the server";
            let hint = format!("install Python 3, activate a virtual environment, or use {HINT}");
            Err(Failure::new(exit::FAILED, what).hint(hint).into())
        }
    }
}

/// An environment variable and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    value: String,
}

fn parse_variable(text: &str) -> Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if !is_name(name) {
        return Err(format!("{name:?} is not the name of an environment variable"));
    }
    let value = value.or_else(|| std::env::var(name).ok());
    let value = value.ok_or_else(|| {
        format!("{name} is not set in your shell; export it, or write {name}=VALUE")
    })?;
    Ok(Variable { name: name.to_owned(), value })
}

/// Sets variables of a trainer, in place of those of the same name.
fn set_variables(trainer: &mut Value, variables: &[Variable]) {
    if variables.is_empty() {
        return;
    }
    let mut list = trainer["env"].as_array().cloned().unwrap_or_default();
    for Variable { name, value } in variables {
        list.retain(|one| one["name"] != **name);
        list.push(json!({"name": name, "value": literal(value)}));
    }
    trainer["env"] = Value::Array(list);
}

/// A name of its own for each run of a script.
fn name_of(script: &Path) -> String {
    let stem = script.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
    let letters = stem.unwrap_or_default();
    let letters = letters.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' });
    let name: String = letters.take(NAME_LENGTH_MAX).collect();
    let name = name.trim_matches(|one: char| !one.is_ascii_alphabetic());
    let name = if name.is_empty() { "train" } else { name };
    let chance = System.random() & 0xff_ffff;
    format!("{name}-{chance:06x}")
}

type Runtimes = Vec<(Kind, Value)>;

/// The TrainJob of a file, and the runtimes that come with it.
fn of_file(file: &Path) -> Result<(Value, Runtimes)> {
    sort(manifests::read(file)?, file)
}

fn sort(objects: Vec<Value>, file: &Path) -> Result<(Value, Runtimes)> {
    let (mut job, mut runtimes) = (None, Vec::new());
    for object in objects.into_iter().filter(|object| !object.is_null()) {
        let kinds = [TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME];
        let runtime = kinds.into_iter().find(|kind| object["kind"] == kind.kind);
        match runtime {
            Some(kind) if runtimes.len() < OBJECTS_MAX => runtimes.push((kind, object)),
            None if object["kind"] == TRAIN_JOB.kind && job.is_none() => job = Some(object),
            None if object["kind"] == TRAIN_JOB.kind => {
                bail!("{} holds more than one TrainJob; use setpoint apply", file.display())
            }
            _ => {
                let kind = object["kind"].as_str().unwrap_or("an object without a kind");
                bail!("{} holds {kind}; only runtimes and a TrainJob are for this", file.display())
            }
        }
    }
    let job = job.with_context(|| format!("{} holds no TrainJob", file.display()))?;
    if !job["spec"]["podTemplateOverrides"].is_null() {
        bail!(
            "{} says spec.podTemplateOverrides, which older trainers had; say it in \
             spec.runtimePatches",
            file.display()
        );
    }
    Ok((job, runtimes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_after_its_script() {
        let name = name_of(Path::new("dir/My Model_2.py"));
        assert!(name.starts_with("my-model-"), "{name}");
        assert!(name_of(Path::new("1.py")).starts_with("train-"));
    }

    #[test]
    fn the_configured_python_comes_before_that_of_the_caller() {
        let server = |configured| Python { executable: PathBuf::from("/s/python3"), configured };
        let caller = || Some(PathBuf::from("/venv/bin/python3"));
        let chosen = |server: Option<&Python>, caller| choose_python(server, caller).expect("one");
        assert_eq!(chosen(Some(&server(true)), caller()), "python3");
        assert_eq!(chosen(Some(&server(false)), caller()), "/venv/bin/python3");
        assert_eq!(chosen(None, caller()), "/venv/bin/python3");
        assert_eq!(chosen(Some(&server(false)), None), "python3");
        let refused = choose_python(None, None).expect_err("refused").to_string();
        assert!(refused.contains("no python3 was found on your PATH"), "{refused}");
    }

    #[test]
    fn variables_of_a_job_take_the_place_of_those_of_its_file() {
        let parse = |text: &str| parse_variable(text);
        let path = parse("PATH").expect("it is set").value;
        assert_eq!(Some(path), std::env::var("PATH").ok());
        let missing = parse("SETPOINT_IS_NOT_SET").expect_err("refused");
        assert!(missing.starts_with("SETPOINT_IS_NOT_SET is not set in your shell"), "{missing}");
        assert!(parse("A-B=c").is_err() && parse("=c").is_err());
        let mut trainer = json!({"env": [{"name": "A", "value": "old"}, {"name": "B"}]});
        let variables = ["A=1$2=3", "C="].map(|text| parse(text).expect("a variable"));
        set_variables(&mut trainer, &variables);
        let expected = json!([{"name": "B"}, {"name": "A", "value": "1$$2=3"},
            {"name": "C", "value": ""}]);
        assert_eq!(trainer["env"], expected);
        let mut untouched = json!({});
        set_variables(&mut untouched, &[]);
        assert_eq!(untouched, json!({}));
    }

    #[test]
    fn a_script_is_not_given_to_a_runtime_that_would_pull_its_image() {
        let of = |versions: &[&str]| {
            let node =
                |one: &&str| json!({"status": {"nodeInfo": {"containerRuntimeVersion": one}}});
            json!({"items": versions.iter().map(node).collect::<Vec<_>>()})
        };
        assert_eq!(engine(&of(&["podman://5.0"])), Some("podman"));
        assert_eq!(engine(&of(&["docker://1", "process://0.1.0"])), None);
        assert_eq!(engine(&of(&["simulated://1"])), None);
        assert_eq!(engine(&of(&[])), None);
        let refused = needs_an_image("docker");
        assert!(refused.what.contains("containers of docker"), "{refused}");
        assert!(refused.hint.expect("a hint").contains("up --runtime process"));
    }

    #[test]
    fn a_file_holds_one_job_and_its_runtimes() {
        let sorted = |kinds: &[&str]| {
            let objects = kinds.iter().map(|kind| json!({"kind": kind})).collect();
            sort(objects, Path::new("f.yaml")).map(|(_, runtimes)| runtimes.len())
        };
        let said = |kinds: &[&str]| sorted(kinds).expect_err("refused").to_string();
        assert_eq!(sorted(&["TrainingRuntime", "TrainJob"]).expect("a job"), 1);
        assert_eq!(said(&["TrainingRuntime"]), "f.yaml holds no TrainJob");
        assert!(said(&["TrainJob", "TrainJob"]).contains("more than one"));
        assert!(said(&["Pod"]).starts_with("f.yaml holds Pod"));
        let old = json!({"kind": "TrainJob", "spec": {"podTemplateOverrides": []}});
        let refused = sort(vec![old], Path::new("f.yaml")).expect_err("refused").to_string();
        assert!(refused.ends_with("say it in spec.runtimePatches"), "{refused}");
    }
}
