//! The programs that the servers are, where they are on this machine, and who provides them.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Each program that the tests run, and the Debian package that provides it.
pub const PACKAGES: &[(&str, &str)] = &[
    ("mariadbd", "mariadb-server"),
    ("mariadb-install-db", "mariadb-server"),
    ("etcd", "etcd-server"),
    ("etcdctl", "etcd-client"),
    ("nats-server", "nats-server"),
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("dockerd", "docker.io"),
    ("podman", "podman"),
    ("runc", "runc"),
    ("busybox", "busybox-static"),
    ("python3", "python3"),
    ("pip3", "python3-pip"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("chromium", "chromium"),
    ("mpirun", "openmpi-bin"),
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("slirp4netns", "slirp4netns"),
    ("grub-mkimage", "grub-common"),
    ("openssl", "openssl"),
    ("dpkg-deb", "dpkg"),
    ("apt-get", "apt"),
    ("xz", "xz-utils"),
];

/// Looked at after `PATH`: a user who is not root often lacks them there.
const SYSTEM_DIRECTORIES: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The packages of [`PACKAGES`] that have to be installed, each once, in the table's order.
pub fn missing_packages() -> Vec<&'static str> {
    let mut missing: Vec<&'static str> = Vec::new();
    for (program, package) in PACKAGES {
        if find(program).is_err() && !missing.contains(package) {
            missing.push(package);
        }
    }
    missing
}

/// The full path of a program of [`PACKAGES`].
pub fn find(program: &'static str) -> Result<PathBuf, Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from));
    for directory in directories {
        let candidate = directory.join(program);
        if is_executable(&candidate) {
            return Ok(candidate);
        }
    }
    Err(Error::ProgramMissing { program, package: package_of(program) })
}

fn package_of(program: &str) -> &'static str {
    let row = PACKAGES.iter().find(|(name, _)| *name == program);
    row.map(|(_, package)| *package).expect("every program we run must be in PACKAGES")
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
