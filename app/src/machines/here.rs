//! What is asked of the machines of this node.

use std::sync::Arc;

use async_trait::async_trait;
use hypervisor::{Connection, Error, Hypervisor, Others};
use link::{MachineAnswer, MachineRefusal, MachineRequest, Machines};
use machines::provider::subresources::GROUP;
use reconcile::{Context, Name};
use serde_json::{Value, json};

/// The machines of this node, for whoever may ask: that was asked before.
pub struct Here {
    pub context: Context,
    pub node: String,
    pub hypervisor: Arc<dyn Hypervisor>,
}

#[async_trait]
impl Machines for Here {
    async fn ask(&self, request: MachineRequest) -> Result<MachineAnswer, MachineRefusal> {
        let hypervisor = &self.hypervisor;
        match request {
            MachineRequest::Console { id } => connected(hypervisor.serial(&id).await),
            MachineRequest::Screen { id, keeps_others } => {
                let others = if keeps_others { Others::Stay } else { Others::Leave };
                connected(hypervisor.screen(&id, others).await)
            }
            MachineRequest::Port { id, port } => connected(hypervisor.dial(&id, port).await),
            MachineRequest::Pause { id } => done(hypervisor.pause(&id).await),
            MachineRequest::Resume { id } => done(hypervisor.resume(&id).await),
            MachineRequest::Reset { id } => done(hypervisor.reset(&id).await),
            MachineRequest::Guest { id } => self.guest(&id).await.map(MachineAnswer::Value),
            MachineRequest::Figures { id } => {
                let figures = hypervisor.figures(&id).await.map_err(|error| refusal(&error))?;
                Ok(MachineAnswer::Value(json!({
                    "processorMilliseconds": figures.processor_milliseconds,
                    "memoryBytes": figures.memory_bytes,
                    "readBytes": figures.read_bytes,
                    "writtenBytes": figures.written_bytes,
                    "receivedBytes": figures.network_bytes.map(|(received, _)| received),
                    "sentBytes": figures.network_bytes.map(|(_, sent)| sent),
                })))
            }
            MachineRequest::Upload { namespace, name } => {
                let name = Name::new(namespace, name);
                let taken = node::machines::upload::take(&self.context, &self.node, &name).await;
                let stream = taken.map_err(|(code, message)| MachineRefusal { code, message })?;
                Ok(MachineAnswer::Connection(Box::new(stream)))
            }
        }
    }
}

impl Here {
    async fn guest(&self, id: &str) -> Result<Value, MachineRefusal> {
        let message = "VMI does not have guest agent connected".to_owned();
        let none = || MachineRefusal { code: 409, message };
        let guest = self.hypervisor.guest(id).await.ok().flatten().ok_or_else(none)?;
        Ok(json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "VirtualMachineInstanceGuestAgentInfo",
            "guestAgentVersion": guest.agent_version,
            "hostname": guest.host_name,
            "os": node::machines::guest_system(&guest),
        }))
    }
}

fn refusal(error: &Error) -> MachineRefusal {
    let code = if matches!(error, Error::Invalid(_)) { 400 } else { 500 };
    MachineRefusal { code, message: error.chain() }
}

fn done(done: Result<(), Error>) -> Result<MachineAnswer, MachineRefusal> {
    done.map(|()| MachineAnswer::Done).map_err(|error| refusal(&error))
}

fn connected(made: Result<Box<dyn Connection>, Error>) -> Result<MachineAnswer, MachineRefusal> {
    let made = made.map_err(|error| refusal(&error))?;
    Ok(MachineAnswer::Connection(Box::new(made)))
}
