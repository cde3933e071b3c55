//! A CustomResourceDefinition as it is served: its versions compiled, and the resources they are.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use schema::jsonpath::JsonPath;
use serde_json::Value;

use super::lazy_schema::LazySchema;
use super::scale::Scale;
use super::{Life, Version, columns};
use crate::conversion::Conversion;
use crate::endpoints::discovery::fingerprint;
use crate::facts;
use crate::object;
use crate::resources::{Origin, Resource, Subresource};
use crate::server::Server;
use crate::webhooks::convert::ConversionWebhook;

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];
/// The type of the bodies of `scale`.
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// A definition, compiled. It is made anew when its specification changes.
pub struct Definition {
    pub name: String,
    pub group: String,
    pub uid: String,
    plural: String,
    namespaced: bool,
    /// The version that objects are stored in.
    stored: String,
    webhook: Option<Arc<ConversionWebhook>>,
    /// Those that are served.
    versions: Vec<Arc<Version>>,
    pub life: Arc<Life>,
}

impl Definition {
    /// Compiles a definition, all but its schemas. A version without one is left out: it was
    /// written before schemas were checked.
    pub fn read(definition: &Value) -> Definition {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stored = all.iter().find(|version| version["storage"] == true);
        let life = Arc::new(Life { schemas: schemas(all), ..Life::default() });
        let group = text(&spec["group"]);
        let kind = text(&spec["names"]["kind"]);
        let versions = all
            .iter()
            .filter(|version| version["served"] == true)
            .filter_map(|version| compile(version, (&group, &kind), life.clone()))
            .map(Arc::new)
            .collect();
        Definition {
            name: object::name(definition).to_owned(),
            uid: object::uid(definition).to_owned(),
            plural: text(&spec["names"]["plural"]),
            namespaced: spec["scope"] == "Namespaced",
            stored: format!("{group}/{}", stored.map(|it| text(&it["name"])).unwrap_or_default()),
            webhook: ConversionWebhook::of(definition).map(Arc::new),
            group,
            versions,
            life,
        }
    }

    /// Where the objects are in the store. Built-in prefixes have no dot.
    pub fn prefix(&self) -> String {
        format!("{}/{}/", self.group, self.plural)
    }

    /// The resources that are served under the names that were accepted.
    pub fn resources(&self, accepted: &Value, server: &Weak<Server>) -> Vec<Arc<Resource>> {
        let text = |name: &str| accepted[name].as_str().unwrap_or_default().to_owned();
        let each = |version: &Arc<Version>| {
            let stored = self.stored.clone();
            let conversion = match &self.webhook {
                None => Conversion::Renamed { stored },
                Some(config) => {
                    let (server, config) = (server.clone(), config.clone());
                    Conversion::Webhook { server, config, stored }
                }
            };
            Arc::new(Resource {
                group: self.group.clone(),
                version: version.name.clone(),
                kind: text("kind"),
                list_kind: text("listKind"),
                plural: text("plural"),
                singular: text("singular"),
                short_names: object::texts(&accepted["shortNames"]),
                categories: object::texts(&accepted["categories"]),
                namespaced: self.namespaced,
                verbs: VERBS,
                subresources: subresources(version),
                prefix: self.prefix(),
                conversion: Some(conversion),
                origin: Origin::Custom(version.clone()),
            })
        };
        self.versions.iter().map(each).collect()
    }
}

fn subresources(version: &Version) -> Vec<Subresource> {
    let mut all = Vec::new();
    if version.has_status {
        all.push(Subresource {
            name: "status",
            group: version.group.clone(),
            version: version.name.clone(),
            kind: version.kind.clone(),
            verbs: SUBRESOURCE_VERBS,
            type_id: None,
        });
    }
    if version.scale.is_some() {
        all.push(Subresource {
            name: "scale",
            group: "autoscaling".to_owned(),
            version: "v1".to_owned(),
            kind: "Scale".to_owned(),
            verbs: SUBRESOURCE_VERBS,
            type_id: facts::type_id_by_name(SCALE),
        });
    }
    all
}

/// The schemas by the names of their versions.
fn schemas(versions: &[Value]) -> BTreeMap<String, Arc<LazySchema>> {
    let read = |version: &Value| {
        let schema = LazySchema::of(version)?;
        Some((version["name"].as_str()?.to_owned(), Arc::new(schema)))
    };
    versions.iter().filter_map(read).collect()
}

fn compile(of: &Value, (group, kind): (&str, &str), life: Arc<Life>) -> Option<Version> {
    let text = |name: &str| of[name].as_str().unwrap_or_default();
    let list = |name: &str| of[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = text("name").to_owned();
    let schema = life.schemas.get(&name)?.clone();
    let selectable = list("selectableFields").iter().filter_map(|field| {
        let path = field["jsonPath"].as_str()?;
        Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()?))
    });
    let deprecation = (of["deprecated"] == true).then(|| match text("deprecationWarning") {
        "" => format!("{group}/{name} {kind} is deprecated"),
        said => said.to_owned(),
    });
    let subresources = &of["subresources"];
    let form = format!("{group}/{name}{}{}", schema.text(), of["selectableFields"]);
    Some(Version {
        group: group.to_owned(),
        kind: kind.to_owned(),
        schema,
        rules: OnceLock::new(),
        columns: columns::read(list("additionalPrinterColumns")),
        selectable: selectable.collect(),
        has_status: subresources["status"].is_object(),
        scale: Scale::read(&subresources["scale"]),
        deprecation,
        is_storage: of["storage"] == true,
        stamp: format!("{:016x}", fingerprint(form.as_bytes())),
        name,
        life,
    })
}
