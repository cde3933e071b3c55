//! One question to a graph, by way of the cluster's own server.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use inference::names::HTTP_PORT;
use inference::value::{list, text};
use serde_json::json;

use super::cluster::Cluster;
use crate::cli::Context;

/// What is asked.
pub struct Question<'a> {
    pub text: &'a str,
    /// Else the first that the graph has.
    pub model: Option<&'a str>,
    pub tokens_max: u32,
}

/// What was answered, and by which model.
pub struct Answer {
    pub model: String,
    pub text: String,
}

pub async fn chat(
    cluster: &Cluster,
    name: &str,
    question: &Question<'_>,
    context: &Context,
) -> Result<ExitCode> {
    let Answer { model, text } = ask(cluster, name, question).await?;
    context.output.tell(&text, &json!({"graph": name, "model": model, "answer": text}))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks once.
pub async fn ask(cluster: &Cluster, name: &str, question: &Question<'_>) -> Result<Answer> {
    let graph = cluster.graph(name).await?;
    let frontend = cluster.frontend(&graph).await?;
    let (service, _) = frontend.with_context(|| format!("graph {name} has no frontend yet"))?;
    let base =
        format!("/api/v1/namespaces/{}/services/{service}:{HTTP_PORT}/proxy/v1", cluster.namespace);
    let model = match question.model {
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
    let body = json!({"model": model, "max_tokens": question.tokens_max,
        "messages": [{"role": "user", "content": question.text}]});
    let answer = cluster.requests.post(&format!("{base}/chat/completions"), &body).await;
    let answer = answer.with_context(|| format!("{name} did not answer"))?;
    let text = text(&answer["choices"][0]["message"]["content"]).to_owned();
    Ok(Answer { model, text })
}
