//! The built-in kinds that are special: one row each.
//!
//! Every file has the rules of one kind or of a small family: what its fields mean when left out,
//! what is refused, what may change.

use super::strategy::{Plain, Strategy};

pub mod pod;
pub mod pod_spec;

mod admission_policy;
mod controller_revision;
mod cron_job;
mod cron_schedule;
mod daemon_set;
mod deployment;
mod job;
mod pod_template;
mod replica_set;
mod replication_controller;
mod stateful_set;
mod workload;

mod config_map;
mod custom_resource_definition;
mod limit_range;
mod namespace;
mod node;
mod priority_class;
mod resource_quota;
mod secret;
mod service_account;

mod endpoint_slice;
mod endpoints;
mod ingress;
mod ip_address;
mod network_policy;
pub mod service;

mod csi;
mod persistent_volume;
mod persistent_volume_claim;
mod storage_class;

pub mod certificate_signing_request;
pub mod event;
pub mod horizontal_pod_autoscaler;

mod api_service;
mod device;
mod flow_control;
mod lease;
mod pod_disruption_budget;
mod rbac;
mod runtime_class;
pub(crate) mod webhook_client;
mod webhook_configuration;

mod difference;

#[cfg(test)]
mod tests;

use webhook_configuration::WebhookConfiguration;

type Row = (&'static str, &'static str, &'static dyn Strategy);

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";

/// By group and kind.
static TABLE: &[Row] = &[
    ("", "ConfigMap", &config_map::ConfigMap),
    ("", "Endpoints", &endpoints::Endpoints),
    ("", "Event", &event::Event),
    ("", "LimitRange", &limit_range::LimitRange),
    ("", "Namespace", &namespace::Namespace),
    ("", "Node", &node::Node),
    ("", "PersistentVolume", &persistent_volume::PersistentVolume),
    ("", "PersistentVolumeClaim", &persistent_volume_claim::PersistentVolumeClaim),
    ("", "Pod", &pod::Pod),
    ("", "PodTemplate", &pod_template::PodTemplate),
    ("", "ReplicationController", &replication_controller::ReplicationController),
    ("", "ResourceQuota", &resource_quota::ResourceQuota),
    ("", "Secret", &secret::Secret),
    ("", "Service", &service::Service),
    ("", "ServiceAccount", &service_account::ServiceAccount),
    (ADMISSION, "MutatingAdmissionPolicy", &admission_policy::AdmissionPolicy::Mutating),
    (ADMISSION, "MutatingAdmissionPolicyBinding", &admission_policy::AdmissionPolicyBinding),
    (ADMISSION, "MutatingWebhookConfiguration", &WebhookConfiguration::Mutating),
    (ADMISSION, "ValidatingAdmissionPolicy", &admission_policy::AdmissionPolicy::Validating),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", &admission_policy::AdmissionPolicyBinding),
    (ADMISSION, "ValidatingWebhookConfiguration", &WebhookConfiguration::Validating),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &custom_resource_definition::CustomResourceDefinition,
    ),
    ("apiregistration.k8s.io", "APIService", &api_service::ApiService),
    ("apps", "ControllerRevision", &controller_revision::ControllerRevision),
    ("apps", "DaemonSet", &daemon_set::DaemonSet),
    ("apps", "Deployment", &deployment::Deployment),
    ("apps", "ReplicaSet", &replica_set::ReplicaSet),
    ("apps", "StatefulSet", &stateful_set::StatefulSet),
    ("autoscaling", "HorizontalPodAutoscaler", &horizontal_pod_autoscaler::HorizontalPodAutoscaler),
    ("batch", "CronJob", &cron_job::CronJob),
    ("batch", "Job", &job::Job),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &certificate_signing_request::CertificateSigningRequest,
    ),
    ("coordination.k8s.io", "Lease", &lease::Lease),
    ("discovery.k8s.io", "EndpointSlice", &endpoint_slice::EndpointSlice),
    ("events.k8s.io", "Event", &event::NewEvent),
    (FLOW, "FlowSchema", &flow_control::FlowSchema),
    (FLOW, "PriorityLevelConfiguration", &flow_control::PriorityLevelConfiguration),
    ("networking.k8s.io", "IPAddress", &ip_address::IpAddress),
    ("networking.k8s.io", "Ingress", &ingress::Ingress),
    ("networking.k8s.io", "IngressClass", &ingress::IngressClass),
    ("networking.k8s.io", "NetworkPolicy", &network_policy::NetworkPolicy),
    ("networking.k8s.io", "ServiceCIDR", &ip_address::ServiceCidr),
    ("node.k8s.io", "RuntimeClass", &runtime_class::RuntimeClass),
    ("policy", "PodDisruptionBudget", &pod_disruption_budget::PodDisruptionBudget),
    (RBAC, "ClusterRole", &rbac::ClusterRole),
    (RBAC, "ClusterRoleBinding", &rbac::ClusterRoleBinding),
    (RBAC, "Role", &rbac::Role),
    (RBAC, "RoleBinding", &rbac::RoleBinding),
    ("resource.k8s.io", "DeviceClass", &device::DeviceClass),
    ("resource.k8s.io", "ResourceClaim", &device::ResourceClaim),
    ("resource.k8s.io", "ResourceClaimTemplate", &device::ResourceClaimTemplate),
    ("resource.k8s.io", "ResourceSlice", &device::ResourceSlice),
    ("scheduling.k8s.io", "PriorityClass", &priority_class::PriorityClass),
    (STORAGE, "CSIDriver", &csi::CsiDriver),
    (STORAGE, "CSINode", &csi::CsiNode),
    (STORAGE, "CSIStorageCapacity", &csi::CsiStorageCapacity),
    (STORAGE, "StorageClass", &storage_class::StorageClass),
    (STORAGE, "VolumeAttachment", &csi::VolumeAttachment),
    (STORAGE, "VolumeAttributesClass", &csi::VolumeAttributesClass),
];

/// The strategy of a kind; those without a row need nothing.
pub fn strategy(group: &str, kind: &str) -> &'static dyn Strategy {
    let row = TABLE.iter().find(|row| row.0 == group && row.1 == kind);
    row.map_or(&Plain, |row| row.2)
}
