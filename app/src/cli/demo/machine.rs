//! A virtual machine that really boots. Its disk is one sector of code, offered by this process,
//! so that nothing has to be fetched; what the guest says on its console is read through the API.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Request;
use machines::kinds::{INSTANCE, WUKONG};
use machines::provider::subresources::GROUP;
use machines::value::text;
use reconcile::Kind;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep, timeout};

use super::board::Board;
use super::boot_sector::{self, GREETING};
use super::{Keeping, Outcome, Part, seconds};
use crate::cli::connect::Target;
use crate::cli::evidence::Reader;
use crate::cli::exit::{self, Failure};
use crate::cli::verdict::Observation;
use crate::cli::vm::cluster::Cluster;

pub const NAME: &str = "demo";
const CLASS: &str = "demo";
const STORAGE_CLASS: Kind = Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
const LOOK: Duration = Duration::from_millis(100);
/// How long a console may say nothing before another is opened.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Of a console: a greeting is far shorter.
const HEARD_BYTES_MAX: usize = 64 << 10;
/// How long a guest that was ended may take to be gone.
const GONE_MAX: Duration = Duration::from_secs(10);

/// Boots a machine, and waits until it has said something.
pub async fn run(
    target: &Target,
    directory: &Path,
    (board, keeping): (&Board, Keeping),
) -> Result<Outcome> {
    let part = Part::Machine.name();
    let program = hypervisor::qemu::PROGRAM;
    if super::on_path(program).is_none() {
        return Ok(Outcome::skipped(format!(
            "QEMU is not installed; get it with `apt install {}`",
            hypervisor::qemu::PACKAGE
        )));
    }
    let began = Instant::now();
    board.say(part, "creates a machine with a disk of one sector");
    let cluster = Cluster::connect(target).await?;
    let url = offer(boot_sector::disk())?;
    make(&cluster, directory, &url).await?;
    until_running(&cluster, board).await?;
    let running_after = began.elapsed();
    board.say(part, "boots; reads its console");
    until_heard(&cluster).await?;
    let heard_after = began.elapsed();
    if keeping == Keeping::No {
        board.say(part, "stops");
        remove(&cluster).await?;
    }
    Ok(Outcome::well(
        format!("its console said {GREETING:?}"),
        json!({"said": GREETING, "runningAfterSeconds": seconds(running_after),
            "heardAfterSeconds": seconds(heard_after)}),
    ))
}

async fn make(cluster: &Cluster, directory: &Path, url: &str) -> Result<()> {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS}, "provisioner": "setpoint.dev/local-path",
        "parameters": {"path": directory.join("volumes")},
        "volumeBindingMode": "WaitForFirstConsumer"});
    let machine = json!({"apiVersion": WUKONG.api_version(), "kind": WUKONG.kind,
        "metadata": {"name": NAME, "namespace": cluster.namespace},
        "spec": {"cpu": 1, "memory": "64Mi", "networks": [{"name": "default"}],
            "disks": [{"name": "root", "size": "1Mi", "boot": true, "image": url,
                "storageClassName": CLASS}]}});
    let made = cluster.requests.create(STORAGE_CLASS, &class).await;
    made.context("could not make a StorageClass")?;
    let deadline = Instant::now() + GONE_MAX;
    loop {
        match cluster.requests.create(WUKONG, &machine).await {
            Ok(_) => return Ok(()),
            // Whoever checks machines may still be starting.
            Err(error) if !error.is_refusal() && Instant::now() < deadline => sleep(LOOK).await,
            Err(error) => return Err(error).context("could not make a machine"),
        }
    }
}

async fn until_running(cluster: &Cluster, board: &Board) -> Result<()> {
    loop {
        let found = cluster.requests.get(WUKONG, &cluster.name(NAME)).await?;
        let status = found.map(|found| found.value["status"].clone()).unwrap_or_default();
        let phase = match text(&status["phase"]) {
            "" => "Pending",
            phase => phase,
        };
        board.say(Part::Machine.name(), format!("disk of 1 MiB, {phase}"));
        match phase {
            "Running" => return Ok(()),
            "Failed" | "Error" => {
                let object = json!({"kind": WUKONG.kind, "metadata": {"name": NAME}});
                let observed = Observation { object, ..Observation::default() };
                let evidence = reader(cluster).collect(&observed, None).await;
                let what = format!("the machine failed: {}", failure(&status));
                bail!(Failure { shown: evidence.text(), ..Failure::new(exit::FAILED, what) })
            }
            _ => sleep(LOOK).await,
        }
    }
}

pub fn reader(cluster: &Cluster) -> Reader<'_> {
    Reader { client: &cluster.requests.client, namespace: &cluster.namespace }
}

fn failure(status: &Value) -> String {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let told = conditions.iter().filter(|one| one["status"] == "False");
    told.map(|one| text(&one["message"])).collect::<Vec<_>>().join("; ")
}

/// Listens until the guest has said its line.
async fn until_heard(cluster: &Cluster) -> Result<()> {
    let machine = cluster.machine(NAME).await?;
    loop {
        // A console that is not there yet, or breaks off, is opened again.
        if let Ok(mut console) = cluster.open(&machine, "console").await {
            let mut heard = Vec::new();
            let mut piece = [0; 1_024];
            while let Ok(Ok(read @ 1..)) = timeout(SILENCE_MAX, console.read(&mut piece)).await {
                heard.extend_from_slice(&piece[..read]);
                if String::from_utf8_lossy(&heard).contains(GREETING) {
                    return Ok(());
                }
                if heard.len() > HEARD_BYTES_MAX {
                    break;
                }
            }
        }
        sleep(LOOK).await;
    }
}

/// Ends the guest, which does not listen when it is asked to.
async fn remove(cluster: &Cluster) -> Result<()> {
    let machine = cluster.machine(NAME).await?;
    let path =
        format!("/apis/{GROUP}/v1/namespaces/{}/virtualmachines/{machine}/stop", cluster.namespace);
    let request = Request::put(path).header("content-type", "application/json");
    let request = request.body(json!({"gracePeriod": 0}).to_string().into_bytes())?;
    cluster.requests.client.request_text(request).await.context("could not stop the machine")?;
    let deadline = Instant::now() + GONE_MAX;
    while cluster.requests.get(INSTANCE, &cluster.name(&machine)).await?.is_some() {
        // What is left is ended with the cluster.
        if Instant::now() > deadline {
            break;
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// Offers bytes on this machine, until the program ends.
fn offer(bytes: Vec<u8>) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not listen")?;
    let address = listener.local_addr().context("could not listen")?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(SILENCE_MAX));
            let _ = stream.read(&mut [0; 4_096]);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                bytes.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes));
        }
    });
    Ok(format!("http://{address}/demo.img"))
}
