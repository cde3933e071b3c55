//! What a namespace uses of a quota, by looking at everything there.

use std::collections::BTreeSet;

use amounts::pod::Amounts;
use amounts::quota::{self, Counted};
use serde_json::Value;

use super::super::lookup;
use crate::server::Server;
use crate::status::Error;

/// The `used` of a quota.
pub async fn count(server: &Server, namespace: &str, quota: &Value) -> Result<Value, Error> {
    let counted: BTreeSet<Counted<'_>> = quota::counted(quota).collect();
    let mut total = Amounts::new();
    for counted in counted {
        for entry in lookup::entries(server, counted.group, counted.resource, namespace).await? {
            quota::add(&mut total, quota, counted, &lookup::read(&entry));
        }
    }
    Ok(quota::used(quota, &total))
}
