//! A runtime as it was when a job began: kept beside the job, so that later changes of the runtime
//! do not reach it.

use reconcile::CachedObject;
use serde_json::{Value, json};

use super::job::TrainJob;
use crate::kinds::CONFIG_MAP;
use crate::value::text;

const KEY: &str = "runtime";

pub fn name(job: &str) -> String {
    format!("{job}-runtime-snapshot")
}

/// The map that keeps a runtime.
pub fn take(job: &TrainJob<'_>, runtime: &Value) -> Result<Value, String> {
    let yaml = serde_saphyr::to_string(runtime)
        .map_err(|error| format!("could not write the runtime as YAML: {error}"))?;
    let mut map = job.child(CONFIG_MAP, &name(job.name()));
    map["data"] = json!({KEY: yaml});
    Ok(map)
}

/// The runtime that a map keeps, if it is this job's.
pub fn read(job: &TrainJob<'_>, map: &CachedObject) -> Result<Value, String> {
    let Some(map) = map.controlled_by(job.uid()) else {
        return Err("a snapshot configmap exists but is owned by another object".to_owned());
    };
    let yaml = map.value["data"][KEY].as_str();
    let yaml = yaml.ok_or_else(|| format!("the snapshot {} has no key {KEY:?}", map.name))?;
    let runtime: Value = serde_saphyr::from_str(yaml)
        .map_err(|error| format!("could not read the snapshot {}: {error}", map.name))?;
    let reference = job.runtime_ref();
    let api_version = text(&runtime["apiVersion"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    for (field, found) in [
        ("kind", text(&runtime["kind"])),
        ("apiGroup", group),
        ("name", text(&runtime["metadata"]["name"])),
    ] {
        let wanted = text(&reference[field]);
        if !wanted.is_empty() && wanted != found {
            return Err(format!(
                "the snapshot {} is of {field} {found:?}, and the job refers to {wanted:?}",
                map.name
            ));
        }
    }
    Ok(runtime)
}
