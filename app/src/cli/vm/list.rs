//! What machines there are.

use std::fmt;

use anyhow::Result;
use machines::kinds::{INSTANCE, MACHINE};
use machines::value::text;
use serde::Serialize;
use serde_json::Value;

use super::cluster::Cluster;

#[derive(Serialize)]
#[serde(transparent)]
pub struct Listed {
    machines: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    status: String,
    node: String,
    address: String,
}

pub async fn list(cluster: &Cluster) -> Result<Listed> {
    let instances = cluster.items(INSTANCE).await?;
    let machines = cluster.items(MACHINE).await?;
    let machines = machines.iter().map(|machine| row(machine, &instances)).collect();
    Ok(Listed { machines })
}

fn row(machine: &Value, instances: &[Value]) -> Row {
    let name = &machine["metadata"]["name"];
    let instance = instances.iter().find(|instance| &instance["metadata"]["name"] == name);
    let status = instance.map_or(&Value::Null, |instance| &instance["status"]);
    Row {
        name: text(name).to_owned(),
        status: text(&machine["status"]["printableStatus"]).to_owned(),
        node: text(&status["nodeName"]).to_owned(),
        address: text(&status["interfaces"][0]["ipAddress"]).to_owned(),
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.machines.is_empty() {
            return write!(formatter, "there are no machines");
        }
        let widest = self.machines.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        write!(formatter, "{:widest$}  STATUS            NODE                  ADDRESS", "NAME")?;
        for Row { name, status, node, address } in &self.machines {
            write!(formatter, "\n{name:widest$}  {status:<16}  {node:<20}  {address}")?;
        }
        Ok(())
    }
}
