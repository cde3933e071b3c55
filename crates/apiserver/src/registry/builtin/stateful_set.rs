//! StatefulSets.
//!
//! Upstream: pkg/registry/apps/statefulset/strategy.go, pkg/apis/apps/v1/defaults.go

use serde_json::{Value, json};

use super::{pod_spec, workload};
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, object, set_default, text};
use crate::registry::field::Field;
use crate::registry::strategy::{Properties, Strategy};

const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub struct StatefulSet;

impl Strategy for StatefulSet {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn default(&self, set: &mut Value) {
        let Some(spec) = object(set, "spec") else { return };
        set_default(spec, "podManagementPolicy", "OrderedReady");
        if let Some(strategy) = object(spec, "updateStrategy") {
            set_default(strategy, "type", "RollingUpdate");
            if text(strategy, &["type"]) == "RollingUpdate"
                && let Some(rolling) = object(strategy, "rollingUpdate")
            {
                set_default(rolling, "partition", 0);
                set_default(rolling, "maxUnavailable", 1);
            }
        }
        if let Some(policy) = object(spec, "persistentVolumeClaimRetentionPolicy") {
            set_default(policy, "whenDeleted", "Retain");
            set_default(policy, "whenScaled", "Retain");
        }
        set_default(spec, "replicas", 1);
        set_default(spec, "revisionHistoryLimit", 10);
        for claim in each_mut(spec, &["volumeClaimTemplates"]) {
            set_default(claim, "apiVersion", "v1");
            set_default(claim, "kind", "PersistentVolumeClaim");
            if let Some(spec) = object(claim, "spec") {
                set_default(spec, "volumeMode", "Filesystem");
            }
            if let Some(status) = object(claim, "status") {
                set_default(status, "phase", "Pending");
            }
        }
        if let Some(template) = object(spec, "template") {
            pod_spec::default_template(template);
        }
    }

    fn empty_status(&self) -> Value {
        json!({"replicas": 0, "availableReplicas": 0})
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(set);
        let spec = root.at("spec");
        let policy = spec.at("podManagementPolicy");
        match policy.as_text() {
            "" => errors.push(policy.required("")),
            "OrderedReady" | "Parallel" => {}
            _ => errors.push(policy.invalid("must be 'OrderedReady' or 'Parallel'")),
        }
        validate_strategy(&spec.at("updateStrategy"), &mut errors);
        let retention = spec.at("persistentVolumeClaimRetentionPolicy");
        for name in ["whenDeleted", "whenScaled"] {
            let field = retention.at(name);
            checks::absent_or_one_of(&field, &["Delete", "Retain"], &mut errors);
        }
        checks::non_negative(&spec.at("replicas"), &mut errors);
        checks::non_negative(&spec.at("minReadySeconds"), &mut errors);
        checks::non_negative(&spec.at("ordinals").at("start"), &mut errors);
        checks::non_negative(&spec.at("revisionHistoryLimit"), &mut errors);
        workload::validate_selector(&spec, "statefulset", &mut errors);
        validate_template_with_claims(&spec, &mut errors);
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value, subresource: &str) -> Errors {
        let root = Field::root(set);
        if subresource == "status" {
            return validate_status(&root.at("status"));
        }
        let mut errors = self.validate(set);
        let fixed = |set: &Value| {
            let mut spec = edit::at(set, &["spec"]).clone();
            for name in CHANGEABLE {
                edit::remove(&mut spec, name);
            }
            spec
        };
        if fixed(set) != fixed(old) {
            errors.push(root.at("spec").forbidden(
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                 'template', 'updateStrategy', 'revisionHistoryLimit', \
                 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ));
        }
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(set, old, &["spec", "template", "spec"])
    }
}

/// Containers mount claims by name: while checking, each claim template is a volume.
fn validate_template_with_claims(spec: &Field<'_>, errors: &mut Errors) {
    let claims = spec.list("volumeClaimTemplates");
    if claims.is_empty() {
        return workload::validate_template(spec, "StatefulSet", errors);
    }
    let mut whole = json!({"spec": spec.value});
    let names: Vec<&str> = claims.iter().map(|it| text(it, &["metadata", "name"])).collect();
    let template = edit::at_mut(&mut whole, &["spec", "template", "spec"]);
    if let Some(volumes) = template.and_then(|it| {
        set_default(it, "volumes", json!([]));
        it.get_mut("volumes")?.as_array_mut()
    }) {
        volumes.retain(|volume| !names.contains(&text(volume, &["name"])));
        for name in names.iter().filter(|name| !name.is_empty()) {
            let claim = json!({"claimName": name});
            volumes.push(json!({"name": name, "persistentVolumeClaim": claim}));
        }
    }
    workload::validate_template(&Field::root(&whole).at("spec"), "StatefulSet", errors);
}

fn validate_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "" => errors.push(strategy.required("")),
        "OnDelete" => {
            if rolling.is_set() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(rolling.invalid(detail));
            }
        }
        "RollingUpdate" => {
            checks::non_negative(&rolling.at("partition"), errors);
            let unavailable = rolling.at("maxUnavailable");
            if unavailable.is_set() {
                checks::count_or_percent(&unavailable, errors);
                if checks::is_zero(unavailable.value) {
                    errors.push(unavailable.invalid("cannot be 0"));
                }
                checks::not_more_than_whole(&unavailable, errors);
            }
        }
        _ => errors.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
}

fn validate_status(status: &Field<'_>) -> Errors {
    let mut errors = Errors::new();
    let names = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    workload::validate_counts(status, &names, &mut errors);
    errors
}
