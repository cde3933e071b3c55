//! The images of the runtime.

use std::path::Path;
use std::process::{Command, Stdio};

use async_trait::async_trait;

use super::Inner;
use super::client::is_missing;
use super::messages::{
    AuthConfig, ImageSpec, ImageStatusRequest, ImageStatusResponse, PullImageRequest,
    PullImageResponse,
};
use crate::image::{Credentials, Found, ImageName, ImageStore};

#[async_trait]
impl ImageStore for Inner {
    async fn find(&self, name: &ImageName) -> Result<Option<Found>, String> {
        self.find_image(&name.full()).await
    }

    /// The runtime itself gives up when nothing comes for a while.
    async fn pull(&self, name: &ImageName, who: Option<&Credentials>) -> Result<(), String> {
        let auth = who.map(|who| AuthConfig {
            username: who.user.clone(),
            password: who.password.clone(),
            server_address: who.server.clone(),
            identity_token: who.identity_token.clone(),
        });
        let image = Some(ImageSpec { image: name.full() });
        let request = PullImageRequest { image, auth, sandbox_config: None };
        let pulled = self.client.images("PullImage", request).await;
        let _: PullImageResponse = pulled.map_err(|status| status.message().to_owned())?;
        self.look_at_images().await;
        Ok(())
    }

    async fn load(&self, archive: &Path) -> Result<Vec<String>, String> {
        let loaded = self.load_archive(archive).await;
        self.look_at_images().await;
        loaded
    }
}

impl Inner {
    pub async fn find_image(&self, name: &str) -> Result<Option<Found>, String> {
        let image = Some(ImageSpec { image: name.to_owned() });
        let request = ImageStatusRequest { image, verbose: false };
        let answer = match self.client.images("ImageStatus", request).await {
            Ok(ImageStatusResponse { image }) => image,
            Err(status) if is_missing(&status) => None,
            Err(status) => return Err(status.message().to_owned()),
        };
        Ok(answer.map(|image| Found {
            reference: image.repo_digests.first().unwrap_or(&image.id).clone(),
            bytes: image.size,
            user: match image.uid {
                Some(uid) => uid.value.to_string(),
                None => image.username,
            },
            id: image.id,
        }))
    }

    /// CRI has no words for archives: each runtime has a program of its own that reads them.
    pub async fn load_archive(&self, archive: &Path) -> Result<Vec<String>, String> {
        if self.answer.name != "containerd" {
            return Err(format!(
                "{} takes no archives over its socket; copy {} into its storage with skopeo",
                self.answer.name,
                archive.display()
            ));
        }
        let mut command = Command::new("ctr");
        command.arg("--address").arg(&self.client.socket).args(["--namespace", "k8s.io"]);
        command.args(["images", "import", "--all-platforms"]).arg(archive);
        command.stdin(Stdio::null());
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        let ended = ended
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("could not run ctr, which comes with containerd: {error}"))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !ended.status.success() {
            return Err(said(&ended.stderr));
        }
        // `unpacking NAME (DIGEST)...done`
        let text = said(&ended.stdout);
        let names = text.lines().filter_map(|line| {
            let name = line.strip_prefix("unpacking ")?.split(' ').next()?;
            Some(name.to_owned())
        });
        Ok(names.collect())
    }
}
