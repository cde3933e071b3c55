//! A graph in the terminal: who asks whom, what is ready of each, and of which form.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use inference::names;
use inference::value::{list, text};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::list::{Part, parts, state};
use crate::cli::Context;

/// What pods are called whose form nobody notes any more.
const OLDER: &str = "older";
/// What those are called that are of no noted form, beside older ones.
const NEWEST: &str = "newest";

/// A component, and the forms that there are of it.
#[derive(Serialize)]
struct Drawn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    ready: i64,
    desired: i64,
    revisions: Vec<Form>,
}

/// Workers of one form.
#[derive(Serialize)]
struct Form {
    revision: String,
    ready: i64,
    desired: i64,
}

pub async fn draw(cluster: &Cluster, name: &str, context: &Context) -> Result<ExitCode> {
    let graph = cluster.graph(name).await?;
    let objects = cluster.components(name).await?;
    let parts = components(&graph.value, &objects);
    let drawn = lines(&graph.value, &parts).join("\n");
    let object = json!({"name": name, "state": state(&graph.value), "components": parts});
    context.output.tell(&drawn, &object)?;
    Ok(ExitCode::SUCCESS)
}

fn components(graph: &Value, objects: &[Value]) -> Vec<Drawn> {
    let parts = list(&graph["spec"]["components"]).iter().zip(parts(graph));
    let drawn = parts.map(|(said, Part { name, ready, desired })| {
        let is_its = |one: &&Value| one["metadata"]["labels"][names::COMPONENT] == *name;
        let revisions = objects.iter().filter(is_its).flat_map(forms).collect();
        Drawn { kind: text(&said["type"]).to_owned(), name, ready, desired, revisions }
    });
    drawn.collect()
}

/// The forms of the pods of an object: one, or two while they are replaced in place. What is no
/// worker has a form only beside another.
fn forms(object: &Value) -> Vec<Form> {
    // Labels of an object stay as they were made; those of its pods are what is wanted.
    let template = &object["spec"]["podTemplate"]["metadata"]["labels"];
    let wanted = template[names::WORKER_HASH].as_str();
    let made = object["metadata"]["labels"][names::WORKER_HASH].as_str();
    let counts = &object["status"]["component"];
    let count = |field: &str| counts[field].as_i64().unwrap_or(0);
    let (ready, desired) = (count("readyReplicas"), object["spec"]["replicas"].as_i64());
    let older = match counts["updatedReplicas"].as_i64() {
        Some(updated) => (count("replicas") - updated).max(0),
        None => 0,
    };
    let revision = match wanted.or(made) {
        Some(hash) => hash,
        None if older > 0 => NEWEST,
        None => return Vec::new(),
    };
    // Nobody counts apart which of them are ready; the older ones were.
    let older_ready = ready.min(older);
    let mut all = vec![Form {
        revision: revision.to_owned(),
        ready: ready - older_ready,
        desired: desired.unwrap_or(1),
    }];
    if older > 0 {
        all.push(Form { revision: OLDER.to_owned(), ready: older_ready, desired: older });
    }
    all
}

/// Frontends first; what they ask hangs below them.
fn lines(graph: &Value, parts: &[Drawn]) -> Vec<String> {
    let name = text(&graph["metadata"]["name"]);
    let mut lines = vec![format!("{name} ({})", state(graph))];
    let is_front = |part: &&Drawn| matches!(part.kind.as_str(), "frontend" | "epp");
    let (front, behind): (Vec<&Drawn>, Vec<&Drawn>) = parts.iter().partition(is_front);
    lines.extend(branches("", &front));
    let depth = if front.is_empty() { "" } else { "   " };
    lines.extend(branches(depth, &behind));
    lines
}

/// One line each, of which the last ends the branch.
fn branches(depth: &str, parts: &[&Drawn]) -> Vec<String> {
    let corner = |number: usize| if number + 1 == parts.len() { "└─" } else { "├─" };
    let numbered = parts.iter().enumerate();
    numbered.map(|(number, part)| format!("{depth}{} {part}", corner(number))).collect()
}

/// `decode [decode] 2/3 ready (1a2b3c4d 1/1, 5e6f7a8b 1/2)`.
impl fmt::Display for Drawn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drawn { name, kind, ready, desired, revisions } = self;
        let kind = if kind.is_empty() { String::new() } else { format!(" [{kind}]") };
        write!(formatter, "{name}{kind} {ready}/{desired} ready")?;
        let form = |one: &Form| format!("{} {}/{}", one.revision, one.ready, one.desired);
        match revisions.is_empty() {
            true => Ok(()),
            false => {
                let forms: Vec<String> = revisions.iter().map(form).collect();
                write!(formatter, " ({})", forms.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_drawn_with_what_is_ready_of_each_form() {
        let graph = json!({"metadata": {"name": "g"}, "spec": {"components": [
            {"name": "decode", "type": "decode", "replicas": 2},
            {"name": "Front", "type": "frontend", "replicas": 1},
            {"name": "plan"}]},
            "status": {"state": "pending", "components": {"decode": {"readyReplicas": 2}}}});
        let form = |hash: &str, desired: i64| {
            json!({"metadata": {"labels": {names::COMPONENT: "decode",
                names::WORKER_HASH: hash}}, "spec": {"replicas": desired},
                "status": {"component": {"readyReplicas": 1}}})
        };
        let expected = [
            "g (pending)",
            "└─ Front [frontend] 0/1 ready",
            "   ├─ decode [decode] 2/2 ready (aa 1/1, bb 1/2)",
            "   └─ plan 0/1 ready",
        ];
        let parts = components(&graph, &[form("aa", 1), form("bb", 2)]);
        assert_eq!(lines(&graph, &parts), expected);
    }

    #[test]
    fn workers_that_are_replaced_in_place_are_of_two_forms() {
        let form = |updated: i64, ready: i64| {
            let object = json!({"metadata": {"labels": {names::WORKER_HASH: "aa"}},
                "spec": {"replicas": 3, "podTemplate": {"metadata": {"labels":
                    {names::WORKER_HASH: "cc"}}}},
                "status": {"component": {"replicas": 3, "updatedReplicas": updated,
                    "readyReplicas": ready}}});
            let all = forms(&object);
            all.iter()
                .map(|one| format!("{} {}/{}", one.revision, one.ready, one.desired))
                .collect::<Vec<_>>()
        };
        assert_eq!(form(3, 3), ["cc 3/3"]);
        assert_eq!(form(1, 2), ["cc 0/3", "older 2/2"]);
        assert_eq!(form(1, 3), ["cc 1/3", "older 2/2"]);
    }

    #[test]
    fn what_is_no_worker_has_forms_while_it_is_replaced() {
        let forms = |updated: i64| {
            let object = json!({"spec": {"replicas": 2}, "status": {"component": {"replicas": 2,
                "updatedReplicas": updated, "readyReplicas": 2}}});
            let all = forms(&object);
            all.iter().map(|one| format!("{} {}", one.revision, one.ready)).collect::<Vec<_>>()
        };
        assert_eq!(forms(2), [""; 0]);
        assert_eq!(forms(1), ["newest 1", "older 1"]);
    }

    #[test]
    fn several_frontends_are_branches_of_one_graph() {
        let part = |name: &str, kind: &str| json!({"name": name, "type": kind});
        let graph = json!({"metadata": {"name": "g"}, "spec": {"components": [
            part("a", "frontend"), part("b", "frontend"), part("w", "worker")]}});
        let drawn = lines(&graph, &components(&graph, &[]));
        let corners: Vec<&str> = drawn
            .iter()
            .skip(1)
            .filter_map(|line| line.split(' ').find(|word| !word.is_empty()))
            .collect();
        assert_eq!(corners, ["├─", "└─", "└─"]);
    }
}
