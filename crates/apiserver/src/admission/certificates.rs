//! CertificateApproval and CertificateSigning: who approves or signs a request must be trusted by
//! its signer's name, besides being allowed to write the object.
//!
//! Upstream: plugin/pkg/admission/certificates/{approval,signing}, pkg/registry/certificates

use async_trait::async_trait;
use serde_json::Value;

use super::{Attributes, Operation, Plugin};
use crate::rbac;
use crate::registry::edit::text;
use crate::server::Server;
use crate::status::Error;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

pub struct Approval;
pub struct Signing;

fn is_update_of(attributes: &Attributes<'_>, subresource: &str) -> bool {
    attributes.operation == Operation::Update
        && attributes.subresource == subresource
        && attributes.resource.group == GROUP
        && attributes.resource.plural == REQUESTS
}

#[async_trait]
impl Plugin for Approval {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_update_of(attributes, "approval")
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        let signer = signer_of(attributes, object);
        if may(server, attributes, "approve", signer) {
            return Ok(());
        }
        let why = format!("user not permitted to approve requests with signerName {signer:?}");
        Err(attributes.refuse(object, &why))
    }
}

#[async_trait]
impl Plugin for Signing {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_update_of(attributes, "status")
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        let certificate = |it: &Value| text(it, &["status", "certificate"]).to_owned();
        let unchanged = attributes.old.is_some_and(|old| certificate(old) == certificate(object));
        let signer = signer_of(attributes, object);
        if unchanged || may(server, attributes, "sign", signer) {
            return Ok(());
        }
        let why = format!("user not permitted to sign requests with signerName {signer:?}");
        Err(attributes.refuse(object, &why))
    }
}

/// Of the stored object: the one that is written cannot change it.
fn signer_of<'a>(attributes: &Attributes<'a>, object: &'a Value) -> &'a str {
    text(attributes.old.unwrap_or(object), &["spec", "signerName"])
}

/// By the signer's whole name, or by its domain: `example.com/*`.
fn may(server: &Server, attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let allowed = |name: &str| {
        let asked = rbac::Attributes {
            verb,
            group: GROUP,
            resource: "signers",
            name,
            ..Default::default()
        };
        server.authorizer.authorize(attributes.user, &asked).is_allowed()
    };
    allowed(signer) || allowed(&format!("{domain}/*"))
}
