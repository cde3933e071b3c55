//! What claims and volumes need to know of each other.

use std::sync::Arc;

use reconcile::{Context, Error, Name, Object};

use super::{claim_name, is_for, matching, text};
use crate::kinds::{NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS};

/// What the plan of a claim rests on.
#[derive(Default)]
pub struct ForClaim {
    /// All volumes, by name.
    pub volumes: Vec<Arc<Object>>,
    /// The class that the claim names, if it exists.
    pub class: Option<Arc<Object>>,
    /// The class of claims that name none.
    pub default_class: Option<Arc<Object>>,
    /// The node that was chosen for the claim, if it exists.
    pub node: Option<Arc<Object>>,
}

/// What the plan of a volume rests on.
#[derive(Default)]
pub struct ForVolume {
    /// The claim that the volume is for; not one that only has its name.
    pub claim: Option<Arc<Object>>,
}

const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

pub fn for_claim(context: &Context, claim: &Object) -> ForClaim {
    let classes = context.cache(STORAGE_CLASS);
    let node = claim.annotation(super::SELECTED_NODE).unwrap_or_default();
    let is_default =
        |class: &Arc<Object>| IS_DEFAULT.iter().any(|name| class.annotation(name) == Some("true"));
    ForClaim {
        volumes: context.cache(PERSISTENT_VOLUME).all(),
        class: classes.get(&Name::new("", matching::class(claim).unwrap_or_default())),
        // The newest counts.
        default_class: classes
            .all()
            .into_iter()
            .filter(is_default)
            .max_by_key(|class| (class.created(), std::cmp::Reverse(class.name.clone()))),
        node: context.cache(NODE).get(&Name::new("", node)),
    }
}

pub async fn for_volume(context: &Context, volume: &Object) -> Result<ForVolume, Error> {
    let Some(name) = claim_name(volume) else { return Ok(ForVolume::default()) };
    let is_it = |claim: &Arc<Object>| is_for(volume, claim);
    if let Some(claim) = context.cache(PERSISTENT_VOLUME_CLAIM).get(&name).filter(is_it) {
        return Ok(ForVolume { claim: Some(claim) });
    }
    if text(&volume.value["spec"]["claimRef"]["uid"]).is_empty() {
        return Ok(ForVolume::default());
    }
    // What follows may destroy data, so the cache is not enough.
    let claim = context.get_live(PERSISTENT_VOLUME_CLAIM, &name).await?.map(Arc::new);
    Ok(ForVolume { claim: claim.filter(is_it) })
}
