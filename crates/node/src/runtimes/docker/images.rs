//! The images of an engine.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::client::{Client, Error, encode};
use crate::image::{Credentials, Found, ImageName, ImageStore, Usage};
use crate::machine;
use crate::runtime::Image;
use crate::runtimes::pause;

/// How long a pull or a load may say nothing.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// The longest line of such an answer.
const LINE_BYTES_MAX: usize = 1 << 20;

/// What an engine answers when it could not do something.
const FAILED: u16 = 500;

/// What an engine has.
#[derive(Clone, Debug)]
pub struct Images {
    pub client: Client,
}

#[async_trait]
impl ImageStore for Images {
    async fn find(&self, name: &ImageName) -> Result<Option<Found>, String> {
        match self.client.get(&format!("/images/{}/json", name.full())).await {
            Ok(image) => Ok(Some(found(&image))),
            Err(error) if error.is_missing() => self.find_local(name).await,
            Err(error) => Err(error.message),
        }
    }

    async fn pull(&self, name: &ImageName, who: Option<&Credentials>) -> Result<(), String> {
        let version = name.digest.as_deref().or(name.tag.as_deref()).unwrap_or("latest");
        let repository = name.repository();
        let path =
            format!("/images/create?fromImage={}&tag={}", encode(&repository), encode(version));
        let headers = who.map(|who| ("x-registry-auth", identity(who)));
        let headers: Vec<_> = headers.into_iter().collect();
        let begun = self.client.stream((Method::POST, &path), &headers);
        let answer = begun.await.map_err(|error| error.message)?;
        lines(answer, |_| {}).await.map_err(|error| error.message)
    }

    async fn load(&self, archive: &Path) -> Result<Vec<String>, String> {
        let answer = self.client.send_file("/images/load?quiet=1", archive).await;
        let mut names = Vec::new();
        let noted = |line: &Value| {
            let text = line["stream"].as_str().unwrap_or_default().trim();
            let loaded = text.strip_prefix("Loaded image ID: ");
            let loaded = loaded.or_else(|| text.strip_prefix("Loaded image: "));
            let loaded = loaded.into_iter().flat_map(|names| names.split(','));
            names.extend(loaded.map(|name| name.trim().to_owned()));
        };
        let answer = answer.map_err(|error| error.message)?;
        lines(answer, noted).await.map_err(|error| error.message)?;
        Ok(names)
    }

    async fn remove(&self, name: &ImageName) -> Result<(), String> {
        let removed = self.client.delete(&format!("/images/{}", name.full())).await;
        removed.map_err(|error| error.message)
    }

    async fn usage(&self) -> Option<Usage> {
        let info = self.client.get("/info").await.ok()?;
        machine::usage(Path::new(info["DockerRootDir"].as_str()?))
    }
}

impl Images {
    /// Podman puts what is built on the machine under a name that no other engine knows.
    async fn find_local(&self, name: &ImageName) -> Result<Option<Found>, String> {
        let Some(local) = name.local() else { return Ok(None) };
        if super::ask(&self.client.socket).await?.name != "podman" {
            return Ok(None);
        }
        match self.client.get(&format!("/images/{}/json", local.full())).await {
            Ok(image) => Ok(Some(found(&image))),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.message),
        }
    }

    /// Makes an image of a root, an archive.
    pub async fn import(&self, name: &str, root: Vec<u8>) -> Result<(), Error> {
        let answer = self.client.send("/images/create?fromSrc=-", root).await;
        let mut id = String::new();
        let noted = |line: &Value| {
            let told = line["status"].as_str().filter(|told| told.starts_with("sha256:"));
            id = told.map_or(std::mem::take(&mut id), str::to_owned);
        };
        lines(answer?, noted).await?;
        // Podman takes no tag before.
        let (repository, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
        let path = format!("/images/{id}/tag?repo={}&tag={}", encode(repository), encode(tag));
        self.client.post(&path, None).await.map(drop)
    }

    /// Makes what pods are held by, unless it is there.
    pub async fn ensure_pause(&self) -> Result<(), Error> {
        match self.client.get(&format!("/images/{}/json", pause::IMAGE)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.status.is_none() => return Err(error),
            Err(_) => {}
        }
        let unknown = || said("there is no program to hold pods for this architecture");
        self.import(pause::IMAGE, pause::root().ok_or_else(unknown)?).await
    }

    /// All that is there.
    pub async fn list(&self) -> Result<Vec<Image>, Error> {
        let all = self.client.get("/images/json").await?;
        let image = |one: &Value| {
            let words = |field: &str| {
                let list = one[field].as_array().into_iter().flatten();
                list.filter_map(Value::as_str).filter(|name| !name.contains("<none>"))
            };
            let names = words("RepoDigests").chain(words("RepoTags")).map(str::to_owned);
            Image { names: names.collect(), bytes: one["Size"].as_u64().unwrap_or(0) }
        };
        let images = all.as_array().into_iter().flatten().map(image);
        Ok(images.filter(|image| !image.names.is_empty()).collect())
    }
}

fn found(image: &Value) -> Found {
    let id = image["Id"].as_str().unwrap_or_default();
    // Podman tells the sum only.
    let id = if id.contains(':') { id.to_owned() } else { format!("sha256:{id}") };
    let digest = image["RepoDigests"][0].as_str().map(str::to_owned);
    Found {
        reference: digest.unwrap_or_else(|| id.clone()),
        id,
        bytes: image["Size"].as_u64().unwrap_or(0),
        user: image["Config"]["User"].as_str().unwrap_or_default().to_owned(),
    }
}

fn identity(who: &Credentials) -> String {
    let told = json!({"username": who.user, "password": who.password,
        "identitytoken": who.identity_token, "serveraddress": who.server});
    BASE64_URL_SAFE.encode(told.to_string())
}

/// What asking again would not change: the engine answered, and this is what it said.
fn said(message: &str) -> Error {
    Error { status: Some(FAILED), message: message.to_owned() }
}

/// Reads an answer that comes in lines, to its end; an error is one of the lines.
async fn lines(mut answer: Incoming, mut noted: impl FnMut(&Value)) -> Result<(), Error> {
    let mut held = Vec::new();
    loop {
        let frame = tokio::time::timeout(SILENT_MAX, answer.frame()).await;
        let silent = |message: String| Error { status: None, message };
        let frame =
            frame.map_err(|_| silent(format!("nothing came for {} s", SILENT_MAX.as_secs())))?;
        let is_last = frame.is_none();
        match frame {
            Some(Ok(frame)) => held.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Some(Err(error)) => return Err(silent(format!("the engine broke off: {error}"))),
            None => held.push(b'\n'),
        }
        while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = held.drain(..=end).collect();
            let line: Value = serde_json::from_slice(&line).unwrap_or(Value::Null);
            let error = line["errorDetail"]["message"].as_str().or(line["error"].as_str());
            if let Some(error) = error.filter(|error| !error.is_empty()) {
                return Err(said(error));
            }
            noted(&line);
        }
        if is_last {
            return Ok(());
        }
        if held.len() > LINE_BYTES_MAX {
            return Err(said("the engine said a line that is too long"));
        }
    }
}
