//! Deploys a graph from a file or for a model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use inference::kinds::GRAPH;
use inference::value::text;
use reconcile::plan::Target;
use reconcile::{Kind, Object};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::watch::Watched;
use crate::cli::Context;
use crate::cli::apply::{self, DryRun, Manner, Validation};
use crate::cli::exit::{self, Failure};
use crate::cli::interrupted;
use crate::cli::manifests;
use crate::cli::readable::Named;
use crate::cli::removal;
use crate::cli::wait::parse_duration;
use crate::output;

/// The longest name that is made of a model's: objects of its components have longer ones, and so
/// does its place in Dynamo.
const NAME_BYTES_MAX: usize = 40;
/// The version of what runs, where the image does not say.
const VERSION: &str = "1.6.1";
/// Retries of a request on another worker when its worker goes away, as by an update.
const MIGRATIONS_MAX: &str = "3";
/// The same kind in the version that older files are written in.
const OLDER: Kind =
    Kind::namespaced("nvidia.com", "v1alpha1", "DynamoGraphDeployment", "dynamographdeployments");

#[derive(Args)]
pub struct Submit {
    /// Model: a directory of this machine, or a name on the Hugging Face Hub.
    #[arg(value_name = "MODEL")]
    model: Option<String>,

    /// A file with a DynamoGraphDeployment and what it needs, in YAML or JSON. `-` is what comes
    /// on standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "model")]
    file: Option<PathBuf>,

    /// The name of the graph; else the last part of the model's.
    #[arg(long)]
    name: Option<String>,

    /// Engine: vllm, sglang, trtllm, or mocker, which only simulates one.
    #[arg(long, default_value = "vllm", value_parser = ["vllm", "sglang", "trtllm", "mocker"])]
    engine: String,

    /// How many workers.
    #[arg(long, default_value_t = 1)]
    replicas: u32,

    /// The Python that has Dynamo.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: String,

    /// The image, on clusters whose nodes run images; else the one that has the engine.
    #[arg(long)]
    image: Option<String>,

    /// Show its state until it serves.
    #[arg(short, long)]
    watch: bool,

    /// Wait until it serves; print its state on stderr.
    #[arg(long, conflicts_with = "watch")]
    wait: bool,

    /// Delete the graph of the same name first, if it exists.
    #[arg(long)]
    replace: bool,

    /// Time limit of --wait or --watch; the graph stays.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    timeout: Duration,
}

impl Submit {
    pub fn is_empty(&self) -> bool {
        self.model.is_none() && self.file.is_none()
    }
}

pub async fn submit(cluster: &Cluster, asked: &Submit, context: &Context) -> Result<ExitCode> {
    let (mut graph, others) = match (&asked.file, &asked.model) {
        (Some(file), _) => sort(manifests::read(file)?, file)?,
        (None, Some(model)) => {
            check_directory(model, cluster.is_local)?;
            (of_model(asked, model), Vec::new())
        }
        (None, None) => bail!("name a model or a file with a graph"),
    };
    if let Some(name) = &asked.name {
        graph["metadata"]["name"] = json!(name);
    }
    let (kind, name) = (kind_of(&graph)?, text(&graph["metadata"]["name"]).to_owned());
    if name.is_empty() {
        bail!("the graph has no name; say one with --name");
    }
    for object in others {
        let manner = Manner {
            namespace: &cluster.namespace,
            is_forced: false,
            dry_run: DryRun::None,
            validate: Validation::Strict,
        };
        let (applied, _) = apply::apply(&cluster.requests.client, object, &manner).await?;
        context.output.print(&applied)?;
    }
    if text(&graph["metadata"]["namespace"]).is_empty() {
        graph["metadata"]["namespace"] = json!(cluster.namespace);
    }
    // Everything else is asked where the graph is.
    let cluster = &cluster.within(text(&graph["metadata"]["namespace"]));
    if asked.replace && removal::remove(&cluster.requests, kind, &cluster.name(&name)).await? {
        output::remark(format!("deleted graph {name}"));
    }
    if let (Some(data), Some(model)) = (&cluster.data, &asked.model)
        && let Ok(directory) = Path::new(model).canonicalize()
        && directory.is_dir()
    {
        let (namespace, program) = (&*cluster.namespace, &*asked.python);
        Named { data, namespace, directory: &directory, program }.add(&cluster.requests).await?;
    }
    let before = Before::of(cluster, &name).await?;
    let applied = cluster.requests.apply(kind, &graph).await;
    let applied = applied.with_context(|| format!("could not create graph {name}"))?;
    let what = before.outcome(&applied);
    let made = json!({"kind": GRAPH.kind, "name": name, "namespace": cluster.namespace,
        "what": what});
    context.output.tell(&format!("graph {name} {what}"), &made)?;
    let is_new = before.revision.is_none();
    let hint = format!("setpoint serve show {name} -n {}", cluster.namespace);
    let replaced = before.replaced(&applied);
    let watched = Watched { cluster, name: &name, timeout: asked.timeout, hint: &hint, replaced };
    tokio::select! {
        ended = follow(&watched, asked, context) => ended,
        _ = tokio::signal::ctrl_c() => {
            interrupted::leave(&format!("graph {name}"), &hint);
            // A graph that existed before this command is not deleted by it.
            if is_new && interrupted::comes_again("deletes it").await {
                let target = Target::of(kind, &applied);
                let deleted = cluster.requests.delete(&target, &Default::default()).await;
                deleted.with_context(|| format!("could not delete graph {name}"))?;
                output::remark(format!("graph {name} deleted"));
            }
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
    }
}

/// Refuses a path that does not exist. On another cluster an absolute path may be one of an image.
fn check_directory(model: &str, is_local: bool) -> Result<()> {
    let is_relative = ["./", "../", "~"].iter().any(|start| model.starts_with(start));
    let is_path =
        is_relative || model == "." || model == ".." || is_local && model.starts_with('/');
    if !is_path || Path::new(model).is_dir() {
        return Ok(());
    }
    let what = match Path::new(model).exists() {
        true => format!("model {model:?} is not a directory"),
        false => format!("model directory {model:?} not found"),
    };
    let hint = "give the directory of a model, or a name on the Hub such as Qwen/Qwen3-0.6B";
    Err(Failure::new(exit::FAILED, what).hint(hint).into())
}

/// Watches or waits for a graph, as the options say.
async fn follow(watched: &Watched<'_>, asked: &Submit, context: &Context) -> Result<ExitCode> {
    if asked.watch {
        return watched.watch(context).await;
    }
    if asked.wait {
        let what = format!("graph {}", watched.name);
        watched.waited(&what).until_ready(|| watched.observe()).await?;
        let graph = watched.cluster.graph(watched.name).await?;
        if let Some((_, address)) = watched.cluster.frontend(&graph).await? {
            let object = json!({"graph": watched.name, "address": address});
            context.output.tell(&format!("graph {} serves at {address}", watched.name), &object)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A graph and its pods before it was applied.
struct Before {
    /// Generation and revision of the graph, if it existed.
    revision: Option<(i64, u64)>,
    pods: BTreeSet<String>,
}

impl Before {
    async fn of(cluster: &Cluster, name: &str) -> Result<Before> {
        let found = cluster.requests.get(GRAPH, &cluster.name(name)).await;
        let Some(found) = found.with_context(|| format!("could not read graph {name}"))? else {
            return Ok(Before { revision: None, pods: BTreeSet::new() });
        };
        let pods = cluster.pods(name).await.unwrap_or_default();
        let pods = pods.iter().map(|pod| text(&pod["metadata"]["uid"]).to_owned()).collect();
        Ok(Before { revision: Some((found.generation(), found.revision)), pods })
    }

    /// Effect of the apply, in the words of kubectl.
    fn outcome(&self, applied: &Object) -> &'static str {
        match self.revision {
            None => "created",
            // Its operator may have written to the status meanwhile.
            Some((generation, revision))
                if revision == applied.revision || generation == applied.generation() =>
            {
                "unchanged"
            }
            Some(_) => "configured",
        }
    }

    /// Pods that an update replaces; none if nothing was changed.
    fn replaced(self, applied: &Object) -> BTreeSet<String> {
        match self.revision.is_some_and(|(generation, _)| generation == applied.generation()) {
            true => BTreeSet::new(),
            false => self.pods,
        }
    }
}

/// The graph of a file, and what is to be there before it.
fn sort(objects: Vec<Value>, file: &Path) -> Result<(Value, Vec<Value>)> {
    let is_graph = |object: &Value| object["kind"] == GRAPH.kind;
    let (mut graphs, others): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(is_graph);
    match (graphs.pop(), graphs.is_empty()) {
        (Some(graph), true) => Ok((graph, others)),
        (Some(_), false) => {
            bail!("{} holds more than one graph; use setpoint apply", file.display())
        }
        (None, _) => bail!("{} has no {} in it", file.display(), GRAPH.kind),
    }
}

/// The version that a graph is written in.
fn kind_of(graph: &Value) -> Result<Kind> {
    let known = [GRAPH, OLDER];
    let found = known.iter().find(|kind| graph["apiVersion"] == kind.api_version());
    found.copied().with_context(|| {
        let known = known.map(|kind| kind.api_version()).join(" or ");
        format!("a {} is of {known}, not of {:?}", GRAPH.kind, text(&graph["apiVersion"]))
    })
}

/// The published image that has an engine; that of vLLM plays one as well.
fn image_of(engine: &str) -> String {
    let runtime = match engine {
        "sglang" => "sglang-runtime",
        "trtllm" => "tensorrtllm-runtime",
        _ => "vllm-runtime",
    };
    format!("nvcr.io/nvidia/ai-dynamo/{runtime}:{VERSION}")
}

/// A frontend, and workers that run a model.
fn of_model(asked: &Submit, model: &str) -> Value {
    let path = Path::new(model);
    let model = match path.canonicalize() {
        Ok(found) if found.is_dir() => found.display().to_string(),
        _ => model.to_owned(),
    };
    let short = model.trim_end_matches('/').rsplit('/').next().unwrap_or(&model).to_owned();
    let name = name_of(&short);
    let flag = if asked.engine == "vllm" { "--model" } else { "--model-path" };
    let mut args = vec![flag.to_owned(), model.clone()];
    if asked.engine == "mocker" {
        args.extend(["--model-name".to_owned(), short]);
    }
    let image = asked.image.clone().unwrap_or_else(|| image_of(&asked.engine));
    let container = |module: &str, args: &[String]| {
        json!({"name": "main", "image": image,
            "command": [asked.python, "-m", format!("dynamo.{module}")], "args": args})
    };
    let part = |name: &str, kind: &str, replicas: u32, container: Value| {
        json!({"name": name, "type": kind, "replicas": replicas,
            "runtimeVersionOverride": VERSION,
            "podTemplate": {"spec": {"containers": [container]}}})
    };
    let mut frontend =
        container("frontend", &["--router-mode".to_owned(), "round-robin".to_owned()]);
    frontend["env"] = json!([{"name": "DYN_MIGRATION_LIMIT", "value": MIGRATIONS_MAX}]);
    json!({
        "apiVersion": GRAPH.api_version(),
        "kind": GRAPH.kind,
        "metadata": {"name": name},
        "spec": {"components": [
            part("Frontend", "frontend", 1, frontend),
            part("Worker", "worker", asked.replicas, container(&asked.engine, &args)),
        ]},
    })
}

/// A name for the graph and its services, made of a model's: empty if nothing of it can be used.
fn name_of(model: &str) -> String {
    let usable = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let mut name: String = model.to_lowercase().chars().map(usable).collect();
    name = name.trim_matches('-').to_owned();
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert_str(0, "model-");
    }
    name.truncate(NAME_BYTES_MAX);
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_the_name_of_a_model() {
        assert_eq!(name_of("Qwen3-0.6B"), "qwen3-0-6b");
        assert_eq!(name_of("7b"), "model-7b");
        assert_eq!(name_of("_m\u{f6}del_"), "m-del");
        assert_eq!(name_of("..."), "");
        assert_eq!(name_of(&format!("{}-x", "m".repeat(39))), "m".repeat(39));
    }

    #[test]
    fn a_path_that_does_not_exist_is_refused_and_a_name_on_the_hub_is_not() {
        for missing in ["./nonexist", "../nonexist", "/nonexist"] {
            let refused = check_directory(missing, true).expect_err("refused").to_string();
            assert_eq!(refused, format!("model directory {missing:?} not found"));
        }
        assert!(check_directory("/models/llama", false).is_ok(), "a path of an image");
        assert!(check_directory("Qwen/Qwen3-0.6B", true).is_ok());
        assert!(check_directory("/", true).is_ok() && check_directory("..", true).is_ok());
    }

    #[test]
    fn a_graph_is_of_a_version_that_there_is() {
        let of = |version: &str| kind_of(&json!({"apiVersion": version})).map(|kind| kind.version);
        assert_eq!(of("nvidia.com/v1beta1").expect("known"), "v1beta1");
        assert_eq!(of("nvidia.com/v1alpha1").expect("known"), "v1alpha1");
        let refused = of("nvidia.com/v2").expect_err("unknown").to_string();
        assert!(refused.ends_with("v1alpha1, not of \"nvidia.com/v2\""), "{refused}");
    }

    #[test]
    fn an_engine_runs_in_its_own_image_and_is_told_the_model_as_it_knows_it() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            submit: Submit,
        }
        let worker = |words: &[&str]| {
            let words = [&["serve", "org/Tiny-1"], words].concat();
            let asked = Line::try_parse_from(words).expect("understood").submit;
            let graph = of_model(&asked, "org/Tiny-1");
            assert_eq!(graph["metadata"]["name"], "tiny-1");
            let main = &graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0];
            let retries = json!([{"name": "DYN_MIGRATION_LIMIT", "value": "3"}]);
            assert_eq!(main["env"], retries, "requests of a worker that goes move to another");
            let main = &graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0];
            let image = text(&main["image"]).rsplit('/').next().unwrap_or_default().to_owned();
            (image, text(&main["args"][0]).to_owned())
        };
        let expected = |image: &str, flag: &str| (format!("{image}:{VERSION}"), flag.to_owned());
        assert_eq!(worker(&[]), expected("vllm-runtime", "--model"));
        let sglang = worker(&["--engine", "sglang"]);
        assert_eq!(sglang, expected("sglang-runtime", "--model-path"));
        let trtllm = worker(&["--engine", "trtllm"]);
        assert_eq!(trtllm, expected("tensorrtllm-runtime", "--model-path"));
        let own = worker(&["--engine", "sglang", "--image", "mine:1.0.0"]);
        assert_eq!(own.0, "mine:1.0.0");
    }

    #[test]
    fn a_file_holds_one_graph_and_what_it_needs() {
        let sorted = |kinds: &[&str]| {
            let objects = kinds.iter().map(|kind| json!({"kind": kind})).collect();
            sort(objects, Path::new("f.yaml")).map(|(_, others)| others.len())
        };
        let said = |kinds: &[&str]| sorted(kinds).expect_err("refused").to_string();
        assert_eq!(sorted(&["ConfigMap", GRAPH.kind, "Secret"]).expect("a graph"), 2);
        assert_eq!(said(&["Pod"]), "f.yaml has no DynamoGraphDeployment in it");
        assert!(said(&[GRAPH.kind, GRAPH.kind]).contains("more than one graph"));
    }
}
