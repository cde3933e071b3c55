//! Operators in the process of our own server: installed, asked before their objects are written,
//! and run.

use std::sync::Arc;

use apiserver::beside::Respond;
use apiserver::identity::User;
use apiserver::server::Server;
use apiserver::webhooks::within::Part;
use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use reconcile::{Context, Elsewhere, Kind};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Asked, Entrance, Family, Nodes, Operator, Surroundings, answer, missing};
use crate::definitions;
use crate::installed::{self, Found, Record};
use crate::shutdown::Tasks;

/// Where pods find this server; their node fills it in.
const SERVER_OF_PODS: &str = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)";

/// Who the operators of a family are.
pub fn user(family: &dyn Family) -> User {
    let home = family.home();
    User::service_account(home.namespace, home.account, "")
}

/// What a family is given.
pub struct Given {
    pub family: &'static dyn Family,
    pub server: Arc<Server>,
    pub installer: Context,
    /// What each of its operators runs with.
    pub contexts: Vec<(&'static Operator, Context)>,
    /// What they installed before.
    pub record: Record,
    /// Becomes true when the kinds of gangs are served.
    pub gangs: watch::Receiver<bool>,
    /// The certificates of the cluster's authority.
    pub authority_pem: Arc<str>,
    /// Told when all is installed.
    pub installed: watch::Sender<bool>,
}

/// Has a family say which namespaces are left to others, for as long as the server lives; before
/// its roles are installed it may not ask.
pub fn follow_others(
    tasks: &Tasks,
    family: &'static dyn Family,
    context: Context,
    mut installed: watch::Receiver<bool>,
) -> Elsewhere {
    let (teller, elsewhere) = Elsewhere::told();
    tasks.spawn_until_stop("others", async move {
        let _ = installed.wait_for(|is_there| *is_there).await;
        family.follow_others(&context, teller).await;
    });
    elsewhere
}

/// Has the server ask a family, for as long as the server lives.
pub fn connect(server: &Server, family: &'static dyn Family, context: Context) {
    let reviewer = Reviewer { family, context: context.clone() };
    server.webhook_client.within.add(Arc::new(reviewer));
    server.beside.add_respond(Responder { family, context });
}

/// Installs what the operators need, and runs them until everything is to stop.
pub async fn run(given: Given) {
    let Given { family, server, installer, contexts, record, .. } = given;
    let (mut gangs, authority_pem, installed) = (given.gangs, given.authority_pem, given.installed);
    let enabled: Vec<&str> = contexts.iter().map(|(operator, _)| operator.name).collect();
    let found = record.look().await;
    // What this very program installed is good enough to begin with.
    installed.send_replace(found != Found::Unknown);
    if found != Found::Unchanged {
        let mut manifests = family.manifests(&enabled);
        manifests.extend(family.first_objects(&enabled, Nodes::Processes));
        let named = installed::named(&manifests);
        definitions::install_within(&server, &installer, manifests).await;
        installed.send_replace(true);
        record.write(&named).await;
    }
    let _ = gangs.wait_for(|is_there| *is_there).await;
    let entrance = Some(Entrance { url: SERVER_OF_PODS.to_owned(), authority_pem });
    let mut running = JoinSet::new();
    for (operator, context) in contexts {
        if *context.stop.borrow() {
            return;
        }
        running.spawn(work(family, operator, context, entrance.clone()));
    }
    while running.join_next().await.is_some() {}
}

/// Runs an operator; again when the server knows more or less of what it makes use of.
async fn work(
    family: &'static dyn Family,
    operator: &'static Operator,
    context: Context,
    entrance: Option<Entrance>,
) {
    let requests = context.requests(operator.name, Default::default());
    let mut unknown = unknown(operator, &context).await;
    loop {
        let nodes = Nodes::Processes;
        let around = Surroundings { nodes, entrance: entrance.clone(), unknown: unknown.clone() };
        let mut parts = family.start(operator, &context, &around);
        tokio::select! {
            () = async { while parts.join_next().await.is_some() {} } => return,
            now = missing::changed(&requests, operator.uses, &unknown) => unknown = now,
        }
        tracing::info!(operator = operator.name, "the cluster knows other kinds; starting again");
        parts.shutdown().await;
    }
}

/// Of the kinds that an operator can do without: those that nobody has defined.
async fn unknown(operator: &Operator, context: &Context) -> Vec<Kind> {
    let requests = context.requests(operator.name, Default::default());
    match missing::of(&requests, operator.uses).await {
        Ok(unknown) => unknown,
        Err(error) => {
            tracing::warn!(operator = operator.name, error = %error.chain(), "could not ask");
            operator.uses.to_vec()
        }
    }
}

/// Answers the server's questions about objects of a family.
struct Reviewer {
    family: &'static dyn Family,
    context: Context,
}

#[async_trait]
impl Part for Reviewer {
    fn service(&self) -> (&str, &str) {
        let home = self.family.home();
        (home.namespace, home.service)
    }

    async fn review(&self, path: &str, review: &Value) -> Option<Value> {
        answer(self.family, &self.context, path, review).await
    }

    async fn convert(&self, path: &str, review: &Value) -> Option<Value> {
        answer(self.family, &self.context, path, review).await
    }
}

/// Answers what pods ask of a family.
struct Responder {
    family: &'static dyn Family,
    context: Context,
}

#[async_trait]
impl Respond for Responder {
    fn is_for(&self, method: &Method, path: &str) -> bool {
        self.family.is_for(method, path)
    }

    async fn answer(&self, path: &str, authorization: Option<&str>, body: Bytes) -> (u16, Value) {
        self.family.respond(&self.context, &Asked { path, authorization, body }).await
    }
}
