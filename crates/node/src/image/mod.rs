//! What containers are made of: the store of images that a runtime has, names of images, and who
//! may pull them. When an image is pulled is `pod/images.rs`.

mod archive;
mod credentials;
mod garbage;
mod name;

use std::path::Path;

use async_trait::async_trait;

pub use archive::Archive;
pub use credentials::{Credentials, Keyring};
pub use garbage::{AGE_MIN, Garbage, PERIOD, Usage};
pub use name::{ImageName, Invalid};

/// The images of a runtime.
///
/// Guarantees: `find` tells of what a container would be made of now. `pull` returns when the image
/// is there, or fails; it fails when nothing comes for a minute, never for taking long.
///
/// Errors: text for people, of the runtime or the registry, without our words around it.
#[async_trait]
pub trait ImageStore: Send + Sync {
    /// An image that is here.
    async fn find(&self, name: &ImageName) -> Result<Option<Found>, String>;

    /// Gets an image from its registry.
    async fn pull(&self, name: &ImageName, who: Option<&Credentials>) -> Result<(), String>;

    /// Takes in what is in an archive of `docker save`; the names that it has.
    async fn load(&self, archive: &Path) -> Result<Vec<String>, String>;

    /// Takes an image away; one that is used stays, which is an error.
    async fn remove(&self, name: &ImageName) -> Result<(), String>;

    /// How full the file system of images is, where that can be told.
    async fn usage(&self) -> Option<Usage>;
}

/// An image that is here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What the runtime knows it by.
    pub id: String,
    /// As `imageID` of a status has it: the name with its digest, or the identity.
    pub reference: String,
    pub bytes: u64,
    /// Who its program is, by number or name; empty for root.
    pub user: String,
}

impl Found {
    /// The number of its user, where it is said by number.
    pub fn user_number(&self) -> Result<u32, &str> {
        let user = self.user.split(':').next().unwrap_or_default();
        match user {
            "" | "root" => Ok(0),
            text => text.parse().map_err(|_| text),
        }
    }
}
