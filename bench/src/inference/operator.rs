//! The operators as a process of their own beside a server without any, as on a cluster of others.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

use super::{LOOK, PATIENCE};
use crate::api::client::{Connection, Http};
use crate::api::target::Target;
use crate::statistics::now;

/// What the operators have installed when they can be asked.
pub const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/\
                            dynamo-operator-validating";

/// A process of ours, ended when it is dropped.
pub struct Operator {
    child: Child,
    metrics: String,
}

impl Operator {
    /// Starts these operators for a server that was started before.
    pub fn start(program: Option<&Path>, server: &Target, enable: &str) -> Result<Operator> {
        let program = match program {
            Some(program) => program.canonicalize()?,
            None => std::env::current_exe()?.with_file_name("setpoint"),
        };
        let started = server.started.as_ref().context("the server must be one of ours")?;
        let own = own_address()?;
        let [health, metrics, webhook] = [free(own)?, free(own)?, free(own)?];
        let mut command = Command::new(&program);
        command.args(["operator", "--enable", enable, "--install", "-o", "json"]);
        command.arg("--kubeconfig").arg(started.directory.join("kubeconfig"));
        command.args(["--health-address", &health, "--metrics-address", &metrics]);
        command.args(["--webhook-address", &webhook]);
        command.args(["--webhook-url", &format!("https://{webhook}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let starting = || format!("could not start {}", program.display());
        let mut child = command.spawn().with_context(starting)?;
        let output = child.stdout.take().context("the output must be piped")?;
        let operator = Operator { child, metrics };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the operators ended before they were ready");
        Ok(operator)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its own counts are read; the server knows whom to believe about it.
    pub async fn counts(&self, server: &Target) -> Result<Target> {
        let bundle = bundle(server).await?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = Arc::new(tls);
        Ok(Target {
            authority: self.metrics.clone(),
            token: None,
            tls: [tls.clone(), tls],
            pid: Some(self.pid()),
            namespace: String::new(),
            started: None,
        })
    }
}

/// Whom the server believes; it is told a moment after it is told whom to ask.
async fn bundle(server: &Target) -> Result<Vec<u8>> {
    let mut connection = Connection::open(server, Http::One).await?;
    let began = now();
    loop {
        let answer = connection.send(server.request("GET", WEBHOOKS, String::new())).await?;
        let object: Value = serde_json::from_slice(&answer.body)?;
        if let Some(bundle) = object["webhooks"][0]["clientConfig"]["caBundle"].as_str() {
            return Ok(STANDARD.decode(bundle)?);
        }
        ensure!(began.elapsed() < PATIENCE, "nobody is to be believed: {}", answer.status);
        tokio::time::sleep(LOOK).await;
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address by which the machine is reached: a server does not call itself for others.
fn own_address() -> Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Nothing is sent; the route says which address would be used.
    socket.connect("198.51.100.1:9").context("the machine must have a network")?;
    Ok(socket.local_addr()?.ip())
}

/// An address with a port that nobody listens on.
fn free(address: IpAddr) -> Result<String> {
    let listener = TcpListener::bind((address, 0))?;
    Ok(listener.local_addr()?.to_string())
}
