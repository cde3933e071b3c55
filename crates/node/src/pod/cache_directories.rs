//! Cache directories of namespaces on this node: each is removed with its namespace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use reconcile::{Context, Kind};

use super::host_environment::CACHES;

const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");

/// Removes cache directories of deleted namespaces: those that are left from before, and from here
/// on with each namespace.
pub async fn follow(context: &Context, directory: &Path) {
    let caches = directory.join(CACHES);
    let namespaces = context.cache(NAMESPACE);
    let all = caches.clone();
    namespaces.subscribe(move |change| {
        if let (Some(namespace), None) = (&change.old, &change.new) {
            remove(all.join(&*namespace.name.name));
        }
    });
    namespaces.reaches(1).await;
    let known = namespaces.all().iter().map(|it| it.name.name.to_string()).collect();
    left_over(&caches, &known).into_iter().for_each(remove);
}

/// Returns the cache directories without a namespace.
fn left_over(caches: &Path, known: &BTreeSet<String>) -> Vec<PathBuf> {
    let entries = fs::read_dir(caches).into_iter().flatten().flatten();
    let is_left = |entry: &fs::DirEntry| !known.contains(&*entry.file_name().to_string_lossy());
    entries.filter(is_left).map(|entry| entry.path()).collect()
}

fn remove(directory: PathBuf) {
    if !directory.is_dir() {
        return;
    }
    // It may be large, and no pod waits for it.
    tokio::task::spawn_blocking(move || match fs::remove_dir_all(&directory) {
        Ok(()) => tracing::info!(directory = %directory.display(), "cache directory removed"),
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "cache directory not removed");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_without_a_namespace_are_left_over() {
        let caches = std::env::temp_dir().join(format!("setpoint-caches-{}", std::process::id()));
        for name in ["here", "gone"] {
            fs::create_dir_all(caches.join(name)).unwrap();
        }
        let known = BTreeSet::from(["here".to_owned()]);
        assert_eq!(left_over(&caches, &known), [caches.join("gone")]);
        assert_eq!(left_over(Path::new("/no/such"), &known), [] as [PathBuf; 0]);
        fs::remove_dir_all(caches).unwrap();
    }
}
