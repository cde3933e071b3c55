//! What the profiler left in the ConfigMap of its output.

use api::dynamo_request::PROFILING_PHASES;
use reconcile::Object;

use crate::value::text;

/// How far the profiler is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub phase: Option<&'static str>,
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

/// Reads the output; a phase that nobody knows is an error.
pub fn read(output: Option<&Object>) -> Result<Progress, String> {
    let Some(output) = output else { return Ok(Progress::default()) };
    let data = &output.value["data"];
    let phase = match text(&data["phase"]) {
        "" => None,
        said => {
            let known = PROFILING_PHASES.into_iter().find(|known| *known == said);
            Some(known.ok_or_else(|| format!("unknown profiling phase \"{said}\""))?)
        }
    };
    let end = match text(&data["profiler_status"]) {
        "success" => {
            let documents = text(&data["final_config.yaml"]).to_owned();
            (!documents.is_empty()).then_some(End::Succeeded(documents))
        }
        "failed" => Some(End::Failed(text(&data["profiler_error"]).to_owned())),
        _ => None,
    };
    Ok(Progress { phase, message: text(&data["message"]).to_owned(), end })
}
