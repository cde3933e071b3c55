//! Why there is no disk.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("could not {doing}: {source}")]
    Io {
        doing: String,
        #[source]
        source: io::Error,
    },
    #[error("{0:?} is not a URL that images can be read from: http, https and docker are")]
    Url(String),
    #[error("{host} is at {address}, where images are not read from")]
    Forbidden { host: String, address: String },
    #[error("could not reach {url}: {why}")]
    Unreachable { url: String, why: String },
    #[error("{url} answered with {status}")]
    Status { url: String, status: u16 },
    #[error("{url} answered with 401: only images that anybody may read are read")]
    Unauthorized { url: String, challenge: String },
    #[error("the checksum is {found}, not {wanted}")]
    Checksum { wanted: String, found: String },
    #[error("{0:?} is not a checksum: sha256:…, sha512:… and sha1:… are")]
    ChecksumForm(String),
    #[error(
        "the image is in the format {0}, which is not read: raw and qcow2 are, also in gz or xz"
    )]
    Format(&'static str),
    #[error("the image needs another file ({0}), which is not followed")]
    Backed(&'static str),
    #[error(
        "virtual image size {image} is larger than the reported available storage {available}. \
         A larger PVC is required"
    )]
    TooLarge { image: u64, available: u64 },
    #[error("{0} is in use by a machine")]
    InUse(String),
    #[error("the image is broken: {0}")]
    Broken(String),
    #[error("{program} is not installed: the package {package} has it")]
    NotInstalled { program: &'static str, package: &'static str },
}

impl Fault {
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Fault {
        let doing = doing.into();
        |source| Fault::Io { doing, source }
    }

    /// Whether trying again cannot help.
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Fault::Io { .. }
                | Fault::InUse(_)
                | Fault::Unreachable { .. }
                | Fault::NotInstalled { .. }
                | Fault::Status { status: 408 | 429 | 500.., .. }
        )
    }
}
