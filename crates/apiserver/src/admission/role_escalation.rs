//! Nobody grants what they do not hold, whichever way a role or binding is written.
//!
//! Upstream: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased

use async_trait::async_trait;
use serde_json::Value;

use super::{Attributes, Operation, Plugin};
use crate::rbac::escalation::{Write, check, grants_changed};
use crate::rbac::{GROUP, Kind};
use crate::server::Server;
use crate::status::Error;

pub struct RoleEscalation;

#[async_trait]
impl Plugin for RoleEscalation {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.resource.group == GROUP
            && matches!(attributes.operation, Operation::Create | Operation::Update)
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        let Some(kind) = Kind::of_resource(&attributes.resource.plural) else { return Ok(()) };
        if attributes.old.is_some_and(|old| !grants_changed(kind, old, object)) {
            return Ok(());
        }
        check(&server.authorizer, &Write { user: attributes.user, kind, object })
    }
}
