//! Bytes over TLS, and the answer to them: what is sent need not be HTTP.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::world::World;

type TlsStream = tokio_rustls::client::TlsStream<TcpStream>;

/// The longest that any answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Who connects: trusted roots, and a certificate or none.
pub struct Identity(Arc<ClientConfig>);

pub struct Reply {
    pub status: u16,
    pub body: String,
}

impl Identity {
    pub fn admin(world: &World) -> Identity {
        Identity::of(world, Some((&world.admin.0, &world.admin.1)))
    }

    /// With a certificate and its key as PEM, or nobody.
    pub fn of(world: &World, credential: Option<(&str, &str)>) -> Identity {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(world.authority.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match credential {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let chain = chain.collect::<Result<_, _>>().unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Identity(Arc::new(config))
    }

    /// Speaks TLS on a connection, and one protocol inside of it.
    pub async fn connect(&self, stream: TcpStream, protocol: &[u8]) -> io::Result<TlsStream> {
        let mut config = (*self.0).clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

/// Sends bytes on a connection of their own and reads all that comes back.
pub async fn send(world: &World, identity: &Identity, bytes: &[u8]) -> io::Result<Reply> {
    let exchange = async {
        let stream = TcpStream::connect(world.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(identity.0.clone());
        let stream = connector.connect(name, stream).await?;
        let (mut reader, mut writer) = tokio::io::split(stream);
        // A server may answer and hang up before it has read everything.
        let write = async {
            let _ = writer.write_all(bytes).await;
            let _ = writer.flush().await;
        };
        let mut answer = Vec::new();
        let read = async {
            let mut piece = [0; 16 << 10];
            while !is_whole(&answer) {
                match reader.read(&mut piece).await {
                    Ok(0) | Err(_) => break,
                    Ok(length) => answer.extend_from_slice(&piece[..length]),
                }
            }
        };
        tokio::pin!(read);
        tokio::select! {
            () = &mut read => {}
            () = write => read.await,
        }
        parse(&answer)
    };
    let nothing = || io::Error::other("no answer in time");
    tokio::time::timeout(ANSWER_MAX, exchange).await.map_err(|_| nothing())?
}

fn head_of(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    Some((head, &answer[end + 4..]))
}

fn is_whole(answer: &[u8]) -> bool {
    let Some((head, body)) = head_of(answer) else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length.and_then(|length| length.trim().parse::<usize>().ok()) {
        Some(length) => body.len() >= length,
        None => body.ends_with(b"0\r\n\r\n"),
    }
}

fn parse(answer: &[u8]) -> io::Result<Reply> {
    let (head, body) = head_of(answer).ok_or_else(|| {
        io::Error::other(format!("the connection ended after {} bytes", answer.len()))
    })?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("the answer has no status"))?;
    Ok(Reply { status, body: String::from_utf8_lossy(body).into_owned() })
}
