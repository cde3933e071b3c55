//! Channels to etcd's endpoints (addresses, certificates, time limits and window sizes), and the
//! first words on them.

use std::path::Path;
use std::time::Duration;

use tonic::Status;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::Error;

use super::client::Client;
use super::failure;
use super::layout::{FORMAT, Layout};
use super::messages::{RangeRequest, TxnRequest, TxnResponse, created_at, put, range};
use super::{Settings, Tls};

/// A silent connection is asked for a sign of life after this. etcd refuses to be asked more often
/// than every five seconds.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(8);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// A watch that is not read must not use up what the calls on the same connection need.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// One channel for each endpoint; each connects when it is first used.
pub fn channels(settings: &Settings) -> Result<Vec<(String, Channel)>, Error> {
    if settings.endpoints.is_empty() {
        return Err(Error::Invalid { what: "storage.etcd.endpoints is empty".into() });
    }
    let count = u32::try_from(settings.endpoints.len()).unwrap_or(u32::MAX);
    // All of them must have had their turn when the time is over.
    let dial_timeout = settings.dial_timeout / count;
    let mut channels = Vec::new();
    for address in &settings.endpoints {
        let endpoint = endpoint(address, &settings.tls)?
            .connect_timeout(dial_timeout)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        channels.push((address.clone(), endpoint.connect_lazy()));
    }
    Ok(channels)
}

fn endpoint(address: &str, tls: &Tls) -> Result<Endpoint, Error> {
    // etcd's own tools take an address without a scheme too.
    let url = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let invalid = |error: tonic::transport::Error| {
        let what = format!("storage.etcd.endpoints: {address:?} is no address of etcd ({error})");
        Error::Invalid { what }
    };
    let endpoint = Endpoint::from_shared(url.clone()).map_err(invalid)?;
    match url.split_once("://") {
        Some(("https", _)) => endpoint.tls_config(tls_config(tls)?).map_err(|error| {
            let what = format!("storage.etcd.tls: the certificates cannot be used ({error:?})");
            Error::Invalid { what }
        }),
        Some(("http", _)) => Ok(endpoint),
        _ => {
            let what = format!("storage.etcd.endpoints: {address:?} is neither http nor https");
            Err(Error::Invalid { what })
        }
    }
}

fn tls_config(tls: &Tls) -> Result<ClientTlsConfig, Error> {
    let mut config = ClientTlsConfig::new();
    config = match &tls.ca_file {
        Some(file) => config.ca_certificate(Certificate::from_pem(read(file)?)),
        None => config.with_native_roots(),
    };
    match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(key)) => Ok(config.identity(Identity::from_pem(read(cert)?, read(key)?))),
        (None, None) => Ok(config),
        _ => {
            let what = "storage.etcd.tls needs both cert_file and key_file, or neither".into();
            Err(Error::Invalid { what })
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|source| {
        let file = file.display().to_string();
        Error::Disk { doing: "read", file, source }
    })
}

/// Says hello: logs in, and finds out whether this program can read what is there. A new store is
/// marked with our format.
pub async fn greet(client: &Client, layout: &Layout) -> Result<(), Error> {
    let answer = first_answer(client, layout).await;
    let answer = answer.map_err(|status| failure::opening(client, status))?;
    if answer.succeeded {
        return Ok(());
    }
    let format = answer.ranges().next().and_then(|range| range.kvs.into_iter().next());
    let value = format.map(|kv| kv.value).unwrap_or_default();
    let found = std::str::from_utf8(&value).ok().and_then(|text| text.trim().parse::<u32>().ok());
    match found {
        Some(found) if found > FORMAT => Err(super::newer_format(layout, found)),
        Some(_) => Ok(()),
        None => {
            let key = String::from_utf8_lossy(&layout.format()).into_owned();
            Err(Error::Foreign { file: format!("etcd key {key}") })
        }
    }
}

/// Asks each endpoint in turn.
async fn first_answer(client: &Client, layout: &Layout) -> Result<TxnResponse, Status> {
    let format = layout.format();
    let request = TxnRequest {
        compare: vec![created_at(format.clone(), 0)],
        success: vec![put(format.clone(), FORMAT.to_string().into())],
        failure: vec![range(RangeRequest::one(format))],
    };
    let mut attempts = client.endpoints();
    loop {
        attempts -= 1;
        let answer = match client.log_in(None).await {
            Ok(()) => client.txn(request.clone()).await,
            Err(status) => Err(status),
        };
        match answer {
            Err(status) if failure::is_passing(&status) && attempts > 0 => {}
            answer => return answer,
        }
    }
}
