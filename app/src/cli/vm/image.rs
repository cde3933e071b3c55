//! Images that machines boot from: volumes that are filled once and can be copied.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use machines::kinds::DATA_VOLUME;
use reconcile::conditions;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::offer;

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
}

pub async fn perform(cluster: &Cluster, image: &Image) -> Result<()> {
    let Image::Add { name, from, size, checksum, storage_class } = image;
    let is_url = ["http://", "https://"].iter().any(|scheme| from.starts_with(scheme));
    let mut source = match is_url {
        true => json!({"url": from}),
        false => {
            let offer = offer::offer(Path::new(from))?;
            json!({"url": offer.url, "checksum": offer.checksum})
        }
    };
    if let Some(checksum) = checksum {
        source["checksum"] = json!(checksum);
    }
    let mut claim = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}}});
    if let Some(class) = storage_class {
        claim["storageClassName"] = json!(class);
    }
    let object = json!({"apiVersion": DATA_VOLUME.api_version(), "kind": DATA_VOLUME.kind,
        "metadata": {"namespace": cluster.namespace, "name": name, "annotations":
            {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}},
        "spec": {"source": {"http": source}, "pvc": claim}});
    let made = cluster.requests.create(DATA_VOLUME, &object).await;
    made.with_context(|| format!("could not make DataVolume {name}"))?;
    follow(cluster, name).await
}

async fn follow(cluster: &Cluster, name: &str) -> Result<()> {
    let mut last = String::new();
    loop {
        let found = cluster.requests.get(DATA_VOLUME, &cluster.name(name)).await?;
        let found = found.with_context(|| format!("DataVolume {name} is gone"))?;
        let status = &found.value["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (phase, progress) = (text(&status["phase"]), text(&status["progress"]));
        let line = format!("{phase} {progress}");
        if line != last {
            println!("{name}: {line}");
            std::io::stdout().flush()?;
            last = line;
        }
        match phase.as_str() {
            "Succeeded" => return Ok(()),
            "Failed" => {
                let why = conditions::find(status, "Running").map(|one| text(&one["message"]));
                bail!("the image was not brought in: {}", why.unwrap_or_default());
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}
