//! `/etc/hosts` of pods on a node without a pod network: resolves Services and pods without DNS.
//!
//! Resolvers ask port 53 only, which an unprivileged process cannot bind. The files are bind mounts
//! of running containers, so they are rewritten in place: a renamed file would not be seen.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::dns::Zone;

const BEGIN: &str = "# Begin of cluster names (managed by setpoint).\n";
const END: &str = "# End of cluster names.\n";
/// Lines of one file. The pod's own namespace comes first.
const LINES_MAX: usize = 10_000;
/// Some resolvers read no longer lines.
const LINE_BYTES_MAX: usize = 500;

/// A name below `svc.DOMAIN` and one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    namespace: String,
    /// Without the namespace: `web`, or `web-0.web` for a pod of a headless Service.
    name: String,
    address: IpAddr,
}

/// Names of all Services, and of the pods of headless ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ClusterNames {
    domain: String,
    entries: Vec<Entry>,
}

impl ClusterNames {
    fn from_zone(domain: &str, zone: &Zone) -> ClusterNames {
        let suffix = format!(".svc.{domain}");
        let entry = |(full, address): (&str, IpAddr)| {
            let (name, namespace) = full.strip_suffix(&suffix)?.rsplit_once('.')?;
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            Some(Entry { namespace, name, address })
        };
        let mut entries: Vec<Entry> = zone.addresses_by_name().filter_map(entry).collect();
        entries.sort();
        ClusterNames { domain: domain.to_owned(), entries }
    }

    /// Returns the managed section of a file in `namespace`. Resolvers do not apply search domains
    /// to this file, so that every form of a name is listed.
    fn section(&self, namespace: &str) -> String {
        let (own, others): (Vec<&Entry>, Vec<&Entry>) =
            self.entries.iter().partition(|entry| entry.namespace == namespace);
        let mut text = BEGIN.to_owned();
        for entry in own.into_iter().chain(others).take(LINES_MAX) {
            self.write_entry(entry, namespace, &mut text);
        }
        text.push_str(END);
        text
    }

    fn write_entry(&self, entry: &Entry, namespace: &str, text: &mut String) {
        let Entry { namespace: of, name, address } = entry;
        let mut forms = vec![
            format!("{name}.{of}.svc.{}", self.domain),
            format!("{name}.{of}.svc"),
            format!("{name}.{of}"),
        ];
        if of == namespace {
            forms.push(name.clone());
        }
        let line = format!("{address}\t{}\n", forms.join("\t"));
        if line.len() <= LINE_BYTES_MAX {
            return text.push_str(&line);
        }
        forms.iter().for_each(|form| text.push_str(&format!("{address}\t{form}\n")));
    }
}

/// The hosts files of this node's pods.
#[derive(Debug, Default)]
pub struct HostsFiles {
    /// Namespace of the pod, by path.
    files: Mutex<BTreeMap<PathBuf, String>>,
    names: Mutex<Arc<ClusterNames>>,
}

impl HostsFiles {
    /// Adds the cluster's names to a file, and keeps them up to date until the file is deleted.
    pub fn add(&self, path: &Path, namespace: &str) -> io::Result<()> {
        // Registered first: names that change in between are written by one of the two.
        self.lock_files().insert(path.to_owned(), namespace.to_owned());
        let names = self.lock_names().clone();
        update(path, &names.section(namespace))
    }

    /// Replaces the names in all files.
    pub fn publish(&self, domain: &str, zone: &Zone) {
        let names = Arc::new(ClusterNames::from_zone(domain, zone));
        if **self.lock_names() == *names {
            return;
        }
        *self.lock_names() = names.clone();
        let files = self.lock_files().clone();
        let mut sections: BTreeMap<&str, String> = BTreeMap::new();
        for (path, namespace) in &files {
            let section = sections.entry(namespace).or_insert_with(|| names.section(namespace));
            match update(path, section) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.lock_files().remove(path);
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "hosts file not updated");
                }
                Ok(()) => {}
            }
        }
    }

    fn lock_files(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_names(&self) -> std::sync::MutexGuard<'_, Arc<ClusterNames>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn update(path: &Path, section: &str) -> io::Result<()> {
    let before = fs::read_to_string(path)?;
    let after = with_section(&before, section);
    if after == before {
        return Ok(());
    }
    // Never truncated first: a reader must not find the file empty.
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(after.as_bytes())?;
    file.set_len(u64::try_from(after.len()).unwrap_or(u64::MAX))
}

/// Replaces the managed section. Lines that programs of the pod wrote around it stay.
fn with_section(text: &str, section: &str) -> String {
    let Some((head, rest)) = text.split_once(BEGIN) else {
        let joint = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{joint}{section}");
    };
    let tail = rest.split_once(END).map_or("", |(_, tail)| tail);
    format!("{head}{section}{tail}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use reconcile::Object;
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, labels: Value, rest: Value) -> Arc<Object> {
        let metadata = json!({"namespace": "n", "name": name, "uid": name, "labels": labels});
        let mut value = rest;
        value["metadata"] = metadata;
        Arc::new(Object::new(value))
    }

    /// A Service with an address, and a headless one with a named pod.
    fn zone(addresses: &[&str]) -> Zone {
        let web = json!({"spec": {"clusterIP": "127.200.0.7", "clusterIPs": ["127.200.0.7"]}});
        let job = json!({"spec": {"clusterIP": "None"}});
        let endpoint = |(index, address): (usize, &&str)| {
            json!({"addresses": [address], "hostname": format!("job-{index}"),
                "conditions": {"ready": true}})
        };
        let endpoints: Vec<Value> = addresses.iter().enumerate().map(endpoint).collect();
        let labels = json!({"kubernetes.io/service-name": "job"});
        let services = [object("web", json!({}), web), object("job", json!({}), job)];
        let slices = [object("job-1", labels, json!({"endpoints": endpoints}))];
        Zone::new("c.local", &services, &slices)
    }

    #[test]
    fn every_form_of_a_name_is_listed_and_short_names_in_the_own_namespace_only() {
        let names = ClusterNames::from_zone("c.local", &zone(&["127.64.0.2"]));
        let own = format!(
            "{BEGIN}127.64.0.2\tjob.n.svc.c.local\tjob.n.svc\tjob.n\tjob\n\
             127.64.0.2\tjob-0.job.n.svc.c.local\tjob-0.job.n.svc\tjob-0.job.n\tjob-0.job\n\
             127.200.0.7\tweb.n.svc.c.local\tweb.n.svc\tweb.n\tweb\n{END}"
        );
        assert_eq!(names.section("n"), own);
        let other = names.section("m");
        assert!(other.contains("127.200.0.7\tweb.n.svc.c.local\tweb.n.svc\tweb.n\n"), "{other}");
    }

    #[test]
    fn files_follow_the_cluster_in_place_and_keep_lines_of_others() {
        let name = format!("setpoint-hosts-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "127.0.0.1\tlocalhost\n").expect("a file");
        let number = || fs::metadata(&path).expect("it is there").ino();
        let (before, files) = (number(), HostsFiles::default());
        files.publish("c.local", &zone(&["127.64.0.2", "127.64.0.3"]));
        files.add(&path, "n").expect("it is written");
        let read = || fs::read_to_string(&path).expect("it is there");
        assert!(read().contains("127.64.0.3\tjob-1.job.n.svc.c.local"), "{}", read());
        let mut file = OpenOptions::new().append(true).open(&path).expect("a file");
        file.write_all(b"192.0.2.1\tmine\n").expect("it is written");
        files.publish("c.local", &zone(&["127.64.0.2"]));
        let text = read();
        assert!(!text.contains("job-1") && text.contains("job-0.job\n"), "{text}");
        assert!(text.starts_with("127.0.0.1\tlocalhost\n"), "{text}");
        assert!(text.ends_with("192.0.2.1\tmine\n"), "{text}");
        assert_eq!(number(), before, "containers see this file only");
        fs::remove_file(&path).expect("it is deleted");
        files.publish("c.local", &zone(&[]));
        assert!(files.lock_files().is_empty());
        assert!(!path.exists());
    }

    #[test]
    fn long_names_have_lines_of_their_own() {
        let long = ["a".repeat(63), "b".repeat(63)].join(".");
        let entry =
            Entry { namespace: "n".repeat(63), name: long, address: IpAddr::from([127, 0, 0, 9]) };
        let namespace = entry.namespace.clone();
        let names = ClusterNames { domain: "cluster.local".to_owned(), entries: vec![entry] };
        let section = names.section(&namespace);
        assert_eq!(section.lines().count(), 6, "{section}");
        assert!(section.lines().all(|line| line.len() <= LINE_BYTES_MAX), "{section}");
    }
}
