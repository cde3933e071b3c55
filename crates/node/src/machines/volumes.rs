//! The files behind claims: each holds one disk, in a directory of this machine.

use std::path::{Path, PathBuf};

use amounts::Quantity;
use reconcile::{Context, Name, Object};
use serde_json::Value;

use super::failure::Failure;
use super::kinds::{CLAIM, VOLUME};
use crate::volumes::claim::check_claim;
use crate::volumes::local_path;

/// Of the file that is the disk.
pub const DISK: &str = "disk.img";
/// Of the file that holds what differs from another disk.
const LINK: &str = "disk.qcow2";
/// The claim, of the same namespace, that a claim holds the differences to.
pub const LINKED_TO: &str = "setpoint.dev/linked-to";

/// What is known of a claim.
pub struct Claimed {
    pub claim: Object,
    /// Where its file is.
    pub disk: PathBuf,
    /// The file that the disk holds the differences to, if it does.
    pub base: Option<PathBuf>,
    /// What the disk is to have.
    pub bytes: u64,
}

/// The claim of a name; an error says why it cannot be used on this node.
pub async fn find(context: &Context, name: &Name, node: &str) -> Result<Claimed, Failure> {
    let mut found = find_whole(context, name, node).await?;
    let Some(base) = found.claim.annotation(LINKED_TO) else { return Ok(found) };
    let base = Name::new(name.namespace.clone(), base);
    let base = find_whole(context, &base, node).await?;
    if base.claim.annotation(LINKED_TO).is_some() {
        let why = format!(
            "PVC {} is a linked clone itself: nothing can be linked to it",
            base.claim.name
        );
        return Err(why.into());
    }
    found.disk.set_file_name(LINK);
    found.base = Some(base.disk);
    Ok(found)
}

/// Whose claims hold the differences to a claim: nobody may write it as long as they are there.
pub async fn linked_to(context: &Context, claim: &Name) -> Result<Vec<String>, Failure> {
    let requests = context.requests(super::MANAGER, Default::default());
    // What is only remembered may not have heard of one that was just made.
    let all = requests.read(&CLAIM.collection(&claim.namespace)).await?;
    let all = list(&all["items"]).iter();
    let linked = all.filter(|one| one["metadata"]["annotations"][LINKED_TO] == *claim.name);
    Ok(linked.map(|one| text(&one["metadata"]["name"]).to_owned()).collect())
}

/// Refuses to write a claim that others hold the differences to.
pub async fn check_writable(context: &Context, claim: &Name) -> Result<(), Failure> {
    match linked_to(context, claim).await?.join(", ") {
        none if none.is_empty() => Ok(()),
        links => Err(format!(
            "PVC {claim} is the base of linked clones ({links}) and cannot be written: delete \
             them, or use a full clone of it"
        )
        .into()),
    }
}

/// The claim of a name, as if it held all of its disk.
async fn find_whole(context: &Context, name: &Name, node: &str) -> Result<Claimed, Failure> {
    let claim = context.get_live(CLAIM, name).await?;
    let claim = claim.ok_or_else(|| format!("PVC {name} is not found"))?;
    if claim.value["status"]["phase"] != "Bound" {
        return Err(format!("PVC {name} is not bound").into());
    }
    let of = Name::new("", text(&claim.value["spec"]["volumeName"]));
    let volume = context.get_live(VOLUME, &of).await?;
    let volume = volume.ok_or_else(|| format!("persistentvolume \"{of}\" not found"))?;
    check_claim(&volume, &claim)?;
    let directory = directory(&volume, node)?;
    let bytes = bytes(&volume.value["spec"]["capacity"]["storage"]);
    Ok(Claimed { claim, disk: directory.join(DISK), base: None, bytes })
}

/// The node that the volume of a claim is on, if it is on one alone.
pub async fn node_of(context: &Context, name: &Name) -> Result<Option<String>, Failure> {
    let Some(claim) = context.get_live(CLAIM, name).await? else { return Ok(None) };
    let of = Name::new("", text(&claim.value["spec"]["volumeName"]));
    let Some(volume) = context.get_live(VOLUME, &of).await? else { return Ok(None) };
    let terms = list(&volume.value["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]);
    let mut values = terms.iter().flat_map(requirements).flat_map(|one| list(&one["values"]));
    Ok(values.next().and_then(Value::as_str).map(str::to_owned))
}

/// The directory of a volume of this node, made if it is to be.
fn directory(volume: &Object, node: &str) -> Result<PathBuf, String> {
    let (name, spec) = (&volume.name, &volume.value["spec"]);
    if !is_on(spec, node) {
        return Err(format!("persistentvolume \"{name}\" is on another node"));
    }
    let path = spec["local"]["path"].as_str().or(spec["hostPath"]["path"].as_str());
    let path = Path::new(path.ok_or_else(|| {
        format!("persistentvolume \"{name}\" is neither a local nor a hostPath volume")
    })?);
    let is_made = spec["hostPath"]["type"] == "DirectoryOrCreate";
    if is_made && !path.exists() {
        let made = local_path::make(path);
        made.map_err(|error| format!("could not make {}: {error}", path.display()))?;
    }
    match path.is_dir() {
        true => Ok(path.to_owned()),
        false => Err(format!("path {:?} does not exist", path.display().to_string())),
    }
}

/// Whether a volume is said to be here, or everywhere.
fn is_on(spec: &Value, node: &str) -> bool {
    let terms = list(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"]);
    if terms.is_empty() {
        return true;
    }
    let mut all = terms.iter().flat_map(requirements);
    all.any(|one| list(&one["values"]).iter().any(|value| value == node))
}

fn requirements(term: &Value) -> impl Iterator<Item = &Value> {
    [&term["matchExpressions"], &term["matchFields"]].into_iter().flat_map(list)
}

/// A quantity of bytes; nothing if it is none.
pub fn bytes(quantity: &Value) -> u64 {
    let read = Quantity::read(quantity).and_then(|read| u64::try_from(read.value()).ok());
    read.unwrap_or(0)
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
