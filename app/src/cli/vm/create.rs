//! Creates machines and snapshots.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use machines::kinds::{DATA_VOLUME, WUKONG, WUKONG_SNAPSHOT};
use machines::wukong::CLAIM_SCHEME;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::done::{Done, State};
use crate::cli::Context;

#[derive(Args)]
pub struct Create {
    pub name: String,
    /// Image to boot from: an http or https URL, or the name of an imported image; on clusters with
    /// CDI also docker://.
    #[arg(long, value_name = "URL|NAME")]
    pub image: Option<String>,
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub cpu: u32,
    #[arg(long, default_value = "2Gi", value_name = "SIZE")]
    pub memory: String,
    /// Size of the root disk.
    #[arg(long, default_value = "10Gi", value_name = "SIZE")]
    pub size: String,
    /// Storage class of the disks; by default that of the cluster.
    #[arg(long, value_name = "NAME")]
    pub storage_class: Option<String>,
    /// User that cloud-init creates.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    #[arg(long, requires = "user", value_name = "TEXT")]
    pub password: Option<String>,
    /// Secret with public SSH keys of that user.
    #[arg(long, value_name = "NAME")]
    pub ssh_key_secret: Option<String>,
    /// Create without starting.
    #[arg(long, conflicts_with = "wait")]
    pub stopped: bool,
    #[command(flatten)]
    waiting: super::Waiting,
}

pub async fn create(cluster: &Cluster, create: &Create, context: &Context) -> Result<ExitCode> {
    let image = match &create.image {
        Some(image) => Some(found(cluster, image).await?),
        None => None,
    };
    let made = cluster.requests.create(WUKONG, &wukong(cluster, create, image)).await;
    made.with_context(|| format!("could not create machine {}", create.name))?;
    let mut done = Done::new(&*create.name, "create", State::Done);
    if !create.waiting.wait && !create.stopped {
        done.note = format!("it is starting; see `setpoint vm show {}`", create.name);
    }
    context.output.print(&done)?;
    let delete = || async { Ok(context.output.print(&cluster.delete(&create.name).await?)?) };
    let cancel = ("deletes it, with its disks", delete);
    create.waiting.wait((cluster, context), (WUKONG, &create.name), cancel).await
}

/// An image as a Wukong says it: what was added goes by its name.
async fn found(cluster: &Cluster, image: &str) -> Result<String> {
    if image.contains("://") || image.contains('/') {
        return Ok(image.to_owned());
    }
    let asking = || format!("could not ask for image {image}");
    let volume = cluster.requests.get(DATA_VOLUME, &cluster.name(image)).await;
    match volume.with_context(asking)? {
        Some(_) => Ok(format!("{CLAIM_SCHEME}{image}")),
        None => bail!(
            "there is no image {image:?} in {}: add it with `setpoint vm image add {image} \
             FILE|URL`, or say docker://{image} for one of a registry where the cluster has CDI",
            cluster.namespace
        ),
    }
}

fn wukong(cluster: &Cluster, create: &Create, image: Option<String>) -> Value {
    let mut disk = json!({"name": "root", "size": create.size, "boot": true});
    if let Some(class) = &create.storage_class {
        disk["storageClassName"] = json!(class);
    }
    if let Some(image) = image {
        disk["image"] = json!(image);
    }
    let mut spec = json!({"cpu": create.cpu, "memory": create.memory, "disks": [disk],
        "startStrategy": {"autoStart": !create.stopped}});
    if let Some(user) = &create.user {
        spec["cloudInitUser"] = json!({"name": user});
        if let Some(password) = &create.password {
            spec["cloudInitUser"]["password"] = json!(password);
        }
    }
    if let Some(secret) = &create.ssh_key_secret {
        spec["sshKeySecret"] = json!(secret);
    }
    json!({"apiVersion": WUKONG.api_version(), "kind": WUKONG.kind,
        "metadata": {"namespace": cluster.namespace, "name": create.name}, "spec": spec})
}

/// A snapshot that is asked for.
pub struct Snapshot<'a> {
    pub of: &'a str,
    pub name: Option<&'a str>,
    pub memory: bool,
}

pub async fn snapshot(cluster: &Cluster, order: Snapshot<'_>, context: &Context) -> Result<()> {
    let Snapshot { of: name, name: snapshot, memory } = order;
    let found = cluster.requests.get(WUKONG, &cluster.name(name)).await;
    if found.with_context(|| format!("could not ask for machine {name}"))?.is_none() {
        bail!("there is no Wukong {name:?} in {}; see `setpoint vm ls`", cluster.namespace)
    }
    let mut metadata = json!({"namespace": cluster.namespace});
    match snapshot {
        Some(snapshot) => metadata["name"] = json!(snapshot),
        None => metadata["generateName"] = json!(format!("{name}-")),
    }
    let mut object = json!({"apiVersion": WUKONG_SNAPSHOT.api_version(),
        "kind": WUKONG_SNAPSHOT.kind, "metadata": metadata, "spec": {"wukongName": name}});
    if memory {
        object["spec"]["includeMemory"] = json!(true);
    }
    let made = cluster.requests.create(WUKONG_SNAPSHOT, &object).await;
    let made = made.with_context(|| format!("could not ask for a snapshot of {name}"))?;
    context.output.print(&Done::new(&*made.name.name, "snapshot", State::Requested))?;
    Ok(())
}
