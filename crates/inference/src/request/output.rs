//! What the profiler left in the ConfigMap of its output.

use api::dynamo_request::PROFILING_PHASES;
use reconcile::Object;

use crate::value::text;

/// How far the profiler is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub phase: Option<&'static str>,
    /// What it says its phase is, if nobody knows such a phase.
    pub unknown: Option<String>,
    pub message: String,
    pub end: Option<End>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With the documents that it wrote.
    Succeeded(String),
    Failed(String),
}

/// Reads the output. A profiler may be newer than we are: a phase that nobody knows ends nothing.
pub fn read(output: Option<&Object>) -> Progress {
    let Some(output) = output else { return Progress::default() };
    let data = &output.value["data"];
    let said = text(&data["phase"]);
    let phase = PROFILING_PHASES.into_iter().find(|known| *known == said);
    let unknown = (phase.is_none() && !said.is_empty()).then(|| said.to_owned());
    let end = match text(&data["profiler_status"]) {
        "success" => {
            let documents = text(&data["final_config.yaml"]).to_owned();
            (!documents.is_empty()).then_some(End::Succeeded(documents))
        }
        "failed" => Some(End::Failed(text(&data["profiler_error"]).to_owned())),
        _ => None,
    };
    Progress { phase, unknown, message: text(&data["message"]).to_owned(), end }
}
