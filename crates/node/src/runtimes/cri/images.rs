//! The images of the runtime.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use async_trait::async_trait;

use super::Inner;
use super::client::is_missing;
use super::messages::{
    AuthConfig, Empty, ImageFsInfoResponse, ImageSpec, ImageStatusRequest, ImageStatusResponse,
    PullImageRequest, RemoveImageRequest,
};
use crate::image::{Archive, Credentials, Found, ImageName, ImageStore, Usage};
use crate::machine;

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
            // Said or not, they are for this image; said without a scheme they are for nobody.
            server_address: String::new(),
            identity_token: who.identity_token.clone(),
        });
        let image = Some(ImageSpec { image: name.full() });
        let request = PullImageRequest { image, auth, sandbox_config: None };
        let pulled = self.client.pull(request).await;
        pulled.map_err(|status| status.message().to_owned())?;
        self.look_at_images().await;
        Ok(())
    }

    async fn load(&self, archive: &Path) -> Result<Vec<String>, String> {
        let loaded = self.load_archive(archive).await;
        self.look_at_images().await;
        loaded
    }

    async fn remove(&self, name: &ImageName) -> Result<(), String> {
        let request = RemoveImageRequest { image: Some(ImageSpec { image: name.full() }) };
        let removed = self.client.images("RemoveImage", request).await;
        removed.map(|Empty {}| ()).map_err(|status| status.message().to_owned())
    }

    async fn usage(&self) -> Option<Usage> {
        let info: ImageFsInfoResponse = self.client.images("ImageFsInfo", Empty {}).await.ok()?;
        let place = info.image_filesystems.into_iter().find_map(|it| it.id)?;
        machine::usage(Path::new(&place.mountpoint))
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
        let opened = Archive::open(archive);
        let opened = opened.map_err(|error| format!("{}: {error}", archive.display()))?;
        match self.answer.name {
            "containerd" => {
                let mut command = Command::new("ctr");
                command.arg("--address").arg(&self.client.socket).args(["--namespace", "k8s.io"]);
                command.args(["images", "import", "--all-platforms", "-"]);
                // `unpacking NAME (DIGEST)...done`
                let words = ("ctr, which comes with containerd", "unpacking ");
                load_with((command, opened), words).await
            }
            _ => {
                let (root, driver) = self.storage().await?;
                let mut command = Command::new("podman");
                command.arg("--root").arg(root).arg("--storage-driver").arg(driver);
                command.args(["load", "--quiet"]);
                let words = ("podman, which reads archives for CRI-O", "Loaded image: ");
                load_with((command, opened), words).await
            }
        }
    }

    /// Where CRI-O keeps images, which is where Podman would; and how.
    async fn storage(&self) -> Result<(PathBuf, String), String> {
        let info: ImageFsInfoResponse = self
            .client
            .images("ImageFsInfo", Empty {})
            .await
            .map_err(|it| it.message().to_owned())?;
        let place = info.image_filesystems.into_iter().find_map(|it| it.id);
        let place = PathBuf::from(place.unwrap_or_default().mountpoint);
        // `ROOT/DRIVER-images`
        let driver = place.file_name().and_then(|name| name.to_str()?.strip_suffix("-images"));
        match (place.parent(), driver) {
            (Some(root), Some(driver)) => Ok((root.to_owned(), driver.to_owned())),
            _ => Err(format!(
                "{} does not tell where it keeps images; copy them there with skopeo",
                self.answer.name
            )),
        }
    }
}

/// Runs a program to its end; an archive is handed to it.
fn run(mut command: Command, mut archive: Archive) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let input = child.stdin.take();
    let feeding = std::thread::spawn(move || {
        // Whoever gets less than everything says so.
        input.map(|mut input| io::copy(&mut archive, &mut input))
    });
    let ended = child.wait_with_output();
    let _ = feeding.join();
    ended
}

/// Runs a program that reads an archive; the names that it says it found.
async fn load_with(
    (command, archive): (Command, Archive),
    (what, begin): (&str, &str),
) -> Result<Vec<String>, String> {
    let ended = tokio::task::spawn_blocking(move || run(command, archive)).await;
    let ended = ended
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("could not run {what}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !ended.status.success() {
        return Err(said(&ended.stderr));
    }
    let text = said(&ended.stdout);
    let names = text.lines().filter_map(|line| {
        let name = line.strip_prefix(begin)?.split(' ').next()?;
        Some(name.to_owned())
    });
    Ok(names.collect())
}
