//! One question to a graph, by way of the cluster's own server.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use inference::names::HTTP_PORT;
use inference::value::{list, text};
use serde_json::json;

use super::cluster::Cluster;

pub async fn chat(
    cluster: &Cluster,
    name: &str,
    said: &str,
    model: Option<&str>,
) -> Result<ExitCode> {
    let graph = cluster.graph(name).await?;
    let frontend = cluster.frontend(&graph).await?;
    let (service, _) = frontend.with_context(|| format!("graph {name} has no frontend yet"))?;
    let base =
        format!("/api/v1/namespaces/{}/services/{service}:{HTTP_PORT}/proxy/v1", cluster.namespace);
    let model = match model {
        Some(model) => model.to_owned(),
        None => {
            let models = cluster.requests.read(&format!("{base}/models")).await;
            let models = models.with_context(|| format!("{name} does not answer"))?;
            match list(&models["data"]).first() {
                Some(first) => text(&first["id"]).to_owned(),
                None => bail!("{name} has no model yet: its workers are not ready"),
            }
        }
    };
    let body = json!({"model": model, "messages": [{"role": "user", "content": said}]});
    let answer = cluster.requests.post(&format!("{base}/chat/completions"), &body).await;
    let answer = answer.with_context(|| format!("{name} did not answer"))?;
    println!("{}", text(&answer["choices"][0]["message"]["content"]));
    Ok(ExitCode::SUCCESS)
}
