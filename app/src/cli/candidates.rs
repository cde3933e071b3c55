//! `setpoint candidates`: what a word of a command line can become, asked for by the scripts of
//! `setpoint completions` while somebody types.
//!
//! Somebody waits with a finger on a key: it answers in time or not at all, and never complains.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use kube::config::Kubeconfig;
use tokio::time::timeout;

use super::connect::Target;
use super::past::{Cluster, Printed, encoded, items, text};
use super::{Context, small_runtime};

const ANSWER_MAX: Duration = Duration::from_millis(200);
const NAMES_MAX: usize = 500;

/// Commands whose words are kinds and names.
pub const OF_OBJECTS: [&str; 15] = [
    "annotate", "delete", "describe", "diff", "edit", "events", "explain", "get", "history",
    "label", "patch", "rollout", "scale", "undo", "why",
];

/// Print what the last word of a command line can become.
#[derive(Args)]
#[command(hide = true)]
pub struct Candidates {
    /// The words after the name of this program; the last one is being typed.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// What is being typed.
#[derive(Debug, PartialEq, Eq)]
enum Typed<'a> {
    Namespace,
    Context,
    Kind,
    /// The name of an object; written as `kind/name` where it began so.
    Name {
        kind: &'a str,
        with_kind: bool,
    },
    /// Something that only the user knows, or the shell.
    Other,
}

/// What is known of a command line that is not whole yet.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    typed: Typed<'a>,
    begun: &'a str,
    namespace: Option<&'a str>,
    context: Option<&'a str>,
}

impl Candidates {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let line = read(&words);
        let found = small_runtime()?.block_on(async {
            let found = timeout(ANSWER_MAX, candidates(&line)).await;
            found.ok().and_then(Result::ok).unwrap_or_default()
        });
        let found: Vec<String> =
            found.into_iter().filter(|word| word.starts_with(line.begun)).collect();
        let lines = found.join("\n");
        if !found.is_empty() {
            context.output.print(&Printed::new(serde_json::to_value(found)?, lines))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read<'a>(words: &[&'a str]) -> Line<'a> {
    let Some((begun, before)) = words.split_last() else {
        return Line { typed: Typed::Other, begun: "", namespace: None, context: None };
    };
    let (mut namespace, mut context, mut places) = (None, None, Vec::new());
    let mut rest = before.iter().copied().peekable();
    while let Some(word) = rest.next() {
        let (option, said) = match word.split_once('=') {
            Some((option, said)) => (option, Some(said)),
            None => (word, None),
        };
        match option {
            "-n" | "--namespace" => namespace = said.or_else(|| rest.next()),
            "--context" => context = said.or_else(|| rest.next()),
            "-o" | "--output" | "-l" | "--selector" | "--at" | "--kubeconfig" | "--data-dir" => {
                if said.is_none() {
                    rest.next();
                }
            }
            option if option.starts_with('-') => {}
            _ => places.push(word),
        }
    }
    let last = before.last().copied().unwrap_or_default();
    let typed = match (last, &places[..]) {
        ("-n" | "--namespace", _) => Typed::Namespace,
        ("--context", _) => Typed::Context,
        _ if begun.starts_with('-') => Typed::Other,
        (_, [verb, places @ ..]) if OF_OBJECTS.contains(verb) => {
            let skipped = usize::from(*verb == "rollout");
            match (places.get(skipped..).unwrap_or_default(), begun.split_once('/')) {
                (_, Some((kind, _))) => Typed::Name { kind, with_kind: true },
                ([], None) if places.len() == skipped => Typed::Kind,
                ([kind, ..], None) if !kind.contains('/') => Typed::Name { kind, with_kind: false },
                _ => Typed::Other,
            }
        }
        _ => Typed::Other,
    };
    Line { typed, begun, namespace, context }
}

async fn candidates(line: &Line<'_>) -> Result<BTreeSet<String>> {
    if line.typed == Typed::Context {
        let contexts = Kubeconfig::read()?.contexts;
        return Ok(contexts.into_iter().map(|context| context.name).collect());
    }
    if line.typed == Typed::Other {
        return Ok(BTreeSet::new());
    }
    let (namespace, context) = (line.namespace.map(str::to_owned), line.context.map(str::to_owned));
    let cluster = Cluster::connect(&Target { namespace, context, ..Target::default() }).await?;
    match line.typed {
        Typed::Namespace => names(&cluster, "api/v1/namespaces").await,
        Typed::Name { kind, with_kind } => {
            let path = cluster.kind(kind).await?.path(&encoded(&cluster.namespace), "");
            let names = names(&cluster, &path).await?;
            let written = |name| if with_kind { format!("{kind}/{name}") } else { name };
            Ok(names.into_iter().map(written).collect())
        }
        _ => {
            let kinds = cluster.kinds().await?.into_iter();
            let listed = kinds.filter(|kind| kind.verbs.iter().any(|verb| verb == "list"));
            Ok(listed.map(|kind| kind.plural).collect())
        }
    }
}

async fn names(cluster: &Cluster, path: &str) -> Result<BTreeSet<String>> {
    let list = cluster.get(&format!("{path}?limit={NAMES_MAX}")).await?;
    let names = items(&list["items"]).iter().map(|item| text(&item["metadata"]["name"]));
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_follows_from_the_words_before_it() {
        let typed = |line: &'static str| {
            let words: Vec<&str> = line.split(' ').collect();
            read(&words).typed
        };
        let name = |kind, with_kind| Typed::Name { kind, with_kind };
        assert_eq!(typed("get po"), Typed::Kind);
        assert_eq!(typed("get -o wide po"), Typed::Kind);
        assert_eq!(typed("get pods "), name("pods", false));
        assert_eq!(typed("get pods a b"), name("pods", false));
        assert_eq!(typed("why pod/w"), name("pod", true));
        assert_eq!(typed("why pod/w "), Typed::Other);
        assert_eq!(typed("rollout restart dep"), Typed::Kind);
        assert_eq!(typed("rollout restart deployment w"), name("deployment", false));
        assert_eq!(typed("get pods -n k"), Typed::Namespace);
        assert_eq!(typed("train ls --context s"), Typed::Context);
        assert_eq!(typed("get --al"), Typed::Other);
        assert_eq!(typed("up "), Typed::Other);
        let line = read(&["get", "-n", "team", "--context=c", "pods", "x"]);
        assert_eq!((line.namespace, line.context, line.begun), (Some("team"), Some("c"), "x"));
    }
}
