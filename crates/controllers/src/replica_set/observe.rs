//! The pods of a ReplicaSet.

use reconcile::{Context, Error, Object, Selector};

use crate::claims::{self, Claimed};
use crate::kinds::{POD, REPLICA_SET};
use crate::pods;

pub type Observed = Claimed;

pub async fn observe(context: &Context, object: &Object) -> Result<Observed, Error> {
    let selector = Selector::read(&object.value["spec"]["selector"])?;
    claims::claimed(context, (REPLICA_SET, object), POD, &selector, pods::is_active).await
}
