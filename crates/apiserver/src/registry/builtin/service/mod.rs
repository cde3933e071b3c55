//! Services. Giving out addresses and ports is not done here: the predicates say what is needed.
//!
//! Upstream: pkg/registry/core/service/strategy.go, pkg/apis/core/v1/defaults.go

use serde_json::{Value, json};

use crate::registry::checks::Errors;
use crate::registry::edit::{self, each_mut, object, set_default, text};
use crate::registry::field::Field;
use crate::registry::names::NameRule;
use crate::registry::strategy::{Context, Properties, Strategy};

mod addresses;
mod update;
mod validate;

pub use validate::validate_ordinary;

const AFFINITY_SECONDS: i64 = 10_800;
pub const NO_ADDRESS: &str = "None";

pub struct Service;

impl Strategy for Service {
    fn properties(&self) -> Properties {
        Properties {
            name_rule: NameRule::Dns1035,
            allows_create_on_update: true,
            returns_deleted_object: true,
            ..Properties::WITH_STATUS
        }
    }

    fn default(&self, service: &mut Value) {
        if let Some(spec) = object(service, "spec") {
            default_spec(spec);
        }
        if let Some(spec) = object(service, "spec") {
            addresses::mirror(spec);
        }
    }

    fn empty_status(&self) -> Value {
        json!({"loadBalancer": {}})
    }

    fn prepare_update(&self, service: &mut Value, old: &Value, context: &Context<'_>) {
        if context.subresource.is_empty() {
            update::prepare(service, old);
        }
    }

    fn validate(&self, service: &Value) -> Errors {
        let mut errors = Errors::new();
        validate::validate(&Field::root(service), &mut errors);
        errors
    }

    fn validate_update(&self, service: &Value, old: &Value, subresource: &str) -> Errors {
        if subresource == "status" {
            return Errors::new();
        }
        let mut errors = Errors::new();
        update::validate(&Field::root(service), old, &mut errors);
        errors.extend(self.validate(service));
        errors
    }
}

fn default_spec(spec: &mut Value) {
    set_default(spec, "sessionAffinity", "None");
    match text(spec, &["sessionAffinity"]) {
        "None" => {
            edit::remove(spec, "sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = object(spec, "sessionAffinityConfig");
            if let Some(client) = config.and_then(|config| object(config, "clientIP")) {
                set_default(client, "timeoutSeconds", AFFINITY_SECONDS);
            }
        }
        _ => {}
    }
    set_default(spec, "type", "ClusterIP");
    for port in each_mut(spec, &["ports"]) {
        set_default(port, "protocol", "TCP");
        if edit::int(port, &["targetPort"]) == Some(0) {
            edit::remove(port, "targetPort");
        }
        let number = edit::at(port, &["port"]).clone();
        set_default(port, "targetPort", number);
    }
    if is_externally_accessible(spec) {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    let kind = text(spec, &["type"]);
    let inside = ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind);
    let balanced = kind == "LoadBalancer";
    if inside {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn is_externally_accessible(spec: &Value) -> bool {
    match text(spec, &["type"]) {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !edit::list(spec, &["externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Faults of the addresses, the families and their policy alone.
pub fn validate_addresses(service: &Value) -> Errors {
    let mut errors = Errors::new();
    addresses::validate(&Field::root(service).at("spec"), &mut errors);
    errors
}

/// No address: its name resolves to those of its pods.
pub fn is_headless(service: &Value) -> bool {
    text(service, &["spec", "clusterIP"]) == NO_ADDRESS
        || edit::list(service, &["spec", "clusterIPs"]) == [json!(NO_ADDRESS)]
}

/// Whether the service has an address of the cluster, given or still to be given.
pub fn needs_cluster_ip(service: &Value) -> bool {
    text(service, &["spec", "type"]) != "ExternalName" && !is_headless(service)
}

/// Whether its ports have ports on every node, given or still to be given.
pub fn needs_node_ports(service: &Value) -> bool {
    match text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => {
            edit::at(service, &["spec", "allocateLoadBalancerNodePorts"]) != &Value::Bool(false)
        }
        _ => false,
    }
}

/// Whether balancers ask the nodes if they have a pod of it.
pub fn needs_health_check_port(service: &Value) -> bool {
    text(service, &["spec", "type"]) == "LoadBalancer"
        && text(service, &["spec", "externalTrafficPolicy"]) == "Local"
}
