//! The names that a pod knows: its own, and how it finds others. The contents of `/etc/hosts`,
//! `/etc/hostname` and `/etc/resolv.conf`. Pure.
//!
//! Upstream: pkg/kubelet/kubelet_pods.go (managedHostsFileContent), pkg/kubelet/network/dns/dns.go

use reconcile::Object;
use serde_json::Value;

use crate::pod::sandbox::{hostname, is_host_network};
use crate::runtime::Dns;

const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2_048;
/// Programs of a pod try the domains of the cluster before they believe a name to be whole.
const DOTS: &str = "ndots:5";

/// What the cluster offers for resolving.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub domain: String,
    /// The address of its DNS, if it has one.
    pub server: Option<String>,
}

/// The pod's name with its domain, if it has one.
pub fn qualified(pod: &Object, domain: &str) -> Option<String> {
    let subdomain = pod.value["spec"]["subdomain"].as_str().filter(|name| !name.is_empty())?;
    let namespace = &pod.name.namespace;
    Some(format!("{}.{subdomain}.{namespace}.svc.{domain}", hostname(pod)))
}

/// What the kernel of the pod says.
pub fn kernel_name(pod: &Object, domain: &str) -> String {
    let is_whole = pod.value["spec"]["setHostnameAsFQDN"] == true;
    let qualified = qualified(pod, domain).filter(|_| is_whole);
    qualified.unwrap_or_else(|| hostname(pod))
}

/// `/etc/hosts`.
pub fn hosts(pod: &Object, addresses: &[String], domain: &str) -> String {
    let mut text = "# Kubernetes-managed hosts file.\n\
        127.0.0.1\tlocalhost\n\
        ::1\tlocalhost ip6-localhost ip6-loopback\n\
        fe00::0\tip6-localnet\n\
        fe00::0\tip6-mcastprefix\n\
        fe00::1\tip6-allnodes\n\
        fe00::2\tip6-allrouters\n"
        .to_owned();
    let own = hostname(pod);
    for address in addresses {
        match qualified(pod, domain) {
            Some(qualified) => text.push_str(&format!("{address}\t{qualified}\t{own}\n")),
            None => text.push_str(&format!("{address}\t{own}\n")),
        }
    }
    text + &aliases(pod)
}

/// `/etc/hosts` of a pod that shares the network of the machine.
pub fn hosts_of_machine(pod: &Object, machine: &str) -> String {
    format!("# Kubernetes-managed hosts file (host network).\n{machine}{}", aliases(pod))
}

fn aliases(pod: &Object) -> String {
    let mut text = String::new();
    for alias in list(&pod.value["spec"]["hostAliases"]) {
        if text.is_empty() {
            text.push_str("\n# Entries added by HostAliases.\n");
        }
        let names: Vec<&str> = list(&alias["hostnames"]).filter_map(Value::as_str).collect();
        let address = alias["ip"].as_str().unwrap_or_default();
        text.push_str(&format!("{address}\t{}\n", names.join("\t")));
    }
    text
}

/// Effective DNS policy of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    None,
    Default,
    ClusterFirst,
}

impl Policy {
    pub fn for_pod(pod: &Object) -> Policy {
        match pod.value["spec"]["dnsPolicy"].as_str() {
            Some("None") => Policy::None,
            Some("Default") => Policy::Default,
            Some("ClusterFirstWithHostNet") => Policy::ClusterFirst,
            _ if is_host_network(pod) => Policy::Default,
            _ => Policy::ClusterFirst,
        }
    }
}

/// Returns `/etc/nsswitch.conf` with the hosts file asked first, or `None` if it is already.
pub fn files_first(text: &str) -> Option<String> {
    const FILES: &str = "files";
    let is_hosts = |line: &&str| line.trim_start().starts_with("hosts:");
    let line = text.lines().find(is_hosts)?;
    let sources: Vec<&str> = line.split_whitespace().skip(1).collect();
    if sources.first() == Some(&FILES) {
        return None;
    }
    let others = sources.into_iter().filter(|source| *source != FILES);
    let sources: Vec<&str> = [FILES].into_iter().chain(others).collect();
    Some(text.replacen(line, &format!("hosts: {}", sources.join(" ")), 1))
}

/// How the pod resolves names, given how the machine does.
pub fn dns(pod: &Object, machine: &Dns, cluster: &Cluster) -> Dns {
    let spec = &pod.value["spec"];
    let mut dns = match (Policy::for_pod(pod), &cluster.server) {
        (Policy::None, _) => Dns::default(),
        (Policy::ClusterFirst, Some(server)) => {
            let (namespace, domain) = (&pod.name.namespace, &cluster.domain);
            let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}")];
            let own = own.into_iter().chain([domain.clone()]);
            Dns {
                servers: vec![server.clone()],
                searches: own.chain(machine.searches.iter().cloned()).collect(),
                options: vec![DOTS.to_owned()],
            }
        }
        _ => machine.clone(),
    };
    let config = &spec["dnsConfig"];
    let texts = |field: &str| list(&config[field]).filter_map(Value::as_str).map(str::to_owned);
    dns.servers.extend(texts("nameservers"));
    dns.searches.extend(texts("searches"));
    for option in list(&config["options"]) {
        let name = option["name"].as_str().unwrap_or_default();
        let whole = match option["value"].as_str() {
            Some(value) => format!("{name}:{value}"),
            None => name.to_owned(),
        };
        let is_same = |one: &String| one.split(':').next() == Some(name);
        match dns.options.iter_mut().find(|one| is_same(one)) {
            Some(found) => *found = whole,
            None => dns.options.push(whole),
        }
    }
    bounded(dns)
}

fn bounded(mut dns: Dns) -> Dns {
    for all in [&mut dns.servers, &mut dns.searches] {
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|one| seen.insert(one.clone()));
    }
    dns.servers.truncate(SERVERS_MAX);
    dns.searches.truncate(SEARCHES_MAX);
    while dns.searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
        dns.searches.pop();
    }
    dns
}

/// `/etc/resolv.conf`.
pub fn resolv_conf(dns: &Dns) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
}

/// What an `/etc/resolv.conf` says.
pub fn parse_resolv_conf(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            // The last of several counts.
            Some("search") => {
                dns.searches = words.filter(|word| *word != ".").map(str::to_owned).collect();
            }
            Some("options") => dns.options = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    dns
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value) -> Object {
        Object::new(json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": spec}))
    }

    #[test]
    fn hosts_names_the_pod_and_its_aliases() {
        let spec = json!({"hostname": "db-0", "subdomain": "db",
            "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]});
        let text = hosts(&pod(spec.clone()), &["10.42.0.5".to_owned()], "cluster.local");
        let expected = "fe00::2\tip6-allrouters\n\
            10.42.0.5\tdb-0.db.n.svc.cluster.local\tdb-0\n\
            \n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n";
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"));
        assert!(text.ends_with(expected), "{text}");
        let plain = hosts(&pod(json!({})), &["10.42.0.5".to_owned()], "cluster.local");
        assert!(plain.ends_with("\n10.42.0.5\tp\n"), "{plain}");
        let shared = hosts_of_machine(&pod(spec.clone()), "127.0.0.1 localhost\n");
        let begin = "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n# Ent";
        assert!(shared.starts_with(begin), "{shared}");
        assert_eq!(kernel_name(&pod(spec.clone()), "d"), "db-0");
        let mut whole = spec;
        whole["setHostnameAsFQDN"] = json!(true);
        assert_eq!(kernel_name(&pod(whole), "d"), "db-0.db.n.svc.d");
    }

    #[test]
    fn the_hosts_file_is_asked_before_other_sources() {
        let fixed = files_first("passwd: files\nhosts:  resolve [!UNAVAIL=return] files dns\n");
        let expected = "passwd: files\nhosts: files resolve [!UNAVAIL=return] dns\n";
        assert_eq!(fixed.as_deref(), Some(expected));
        assert_eq!(files_first("hosts: files dns\n"), None);
        assert_eq!(files_first("passwd: files\n"), None);
    }

    #[test]
    fn resolving_follows_the_policy_and_the_pods_own_words() {
        let machine = parse_resolv_conf("nameserver 9.9.9.9\nsearch corp\noptions timeout:1\n");
        let cluster =
            Cluster { domain: "cluster.local".to_owned(), server: Some("10.96.0.10".to_owned()) };
        let inside = "search n.svc.cluster.local svc.cluster.local cluster.local corp\n\
            nameserver 10.96.0.10\noptions ndots:5\n";
        let outside = "search corp\nnameserver 9.9.9.9\noptions timeout:1\n";
        let config = json!({"nameservers": ["1.1.1.1"], "searches": ["x", "corp"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
        for (spec, expected) in [
            (json!({}), inside),
            (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), outside),
            (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), inside),
            (json!({"dnsPolicy": "Default"}), outside),
            (
                json!({"dnsPolicy": "None", "dnsConfig": config}),
                "search x corp\nnameserver 1.1.1.1\noptions ndots:2 edns0\n",
            ),
            (
                json!({"dnsConfig": config}),
                "search n.svc.cluster.local svc.cluster.local cluster.local corp x\n\
                 nameserver 10.96.0.10\nnameserver 1.1.1.1\noptions ndots:2 edns0\n",
            ),
        ] {
            let text = resolv_conf(&dns(&pod(spec.clone()), &machine, &cluster));
            assert_eq!(text, expected, "{spec}");
        }
        let none = Cluster::default();
        assert_eq!(resolv_conf(&dns(&pod(json!({})), &machine, &none)), outside);
    }
}
