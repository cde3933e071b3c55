//! The pods of a ReplicaSet.

use std::collections::BTreeSet;

use reconcile::{Context, Error, Object, Selector};

use crate::claims::{self, Claimed};
use crate::kinds::{POD, REPLICA_SET};
use crate::pods;

#[derive(Default)]
pub struct Observed {
    pub pods: Claimed,
    /// Names that its pods cannot get.
    pub foreign_names: BTreeSet<String>,
}

pub async fn observe(context: &Context, object: &Object) -> Result<Observed, Error> {
    let selector = Selector::read(&object.value["spec"]["selector"])?;
    let owner = (REPLICA_SET, object);
    Ok(Observed {
        pods: claims::claimed(context, owner, POD, &selector, pods::is_active).await?,
        foreign_names: claims::foreign_names(context, object, POD),
    })
}
