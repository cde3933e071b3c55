//! Paths of this host that pods must not see: whoever reads them controls the cluster or the host.

use std::path::PathBuf;

use crate::config::{self, Source};
use crate::directories;
use crate::runtimes::Runtime;
use crate::server::Plan;

/// Directory of volumes of claims, and the data directory of the service.
const STATE: &str = "/var/lib/setpoint";
/// Directories of container engines with sockets that are not named by `Runtime::sockets`.
const ENGINES: [&str; 5] =
    ["/run/docker", "/run/podman", "/run/containerd", "/run/crio", "/run/k3s"];

/// Directories of the server: its data with the files of all pods, keys, and volumes.
pub fn of_server(plan: &Plan) -> Vec<PathBuf> {
    vec![plan.data.clone(), plan.keys.clone(), PathBuf::from(STATE)]
}

/// Everything that is hidden from pods: directories of the server, kubeconfigs, configurations,
/// which hold passwords of databases, and sockets of container engines.
pub fn hidden(plan: &Plan) -> Vec<PathBuf> {
    let mut paths = of_server(plan);
    // Another cluster of the same user.
    paths.extend(directories::data(None).ok());
    paths.extend(plan.kubeconfig_out.clone());
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    paths.extend(std::env::split_paths(&named).filter(|path| path.is_absolute()));
    paths.extend(std::env::home_dir().map(|home| home.join(".kube")));
    paths.extend(match &plan.loaded.source {
        Source::File(path) => Some(path.clone()),
        Source::Example(_) | Source::Defaults { .. } => None,
    });
    paths.extend(config::usual_files());
    paths.extend(ENGINES.map(PathBuf::from));
    let engines = [Runtime::Docker, Runtime::Podman, Runtime::Containerd, Runtime::CriO];
    paths.extend(engines.into_iter().flat_map(Runtime::sockets));
    paths.extend(plan.components.node.as_ref().and_then(|wanted| wanted.socket.clone()));
    paths.iter().filter_map(|path| std::path::absolute(path).ok()).collect()
}
