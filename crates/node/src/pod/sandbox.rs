//! What a pod's containers share, as its object says: names, ports of the machine, resolving.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use reconcile::plan::Notice;
use reconcile::{Name, Object};
use serde_json::Value;

use super::confinement;
use super::prepare::directory;
use super::worker::{Shared, say};
use crate::agent::SERVICE;
use crate::network::{DOMAIN, Mode, Network, names};
use crate::runtime::{ContainerSpec, Dns, HostPort, Mount, Refusal, SandboxSpec};

/// The reason of the event when there is none.
pub const FAILED: &str = "FailedCreatePodSandBox";

/// Where the machine says whom it asks for names. The second has what is behind a server that only
/// the machine itself reaches.
const RESOLV_CONF: &str = "/etc/resolv.conf";
const RESOLV_CONF_BEHIND: &str = "/run/systemd/resolve/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// What the kernel takes.
const KERNEL_NAME_MAX: usize = 64;
/// The files that tell a pod its names.
const FILES: [&str; 3] = ["hosts", "hostname", "resolv.conf"];
/// Sources in which programs look up names, in order. Only pods that resolve by `/etc/hosts` get
/// another than the host's.
const NAME_SERVICES: &str = "nsswitch.conf";

/// Makes the pod's sandbox and the files that tell of it, or finds them again.
pub async fn make(shared: &Shared, pod: &Object) -> Result<(), Refusal> {
    let dns = resolving(shared, pod);
    let refused = |why: String| Refusal {
        reason: FAILED,
        message: format!("Failed to create pod sandbox: {why}"),
    };
    let hostname = names::kernel_name(pod, domain(shared));
    if hostname.len() > KERNEL_NAME_MAX {
        return Err(refused(format!(
            "Failed to construct FQDN from pod hostname and cluster domain, FQDN {hostname} is too \
             long ({KERNEL_NAME_MAX} characters is the max, {} characters requested)",
            hostname.len()
        )));
    }
    let mut wanted = spec(pod, hostname, dns.clone());
    if !shared.options.publish_container_ports {
        wanted.host_ports.retain(|port| port.host_port != 0);
    }
    let made = shared.runtime.sandbox(&wanted).await;
    let sandbox = made.map_err(|refusal| refused(refusal.message))?;
    let addresses: Vec<String> = match sandbox.addresses[..] {
        [] => vec![shared.options.address.to_string()],
        ref own => own.iter().map(ToString::to_string).collect(),
    };
    write_files(shared, pod, &addresses, &dns).map_err(|error| refused(error.to_string()))?;
    tell_of_ports(shared, pod, &wanted).await;
    Ok(())
}

/// Says which ports of the machine were given to those that could be any.
async fn tell_of_ports(shared: &Shared, pod: &Object, wanted: &SandboxSpec) {
    let Some(network) = &shared.options.network else { return };
    let given = network.network.ports_of(&pod.uid);
    for (wanted, given) in wanted.host_ports.iter().zip(given) {
        if wanted.host_port == 0 {
            let (inner, protocol) = (wanted.container_port, &wanted.protocol);
            let outer = given.host_port;
            let message = format!("Port {inner}/{protocol} is port {outer} of the machine");
            say(shared, pod, Notice::normal("Published", message)).await;
        }
    }
}

/// Of the names that DNS answers for.
pub fn domain(shared: &Shared) -> &str {
    shared.options.network.as_ref().map_or(DOMAIN, |it| &it.network.options.domain)
}

fn resolving(shared: &Shared, pod: &Object) -> Dns {
    let read = |path: &str| names::parse_resolv_conf(&fs::read_to_string(path).unwrap_or_default());
    let is_own = |text: &String| text.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let mut machine = read(RESOLV_CONF);
    if !is_host_network(pod) && machine.servers.iter().all(is_own) {
        let behind = read(RESOLV_CONF_BEHIND);
        if !behind.servers.is_empty() {
            machine = behind;
        }
    }
    let server = shared.options.network.as_ref().and_then(|it| it.server.clone());
    let cluster = names::Cluster { domain: domain(shared).to_owned(), server };
    names::dns(pod, &machine, &cluster)
}

fn write_files(shared: &Shared, pod: &Object, addresses: &[String], dns: &Dns) -> io::Result<()> {
    let hosts = match is_host_network(pod) {
        true => names::hosts_of_machine(pod, &fs::read_to_string(HOSTS).unwrap_or_default()),
        false => names::hosts(pod, addresses, domain(shared)),
    };
    let hostname = format!("{}\n", names::kernel_name(pod, domain(shared)));
    let directory = files(shared, &pod.uid);
    fs::create_dir_all(&directory)?;
    for (name, text) in FILES.iter().zip([hosts, hostname, names::resolv_conf(dns)]) {
        let path = directory.join(name);
        // Containers may have it open, and may have written to it.
        if !path.exists() {
            fs::write(path, text)?;
        }
    }
    match names_by_hosts(shared, pod) {
        Some(network) => write_names(network, pod, &directory),
        None => Ok(()),
    }
}

/// Returns the network if the pod resolves cluster names by `/etc/hosts`, because there is no DNS
/// server that it could ask.
fn names_by_hosts<'a>(shared: &'a Shared, pod: &Object) -> Option<&'a Network> {
    let connected = shared.options.network.as_ref()?;
    let has_server = connected.network.mode == Mode::Namespaces || connected.server.is_some();
    let follows = names::Policy::for_pod(pod) == names::Policy::ClusterFirst;
    (!has_server && follows).then_some(&connected.network)
}

fn write_names(network: &Network, pod: &Object, directory: &Path) -> io::Result<()> {
    let sources = fs::read_to_string(Path::new("/etc").join(NAME_SERVICES)).unwrap_or_default();
    if let Some(text) = names::files_first(&sources) {
        fs::write(directory.join(NAME_SERVICES), text)?;
    }
    network.hosts.add(&directory.join("hosts"), &pod.name.namespace)
}

fn files(shared: &Shared, uid: &str) -> PathBuf {
    directory(shared, uid).join("etc")
}

/// Lets a container see the files, where it does not have its own in their places.
pub fn add_files(shared: &Shared, pod: &Object, container: &mut ContainerSpec) {
    let mode = shared.options.network.as_ref().map(|it| it.network.mode);
    if let (Some(Mode::Loopback), Some(network)) = (mode, &shared.options.network)
        && let Ok(address) = network.dns.address()
    {
        container.env.push(("SETPOINT_DNS".to_owned(), address.to_string()));
    }
    for name in FILES.into_iter().chain([NAME_SERVICES]) {
        let (source, target) = (files(shared, &pod.uid).join(name), Path::new("/etc").join(name));
        let is_taken = container.mounts.iter().any(|mount| target.starts_with(&mount.target));
        // A pod with the machine's network has the machine's name.
        let is_foreign = name == "hostname" && is_host_network(pod);
        if !is_taken && !is_foreign && source.exists() {
            container.mounts.push(Mount { source, target, optional: true, ..Mount::default() });
        }
    }
}

/// Where the pod finds the API server.
pub fn api(shared: &Shared, pod: &Object) -> (String, u16) {
    let mode = shared.options.network.as_ref().map(|it| it.network.mode);
    let service = shared.context.cache(SERVICE).get(&Name::new("default", "kubernetes"));
    if let (Some(Mode::Namespaces), false, Some(service)) = (mode, is_host_network(pod), service) {
        let spec = &service.value["spec"];
        let port = spec["ports"][0]["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        if let (Some(address), Some(port)) = (spec["clusterIP"].as_str(), port) {
            return (address.to_owned(), port);
        }
    }
    let api = shared.options.api;
    match api.ip() {
        ip if ip.is_unspecified() => ("127.0.0.1".to_owned(), api.port()),
        ip => (ip.to_string(), api.port()),
    }
}

fn spec(pod: &Object, hostname: String, dns: Dns) -> SandboxSpec {
    SandboxSpec {
        pod: pod.uid.clone(),
        namespace: pod.name.namespace.to_string(),
        pod_name: pod.name.name.to_string(),
        hostname,
        host_network: is_host_network(pod),
        host_ports: if is_host_network(pod) { Vec::new() } else { host_ports(pod) },
        dns,
        sysctls: confinement::sysctls(&pod.value),
        processes: confinement::processes(&pod.value),
        host_ipc: pod.value["spec"]["hostIPC"] == true,
    }
}

/// The name by which the pod knows itself, without its domain.
pub fn hostname(pod: &Object) -> String {
    let own = pod.value["spec"]["hostname"].as_str().filter(|name| !name.is_empty());
    let name: String = own.unwrap_or(&pod.name.name).chars().take(63).collect();
    // What is cut may not end with what joins.
    name.trim_end_matches(['-', '.']).to_owned()
}

pub fn is_host_network(pod: &Object) -> bool {
    pod.value["spec"]["hostNetwork"] == true
}

/// Those that it only names have 0.
fn host_ports(pod: &Object) -> Vec<HostPort> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let spec = &pod.value["spec"];
    let containers = [list(&spec["initContainers"]), list(&spec["containers"])].concat();
    let ports = containers.iter().flat_map(|container| list(&container["ports"]));
    let number = |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
    let of_port = |port: Value| {
        Some(HostPort {
            host_address: port["hostIP"].as_str().and_then(|text| text.parse().ok()),
            host_port: number(&port["hostPort"]).unwrap_or(0),
            container_port: number(&port["containerPort"])?,
            protocol: port["protocol"].as_str().unwrap_or("TCP").to_owned(),
        })
    };
    ports.filter_map(of_port).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::confinement::Processes;

    #[test]
    fn a_pod_says_its_name_and_the_ports_it_wants_of_the_machine() {
        let long = "a".repeat(62) + "-b";
        let pod = Object::new(json!({"metadata": {"name": long, "namespace": "n", "uid": "u"},
        "spec": {"containers": [{"ports": [
            {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"},
            {"containerPort": 81}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
        ]}]}}));
        assert_eq!(hostname(&pod), "a".repeat(62));
        let spec = spec(&pod, hostname(&pod), Dns::default());
        assert_eq!((spec.processes, spec.host_ipc), (Processes::Own, false));
        assert!(!spec.host_network);
        let ports: Vec<_> =
            spec.host_ports.iter().map(|port| (port.host_port, &*port.protocol)).collect();
        assert_eq!(ports, [(8080, "TCP"), (0, "TCP"), (53, "UDP")]);
    }
}
