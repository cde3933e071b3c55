//! What is asked of machines beside changing their objects, wherever they run: what is a change of
//! an object is written, the rest is asked of the node that the machine is on.

use std::sync::Weak;

use apiserver::extension::{Asked, Extend, Given, Offered, Refused};
use apiserver::server::Server;
use async_trait::async_trait;
use link::{MachineAnswer, MachineRefusal, MachineRequest};
use machines::kinds::{INSTANCE, MACHINE};
use machines::provider::subresources::{self, Change, GROUP, Refusal};
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name, Object};
use serde_json::{Value, json};

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

/// Whoever looks at the screen already is to stay.
const PRESERVE_SESSION: &str = "preserveSession";

/// What is answered, one line each; those of one resource follow each other.
#[rustfmt::skip]
const OFFERED: &[Offered] = &[
    offered(VOLUMES, "upload", "DataVolume", &["get"]),
    offered(INSTANCES, "addvolume", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "console", "VirtualMachineInstance", &["get"]),
    offered(INSTANCES, "guestosinfo", "VirtualMachineInstanceGuestAgentInfo", &["get"]),
    offered(INSTANCES, "pause", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "portforward", "VirtualMachineInstance", &["get"]),
    offered(INSTANCES, "removevolume", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "reset", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "unpause", "VirtualMachineInstance", &["update"]),
    offered(INSTANCES, "usage", "VirtualMachineInstance", &["get"]),
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
    /// Whose part this is.
    pub server: Weak<Server>,
    /// The node of this process, if it is one.
    pub node: String,
}

fn refused((code, message): Refusal) -> Refused {
    Refused { code, message }
}

/// The port that is asked for: `22`, or `22/tcp`.
fn port_of(rest: &str) -> Result<u16, Refusal> {
    let (port, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    match (port.parse::<u16>(), protocol) {
        (Ok(port @ 1..), "tcp" | "") => Ok(port),
        (Ok(1..), _) => Err((400, format!("{protocol} is not forwarded: tcp is"))),
        _ => Err((400, format!("{rest:?} is not a port"))),
    }
}

/// Whether a query says that something is to be so: `name=true`.
fn is_asked(query: &[(String, String)], name: &str) -> bool {
    query.iter().any(|(key, value)| key == name && ["true", "1"].contains(&value.as_str()))
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
            // An instance is as its machine says: what is asked of one lasts.
            (MACHINES | INSTANCES, of @ ("addvolume" | "removevolume"), "update") => {
                self.change_machine(&name, of, &options).await
            }
            ("virtualmachineinstances", of @ ("pause" | "unpause" | "reset"), "update") => {
                self.change_instance(&name, of).await
            }
            (INSTANCES, "console", "get") => {
                self.ask_running(&name, |id| MachineRequest::Console { id }).await
            }
            (INSTANCES, "vnc", "get") => {
                let keeps_others = is_asked(&asked.query, PRESERVE_SESSION);
                self.ask_running(&name, |id| MachineRequest::Screen { id, keeps_others }).await
            }
            (VOLUMES, "upload", "get") => {
                let node = node::machines::upload::node_of(&self.context, &name).await;
                let node = node.map_err(refused)?.unwrap_or_else(|| self.node.clone());
                let (namespace, name) = (target.namespace.clone(), target.name.clone());
                self.ask(&node, MachineRequest::Upload { namespace, name }).await
            }
            (INSTANCES, "guestosinfo", "get") => {
                self.ask_running(&name, |id| MachineRequest::Guest { id }).await
            }
            (INSTANCES, "usage", "get") => {
                self.ask_running(&name, |id| MachineRequest::Figures { id }).await
            }
            ("virtualmachines" | "virtualmachineinstances", "portforward", "get") => {
                let port = port_of(&target.rest).map_err(refused)?;
                self.forward(&name, port).await
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

    /// The instance, if it runs, and where.
    async fn running(&self, name: &Name) -> Result<(Object, String), Refused> {
        let instance = self.instance(name).await?;
        subresources::check_console(&instance).map_err(refused)?;
        let node = instance.value["status"]["nodeName"].as_str().unwrap_or_default().to_owned();
        Ok((instance, node))
    }

    /// Asks a node: of this process, or of another.
    async fn ask(&self, node: &str, request: MachineRequest) -> Result<Given, Refused> {
        let unknown = || refused((503, format!("node {node:?} is not connected to this server")));
        let server = self.server.upgrade().ok_or_else(unknown)?;
        let answer = match server.connected.machines.get() {
            Some(here) if node == self.node => here.ask(request).await,
            _ => {
                let other = server.node_elsewhere(node).await.ok_or_else(unknown)?;
                other.machine(request).await
            }
        };
        match answer {
            Ok(MachineAnswer::Done) => Ok(Given::Done(200)),
            Ok(MachineAnswer::Value(value)) => Ok(Given::Value(value)),
            Ok(MachineAnswer::Connection(connection)) => Ok(Given::Connection(connection)),
            Err(MachineRefusal { code, message }) => Err(Refused { code, message }),
        }
    }

    async fn change_instance(&self, name: &Name, of: &str) -> Result<Given, Refused> {
        let instance = self.instance(name).await?;
        if of != "reset" {
            subresources::check_pause(&instance, of == "pause").map_err(refused)?;
        }
        let (instance, node) = self.running(name).await?;
        let id = instance.uid.clone();
        let request = match of {
            "pause" => MachineRequest::Pause { id },
            "unpause" => MachineRequest::Resume { id },
            _ => MachineRequest::Reset { id },
        };
        self.ask(&node, request).await
    }

    async fn ask_running(
        &self,
        name: &Name,
        request: impl FnOnce(String) -> MachineRequest,
    ) -> Result<Given, Refused> {
        let (instance, node) = self.running(name).await?;
        self.ask(&node, request(instance.uid.clone())).await
    }

    async fn forward(&self, name: &Name, port: u16) -> Result<Given, Refused> {
        let (instance, node) = self.running(name).await?;
        if reconcile::conditions::is_true(&instance.value["status"], "Paused") {
            return Err(refused((409, "VMI is paused".to_owned())));
        }
        self.ask(&node, MachineRequest::Port { id: instance.uid.clone(), port }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_kept_for_whoever_says_so() {
        let asked = |key: &str, value: &str| {
            is_asked(&[(key.to_owned(), value.to_owned())], PRESERVE_SESSION)
        };
        assert!(asked("preserveSession", "true") && asked("preserveSession", "1"));
        assert!(!asked("preserveSession", "false") && !asked("preserveSession", ""));
        assert!(!asked("other", "true") && !is_asked(&[], PRESERVE_SESSION));
    }

    #[test]
    fn ports_are_of_tcp() {
        assert_eq!((port_of("22").unwrap(), port_of("22/tcp").unwrap()), (22, 22));
        assert_eq!(port_of("53/udp").unwrap_err().1, "udp is not forwarded: tcp is");
        assert!(["", "x/tcp", "0", "70000"].iter().all(|rest| port_of(rest).is_err()));
    }
}
