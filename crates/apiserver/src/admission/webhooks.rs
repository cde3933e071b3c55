//! Where admission asks others: the place of policies and webhooks in the chain.
//!
//! Nothing can be registered so far, so nobody is asked. Whoever is asked here sees an object that
//! the plugins have completed, and may wait for the network.

use serde_json::Value;

use super::{Attributes, Changed};
use crate::server::Server;
use crate::status::Error;

/// Lets others change the object; says whether they did.
pub async fn mutate(
    _server: &Server,
    _attributes: &Attributes<'_>,
    _object: &mut Value,
) -> Result<Changed, Error> {
    Ok(Changed::No)
}

/// Lets others refuse the object as it is to be stored.
pub async fn validate(
    _server: &Server,
    _attributes: &Attributes<'_>,
    _object: &Value,
) -> Result<(), Error> {
    Ok(())
}
