//! What the API server asks a node for: the output of containers, programs beside them, connections
//! to their ports.

pub mod logs;
mod notify;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use link::{
    DialRequest, Duplex, LogRequest, MachineAnswer, MachineRefusal, MachineRequest, Machines,
    Missing, Node, Program, ProgramRequest,
};

use crate::runtime::{Container, ContainerId, PodRuntime};

/// A node as the server sees it.
pub struct Served {
    /// Its name.
    pub node: String,
    pub runtime: Arc<dyn PodRuntime>,
    /// What runs virtual machines, as soon as something does.
    pub machines: Arc<OnceLock<Arc<dyn Machines>>>,
}

impl Served {
    /// The run of a container that runs.
    fn running(&self, pod: &str, container: &str) -> Option<ContainerId> {
        let runs = self.runtime.of_pod(pod).into_iter();
        let mut runs = runs.filter(|run| run.id.name == container).filter(Container::is_running);
        runs.next_back().map(|run| run.id)
    }
}

#[async_trait]
impl Node for Served {
    fn name(&self) -> &str {
        &self.node
    }

    async fn logs(&self, request: LogRequest) -> Result<BoxStream<'static, Bytes>, Missing> {
        logs::open(&self.runtime, &request)
    }

    async fn runs(&self, pod: &str, container: &str) -> Result<bool, String> {
        Ok(self.running(pod, container).is_some())
    }

    async fn program(&self, request: ProgramRequest) -> Result<Program, String> {
        let ProgramRequest { pod, container, command, streams } = request;
        let id = self.running(&pod, &container);
        let id = id.ok_or_else(|| format!("container {container:?} is not running"))?;
        let opened = match command.is_empty() {
            true => self.runtime.attach(&id, &streams).await,
            false => self.runtime.run_beside(&id, &command, &streams).await,
        };
        opened.map_err(|refusal| refusal.message)
    }

    async fn dial(&self, request: DialRequest) -> Result<Box<dyn Duplex>, String> {
        let DialRequest { pod, address, port } = request;
        let dialled = self.runtime.dial(&pod, address.parse().ok(), port).await;
        dialled.map_err(|refusal| refusal.message)
    }

    async fn machine(&self, request: MachineRequest) -> Result<MachineAnswer, MachineRefusal> {
        let none = || MachineRefusal {
            code: 503,
            message: format!("node {:?} runs no virtual machines", self.node),
        };
        self.machines.get().ok_or_else(none)?.ask(request).await
    }
}
