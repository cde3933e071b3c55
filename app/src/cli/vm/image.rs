//! Images that machines boot from: volumes that are filled once and can be copied.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use machines::kinds::DATA_VOLUME;
use reconcile::conditions;
use reconcile::plan::Target;
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::send;
use crate::cli::{Context, exit, interrupted};
use crate::output;

/// How often it is asked how far it is.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Subcommand)]
pub enum Image {
    /// Bring an image in.
    Add {
        name: String,
        /// Where it is: http, https, or a file of this machine.
        from: String,
        #[arg(long, default_value = "10Gi", value_name = "SIZE")]
        size: String,
        /// `sha256:…`, `sha512:…` or `sha1:…` of what is there.
        #[arg(long, value_name = "TEXT")]
        checksum: Option<String>,
        #[arg(long, value_name = "NAME")]
        storage_class: Option<String>,
    },
    /// What was added.
    #[command(visible_alias = "list")]
    Ls,
}

/// How far an image is.
#[derive(Serialize, PartialEq)]
struct Progress {
    name: String,
    phase: String,
    progress: String,
}

impl fmt::Display for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} {}", self.name, self.phase, self.progress)
    }
}

pub async fn perform(cluster: &Cluster, image: &Image, context: &Context) -> Result<ExitCode> {
    let (name, from) = match image {
        Image::Ls => return list(cluster, context).await.map(|()| ExitCode::SUCCESS),
        Image::Add { name, from, .. } => (name, from),
    };
    tokio::select! {
        added = add(cluster, image, context) => added.map(|()| ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => {
            match is_url(from) {
                true => interrupted::leave(&format!("image {name}"), "setpoint vm image ls"),
                false => output::remark(format!("{from} was not sent whole")),
            }
            if interrupted::comes_again("deletes what there is of it").await {
                delete(cluster, name).await?;
            }
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
    }
}

fn is_url(from: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| from.starts_with(scheme))
}

async fn add(cluster: &Cluster, image: &Image, context: &Context) -> Result<()> {
    let Image::Add { name, from, size, checksum, storage_class } = image else { return Ok(()) };
    let claim = claim(size, storage_class.as_deref());
    if !is_url(from) {
        return add_file(cluster, (name, claim), from, (checksum.as_deref(), context)).await;
    }
    let mut source = json!({"url": from});
    if let Some(checksum) = checksum {
        source["checksum"] = json!(checksum);
    }
    make(cluster, name, json!({"source": {"http": source}, "pvc": claim})).await?;
    follow(cluster, name, "Succeeded", context).await
}

/// Deletes an image, if it came so far that there is one.
async fn delete(cluster: &Cluster, name: &str) -> Result<()> {
    let deleting = || format!("could not delete image {name}");
    let found = cluster.requests.get(DATA_VOLUME, &cluster.name(name)).await;
    let Some(found) = found.with_context(deleting)? else { return Ok(()) };
    let target = Target::of(DATA_VOLUME, &found);
    cluster.requests.delete(&target, &Default::default()).await.with_context(deleting)?;
    output::remark(format!("image {name} is deleted"));
    Ok(())
}

/// Makes a volume that waits for a file, and sends it.
async fn add_file(
    cluster: &Cluster,
    (name, claim): (&str, Value),
    from: &str,
    (checksum, context): (Option<&str>, &Context),
) -> Result<()> {
    let file = Path::new(from);
    let checksum = match checksum {
        Some(checksum) => checksum.to_owned(),
        None => {
            let sum = send::checksum(file);
            sum.with_context(|| {
                format!("could not read {from}: it is neither a file nor begins with http")
            })?
        }
    };
    make(cluster, name, json!({"source": {"upload": {}}, "pvc": claim})).await?;
    follow(cluster, name, "UploadReady", context).await?;
    let mut last = 0;
    let told = |part: f64| -> Result<()> {
        let tenths = (part * 10.0) as u8;
        if tenths > last {
            last = tenths;
            let (name, phase) = (name.to_owned(), "Uploading".to_owned());
            let progress = format!("{}%", u32::from(tenths) * 10);
            say(context, &Progress { name, phase, progress })?;
        }
        Ok(())
    };
    send::send(cluster, name, &send::Sent { file, checksum }, told).await?;
    follow(cluster, name, "Succeeded", context).await
}

fn claim(size: &str, storage_class: Option<&str>) -> Value {
    let mut claim = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}}});
    if let Some(class) = storage_class {
        claim["storageClassName"] = json!(class);
    }
    claim
}

async fn make(cluster: &Cluster, name: &str, spec: Value) -> Result<()> {
    let object = json!({"apiVersion": DATA_VOLUME.api_version(), "kind": DATA_VOLUME.kind,
        "metadata": {"namespace": cluster.namespace, "name": name, "annotations":
            {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}},
        "spec": spec});
    let made = cluster.requests.create(DATA_VOLUME, &object).await;
    made.map(drop).with_context(|| format!("could not make DataVolume {name}"))
}

/// The images that were added: volumes that belong to nothing else.
async fn list(cluster: &Cluster, context: &Context) -> Result<()> {
    let all = cluster.items(DATA_VOLUME).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let own = all.iter().filter(|one| one["metadata"]["ownerReferences"].is_null());
    let images = own.map(|one| Progress {
        name: text(&one["metadata"]["name"]),
        phase: text(&one["status"]["phase"]),
        progress: text(&one["status"]["progress"]),
    });
    context.output.print(&Images { images: images.collect() })?;
    Ok(())
}

#[derive(Serialize)]
#[serde(transparent)]
struct Images {
    images: Vec<Progress>,
}

impl fmt::Display for Images {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.images.is_empty() {
            return write!(formatter, "there are no images; see `setpoint vm image add --help`");
        }
        let widest = self.images.iter().map(|one| one.name.len()).max().unwrap_or(0).max(4);
        write!(formatter, "{:widest$}  PHASE             PROGRESS", "NAME")?;
        for Progress { name, phase, progress } in &self.images {
            write!(formatter, "\n{name:widest$}  {phase:<16}  {progress}")?;
        }
        Ok(())
    }
}

/// For people only the end is a result; for programs every line is one.
fn say(context: &Context, progress: &Progress) -> Result<()> {
    match context.output.is_for_people() && progress.phase != "Succeeded" {
        true => output::remark(progress),
        false => context.output.print(progress)?,
    }
    Ok(())
}

/// Says how far a volume is until it is in a phase.
async fn follow(cluster: &Cluster, name: &str, until: &str, context: &Context) -> Result<()> {
    let mut last = None;
    loop {
        let found = cluster.requests.get(DATA_VOLUME, &cluster.name(name)).await?;
        let found = found.with_context(|| format!("DataVolume {name} is gone"))?;
        let status = &found.value["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (phase, progress) = (text(&status["phase"]), text(&status["progress"]));
        let now = Progress { name: name.to_owned(), phase: phase.clone(), progress };
        // One that was only just asked for says nothing yet.
        if !phase.is_empty() && last.as_ref() != Some(&now) {
            say(context, &now)?;
            last = Some(now);
        }
        match phase.as_str() {
            phase if phase == until => return Ok(()),
            "Failed" => {
                let why = conditions::find(status, "Running").map(|one| text(&one["message"]));
                bail!(
                    "the image was not brought in: {}; `setpoint delete dv {name}` takes it away",
                    why.unwrap_or_default()
                );
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}
