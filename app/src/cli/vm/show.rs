//! State of one machine.

use std::fmt;

use anyhow::{Context as _, Result};
use machines::kinds::{INSTANCE, MACHINE, WUKONG};
use machines::value::{list as items, text};
use machines::wukong::machine_name;
use serde::Serialize;
use serde_json::Value;

use super::cluster::Cluster;
use super::list::{self, why};
use crate::cli::evidence::Reader;
use crate::cli::exit::not_found;
use crate::cli::verdict::Observation;

#[derive(Serialize)]
pub struct Shown {
    kind: &'static str,
    name: String,
    status: String,
    /// Reason why it does not run, if it should.
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    node: String,
    address: String,
    cpu: String,
    memory: String,
    disks: Vec<Disk>,
    created: String,
    conditions: Value,
    /// Last Warning events, oldest first.
    warnings: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Disk {
    name: String,
    size: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    image: String,
}

/// Shows a Wukong with its instance, or a VirtualMachine without a Wukong.
pub async fn show(cluster: &Cluster, name: &str) -> Result<Shown> {
    let reading = || format!("could not read machine {name}");
    let get = async |kind, name: &str| {
        let found = cluster.requests.get(kind, &cluster.name(name)).await.with_context(reading)?;
        anyhow::Ok(found.map(|found| found.value.clone()))
    };
    // Clusters of others may have no Wukongs.
    let wukong = get(WUKONG, name).await.ok().flatten();
    let machine = match &wukong {
        Some(_) => get(MACHINE, &machine_name(name)).await?,
        None => get(MACHINE, name).await?,
    };
    let Some(object) = wukong.clone().or_else(|| machine.clone()) else {
        let place = &cluster.namespace;
        return Err(not_found(format!(
            "machine {name:?} not found in {place}; see `setpoint vm ls`"
        )));
    };
    let instance_name = machine.as_ref().map_or(name, |one| text(&one["metadata"]["name"]));
    let instance = get(INSTANCE, instance_name).await?.unwrap_or_default();
    let reader = Reader { client: &cluster.requests.client, namespace: &cluster.namespace };
    let observation = Observation { object: object.clone(), ..Observation::default() };
    let warnings = reader.collect(&observation, None).await.events;
    Ok(described(&object, machine.as_ref(), &instance, warnings))
}

fn described(
    object: &Value,
    machine: Option<&Value>,
    instance: &Value,
    warnings: Vec<String>,
) -> Shown {
    let row = machine.map(|machine| list::row(machine, std::slice::from_ref(instance)));
    let (status, node, address) = row.map_or_else(
        || (text(&object["status"]["phase"]).to_owned(), String::new(), String::new()),
        |row| (row.status, row.node, row.address),
    );
    let (spec, domain) = (&object["spec"], &object["spec"]["template"]["spec"]["domain"]);
    let number = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_wukong = object["kind"] == WUKONG.kind;
    let disk = |disk: &Value| Disk {
        name: text(&disk["name"]).to_owned(),
        size: text(&disk["size"]).to_owned(),
        image: text(&disk["image"]).to_owned(),
    };
    let disks = if is_wukong { items(&spec["disks"]) } else { items(&domain["devices"]["disks"]) };
    Shown {
        kind: if is_wukong { WUKONG.kind } else { MACHINE.kind },
        name: text(&object["metadata"]["name"]).to_owned(),
        why: if is_wukong { why(&object["status"]) } else { String::new() },
        cpu: number(if is_wukong { &spec["cpu"] } else { &domain["cpu"]["cores"] }),
        memory: number(if is_wukong { &spec["memory"] } else { &domain["memory"]["guest"] }),
        disks: disks.iter().map(disk).collect(),
        created: text(&object["metadata"]["creationTimestamp"]).to_owned(),
        conditions: object["status"]["conditions"].clone(),
        status,
        node,
        address,
        warnings,
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        write!(formatter, "name      {}\nstatus    {}", self.name, or_none(&self.status))?;
        if !self.why.is_empty() {
            write!(formatter, "\nreason    {}", self.why)?;
        }
        write!(formatter, "\nnode      {}", or_none(&self.node))?;
        write!(formatter, "\naddress   {}", or_none(&self.address))?;
        write!(formatter, "\ncpu       {}", or_none(&self.cpu))?;
        write!(formatter, "\nmemory    {}", or_none(&self.memory))?;
        for Disk { name, size, image } in &self.disks {
            write!(formatter, "\ndisk      {} {}", name, or_none(size))?;
            if !image.is_empty() {
                write!(formatter, " from {image}")?;
            }
        }
        write!(formatter, "\ncreated   {}", self.created)?;
        self.warnings.iter().try_for_each(|line| write!(formatter, "\n{line}"))
    }
}

/// End state of a wait.
#[derive(Serialize)]
pub struct Running {
    name: String,
    status: String,
    node: String,
    address: String,
}

/// State of a machine that a wait found running.
pub async fn running(cluster: &Cluster, name: &str) -> Result<Running> {
    let Shown { name, status, node, address, .. } = show(cluster, name).await?;
    Ok(Running { name, status, node, address })
}

impl fmt::Display for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Running { name, status, node, address } = self;
        write!(formatter, "machine {name} is {}", status.to_lowercase())?;
        if !node.is_empty() {
            write!(formatter, " on node {node}")?;
        }
        match address.is_empty() {
            true => Ok(()),
            false => write!(formatter, ", address {address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_is_shown_with_its_instance_disks_and_reason() {
        let wukong = json!({"kind": "Wukong", "metadata": {"name": "web"},
            "spec": {"cpu": 2, "memory": "1Gi", "disks": [{"name": "root", "size": "5Gi",
                "image": "http://x"}]},
            "status": {"phase": "Error", "conditions": [
                {"type": "VolumesBound", "status": "False", "message": "no such image"}]}});
        let text = described(&wukong, None, &Value::Null, vec!["Warning x".to_owned()]).to_string();
        for line in ["status    Error", "reason    no such image", "cpu       2", "Warning x"] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        assert!(text.contains("disk      root 5Gi from http://x"), "{text}");
        let machine = json!({"metadata": {"name": "web-vm"},
            "status": {"printableStatus": "Running"}});
        let instance = json!({"metadata": {"name": "web-vm"}, "status": {"nodeName": "n",
            "interfaces": [{"ipAddress": "10.0.2.2"}]}});
        let shown = described(&wukong, Some(&machine), &instance, Vec::new());
        let Shown { name, status, node, address, .. } = shown;
        let running = Running { name, status, node, address }.to_string();
        assert_eq!(running, "machine web is running on node n, address 10.0.2.2");
    }
}
