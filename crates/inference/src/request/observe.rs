//! What a request has: its Job, what that left, and the graph that was made of it.

use std::sync::Arc;

use reconcile::{Context, Error, Name, Object, Selector};
use serde_json::{Value, json};

use super::dcgm;
use super::hardware::{self, Hardware};
use super::job::job_name;
use super::{ACCOUNT, BINDING, NAME_LABEL, NAMESPACE_LABEL, UID, output_name};
use crate::kinds::{
    CONFIG_MAP, GRAPH, JOB, NODE, PERSISTENT_VOLUME_CLAIM, POD, ROLE_BINDING, SERVICE_ACCOUNT,
};
use crate::names;
use crate::settings::Settings;
use crate::value::{list, text};

#[derive(Default)]
pub struct Observed {
    /// Its own Job.
    pub job: Option<Arc<Object>>,
    /// Who has the name of its Job: a request of the same name went, and its Job has yet to.
    pub stranger: Option<Name>,
    /// What its own Job left.
    pub output: Option<Arc<Object>>,
    /// What has the name of that and was left by another.
    pub stale: Option<Arc<Object>>,
    pub graph: Option<Arc<Object>>,
    /// ConfigMaps that were made beside the graph.
    pub config_maps: Vec<Arc<Object>>,
    pub hardware: Option<Hardware>,
    /// Whether the claim with the model is there, if one is named.
    pub has_claim: bool,
    /// Whether the profiler's account has its rights.
    pub has_account: bool,
    pub has_binding: bool,
    /// Containers of the graph whose images cannot be had.
    pub unpulled: Vec<String>,
}

pub async fn observe(
    context: &Context,
    request: &Arc<Object>,
    settings: &Settings,
) -> Result<Observed, Error> {
    let named = |name: &str| Name::new(request.name.namespace.clone(), name);
    let spec = &request.value["spec"];
    let claim = text(&spec["modelCache"]["pvcName"]);
    let has_claim = claim.is_empty()
        || context.get_live(PERSISTENT_VOLUME_CLAIM, &named(claim)).await?.is_some();
    let phase = text(&request.value["status"]["phase"]);
    let is_early = matches!(phase, "" | "Pending");
    let hardware = match is_early && settings.discovers_gpus && !hardware::is_said(spec) {
        true => discover(context, settings).await?,
        false => None,
    };
    let maps = context.cache(CONFIG_MAP);
    let is_its = |one: &Arc<Object>| one.controller() == Some(&request.uid);
    let found = context.owned_cache(JOB).get(&named(&job_name(request)));
    let job = found.as_ref().and_then(|job| job.controlled_by(&request.uid)).cloned();
    let stranger = found.filter(|_| job.is_none()).map(|other| other.name().clone());
    let output = maps.get(&named(&output_name(request)));
    let (output, stale) = match output {
        // Profilers that are not ours may leave it without an owner.
        Some(output) if output.controller().is_none() || is_its(&output) => (Some(output), None),
        other => (None, other),
    };
    let mut observed =
        Observed { job, stranger, output, stale, hardware, has_claim, ..Observed::default() };
    if !is_early {
        let mine = maps.in_namespace(&request.name.namespace).into_iter();
        let output = output_name(request);
        observed.config_maps =
            mine.filter(|map| is_of(map, request) && *map.name.name != *output).collect();
    }
    let status = &request.value["status"];
    match text(&status["phase"]) {
        "" | "Pending" => {
            let account = context.get_live(SERVICE_ACCOUNT, &named(ACCOUNT)).await?;
            let binding = context.get_live(ROLE_BINDING, &named(BINDING)).await?;
            observed.has_account = account.is_some();
            observed.has_binding = binding.is_some();
        }
        "Deploying" | "Deployed" => {
            let name = named(text(&status["dgdName"]));
            observed.graph = graph(context, &name).await?;
            observed.unpulled = unpulled(context, &name);
        }
        _ => {}
    }
    Ok(observed)
}

/// The GPUs that there are: as exporters measure them, or else as labels of nodes say.
async fn discover(context: &Context, settings: &Settings) -> Result<Option<Hardware>, Error> {
    match dcgm::discover(context, &settings.exporter).await {
        Some(found) => Ok(Some(found)),
        None => Ok(hardware::discover(&nodes(context).await?)),
    }
}

/// The nodes, asked for where they are needed: few requests look at them.
async fn nodes(context: &Context) -> Result<Vec<Object>, Error> {
    let requests = context.requests("observe", Default::default());
    let nodes = requests.read(&NODE.collection("")).await?;
    Ok(list(&nodes["items"]).iter().map(|node| Object::new(node.clone())).collect())
}

/// The graph; that there is none is believed only of the server itself.
async fn graph(context: &Context, name: &Name) -> Result<Option<Arc<Object>>, Error> {
    if name.name.is_empty() {
        return Ok(None);
    }
    match context.cache(GRAPH).get(name) {
        Some(found) => Ok(Some(found)),
        None => Ok(context.get_live(GRAPH, name).await?.map(Arc::new)),
    }
}

/// Whether an object was made for a request, and not for an earlier one of its name.
pub fn is_of(object: &Object, request: &Object) -> bool {
    object.label(NAME_LABEL) == Some(&request.name.name)
        && object.label(NAMESPACE_LABEL) == Some(&request.name.namespace)
        && object.annotation(UID).is_none_or(|uid| uid == request.uid)
}

fn unpulled(context: &Context, graph: &Name) -> Vec<String> {
    let of_graph = Selector::of_labels(&json!({names::GRAPH: &*graph.name}));
    let mut all = Vec::new();
    for pod in context.cache(POD).selected(&graph.namespace, &of_graph) {
        let status = &pod.value["status"];
        let containers = ["initContainerStatuses", "containerStatuses"];
        for one in containers.iter().flat_map(|field| list(&status[*field])) {
            let waiting: &Value = &one["state"]["waiting"];
            if matches!(text(&waiting["reason"]), "ErrImagePull" | "ImagePullBackOff") {
                let (container, image) = (text(&one["name"]), text(&one["image"]));
                all.push(format!("{}/{container}: {image}", pod.name.name));
            }
        }
    }
    all
}
