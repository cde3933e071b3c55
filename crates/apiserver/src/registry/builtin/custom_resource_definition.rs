//! CustomResourceDefinitions.
//!
//! What is said of a definition beside others, and what is served of it, is
//! [`crate::registry::custom`]'s.
//!
//! Upstream: apiextensions-apiserver/pkg/apis/apiextensions/{v1/defaults.go,validation}

use std::collections::BTreeSet;

use schema::check::{self, version};
use schema::{Cel, Path, Schema};
use serde_json::{Value, json};

use super::webhook_client;
use crate::field_error::FieldError;
use crate::object;
use crate::registry::checks::{self, Errors};
use crate::registry::custom::cleanup::FINALIZER;
use crate::registry::custom::conditions::{self, Approval};
use crate::registry::custom::strategy::embedded;
use crate::registry::edit::{self, set_default};
use crate::registry::field::Field;
use crate::registry::names::{self, Faults};
use crate::registry::strategy::{Context, Properties, Strategy};
use crate::webhooks::writer;

const WARNING_CHARACTERS_MAX: usize = 256;
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn properties(&self) -> Properties {
        Properties {
            allows_unconditional_update: false,
            allows_bare_finalizers: true,
            ..Properties::WITH_STATUS_AND_GENERATION
        }
    }

    fn default(&self, definition: &mut Value) {
        let Some(spec) = edit::at_mut(definition, &["spec"]) else { return };
        let kind = edit::text(spec, &["names", "kind"]).to_owned();
        if let Some(names) = edit::at_mut(spec, &["names"]).filter(|_| !kind.is_empty()) {
            for (name, usual) in
                [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))]
            {
                if edit::text(names, &[name]).is_empty() {
                    edit::set(names, name, usual);
                }
            }
        }
        set_default(spec, "conversion", json!({"strategy": "None"}));
        if let Some(service) =
            edit::at_mut(spec, &["conversion", "webhook", "clientConfig", "service"])
        {
            set_default(service, "port", 443);
        }
    }

    fn empty_status(&self) -> Value {
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}})
    }

    fn prepare_create(&self, definition: &mut Value, context: &Context<'_>) {
        add_stored_version(definition);
        writer::mark_created(definition, context.requester);
    }

    fn prepare_update(&self, definition: &mut Value, old: &Value, context: &Context<'_>) {
        if context.subresource.is_empty() {
            add_stored_version(definition);
        }
        writer::mark_updated(definition, old, &["spec", "conversion"], context.requester);
    }

    fn begin_deletion(&self, definition: &mut Value, now: &str) {
        let mut finalizers = object::finalizers(definition);
        if !finalizers.iter().any(|name| name == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            object::set_list(definition, "finalizers", finalizers);
        }
        let reason = "InstanceDeletionPending";
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will \
                       begin soon";
        conditions::set_terminating(definition, reason, message, now);
    }

    fn validate(&self, definition: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(definition);
        let spec = root.at("spec");
        let name = root.at("metadata");
        let names = spec.at("names");
        if name.text("name") != format!("{}.{}", names.text("plural"), spec.text("group")) {
            errors.push(name.at("name").invalid("must be spec.names.plural+\".\"+spec.group"));
        }
        validate_spec(&spec, &Old::default(), &mut errors);
        validate_approval(definition, &mut errors);
        errors
    }

    fn validate_update(&self, definition: &Value, old: &Value, subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(definition);
        if subresource.is_empty() {
            let spec = root.at("spec");
            validate_spec(&spec, &Old { spec: old.get("spec") }, &mut errors);
            validate_immutable(&spec, old, &mut errors);
            validate_bundle(definition, old, &mut errors);
            let annotation = |of: &Value| of["metadata"]["annotations"].clone();
            if annotation(definition) != annotation(old) || definition["spec"] != old["spec"] {
                validate_approval(definition, &mut errors);
            }
        }
        validate_stored_versions(&root, &mut errors);
        errors
    }
}

/// What was accepted before and need not be looked at again.
#[derive(Default)]
struct Old<'a> {
    spec: Option<&'a Value>,
}

impl Old<'_> {
    /// Whether a version is as it was, in the same place.
    fn has(&self, index: usize, version: &Value) -> bool {
        self.spec.is_some_and(|spec| spec["versions"].get(index) == Some(version))
    }
}

fn add_stored_version(definition: &mut Value) {
    let versions = edit::list(definition, &["spec", "versions"]);
    let stored = versions.iter().find(|version| version["storage"] == true);
    let Some(name) = stored.and_then(|version| version["name"].as_str()) else { return };
    let mut names = object::texts(edit::at(definition, &["status", "storedVersions"]));
    if names.iter().any(|known| known == name) {
        return;
    }
    names.push(name.to_owned());
    if let Some(status) = edit::object(definition, "status") {
        edit::set(status, "storedVersions", names);
    }
}

fn validate_spec(spec: &Field<'_>, old: &Old<'_>, errors: &mut Errors) {
    let group = spec.at("group");
    match group.as_text() {
        "" => errors.push(group.required("")),
        text => {
            let faults = names::subdomain(text);
            if faults.is_empty() && !text.contains('.') {
                errors.push(group.invalid("should be a domain with at least one dot"));
            }
            joined(&group, faults, "", errors);
        }
    }
    checks::one_of(&spec.at("scope"), &["Cluster", "Namespaced"], errors);
    if spec.flag("preserveUnknownFields") {
        errors.push(spec.at("preserveUnknownFields").invalid("must be false"));
    }
    let mut seen = BTreeSet::new();
    let mut is_unique = true;
    let mut stored = 0;
    for (index, version) in spec.items("versions").enumerate() {
        stored += usize::from(version.flag("storage"));
        is_unique &= seen.insert(version.text("name"));
        validate_version(&version, errors);
        if !old.has(index, version.value) {
            validate_schema(&version, errors);
        }
    }
    let versions = spec.at("versions");
    if !is_unique {
        errors.push(versions.invalid("must contain unique version names"));
    }
    if stored != 1 {
        errors.push(versions.invalid("must have exactly one version marked as storage version"));
    }
    validate_names(&spec.at("names"), errors);
    validate_conversion(&spec.at("conversion"), errors);
}

fn validate_version(version: &Field<'_>, errors: &mut Errors) {
    let name = version.at("name");
    joined(&name, names::dns1035_label(name.as_text()), "", errors);
    let warning = version.at("deprecationWarning");
    if !warning.is_set() {
        return;
    }
    let text = warning.as_text();
    if !version.flag("deprecated") {
        errors.push(warning.invalid("can only be set for deprecated versions"));
    }
    if text.chars().count() > WARNING_CHARACTERS_MAX {
        errors.push(warning.invalid("must be <= 256 characters long"));
    }
    if text.is_empty() {
        errors.push(warning.invalid("must not be empty if non-nil"));
    }
    if let Some(at) = text.find(|it: char| it.is_control()) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at \
             index {at}"
        );
        errors.push(warning.invalid(detail));
    }
}

/// The schema of a version, and what depends on it.
fn validate_schema(version: &Field<'_>, errors: &mut Errors) {
    let schema = version.at("schema");
    let whole = schema.at("openAPIV3Schema");
    let of_version = version.path();
    let of_version = Path::new(&of_version);
    if !whole.is_set() {
        errors.push(whole.required("schemas are required"));
        return;
    }
    let path = whole.path();
    let path = Path::new(&path);
    let subresources = version.raw("subresources");
    let parsed = match Schema::parse(whole.value, &path) {
        Ok(parsed) => parsed,
        Err(violation) => return errors.push(FieldError::from(*violation)),
    };
    let options = check::Options {
        path: &path,
        status_subresource: subresources["status"].is_object(),
        compiler: &Cel::default(),
        metadata: Some(&embedded),
    };
    let mut violations = check::check(&parsed, &options);
    violations.extend(version::subresources(subresources, &of_version.field("subresources")));
    let columns = version.list("additionalPrinterColumns");
    violations.extend(version::columns(columns, &of_version.field("additionalPrinterColumns")));
    let fields = version.list("selectableFields");
    let at = of_version.field("selectableFields");
    violations.extend(version::selectable_fields(fields, &parsed, &at));
    errors.extend(violations.into_iter().map(FieldError::from));
}

fn validate_names(names: &Field<'_>, errors: &mut Errors) {
    let mixed = "may have mixed case, but should otherwise match: ";
    joined(&names.at("plural"), names::dns1035_label(names.text("plural")), "", errors);
    if names.has("singular") {
        joined(&names.at("singular"), names::dns1035_label(names.text("singular")), "", errors);
    }
    for list in ["shortNames", "categories"] {
        for one in names.items(list) {
            joined(&one, names::dns1035_label(one.as_text()), "", errors);
        }
    }
    let kind = names.at("kind");
    match kind.as_text() {
        "" => errors.push(kind.required("")),
        text => joined(&kind, names::dns1035_label(&text.to_lowercase()), mixed, errors),
    }
    let list = names.at("listKind");
    if list.is_set() {
        joined(&list, names::dns1035_label(&list.as_text().to_lowercase()), mixed, errors);
    }
    if !kind.as_text().is_empty() && kind.as_text() == list.as_text() {
        errors.push(list.invalid("kind and listKind may not be the same"));
    }
}

fn validate_conversion(conversion: &Field<'_>, errors: &mut Errors) {
    checks::one_of(&conversion.at("strategy"), &["None", "Webhook"], errors);
    let webhook = conversion.at("webhook");
    let client = conversion.at("webhookClientConfig");
    if conversion.text("strategy") != "Webhook" {
        if webhook.is_set() {
            errors.push(client.forbidden("should not be set when strategy is not set to Webhook"));
        }
        return;
    }
    let config = webhook.raw("clientConfig");
    if !config.is_object() {
        errors.push(client.required("required when strategy is set to Webhook"));
    } else if config["url"].is_string() == config["service"].is_object() {
        errors.push(client.required("exactly one of url or service is required"));
    } else if config["service"].is_object() {
        for name in ["namespace", "name"] {
            if edit::text(&config["service"], &[name]).is_empty() {
                let path = format!("{}.service.{name}", client.path());
                errors.push(FieldError::required(path, format!("service {name} is required")));
            }
        }
    } else if !edit::text(config, &["url"]).starts_with("https://") {
        let url = edit::text(config, &["url"]);
        let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        errors.push(FieldError::invalid(format!("{}.url", client.path()), url, detail));
    }
    let versions = object::texts(webhook.raw("conversionReviewVersions"));
    let at = conversion.at("conversionReviewVersions");
    if versions.is_empty() {
        errors.push(at.required(""));
    } else if !versions.iter().any(|version| REVIEW_VERSIONS.contains(&version.as_str())) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(at.invalid_value(json!(versions), detail));
    }
}

/// What nobody can believe is accepted until the kind is served, or where it was there before.
fn validate_bundle(definition: &Value, old: &Value, errors: &mut Errors) {
    let bundle = |of: &Value| {
        let config = edit::at(of, &["spec", "conversion", "webhook", "clientConfig"]);
        edit::text(config, &["caBundle"]).to_owned()
    };
    let is_good = |text: &str| text.is_empty() || webhook_client::is_bundle(text);
    let found = bundle(definition);
    if !is_established(old) || is_good(&found) || !is_good(&bundle(old)) {
        return;
    }
    let path = "spec.conversion.webhookClientConfig.caBundle";
    errors.push(FieldError::invalid(path, found, webhook_client::NO_BUNDLE));
}

fn is_established(definition: &Value) -> bool {
    let conditions = edit::list(definition, &["status", "conditions"]);
    conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
}

fn validate_approval(definition: &Value, errors: &mut Errors) {
    let group = edit::text(definition, &["spec", "group"]);
    if !conditions::needs_approval(group) {
        return;
    }
    let path = "metadata.annotations[api-approved.kubernetes.io]";
    match conditions::approval(definition) {
        Approval::Given(_) | Approval::Bypassed(_) => {}
        Approval::Missing(why) => errors.push(FieldError::required(path, why)),
        Approval::Invalid(why) => {
            let annotations = edit::at(definition, &["metadata", "annotations"]);
            let text = annotations["api-approved.kubernetes.io"].clone();
            errors.push(FieldError::invalid(path, text, why));
        }
    }
}

/// What decides where objects are stored stays.
fn validate_immutable(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let before = &old["spec"];
    let names = spec.at("names");
    if is_established(old) {
        checks::immutable(&spec.at("scope"), &before["scope"], errors);
        checks::immutable(&names.at("kind"), &before["names"]["kind"], errors);
    }
    checks::immutable(&spec.at("group"), &before["group"], errors);
    checks::immutable(&names.at("plural"), &before["names"]["plural"], errors);
}

fn validate_stored_versions(definition: &Field<'_>, errors: &mut Errors) {
    let status = definition.at("status");
    let all = status.at("storedVersions");
    if status.count("storedVersions") == 0 {
        errors.push(all.invalid_value(json!([]), "must have at least one stored version"));
        return;
    }
    let spec = definition.at("spec");
    let versions: Vec<_> = spec.items("versions").collect();
    let stored = object::texts(all.value);
    for version in versions.iter().filter(|version| version.flag("storage")) {
        let name = version.text("name");
        if !stored.iter().any(|known| known == name) {
            errors.push(all.invalid(format!("must have the storage version {name}")));
        }
    }
    for one in status.items("storedVersions") {
        let name = one.as_text();
        if !versions.iter().any(|version| version.text("name") == name) {
            errors.push(one.invalid(format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            )));
        }
    }
}

/// All that is wrong with a name, as one error.
fn joined(field: &Field<'_>, faults: Faults, before: &str, errors: &mut Errors) {
    if !faults.is_empty() {
        errors.push(field.invalid(format!("{before}{}", faults.join(","))));
    }
}
