//! Admission: what the server adds to objects and refuses, beyond the rules of their kinds.
//!
//! Every write passes here, whatever its verb: `mutate` before the rules of the kind, `validate`
//! after them, and the quotas last, in the commit itself. A plugin is one file and one line of
//! [`CHAIN`]; its rule is a pure function over objects that the plugin looked up. A refusal is the
//! text after `pods "x" is forbidden: `.
//!
//! Upstream: plugin/pkg/admission, pkg/kubeapiserver/options/plugins.go

pub mod certificates;
pub mod connection;
pub mod default_class;
pub mod default_toleration_seconds;
pub mod external_ips;
pub mod follow;
pub mod isolation;
pub mod limit_ranger;
pub(crate) mod lookup;
pub mod namespace_lifecycle;
pub mod pod_security;
pub mod policies;
pub mod priority;
pub mod resource_quota;
pub mod role_escalation;
pub mod runtime_class;
pub mod service_account;
pub mod storage_in_use_protection;
pub mod support_warnings;
pub mod taint_new_nodes;
pub mod volume_claim_resize;
pub mod webhooks;

use async_trait::async_trait;
use serde_json::Value;

use crate::endpoints::{Request, Warnings};
use crate::field_ownership;
use crate::identity::User;
use crate::object;
use crate::resources::Resource;
use crate::server::Server;
use crate::status::Error;

/// The plugins in upstream's order. All of them mutate, then all of them validate.
static CHAIN: [&dyn Plugin; 17] = [
    &namespace_lifecycle::NamespaceLifecycle,
    &limit_ranger::LimitRanger,
    &service_account::ServiceAccount,
    &taint_new_nodes::TaintNewNodes,
    &pod_security::PodSecurity,
    &isolation::Isolation,
    &priority::Priority,
    &default_toleration_seconds::DefaultTolerationSeconds,
    &default_class::DefaultClass,
    &storage_in_use_protection::StorageInUseProtection,
    &volume_claim_resize::VolumeClaimResize,
    &runtime_class::RuntimeClass,
    &certificates::Approval,
    &certificates::Signing,
    &role_escalation::RoleEscalation,
    &external_ips::DenyServiceExternalIps,
    &support_warnings::SupportWarnings,
];

/// Admission rules that the administrator of a cluster may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub external_ips: external_ips::ExternalIps,
    pub pod_security: pod_security::Defaults,
}

/// Why an object is refused.
pub type Refusal = String;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// All that is known of a write besides the object itself.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Empty where a new object's name is still to be generated.
    pub name: &'a str,
    pub user: &'a User,
    /// The object as it is stored, at the revision that the write replaces.
    pub old: Option<&'a Value>,
    pub dry_run: bool,
    pub warnings: &'a Warnings,
    /// What was asked for, for those who are shown its options.
    pub request: &'a Request,
}

impl<'a> Attributes<'a> {
    pub fn of(
        request: &'a Request,
        operation: Operation,
        old: Option<&'a Value>,
    ) -> Attributes<'a> {
        Attributes {
            operation,
            resource: &request.resource,
            subresource: &request.target.subresource,
            namespace: &request.target.namespace,
            name: &request.target.name,
            user: &request.user,
            old,
            dry_run: request.options.dry_run,
            warnings: &request.warnings,
            request,
        }
    }

    /// Whether the write is of the object itself, not of a subresource.
    pub fn is_of(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty()
            && self.resource.plural == plural
            && self.resource.group == group
    }

    pub fn creates(&self, group: &str, plural: &str) -> bool {
        self.operation == Operation::Create && self.is_of(group, plural)
    }

    pub fn updates(&self, group: &str, plural: &str) -> bool {
        self.operation == Operation::Update && self.is_of(group, plural)
    }

    fn refuse(&self, object: &Value, why: &str) -> Error {
        let name = if self.name.is_empty() { object::name(object) } else { self.name };
        Error::forbidden(self.resource.about(), name, why)
    }
}

/// One rule of admission.
///
/// Guarantees: `mutate` applied twice is `mutate` applied once. Assumptions: for a deletion the
/// object is null, and what is deleted is the old object of the attributes, once it is known.
/// Errors: as the client is to see them.
#[async_trait]
pub trait Plugin: Sync {
    /// Whether the write concerns this plugin at all; decided without looking anything up.
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// Changes an object that has its defaults, before the rules of its kind.
    async fn mutate(
        &self,
        _server: &Server,
        _attributes: &Attributes<'_>,
        _object: &mut Value,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Judges an object that passed the rules of its kind.
    async fn validate(
        &self,
        _server: &Server,
        _attributes: &Attributes<'_>,
        _object: &Value,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// Whether the object must get its defaults again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    No,
    /// By others than the plugins, who need not know what a complete object is.
    ByWebhooks,
}

/// Changes an object: the plugins, then whoever is registered, then both once more over what
/// those changed.
pub async fn mutate(
    server: &Server,
    attributes: &Attributes<'_>,
    object: &mut Value,
) -> Result<Changed, Error> {
    mutate_by_plugins(server, attributes, object).await?;
    let mut invoked = webhooks::Invoked::default();
    let owners = webhooks::are_registered(server).then(|| field_ownership::owners(object));
    let changed = webhooks::mutate(server, attributes, object, &mut invoked).await?;
    if changed == Changed::ByWebhooks {
        mutate_by_plugins(server, attributes, object).await?;
        webhooks::mutate(server, attributes, object, invoked.again_over(object)).await?;
        keep_owners(attributes, owners.flatten(), object);
    }
    Ok(changed)
}

/// What webhooks leave of the record of who owns what must be readable; otherwise it is as it was
/// before them.
fn keep_owners(attributes: &Attributes<'_>, owners: Option<Value>, object: &mut Value) {
    let Err(why) = field_ownership::check_owners(object) else { return };
    attributes.warnings.add(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by \
         an outdated mutating admission controller; please fix your requests: {why}"
    ));
    match owners {
        Some(owners) => object::set_meta(object, "managedFields", owners),
        None => drop(object::remove_meta(object, "managedFields")),
    }
}

async fn mutate_by_plugins(
    server: &Server,
    attributes: &Attributes<'_>,
    object: &mut Value,
) -> Result<(), Error> {
    for plugin in CHAIN.iter().filter(|plugin| plugin.handles(attributes)) {
        plugin.mutate(server, attributes, object).await?;
    }
    Ok(())
}

/// Judges an object: the plugins, the policies, then whoever is registered. Quotas come with the
/// commit.
pub async fn validate(
    server: &Server,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<(), Error> {
    for plugin in CHAIN.iter().filter(|plugin| plugin.handles(attributes)) {
        plugin.validate(server, attributes, object).await?;
    }
    policies::validate(server, attributes, object).await?;
    webhooks::validate(server, attributes, object).await
}
