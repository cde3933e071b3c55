//! A kubeconfig as a client needs it: where to connect, whom to trust, who to be.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

/// How a server is reached.
pub struct Access {
    /// `127.0.0.1:6443`.
    pub authority: String,
    pub token: Option<String>,
    pub tls: ClientConfig,
}

pub fn read(path: &Path) -> Result<Access> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("could not read {shown}"))?;
    let config: Value =
        serde_saphyr::from_str(&text).with_context(|| format!("could not understand {shown}"))?;
    let context = &named(&config["contexts"], &config["current-context"])?["context"];
    let cluster = &named(&config["clusters"], &context["cluster"])?["cluster"];
    let user = &named(&config["users"], &context["user"])?["user"];
    let server = cluster["server"].as_str().context("the cluster has no server")?;
    let authority = server
        .strip_prefix("https://")
        .map(|rest| rest.trim_end_matches('/').to_owned())
        .ok_or_else(|| anyhow!("{server} is not https"))?;

    let mut roots = RootCertStore::empty();
    let trusted = material(cluster, "certificate-authority")?.context("nobody is trusted")?;
    for certificate in CertificateDer::pem_slice_iter(&trusted) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let certificate = material(user, "client-certificate")?;
    let tls = match (certificate, material(user, "client-key")?) {
        (Some(certificate), Some(key)) => {
            let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Access { authority, token: user["token"].as_str().map(str::to_owned), tls })
}

fn named<'a>(list: &'a Value, name: &Value) -> Result<&'a Value> {
    let found = list.as_array().into_iter().flatten().find(|entry| entry["name"] == *name);
    found.with_context(|| format!("the kubeconfig has no entry {name}"))
}

/// PEM that is written in the file, or in a file that it names.
fn material(of: &Value, name: &str) -> Result<Option<Vec<u8>>> {
    if let Some(text) = of[format!("{name}-data")].as_str() {
        return Ok(Some(STANDARD.decode(text)?));
    }
    match of[name].as_str() {
        Some(path) => Ok(Some(fs::read(path).with_context(|| format!("could not read {path}"))?)),
        None => Ok(None),
    }
}
