//! Which cluster operators work for, and as whom: a kubeconfig, or the account of the pod that
//! this process runs in.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::reach;

/// Where a pod finds what it needs to know of its cluster.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOST_VARIABLE: &str = "KUBERNETES_SERVICE_HOST";

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub kubeconfig: Option<PathBuf>,
    /// Of the kubeconfig; else its current one.
    pub context: Option<String>,
}

/// A cluster that can be asked.
pub struct Cluster {
    pub client: kube::Client,
    pub url: String,
    /// The namespace of this pod, if this is one of the cluster's.
    pub own_namespace: Option<String>,
}

pub async fn connect(access: &Access) -> Result<Cluster> {
    let is_pod = env::var_os(HOST_VARIABLE).is_some() && Path::new(ACCOUNT).join("token").exists();
    let is_within = is_pod && access.kubeconfig.is_none() && access.context.is_none();
    let config = match is_within {
        true => kube::Config::incluster_env().context("could not read the account of this pod")?,
        false => by_kubeconfig(access).await?,
    };
    let own_namespace = is_within.then(|| config.default_namespace.clone());
    let url = config.cluster_url.to_string();
    let client = kube::Client::try_from(config);
    let client = client.with_context(|| format!("could not make a client for {url}"))?;
    Ok(Cluster { client, url: url.trim_end_matches('/').to_owned(), own_namespace })
}

/// The name of the user that the cluster takes us for; `None` if it does not say.
pub async fn user(client: &kube::Client) -> Option<String> {
    let review = serde_json::json!({"apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(review.to_string().into_bytes()).ok()?;
    let told: serde_json::Value = client.request(request).await.ok()?;
    told["status"]["userInfo"]["username"].as_str().map(str::to_owned)
}

async fn by_kubeconfig(access: &Access) -> Result<kube::Config> {
    let read = match &access.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)
            .with_context(|| format!("could not read the kubeconfig {}", path.display())),
        None => Kubeconfig::read()
            .context("could not read a kubeconfig; name one with --kubeconfig FILE or KUBECONFIG"),
    };
    let options = KubeConfigOptions { context: access.context.clone(), ..Default::default() };
    let config = reach::configure(read?, &options).await;
    config.context("the kubeconfig names no cluster to go to")
}
