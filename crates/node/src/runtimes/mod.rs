//! The runtimes there are.

pub mod cri;
pub mod docker;
pub mod fake;
pub mod pause;
pub mod process;

/// Who answered on a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `docker`, `podman`, `containerd` or `cri-o`.
    pub name: &'static str,
    pub version: String,
}
