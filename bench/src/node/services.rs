//! What a service adds to a connection: the same program on this machine, asked at its own address
//! and at that of a service in front of it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::api::client::Connection;
use crate::api::report::{Aim, Report};
use crate::api::target::Target;
use crate::cluster::objects;
use crate::statistics::{Samples, now};

const CONNECTIONS: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

pub async fn run(target: &Target, connection: &mut Connection, report: &mut Report) -> Result<()> {
    let direct = answer_all()?;
    let path = objects::pods(target).replace("/pods", "/services");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
        "spec": {"ports": [{"port": 80, "targetPort": direct.port()}]}});
    let made = objects::send(target, connection, ("POST", &path), &service).await?;
    let address: Ipv4Addr = made["spec"]["clusterIP"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .context("the service has no address")?;
    let slices = path.replace("/api/v1", "/apis/discovery.k8s.io/v1");
    let slices = slices.replace("/services", "/endpointslices");
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "echo", "labels": {"kubernetes.io/service-name": "echo"}},
        "addressType": "IPv4", "ports": [{"port": direct.port(), "protocol": "TCP"}],
        "endpoints": [{"addresses": [direct.ip()]}]});
    objects::send(target, connection, ("POST", &slices), &slice).await?;
    let service = SocketAddr::from((address, 80));
    let began = now();
    while ask(service).is_err() {
        ensure!(began.elapsed() < PATIENCE, "the service does not answer");
        tokio::time::sleep(LOOK).await;
    }
    let (mut without, mut with) = (Samples::default(), Samples::default());
    for _ in 0..CONNECTIONS {
        without.push(ask(direct)?);
        with.push(ask(service)?);
    }
    let (without, with) = (without.percentile(0.5), with.percentile(0.5));
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let added = micros(with) - micros(without);
    let bound = format!("{:.0} us instead of {:.0} us", micros(with), micros(without));
    report.row("a service adds to a connection", (added, "us"), Aim::AtMost(100.0), &bound);
    Ok(())
}

/// Connects, sends a byte, has it back.
fn ask(to: SocketAddr) -> Result<Duration> {
    let began = now();
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.write_all(&[1])?;
    stream.read_exact(&mut [0])?;
    Ok(began.elapsed())
}

/// A program that gives every byte back, at an address that is not the loopback.
fn answer_all() -> Result<SocketAddr> {
    let outside = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    outside.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).context("this machine has no route")?;
    let own: IpAddr = outside.local_addr()?.ip();
    let listener = TcpListener::bind((own, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_ok() {
                let _ = stream.write_all(&byte);
            }
        }
    });
    Ok(address)
}
