//! Virtual machines in this process: the controllers that stand in for KubeVirt and CDI, what runs
//! machines on this node, and what may be asked of a machine beside its object.

use std::path::Path;
use std::sync::Arc;

use apiserver::extension::{Asked, Extend, Given, Offered, Refused};
use async_trait::async_trait;
use hypervisor::Hypervisor;
use hypervisor::images::Reach;
use hypervisor::qemu::Qemu;
use machines::kinds::{INSTANCE, MACHINE};
use machines::provider::subresources::{self, Change, GROUP, Refusal};
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name, Object};
use serde_json::{Value, json};

/// In the data directory: what is kept of machines.
const DIRECTORY: &str = "machines";
const SNAPSHOTS: &str = "snapshots";

/// The name of the family whose machines these are.
pub const FAMILY: &str = "machines";

/// Finds machines that run again, and says what the launcher is told.
pub async fn open(
    node: &str,
    data: &Path,
    reach: Reach,
) -> Result<node::machines::Options, hypervisor::Error> {
    let directory = data.join(DIRECTORY);
    let hypervisor: Arc<dyn Hypervisor> = Arc::new(Qemu::open(&directory).await?);
    let snapshots = directory.join(SNAPSHOTS);
    Ok(node::machines::Options { node: node.to_owned(), hypervisor, reach, snapshots })
}

const fn offered(
    resource: &'static str,
    subresource: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Offered {
    Offered { resource, subresource, kind, verbs }
}

const VOLUMES: &str = "datavolumes";
const MACHINES: &str = "virtualmachines";
const INSTANCES: &str = "virtualmachineinstances";

/// What is answered, one line each; those of one resource follow each other.
#[rustfmt::skip]
const OFFERED: &[Offered] = &[
    offered(VOLUMES, "upload", "DataVolume", &["get"]),
    offered(INSTANCES, "console", "VirtualMachineInstance", &["get"]),
    offered(INSTANCES, "guestosinfo", "VirtualMachineInstanceGuestAgentInfo", &["get"]),
    offered(INSTANCES, "pause", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "portforward", "VirtualMachineInstance", &["get"]),
    offered(INSTANCES, "reset", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "unpause", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "vnc", "VirtualMachineInstance", &["get"]),
    offered(MACHINES, "addvolume", "VirtualMachine", &["update"]),
    offered(MACHINES, "portforward", "VirtualMachine", &["get"]),
    offered(MACHINES, "removevolume", "VirtualMachine", &["update"]),
    offered(MACHINES, "restart", "VirtualMachine", &["update"]),
    offered(MACHINES, "start", "VirtualMachine", &["update"]),
    offered(MACHINES, "stop", "VirtualMachine", &["update"]),
];

/// Answers what is asked of machines.
pub struct Subresources {
    pub context: Context,
    pub node: String,
    pub hypervisor: Arc<dyn Hypervisor>,
}

fn refused((code, message): Refusal) -> Refused {
    Refused { code, message }
}

fn failed(error: &reconcile::Error) -> Refused {
    Refused { code: error.code().unwrap_or(500), message: error.said() }
}

#[async_trait]
impl Extend for Subresources {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn version(&self) -> &'static str {
        "v1"
    }

    fn offers(&self) -> &'static [Offered] {
        OFFERED
    }

    async fn answer(&self, asked: Asked) -> Result<Given, Refused> {
        let target = &asked.target;
        let name = Name::new(target.namespace.as_str(), target.name.as_str());
        let options: Value = match asked.body.is_empty() {
            true => json!({}),
            false => serde_json::from_slice(&asked.body).map_err(|error| Refused {
                code: 400,
                message: format!("the body is not JSON: {error}"),
            })?,
        };
        match (target.resource.as_str(), target.subresource.as_str(), asked.verb) {
            ("version", ..) | ("healthz", ..) => Ok(Given::Value(json!({}))),
            ("virtualmachines", of @ ("start" | "stop" | "restart"), "update") => {
                self.change_machine(&name, of, &options).await
            }
            ("virtualmachines", of @ ("addvolume" | "removevolume"), "update") => {
                self.change_machine(&name, of, &options).await
            }
            ("virtualmachineinstances", of @ ("pause" | "unpause" | "reset"), "update") => {
                self.change_instance(&name, of).await
            }
            ("virtualmachineinstances", of @ ("console" | "vnc"), "get") => {
                self.join(&name, of).await
            }
            (VOLUMES, "upload", "get") => {
                let taken = node::machines::upload::take(&self.context, &self.node, &name).await;
                let connection = taken.map_err(refused)?;
                Ok(Given::Connection(Box::new(connection)))
            }
            (INSTANCES, "guestosinfo", "get") => self.guest(&name).await,
            ("virtualmachines" | "virtualmachineinstances", "portforward", "get") => {
                let port = target.rest.split('/').next().and_then(|port| port.parse().ok());
                let bad = || refused((400, format!("{:?} is not a port", target.rest)));
                self.forward(&name, port.ok_or_else(bad)?).await
            }
            _ => Err(refused((404, "the server could not find the requested resource".to_owned()))),
        }
    }
}

impl Subresources {
    async fn find(&self, kind: Kind, name: &Name) -> Result<Option<Object>, Refused> {
        self.context.get_live(kind, name).await.map_err(|error| failed(&error))
    }

    async fn instance(&self, name: &Name) -> Result<Object, Refused> {
        let missing = || {
            let kind = "virtualmachineinstance.kubevirt.io";
            refused((404, format!("{kind} {:?} not found", name.name)))
        };
        self.find(INSTANCE, name).await?.ok_or_else(missing)
    }

    async fn change_machine(
        &self,
        name: &Name,
        of: &str,
        options: &Value,
    ) -> Result<Given, Refused> {
        let missing =
            || refused((404, format!("virtualmachine.kubevirt.io {:?} not found", name.name)));
        let machine = self.find(MACHINE, name).await?.ok_or_else(missing)?;
        let instance = self.find(INSTANCE, name).await?;
        let change = match of {
            "start" => subresources::start(&machine, instance.as_ref(), options),
            "stop" => subresources::stop(&machine, instance.as_ref(), options),
            "restart" => subresources::restart(&machine, instance.as_ref(), options),
            "addvolume" => subresources::add_volume(&machine, options),
            _ => subresources::remove_volume(&machine, options),
        };
        let change = change.map_err(refused)?;
        let is_dry = options["dryRun"].as_array().is_some_and(|stages| !stages.is_empty());
        if !is_dry {
            self.write(&machine, instance.as_ref(), change).await?;
        }
        Ok(Given::Done(202))
    }

    async fn write(
        &self,
        machine: &Object,
        instance: Option<&Object>,
        change: Change,
    ) -> Result<(), Refused> {
        let requests = self.context.requests("virt-api", Default::default());
        let of_machine = Target::unchanged(MACHINE, machine);
        let of_instance = instance.map(|instance| Target::of(INSTANCE, instance));
        let writes = [
            // How long the guest has must be known before it is asked to end.
            (of_instance, change.instance),
            (Some(of_machine.clone()), change.machine),
            (Some(of_machine.part("status")), change.status),
        ];
        for (target, patch) in writes {
            if let (Some(target), Some(patch)) = (target, patch) {
                requests.patch(&target, &patch).await.map_err(|error| failed(&error))?;
            }
        }
        Ok(())
    }

    /// The instance, if it runs on this node.
    async fn running(&self, name: &Name) -> Result<Object, Refused> {
        let instance = self.instance(name).await?;
        subresources::check_console(&instance).map_err(refused)?;
        let node = instance.value["status"]["nodeName"].as_str().unwrap_or_default();
        match node == self.node {
            true => Ok(instance),
            false => Err(refused((503, format!("node {node:?} is not connected to this server")))),
        }
    }

    async fn change_instance(&self, name: &Name, of: &str) -> Result<Given, Refused> {
        let instance = self.instance(name).await?;
        if of != "reset" {
            subresources::check_pause(&instance, of == "pause").map_err(refused)?;
        }
        let instance = self.running(name).await?;
        let done = match of {
            "pause" => self.hypervisor.pause(&instance.uid).await,
            "unpause" => self.hypervisor.resume(&instance.uid).await,
            _ => self.hypervisor.reset(&instance.uid).await,
        };
        done.map_err(|error| refused((500, error.chain())))?;
        Ok(Given::Done(200))
    }

    async fn join(&self, name: &Name, of: &str) -> Result<Given, Refused> {
        let instance = self.running(name).await?;
        let joined = match of {
            "console" => self.hypervisor.serial(&instance.uid).await,
            _ => self.hypervisor.screen(&instance.uid).await,
        };
        match joined {
            Ok(connection) => Ok(Given::Connection(Box::new(connection))),
            Err(error @ hypervisor::Error::Invalid(_)) => Err(refused((400, error.chain()))),
            Err(error) => Err(refused((500, error.chain()))),
        }
    }

    async fn guest(&self, name: &Name) -> Result<Given, Refused> {
        let instance = self.running(name).await?;
        let guest = self.hypervisor.guest(&instance.uid).await;
        let none = || refused((409, "VMI does not have guest agent connected".to_owned()));
        let guest = guest.ok().flatten().ok_or_else(none)?;
        Ok(Given::Value(json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "VirtualMachineInstanceGuestAgentInfo",
            "guestAgentVersion": guest.agent_version,
            "hostname": guest.host_name,
            "os": node::machines::guest_system(&guest),
        })))
    }

    async fn forward(&self, name: &Name, port: u16) -> Result<Given, Refused> {
        let instance = self.running(name).await?;
        if reconcile::conditions::is_true(&instance.value["status"], "Paused") {
            return Err(refused((409, "VMI is paused".to_owned())));
        }
        let joined = self.hypervisor.dial(&instance.uid, port).await;
        let connection = joined.map_err(|error| refused((500, error.chain())))?;
        Ok(Given::Connection(Box::new(connection)))
    }
}
