//! Paths of the host that no container sees: keys, kubeconfigs, the data of the server and of other
//! pods, and the sockets of container engines, each of which gives its holder the whole host.
//!
//! A directory is covered by an empty one, which becomes read-only when the volumes that belong
//! into it are mounted. A file is covered by `/dev/null`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::mounts::{join, memory, mount};
use super::namespaces;
use crate::volumes::memory::is_mounted;

/// Paths that are hidden, without links, none within another.
#[derive(Debug, Default)]
pub struct Hidden {
    paths: Vec<PathBuf>,
}

impl Hidden {
    /// Resolves the paths that exist.
    pub fn resolve(paths: &[PathBuf]) -> Hidden {
        let mut found: Vec<PathBuf> =
            paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        found.retain(|path| path != Path::new("/"));
        found.sort();
        found.dedup_by(|later, earlier| later.starts_with(&*earlier));
        Hidden { paths: found }
    }

    /// Covers what of them is below a directory that was bound to a mount point.
    pub fn cover(&self, directory: &Path, point: &Path) -> io::Result<()> {
        for path in self.paths.iter().filter(|path| path.starts_with(directory)) {
            let place = join(point, path.strip_prefix(directory).unwrap_or(path));
            let Ok(found) = fs::symlink_metadata(&place) else { continue };
            let covered = match found.is_dir() {
                true => memory(&place),
                false => mount(Path::new("/dev/null"), &place, libc::MS_BIND),
            };
            covered.map_err(|error| {
                io::Error::other(format!("could not hide {}: {error}", path.display()))
            })?;
        }
        Ok(())
    }

    /// Returns whether a path is one of them or below one.
    pub fn contains(&self, path: &Path) -> bool {
        self.paths.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Makes the empty directories read-only, when volumes are mounted in them.
    pub fn close(&self, directory: &Path, point: &Path) -> io::Result<()> {
        let within = self.paths.iter().filter_map(|path| path.strip_prefix(directory).ok());
        // In an isolated root most of them do not exist, or hold but mount points.
        let is_covered = |place: &PathBuf| place.is_dir() && is_mounted(place);
        let mut places = within.map(|path| join(point, path)).filter(is_covered);
        places.try_for_each(|place| namespaces::read_only(&place, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::process::tests::directory;

    #[test]
    fn hidden_paths_are_resolved_and_none_is_within_another() {
        let directory = directory("hidden-paths");
        let inner = directory.0.join("data/pki");
        fs::create_dir_all(&inner).unwrap();
        std::os::unix::fs::symlink(&inner, directory.0.join("link")).unwrap();
        let data = directory.0.join("data");
        let paths = [inner.clone(), directory.0.join("link"), data.clone(), "/missing/x".into()];
        let hidden = Hidden::resolve(&paths);
        assert_eq!(hidden.paths, [fs::canonicalize(&data).unwrap()]);
        assert!(hidden.contains(&fs::canonicalize(&inner).unwrap()));
        assert!(!hidden.contains(&directory.0.join("data-of-others")));
        assert!(Hidden::resolve(&["/".into()]).paths.is_empty());
    }
}
