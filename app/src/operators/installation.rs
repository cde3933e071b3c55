//! An installation of operators on a cluster: where it lives, how it is reached, and what has to
//! be there for that. Families say what they need as if each were alone at home; here they move in
//! together.

use std::collections::BTreeSet;

use apiserver::identity::AlternativeName;
use reconcile::Kind;
use serde_json::{Value, json};

use super::choice::Choice;
use super::confined::confine;
use super::said::Lease;
use super::{Home, Nodes, Operator};
use crate::definitions;

/// Ports of the service; those of pods are the usual ones of operators.
const WEBHOOK_PORT: u16 = 443;
const REPORT_PORT: u16 = 10_443;
/// Ports of this process.
pub const SECURE_PORT: u16 = 9_443;
pub const METRICS_PORT: u16 = 8_443;
pub const HEALTH_PORT: u16 = 8_081;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Kinds in the order in which they are applied; others come last.
const ORDER: [&str; 10] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "Deployment",
];

/// How the server of the cluster, and its pods, reach this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It is behind the service of its home.
    Service,
    /// Somewhere else: `https://host:port`.
    Url(String),
    /// Not at all.
    Nowhere,
}

#[derive(Clone)]
pub struct Installation {
    pub choice: Choice,
    pub namespace: String,
    pub reached: Reached,
    /// The one namespace that is worked in, if it is one.
    pub only: Option<String>,
    /// The lease of one operator, where it is not the usual one.
    pub lease: Option<Lease>,
}

impl Installation {
    /// The names of the account, the service and the secret are those of the first family.
    pub fn home(&self) -> Home {
        self.choice.first().home()
    }

    /// The names that the certificate must be for.
    pub fn names(&self) -> Vec<AlternativeName> {
        let (service, namespace) = (self.home().service, &self.namespace);
        let dns = |name: String| AlternativeName::Dns(name);
        match &self.reached {
            Reached::Service => vec![
                dns(format!("{service}.{namespace}.svc")),
                dns(format!("{service}.{namespace}.svc.cluster.local")),
                dns(format!("{service}.{namespace}")),
            ],
            Reached::Url(url) => {
                let host = host(url);
                vec![host.parse().map_or_else(|_| dns(host.to_owned()), AlternativeName::Address)]
            }
            Reached::Nowhere => vec![dns("localhost".to_owned())],
        }
    }

    /// Where pods report to.
    pub fn entrance(&self) -> Option<String> {
        let (service, namespace) = (self.home().service, &self.namespace);
        match &self.reached {
            Reached::Service => Some(format!("https://{service}.{namespace}.svc:{REPORT_PORT}")),
            Reached::Url(url) => Some(url.clone()),
            Reached::Nowhere => None,
        }
    }

    /// Whether the `clientConfig` of a webhook leads here.
    pub fn is_reached_by(&self, client: &Value) -> bool {
        let service = &client["service"];
        match &self.reached {
            Reached::Service => {
                service["namespace"] == *self.namespace && service["name"] == self.home().service
            }
            Reached::Url(url) => client["url"].as_str().is_some_and(|it| it.starts_with(url)),
            Reached::Nowhere => false,
        }
    }

    /// The objects that say where a server asks, and so need our certificates.
    pub fn asking(&self) -> Vec<(Kind, String)> {
        let manifests = self.of_families();
        let asking = manifests.iter().filter(|one| clients(one).next().is_some());
        let named = |one: &Value| {
            let kind = definitions::kind_of(one)?;
            Some((kind, one["metadata"]["name"].as_str()?.to_owned()))
        };
        asking.filter_map(named).collect()
    }

    /// What has to be there, without the process itself and without objects of its own kinds.
    pub fn prerequisites(&self) -> Vec<Value> {
        let mut all = self.of_families();
        all.push(self.account());
        all.extend(self.roles());
        in_order(all)
    }

    /// All that is applied, with a process that runs this image where the cluster runs it.
    pub fn manifests(&self, image: &str) -> Vec<Value> {
        let mut all = self.prerequisites();
        if self.reached == Reached::Service {
            all.extend([self.service(), self.deployment(image)]);
            all.extend(self.metrics_service());
        }
        in_order(all)
    }

    /// Objects of its own kinds, which can be made only when the kinds are known.
    pub fn first_objects(&self, nodes: Nodes) -> Vec<Value> {
        let families = self.choice.families();
        families.flat_map(|(family, enabled)| family.first_objects(&enabled, nodes)).collect()
    }

    fn of_families(&self) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        for (family, enabled) in self.choice.families() {
            let moved = family.manifests(&enabled).into_iter().filter_map(|mut manifest| {
                self.move_in(&family.home(), &mut manifest).then_some(manifest)
            });
            let moved: Vec<Value> = moved.filter(|one| !all.contains(one)).collect();
            all.extend(moved);
            if let Some(only) = &self.only {
                let accounts = family.accounts(&enabled, only).into_iter();
                all.extend(accounts.filter_map(|mut manifest| {
                    self.move_in(&family.home(), &mut manifest).then_some(manifest)
                }));
            }
        }
        if let Some(only) = &self.only {
            all.retain_mut(|manifest| confine(manifest, only));
        }
        all
    }

    /// Changes what a family calls its home; false for what has no place here.
    fn move_in(&self, home: &Home, manifest: &mut Value) -> bool {
        if manifest["kind"] == "Namespace" && manifest["metadata"]["name"] == home.namespace {
            manifest["metadata"]["name"] = json!(self.namespace);
        }
        if manifest["metadata"]["namespace"] == home.namespace {
            manifest["metadata"]["namespace"] = json!(self.namespace);
        }
        let labels = manifest.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
        for label in labels.into_iter().flat_map(|labels| labels.values_mut()) {
            if *label == home.namespace {
                *label = json!(self.namespace);
            }
        }
        let subjects = manifest.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in subjects.into_iter().flatten() {
            if subject["kind"] == "ServiceAccount" && subject["name"] == home.account {
                subject["namespace"] = json!(self.namespace);
                subject["name"] = json!(self.home().account);
            }
        }
        say_scopes(manifest);
        if self.reached == Reached::Nowhere {
            return is_complete_without_us(manifest);
        }
        for client in clients_mut(manifest) {
            let path = client["service"]["path"].as_str().unwrap_or_default().to_owned();
            match &self.reached {
                Reached::Service | Reached::Nowhere => {
                    client["service"]["namespace"] = json!(self.namespace);
                    client["service"]["name"] = json!(self.home().service);
                }
                Reached::Url(url) => *client = json!({"url": format!("{url}{path}")}),
            }
        }
        true
    }

    fn account(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": self.namespace, "name": self.home().account}})
    }

    /// What the process itself may do, besides its operators: exactly what it does.
    fn roles(&self) -> Vec<Value> {
        let name = format!("{}-installation", self.home().account);
        let within = json!({"namespace": self.namespace, "name": name});
        let everywhere = json!({"name": name});
        let own = self.bound("Role", within, self.own_rules());
        let others = self.bound("ClusterRole", everywhere, self.cluster_rules());
        let mut all = [own, others].concat();
        for namespace in self.lease_namespaces().filter(|one| *one != self.namespace) {
            let there = json!({"namespace": namespace, "name": name});
            all.extend(self.bound("Role", there, self.lease_rules(namespace).into()));
        }
        all
    }

    /// Where leases are, each namespace once.
    fn lease_namespaces(&self) -> impl Iterator<Item = &str> {
        let all = self.choice.operators().map(|(_, one)| self.lease_of(one).1);
        all.collect::<BTreeSet<&str>>().into_iter()
    }

    fn lease_of(&self, operator: &Operator) -> (&'static str, &str) {
        Lease::of(self.lease.as_ref(), operator, &self.namespace)
    }

    /// What is done to the leases of a namespace.
    fn lease_rules(&self, namespace: &str) -> Vec<Value> {
        let all = self.choice.operators().map(|(_, one)| self.lease_of(one));
        let names: Vec<&str> =
            all.filter(|(_, of)| *of == namespace).map(|(name, _)| name).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let group = ["coordination.k8s.io"];
        vec![
            json!({"apiGroups": group, "resources": ["leases"], "verbs": ["create"]}),
            json!({"apiGroups": group, "resources": ["leases"], "resourceNames": names,
                "verbs": ["get", "update"]}),
        ]
    }

    /// A role, and the account that has it.
    fn bound(&self, kind: &str, metadata: Value, rules: Value) -> [Value; 2] {
        let version = format!("{RBAC}/v1");
        let role = json!({"apiVersion": version, "kind": kind, "metadata": metadata,
            "rules": rules});
        let binding = json!({
            "apiVersion": version,
            "kind": format!("{kind}Binding"),
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace,
                "name": self.home().account}],
        });
        [role, binding]
    }

    /// Leases and certificates.
    fn own_rules(&self) -> Value {
        let mut rules = self.lease_rules(&self.namespace);
        rules.push(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}));
        rules.push(json!({"apiGroups": [""], "resources": ["secrets"],
            "resourceNames": [self.home().secret], "verbs": ["get", "update"]}));
        rules.into()
    }

    /// Certificates are put into what asks us; first objects are made.
    fn cluster_rules(&self) -> Value {
        let mut rules: Vec<Value> = Vec::new();
        for (kind, name) in self.asking() {
            let resource = json!([kind.plural]);
            match rules.iter_mut().find(|rule| rule["resources"] == resource) {
                Some(rule) => {
                    let names = rule["resourceNames"].as_array_mut();
                    names.expect("a rule must name its objects").push(json!(name));
                }
                None => rules.push(json!({"apiGroups": [kind.group], "resources": resource,
                    "resourceNames": [name], "verbs": ["get", "update"]})),
            }
        }
        for object in self.first_objects(Nodes::Images) {
            let Some(kind) = definitions::kind_of(&object) else { continue };
            let rule = json!({"apiGroups": [kind.group], "resources": [kind.plural],
                "verbs": ["create"]});
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules.into()
    }

    fn labels(&self) -> Value {
        self.home().labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
    }

    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"namespace": self.namespace, "name": self.home().service,
                "labels": self.labels()},
            "spec": {"selector": self.labels(), "ports": [
                {"name": "monitoring-port", "port": METRICS_PORT, "targetPort": METRICS_PORT},
                {"name": "webhook-server", "port": WEBHOOK_PORT, "targetPort": SECURE_PORT},
                {"name": "status-server", "port": REPORT_PORT, "targetPort": SECURE_PORT},
            ]},
        })
    }

    /// What is counted is read by a service of its own, where users know one.
    fn metrics_service(&self) -> Option<Value> {
        let name = self.home().metrics_service?;
        Some(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"namespace": self.namespace, "name": name, "labels": self.labels()},
            "spec": {"selector": self.labels(), "ports": [
                {"name": "https", "port": METRICS_PORT, "targetPort": METRICS_PORT}]},
        }))
    }

    fn deployment(&self, image: &str) -> Value {
        let account = self.home().account;
        let enable = self.choice.names().join(",");
        let mut args = vec!["operator", "--enable", &enable, "--namespace", &self.namespace];
        if let Some(only) = &self.only {
            args.extend(["--watch-namespace", only]);
        }
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
        let container = json!({
            "name": "manager",
            "image": image,
            "args": args,
            "ports": [
                {"name": "health", "containerPort": HEALTH_PORT},
                {"name": "metrics", "containerPort": METRICS_PORT},
                {"name": "webhooks", "containerPort": SECURE_PORT},
            ],
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
                "runAsNonRoot": true,
                "runAsUser": 65_532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        });
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"namespace": self.namespace, "name": account, "labels": self.labels()},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": self.labels()},
                "template": {
                    "metadata": {"labels": self.labels()},
                    "spec": {"serviceAccountName": account, "containers": [container]},
                },
            },
        })
    }
}

/// Says what a server would fill in inside a list, so that applying again changes nothing.
fn say_scopes(manifest: &mut Value) {
    let webhooks = manifest.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        let rules = webhook.get_mut("rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
            rule.entry("scope").or_insert_with(|| json!("*"));
        }
    }
}

/// What asks nobody stays; a definition whose versions nobody converts has only the stored one.
fn is_complete_without_us(manifest: &mut Value) -> bool {
    if clients(manifest).next().is_none() {
        return true;
    }
    let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) else { return false };
    spec.remove("conversion");
    for version in spec["versions"].as_array_mut().into_iter().flatten() {
        version["served"] = version["storage"].clone();
    }
    true
}

/// Every place of a manifest that says where a server asks.
fn clients(manifest: &Value) -> impl Iterator<Item = &Value> {
    let webhooks = manifest["webhooks"].as_array().into_iter().flatten();
    let conversion = &manifest["spec"]["conversion"]["webhook"]["clientConfig"];
    let webhooks = webhooks.map(|webhook| &webhook["clientConfig"]);
    webhooks.chain(std::iter::once(conversion)).filter(|client| client.is_object())
}

/// The same, to be changed.
pub fn clients_mut(manifest: &mut Value) -> Vec<&mut Value> {
    if manifest["kind"] == "CustomResourceDefinition" {
        let conversion = manifest.pointer_mut("/spec/conversion/webhook/clientConfig");
        return conversion.into_iter().collect();
    }
    let webhooks = manifest.get_mut("webhooks").and_then(Value::as_array_mut);
    webhooks.into_iter().flatten().filter_map(|one| one.get_mut("clientConfig")).collect()
}

/// The host of a URL, without brackets and port.
fn host(url: &str) -> &str {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn in_order(mut all: Vec<Value>) -> Vec<Value> {
    let place = |one: &Value| ORDER.iter().position(|kind| one["kind"] == *kind);
    all.sort_by_key(|one| place(one).unwrap_or(ORDER.len()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(enable: &str, namespace: &str, reached: Reached) -> Installation {
        let choice = Choice::parse(enable).expect("they are known");
        Installation { choice, namespace: namespace.to_owned(), reached, only: None, lease: None }
    }

    #[test]
    fn everything_moves_to_the_namespace_that_is_asked_for() {
        let text = json!(installation("trainer,jobset", "ml", Reached::Service).manifests("i"));
        assert!(!text.to_string().contains("\"kubeflow-system\""), "{text}");
        let kinds: Vec<&str> =
            text.as_array().into_iter().flatten().filter_map(|one| one["kind"].as_str()).collect();
        assert_eq!(kinds.first(), Some(&"Namespace"));
        assert!(
            kinds.iter().rposition(|kind| *kind == "CustomResourceDefinition")
                < kinds.iter().position(|kind| *kind == "ServiceAccount")
        );
        assert!(kinds.contains(&"Deployment"));
    }

    #[test]
    fn a_process_elsewhere_is_asked_by_its_url_and_is_not_deployed() {
        let url = Reached::Url("https://192.0.2.1:9443".to_owned());
        let installation = installation("trainer", "ml", url);
        let all = installation.manifests("i");
        assert!(!all.iter().any(|one| one["kind"] == "Deployment" || one["kind"] == "Service"));
        let asked: Vec<&Value> = all.iter().flat_map(clients).collect();
        assert_eq!(asked.len(), 4);
        assert!(asked.iter().all(|client| installation.is_reached_by(client)), "{asked:?}");
        let expected = AlternativeName::Address([192, 0, 2, 1].into());
        assert_eq!(installation.names(), [expected]);
    }

    #[test]
    fn a_lease_that_is_said_may_be_held_where_it_is() {
        let mut installation = installation("dynamo,lws", "ml", Reached::Service);
        let namespace = Some("kube-system".to_owned());
        installation.lease = Some(Lease { operator: "dynamo", name: "mine", namespace });
        let all = installation.manifests("i");
        let leases = |namespace: &str| {
            let roles = all.iter().filter(|one| one["kind"] == "Role");
            let there = roles.filter(|one| one["metadata"]["namespace"] == namespace);
            let rules = there.flat_map(|one| one["rules"].as_array().into_iter().flatten());
            let named = rules.filter(|rule| rule["resources"][0] == "leases");
            named.filter_map(|rule| rule["resourceNames"][0].as_str()).collect::<Vec<_>>()
        };
        assert_eq!(leases("kube-system"), ["mine"]);
        assert_eq!(leases("ml"), ["b8b2488c.x-k8s.io"]);
    }

    #[test]
    fn job_sets_of_others_are_left_alone() {
        let all = json!(installation("trainer", "ml", Reached::Service).manifests("i"));
        let text = all.to_string();
        assert!(!text.contains("jobsets.jobset.x-k8s.io"), "{text}");
        assert!(!text.contains("jobset-mutating-webhook-configuration"), "{text}");
    }

    #[test]
    fn who_cannot_be_reached_is_not_asked() {
        let all = installation("all", "ml", Reached::Nowhere).prerequisites();
        assert_eq!(all.iter().flat_map(clients).count(), 0);
    }

    #[test]
    fn hosts_are_found_in_urls() {
        for (url, expected) in
            [("https://a.b:1/c", "a.b"), ("https://[fd00::2]:9443", "fd00::2"), ("https://a", "a")]
        {
            assert_eq!(host(url), expected);
        }
    }
}
