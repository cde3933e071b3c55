//! Makes a machine with the same disks as another: of everything that makes one a machine of its
//! own (addresses, names, identities) it gets its own.

use anyhow::{Context as _, Result, bail};
use machines::kinds::{INSTANCE, WUKONG};
use machines::value::{list, text};
use machines::wukong::{CLAIM_SCHEME, machine_name};
use reconcile::Object;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::done::{Done, State};
use crate::cli::Context;

pub struct Order<'a> {
    pub name: &'a str,
    pub to: &'a str,
    pub is_stopped: bool,
    pub is_linked: bool,
}

pub async fn clone(cluster: &Cluster, order: Order<'_>, context: &Context) -> Result<()> {
    let Order { name, to, .. } = order;
    let found = cluster.requests.get(WUKONG, &cluster.name(name)).await;
    let found = found.with_context(|| format!("could not ask for machine {name}"))?;
    let Some(found) = found else {
        bail!("there is no Wukong {name:?} in {}; see `setpoint vm ls`", cluster.namespace)
    };
    let machine = machine_name(name);
    let instance = cluster.requests.get(INSTANCE, &cluster.name(&machine)).await?;
    if instance.is_some() {
        // Disks that are written to while they are read would be of no instant.
        bail!("{name} runs: stop it first with `setpoint vm stop {name}`");
    }
    let (copy, note) = copy(&found, &order);
    let made = cluster.requests.create(WUKONG, &copy).await;
    made.with_context(|| format!("could not make machine {to}"))?;
    let done = Done { note, ..Done::new(to, "clone", State::Requested) };
    context.output.print(&done)?;
    Ok(())
}

/// Another of a machine, and what its user should know.
fn copy(of: &Object, order: &Order<'_>) -> (Value, String) {
    let mut spec = of.value["spec"].clone();
    for field in ["restoreFromSnapshot", "osImage"] {
        drop(spec.as_object_mut().and_then(|spec| spec.remove(field)));
    }
    let disks = list(&spec["disks"]).iter().map(|disk| {
        let mut disk = disk.clone();
        let claim = format!("{}-{}", of.name.name, text(&disk["name"]));
        disk["image"] = json!(format!("{CLAIM_SCHEME}{claim}"));
        disk["cloneType"] = json!(if order.is_linked { "linked" } else { "full" });
        disk
    });
    spec["disks"] = disks.collect();
    let mut released = Vec::new();
    if let Some(networks) = spec["networks"].as_array_mut() {
        for network in networks {
            // Two machines with one address would reach neither.
            if network["ipConfig"]["mode"] == "static" {
                released.push(text(&network["name"]).to_owned());
                network["ipConfig"] = json!({"mode": "dhcp"});
            }
        }
    }
    if order.is_stopped {
        spec["startStrategy"]["autoStart"] = json!(false);
        if let Some(strategy) = spec["startStrategy"].as_object_mut() {
            strategy.remove("runStrategy");
        }
    }
    let note = match released.is_empty() {
        true => String::new(),
        false => format!("it asks for an address by DHCP on {}", released.join(", ")),
    };
    let copy = json!({"apiVersion": WUKONG.api_version(), "kind": WUKONG.kind,
        "metadata": {"namespace": &*of.name.namespace, "name": order.to}, "spec": spec});
    (copy, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_disks_and_nothing_that_makes_a_machine_itself() {
        let of = Object::new(json!({
            "metadata": {"namespace": "a", "name": "web", "uid": "u"},
            "spec": {"cpu": 2, "restoreFromSnapshot": "s",
                "disks": [{"name": "root", "size": "1Gi", "image": "http://x"},
                    {"name": "data", "size": "2Gi"}],
                "networks": [{"name": "default"}, {"name": "lan", "ipConfig":
                    {"mode": "static", "address": "10.1.2.3/24"}}],
                "startStrategy": {"autoStart": true, "runStrategy": "Always"}},
            "status": {"phase": "Stopped"}}));
        let order = Order { name: "web", to: "web-2", is_stopped: true, is_linked: false };
        let (made, note) = copy(&of, &order);
        let (linked, _) = copy(&of, &Order { is_linked: true, ..order });
        let how = |made: &Value| made["spec"]["disks"][1]["cloneType"].clone();
        assert_eq!((how(&made), how(&linked)), (json!("full"), json!("linked")));
        assert_eq!(made["metadata"], json!({"namespace": "a", "name": "web-2"}));
        assert_eq!(made["spec"]["disks"][0]["image"], "pvc://web-root");
        assert_eq!(made["spec"]["disks"][1]["image"], "pvc://web-data");
        assert_eq!(made["spec"]["disks"][1]["size"], "2Gi");
        assert_eq!(made["spec"]["networks"][1]["ipConfig"], json!({"mode": "dhcp"}));
        assert_eq!(made["spec"]["startStrategy"], json!({"autoStart": false}));
        assert!(made["spec"]["restoreFromSnapshot"].is_null() && made["status"].is_null());
        assert_eq!(note, "it asks for an address by DHCP on lan");
    }
}
