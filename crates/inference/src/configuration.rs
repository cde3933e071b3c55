//! The file that the operator is configured by, as upstream's installations have it: read,
//! completed, and refused with what is wrong.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/api/config/v1alpha1

use reconcile::Kind;
use serde::Deserialize;
use serde_json::Value;

use crate::checkpoint::storage::Storage;
use crate::kinds::{
    DESTINATION_RULE, LEADER_WORKER_SET, POD_CLIQUE_SET, POD_GROUP, QUEUE, RESOURCE_CLAIM_TEMPLATE,
};
use crate::settings::{Discovery, Gates, Infrastructure, Ingress, Mesh, Roles, Settings};

pub const API_VERSION: &str = "operator.config.dynamo.nvidia.com/v1alpha1";
pub const KIND: &str = "OperatorConfiguration";

const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
const FORMATS: [&str; 2] = ["json", "console"];
/// Certificates are made by others.
const MANUAL: &str = "manual";
/// What they are kept in.
const SECRET_NAME: &str = "webhook-server-cert";
/// Where they are mounted unless it is said.
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Configuration {
    api_version: String,
    kind: String,
    pub server: Server,
    pub leader_election: LeaderElection,
    pub namespace: Namespace,
    pub orchestrators: Orchestrators,
    dra: Switch,
    service_mesh: ServiceMesh,
    infrastructure: InfrastructureSaid,
    ingress: IngressSaid,
    rbac: RolesSaid,
    mpi: Mpi,
    /// What checkpoints are made of; read where they are made.
    pub checkpoint: Value,
    discovery: DiscoverySaid,
    pub gpu: Gpu,
    pub logging: Logging,
    security: Security,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Server {
    pub metrics: Listener,
    pub health_probe: Listener,
    pub webhook: Webhook,
}

/// Where something is answered; what is not said is chosen by the process.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Listener {
    pub bind_address: Option<String>,
    pub port: Option<u16>,
    secure: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Webhook {
    pub host: Option<String>,
    pub port: Option<u16>,
    cert_dir: Option<String>,
    cert_provision_mode: Option<String>,
    secret_name: Option<String>,
    service_name: Option<String>,
}

impl Webhook {
    /// The directory that others put certificates into; nothing if they are made here.
    pub fn mounted(&self) -> Option<&str> {
        let directory = self.cert_dir.as_deref().filter(|directory| !directory.is_empty());
        let is_manual = self.cert_provision_mode.as_deref() == Some(MANUAL);
        is_manual.then_some(directory.unwrap_or(CERTIFICATES))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LeaderElection {
    pub enabled: bool,
    pub id: String,
    pub namespace: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Namespace {
    /// The one namespace that this operator works in, if it is one.
    pub restricted: String,
    pub scope: Scope,
}

/// As Go writes durations.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Scope {
    pub lease_duration: String,
    pub lease_renew_interval: String,
}

impl Default for Scope {
    fn default() -> Scope {
        let (lease_duration, lease_renew_interval) = ("30s".to_owned(), "10s".to_owned());
        Scope { lease_duration, lease_renew_interval }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Orchestrators {
    pub grove: Grove,
    pub lws: Switch,
    pub kai_scheduler: Switch,
    pub volcano_scheduler: Switch,
}

/// Unset: by what the cluster knows.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    pub enabled: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Grove {
    pub enabled: Option<bool>,
    pub termination_delay: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ServiceMesh {
    enabled: Option<bool>,
    provider: String,
    istio: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct InfrastructureSaid {
    nats_address: String,
    etcd_address: String,
    #[serde(rename = "modelExpressURL")]
    model_express_url: String,
    prometheus_endpoint: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct IngressSaid {
    virtual_service_gateway: String,
    controller_class_name: String,
    #[serde(rename = "controllerTLSSecretName")]
    controller_tls_secret_name: String,
    host_suffix: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RolesSaid {
    planner_cluster_role_name: String,
    dgdr_profiling_cluster_role_name: String,
    epp_cluster_role_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Mpi {
    ssh_secret_name: String,
    ssh_secret_namespace: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DiscoverySaid {
    backend: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Gpu {
    pub discovery_enabled: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Logging {
    pub level: Option<String>,
    pub format: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Security {
    #[serde(rename = "enableHTTP2")]
    enable_http2: Option<bool>,
}

impl Configuration {
    /// Reads the text of a file; an error says what is wrong with it, all of it.
    pub fn read(text: &str) -> Result<Configuration, String> {
        let read: Configuration =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let wrong = read.wrong();
        match wrong.is_empty() {
            true => Ok(read),
            false => Err(wrong.join("; ")),
        }
    }

    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        must(self.api_version == API_VERSION, &format!("apiVersion must be {API_VERSION}"));
        must(self.kind == KIND, &format!("kind must be {KIND}"));
        let is_elected = !self.leader_election.enabled || !self.leader_election.id.is_empty();
        must(is_elected, "leaderElection.id is required when leaderElection.enabled is true");
        let rbac = &self.rbac;
        for (name, field) in [
            (&rbac.planner_cluster_role_name, "plannerClusterRoleName"),
            (&rbac.dgdr_profiling_cluster_role_name, "dgdrProfilingClusterRoleName"),
            (&rbac.epp_cluster_role_name, "eppClusterRoleName"),
        ] {
            // Who works in one namespace finds its roles there.
            let is_said = self.is_restricted() || !name.is_empty();
            must(is_said, &format!("rbac.{field} is required"));
        }
        must(!self.mpi.ssh_secret_name.is_empty(), "mpi.sshSecretName is required");
        must(!self.mpi.ssh_secret_namespace.is_empty(), "mpi.sshSecretNamespace is required");
        let backend = self.discovery.backend.as_str();
        let is_known = matches!(backend, "" | "kubernetes" | "etcd");
        must(is_known, "discovery.backend must be kubernetes or etcd");
        let is_one_of = |said: &Option<String>, all: &[&str]| {
            said.as_ref().is_none_or(|said| all.contains(&said.as_str()))
        };
        let level = is_one_of(&self.logging.level, &LEVELS);
        must(level, "logging.level must be one of debug, info, warn, error");
        let format = is_one_of(&self.logging.format, &FORMATS);
        must(format, "logging.format must be json or console");
        let mode = is_one_of(&self.server.webhook.cert_provision_mode, &["auto", MANUAL]);
        must(mode, "server.webhook.certProvisionMode must be auto or manual");
        if let Err(why) = self.storage() {
            must(false, &why);
        }
        let mesh = self.service_mesh.provider.as_str();
        must(matches!(mesh, "" | "istio"), "serviceMesh.provider must be istio or empty");
        wrong
    }

    /// What it says that nobody heeds, each with what is done instead.
    pub fn unheeded(&self) -> Vec<&'static str> {
        let webhook = &self.server.webhook;
        let is_other = |said: &Option<String>, usual: &str| {
            said.as_deref().is_some_and(|said| !said.is_empty() && said != usual)
        };
        let all = [
            (
                self.server.metrics.secure == Some(false),
                "server.metrics.secure: metrics are answered over TLS",
            ),
            (
                self.server.health_probe.secure.is_some(),
                "server.healthProbe.secure: health is answered without TLS",
            ),
            (
                is_other(&webhook.cert_dir, CERTIFICATES) && webhook.mounted().is_none(),
                "server.webhook.certDir: certificates are made and kept in a secret",
            ),
            (
                is_other(&webhook.secret_name, SECRET_NAME),
                "server.webhook.secretName: the secret is webhook-server-cert",
            ),
            (
                is_other(&webhook.service_name, crate::WEBHOOK_SERVICE),
                "server.webhook.serviceName: the service is dynamo-operator-webhook-service",
            ),
            (
                self.security.enable_http2 == Some(false),
                "security.enableHTTP2: HTTP/2 is answered besides",
            ),
        ];
        all.into_iter().filter(|(is_said, _)| *is_said).map(|(_, what)| what).collect()
    }

    /// Whether the operator works in one namespace alone.
    pub fn is_restricted(&self) -> bool {
        !self.namespace.restricted.is_empty()
    }

    /// What graphs are made by. What is not said is as it was.
    pub fn settings(&self, usual: Settings) -> Settings {
        let or = |said: &str, usual: String| {
            if said.is_empty() { usual } else { said.to_owned() }
        };
        let delay = self.orchestrators.grove.termination_delay.as_deref().unwrap_or_default();
        Settings {
            discovery: match self.discovery.backend.as_str() {
                "etcd" => Discovery::Etcd,
                _ => Discovery::Kubernetes,
            },
            infrastructure: Infrastructure {
                nats: self.infrastructure.nats_address.clone(),
                etcd: self.infrastructure.etcd_address.clone(),
                model_express: self.infrastructure.model_express_url.clone(),
                prometheus: self.infrastructure.prometheus_endpoint.clone(),
            },
            ingress: Ingress {
                gateway: self.ingress.virtual_service_gateway.clone(),
                class: self.ingress.controller_class_name.clone(),
                tls_secret: self.ingress.controller_tls_secret_name.clone(),
                host_suffix: self.ingress.host_suffix.clone(),
            },
            roles: Roles {
                planner: or(&self.rbac.planner_cluster_role_name, usual.roles.planner),
                picker: or(&self.rbac.epp_cluster_role_name, usual.roles.picker),
                profiler: or(&self.rbac.dgdr_profiling_cluster_role_name, usual.roles.profiler),
            },
            ssh_secret: or(&self.mpi.ssh_secret_name, usual.ssh_secret),
            ssh_secret_namespace: or(&self.mpi.ssh_secret_namespace, usual.ssh_secret_namespace),
            allowed: self.allowed(usual.allowed),
            demanded: self.demanded(),
            mesh: self.mesh(usual.mesh),
            termination_delay: or(delay, usual.termination_delay),
            seccomp_profile: self.seccomp_profile(usual.seccomp_profile),
            storage: self.storage().ok().flatten(),
            cleanup_image: or(
                self.checkpoint["cleanupImage"].as_str().unwrap_or_default(),
                usual.cleanup_image,
            ),
            discovers_gpus: self.gpu.discovery_enabled.unwrap_or(!self.is_restricted()),
            manages_roles: !self.is_restricted(),
            ..usual
        }
    }
}

impl Configuration {
    /// What is used where the cluster can do it.
    fn allowed(&self, usual: Gates) -> Gates {
        let Orchestrators { grove, lws, kai_scheduler, volcano_scheduler } = &self.orchestrators;
        let or = |said: Option<bool>, usual: bool| said.unwrap_or(usual);
        Gates {
            leader_worker_set: or(lws.enabled, usual.leader_worker_set),
            grove: or(grove.enabled, usual.grove),
            kai_scheduler: or(kai_scheduler.enabled, usual.kai_scheduler),
            volcano_scheduler: or(volcano_scheduler.enabled, usual.volcano_scheduler),
            resource_claims: or(self.dra.enabled, usual.resource_claims),
            istio: or(self.service_mesh.enabled, usual.istio),
            checkpoints: or(self.checkpoint["enabled"].as_bool(), usual.checkpoints),
            ..usual
        }
    }

    /// What the file says is to be used, whatever the cluster knows.
    fn demanded(&self) -> Vec<Kind> {
        let Orchestrators { grove, lws, kai_scheduler, volcano_scheduler } = &self.orchestrators;
        let all = [
            (lws.enabled, LEADER_WORKER_SET),
            (grove.enabled, POD_CLIQUE_SET),
            (kai_scheduler.enabled, QUEUE),
            (volcano_scheduler.enabled, POD_GROUP),
            (self.dra.enabled, RESOURCE_CLAIM_TEMPLATE),
            (self.service_mesh.enabled, DESTINATION_RULE),
        ];
        all.into_iter().filter(|(said, _)| *said == Some(true)).map(|(_, kind)| kind).collect()
    }

    fn mesh(&self, usual: Mesh) -> Mesh {
        let said = &self.service_mesh.istio;
        let or = |field: &str, usual: String| said[field].as_str().map_or(usual, str::to_owned);
        Mesh {
            tls_mode: or("tlsMode", usual.tls_mode),
            skips_verification: said["insecureSkipVerify"]
                .as_bool()
                .unwrap_or(usual.skips_verification),
            client_certificate: or("clientCertificate", usual.client_certificate),
            private_key: or("privateKey", usual.private_key),
            authority: or("caCertificates", usual.authority),
        }
    }

    /// Where checkpoints are kept; nobody has any where they are off.
    fn storage(&self) -> Result<Option<Storage>, String> {
        match self.checkpoint["enabled"] == true {
            true => Storage::read(&self.checkpoint["storage"]),
            false => Ok(None),
        }
    }

    fn seccomp_profile(&self, usual: String) -> String {
        let said = &self.checkpoint["seccomp"];
        match said["disabled"] == true {
            true => String::new(),
            false => said["profile"].as_str().map_or(usual, str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
apiVersion: operator.config.dynamo.nvidia.com/v1alpha1
kind: OperatorConfiguration
server:
  metrics: {bindAddress: 127.0.0.1, port: 8080, secure: true}
  healthProbe: {port: 8081}
  webhook: {port: 9443, certProvisionMode: auto, secretName: webhook-server-cert}
leaderElection: {enabled: true, id: dynamo.nvidia.com, namespace: kube-system}
namespace: {restricted: \"\", scope: {leaseDuration: 30s, leaseRenewInterval: 10s}}
orchestrators:
  grove: {enabled: false, terminationDelay: 15m}
  lws: {enabled: false}
infrastructure: {natsAddress: nats://n:4222, etcdAddress: e:2379, modelExpressURL: http://m}
ingress: {controllerClassName: nginx, hostSuffix: example.com}
rbac:
  plannerClusterRoleName: planner
  dgdrProfilingClusterRoleName: profiling
  eppClusterRoleName: epp
mpi: {sshSecretName: keys, sshSecretNamespace: home}
checkpoint: {enabled: false, storage: {type: pvc}}
discovery: {backend: etcd}
gpu: {discoveryEnabled: false}
logging: {level: debug, format: json}
security: {enableHTTP2: false}
";

    #[test]
    fn what_a_file_says_is_what_graphs_are_made_by() {
        let read = Configuration::read(WHOLE).expect("a good file");
        let settings = read.settings(Settings::default());
        assert_eq!(settings.discovery, Discovery::Etcd);
        assert_eq!(settings.infrastructure.nats, "nats://n:4222");
        assert_eq!(settings.infrastructure.model_express, "http://m");
        assert_eq!(
            (settings.roles.planner.as_str(), settings.roles.picker.as_str()),
            ("planner", "epp")
        );
        assert_eq!(settings.roles.profiler, "profiling");
        assert_eq!(settings.ingress.class, "nginx");
        assert_eq!(settings.ssh_secret_namespace, "home");
        assert!(!settings.allowed.leader_worker_set && !settings.discovers_gpus);
        assert!(!settings.allowed.grove && settings.allowed.resource_claims);
        assert_eq!(settings.demanded, []);
        assert_eq!(settings.termination_delay, "15m");
        assert!(settings.manages_roles && !read.is_restricted());
        assert_eq!(read.server.metrics.port, Some(8080));
    }

    #[test]
    fn what_a_file_says_for_nothing_is_named() {
        let unheeded = |text: &str| Configuration::read(text).expect("a good file").unheeded();
        let good = WHOLE.replace("enableHTTP2: false", "enableHTTP2: true");
        assert!(unheeded(&good).is_empty());
        let other = WHOLE
            .replace("secure: true", "secure: false")
            .replace("secretName: webhook-server-cert", "secretName: mine, certDir: /certs");
        let named = unheeded(&other);
        let fields: Vec<&str> = named.iter().filter_map(|one| one.split(':').next()).collect();
        let expected = [
            "server.metrics.secure",
            "server.webhook.certDir",
            "server.webhook.secretName",
            "security.enableHTTP2",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn what_a_file_switches_on_must_be_there() {
        let text = WHOLE.replace("checkpoint:", "dra: {enabled: true}\ncheckpoint:");
        let read = Configuration::read(&text).expect("a good file");
        assert_eq!(read.settings(Settings::default()).demanded, [RESOURCE_CLAIM_TEMPLATE]);
    }

    #[test]
    fn a_file_is_refused_with_all_that_is_wrong() {
        let error = Configuration::read("kind: X\nlogging: {level: loud}\n").expect_err("bad");
        for part in [
            "apiVersion must be operator.config.dynamo.nvidia.com/v1alpha1",
            "kind must be OperatorConfiguration",
            "rbac.plannerClusterRoleName is required",
            "mpi.sshSecretName is required",
            "logging.level must be one of",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
        let misspelt = WHOLE.replace("natsAddress", "natsAdress");
        let error = Configuration::read(&misspelt).expect_err("an unknown field");
        assert!(error.contains("natsAdress"), "{error}");
        let other = WHOLE.replace("certProvisionMode: auto", "certProvisionMode: magic");
        let error = Configuration::read(&other).expect_err("an unknown mode");
        assert!(error.contains("certProvisionMode must be auto or manual"), "{error}");
    }

    #[test]
    fn certificates_of_others_are_where_the_file_says_or_where_they_usually_are() {
        let mounted = |mode: &str| {
            let text = WHOLE.replace("certProvisionMode: auto", mode);
            let read = Configuration::read(&text).expect("a good file");
            read.server.webhook.mounted().map(str::to_owned)
        };
        assert_eq!(mounted("certProvisionMode: auto"), None);
        assert_eq!(mounted("certProvisionMode: manual").as_deref(), Some(CERTIFICATES));
        let there = mounted("certProvisionMode: manual, certDir: /certs");
        assert_eq!(there.as_deref(), Some("/certs"));
    }

    #[test]
    fn an_operator_of_one_namespace_makes_no_roles() {
        let text = WHOLE
            .replace("restricted: \"\"", "restricted: team")
            .replace("gpu: {discoveryEnabled: false}\n", "");
        let read = Configuration::read(&text).expect("a good file");
        let settings = read.settings(Settings::default());
        assert!(read.is_restricted() && !settings.manages_roles && !settings.discovers_gpus);
    }
}
