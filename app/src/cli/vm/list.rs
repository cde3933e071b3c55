//! Lists machines by the names of their Wukongs.

use std::fmt;

use anyhow::Result;
use machines::kinds::{INSTANCE, MACHINE, WUKONG};
use machines::value::{list as items, text};
use machines::wukong::machine_name;
use serde::Serialize;
use serde_json::Value;

use super::cluster::Cluster;

/// What tells why a machine does not run: the first that is not so.
const REASONS: [&str; 4] = ["AddOnsInstalled", "NetworksConfigured", "VolumesBound", "Ready"];

#[derive(Serialize)]
#[serde(transparent)]
pub struct Listed {
    machines: Vec<Row>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Row {
    name: String,
    pub status: String,
    pub node: String,
    pub address: String,
    /// Why it does not run, if it should.
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

pub async fn list(cluster: &Cluster) -> Result<Listed> {
    let instances = cluster.items(INSTANCE).await?;
    let machines = cluster.items(MACHINE).await?;
    // A cluster of others may have machines alone.
    let wukongs = cluster.items(WUKONG).await.unwrap_or_default();
    Ok(Listed { machines: rows(&wukongs, &machines, &instances) })
}

/// Wukongs, and the machines that are of none.
fn rows(wukongs: &[Value], machines: &[Value], instances: &[Value]) -> Vec<Row> {
    let machine_of = |wukong: &Value| {
        let name = machine_name(text(&wukong["metadata"]["name"]));
        machines.iter().find(|machine| {
            let owners = items(&machine["metadata"]["ownerReferences"]);
            machine["metadata"]["name"] == name.as_str()
                && owners.iter().any(|owner| owner["uid"] == wukong["metadata"]["uid"])
        })
    };
    let mut rows = Vec::new();
    let mut listed = Vec::new();
    for wukong in wukongs {
        let machine = machine_of(wukong);
        listed.extend(machine.map(|machine| &machine["metadata"]["name"]));
        let mut row = machine.map_or_else(|| waiting(wukong), |machine| row(machine, instances));
        row.name = text(&wukong["metadata"]["name"]).to_owned();
        row.why = why(&wukong["status"]);
        rows.push(row);
    }
    let others = machines.iter().filter(|machine| !listed.contains(&&machine["metadata"]["name"]));
    rows.extend(others.map(|machine| row(machine, instances)));
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows
}

/// One whose machine is not made yet.
fn waiting(wukong: &Value) -> Row {
    Row {
        name: String::new(),
        status: text(&wukong["status"]["phase"]).to_owned(),
        node: String::new(),
        address: String::new(),
        why: String::new(),
    }
}

pub fn why(status: &Value) -> String {
    if ["Running", "Stopped"].contains(&text(&status["phase"])) {
        return String::new();
    }
    let wrong = REASONS.iter().filter_map(|kind| reconcile::conditions::find(status, kind));
    let mut wrong = wrong.filter(|condition| condition["status"] == "False");
    wrong.next().map(|condition| text(&condition["message"]).to_owned()).unwrap_or_default()
}

/// Status, node and address of a VirtualMachine.
pub fn row(machine: &Value, instances: &[Value]) -> Row {
    let name = &machine["metadata"]["name"];
    let instance = instances.iter().find(|instance| &instance["metadata"]["name"] == name);
    let status = instance.map_or(&Value::Null, |instance| &instance["status"]);
    Row {
        name: text(name).to_owned(),
        status: text(&machine["status"]["printableStatus"]).to_owned(),
        node: text(&status["nodeName"]).to_owned(),
        address: text(&status["interfaces"][0]["ipAddress"]).to_owned(),
        why: String::new(),
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.machines.is_empty() {
            return write!(formatter, "no machines");
        }
        let widest = self.machines.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        write!(formatter, "{:widest$}  STATUS            NODE                  ADDRESS", "NAME")?;
        let has_reasons = self.machines.iter().any(|row| !row.why.is_empty());
        write!(formatter, "{}", if has_reasons { "          WHY" } else { "" })?;
        for Row { name, status, node, address, why } in &self.machines {
            let line = format!("{name:widest$}  {status:<16}  {node:<20}  {address:<15}  {why}");
            write!(formatter, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn machines_go_by_the_names_of_their_users_and_say_why_they_do_not_run() {
        let wrong = json!([{"type": "Ready", "status": "False", "message": "not ready"},
            {"type": "VolumesBound", "status": "False", "message": "no such image"}]);
        let wukongs = [
            json!({"metadata": {"name": "web", "uid": "1"}, "status": {"phase": "Running"}}),
            json!({"metadata": {"name": "bad", "uid": "2"},
                "status": {"phase": "Error", "conditions": wrong}}),
        ];
        let machine = |name: &str, owner: &str| {
            json!({"metadata": {"name": name, "ownerReferences": [{"uid": owner}]},
                "status": {"printableStatus": "Running"}})
        };
        // The last only looks as if it were of the second.
        let machines = [machine("web-vm", "1"), machine("own", ""), machine("bad-vm", "3")];
        let instance = json!({"metadata": {"name": "web-vm"}, "status": {"nodeName": "n",
            "interfaces": [{"ipAddress": "10.0.2.2"}]}});
        let machines = rows(&wukongs, &machines, &[instance]);
        let shown = Listed { machines }.to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].split_whitespace().next_back(), Some("image"), "{shown}");
        assert!(lines[1].starts_with("bad     Error "), "{shown}");
        assert!(lines[2].starts_with("bad-vm  Running"), "{shown}");
        assert!(lines[3].starts_with("own     Running"), "{shown}");
        assert!(lines[4].starts_with("web     Running") && lines[4].ends_with("10.0.2.2"));
        assert_eq!(lines.len(), 5);
    }
}
