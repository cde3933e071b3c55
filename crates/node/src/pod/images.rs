//! Sees to it that the image of a container is here before the container starts: pull policy,
//! credentials, and what is said of it.
//!
//! Upstream: pkg/kubelet/images/image_manager.go

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reconcile::plan::Notice;
use reconcile::{Name, Object};
use serde_json::Value;
use tokio::time::Instant;

use super::prepare::{self, SECRET};
use super::worker::{Shared, say};
use crate::image::{AGE_MIN, Found, ImageName, ImageStore, Keyring, PERIOD};
use crate::register::MANAGER;
use crate::runtime::Refusal;

pub const PULL_FAILED: &str = "ErrImagePull";
pub const PULL_WAITS: &str = "ImagePullBackOff";
const NEVER_PULLED: &str = "ErrImageNeverPull";
const INVALID: &str = "InvalidImageName";
const UNKNOWN: &str = "ImageInspectError";
/// What is said where there is no room for an image.
const FULL: &str = "no space left on device";
/// Images that are pulled at the same time.
pub const PULLS_MAX: usize = 4;
/// How long it is said that a pull failed, before it is said that the next one waits.
pub const FAILURE_SHOWN: Duration = Duration::from_secs(2);
/// How often it is looked whether an image has come without us.
const ARRIVAL_LOOK: Duration = Duration::from_secs(10);

/// Whether a refusal is about an image; events then tell its reason only, the rest was told.
pub fn is_about_image(refusal: &Refusal) -> bool {
    [PULL_FAILED, PULL_WAITS, NEVER_PULLED, INVALID, UNKNOWN].contains(&refusal.reason)
}

/// What is said of a container whose image was not pulled, until that is tried again.
pub fn waits(image: &str, failed: &Refusal) -> Refusal {
    let message = format!("{}: {}: {}", said_of_wait(image), failed.reason, failed.message);
    Refusal { reason: PULL_WAITS, message }
}

pub fn said_of_wait(image: &str) -> String {
    format!("Back-off pulling image {image:?}")
}

/// The image of a container, pulled if its policy says so; `None` where there are no images.
pub async fn ensure(
    shared: Arc<Shared>,
    pod: Arc<Object>,
    container: Value,
) -> Result<Option<Found>, Refusal> {
    let Some(store) = shared.runtime.image_store() else { return Ok(None) };
    let written = container["image"].as_str().unwrap_or_default();
    let name = match ImageName::parse(written) {
        Ok(name) => name,
        Err(invalid) => {
            let message = format!(
                "Failed to apply default image tag {written:?}: couldn't parse image name \
                 {written:?}: {invalid}"
            );
            say(&shared, &pod, Notice::warning("InspectFailed", message.clone())).await;
            return Err(Refusal { reason: INVALID, message });
        }
    };
    let found = match find(store, &name).await {
        Ok(found) => found,
        Err(refusal) => {
            say(&shared, &pod, Notice::warning("InspectFailed", refusal.message.clone())).await;
            return Err(refusal);
        }
    };
    match (found, container["imagePullPolicy"].as_str()) {
        (Some(found), policy) if policy != Some("Always") => {
            let message = format!("Container image {written:?} already present on machine");
            say(&shared, &pod, Notice::normal("Pulled", message)).await;
            Ok(Some(found))
        }
        (_, Some("Never")) => {
            let message =
                format!("Container image {written:?} is not present with pull policy of Never");
            say(&shared, &pod, Notice::warning(NEVER_PULLED, message.clone())).await;
            Err(Refusal { reason: NEVER_PULLED, message })
        }
        _ => pull(&shared, &pod, (store, &name)).await.map(Some),
    }
}

/// Returns when an image is here.
pub async fn arrives(shared: &Shared, image: &str) {
    let named = shared.runtime.image_store().zip(ImageName::parse(image).ok());
    let Some((store, name)) = named else { return std::future::pending().await };
    loop {
        tokio::time::sleep(ARRIVAL_LOOK).await;
        if matches!(store.find(&name).await, Ok(Some(_))) {
            return;
        }
    }
}

async fn find(store: &dyn ImageStore, name: &ImageName) -> Result<Option<Found>, Refusal> {
    let found = store.find(name).await;
    found.map_err(|error| {
        let message = format!("Failed to inspect image {:?}: {error}", name.written);
        Refusal { reason: UNKNOWN, message }
    })
}

async fn pull(
    shared: &Shared,
    pod: &Object,
    (store, name): (&dyn ImageStore, &ImageName),
) -> Result<Found, Refusal> {
    let written = &name.written;
    say(shared, pod, Notice::normal("Pulling", format!("Pulling image {written:?}"))).await;
    let asked = Instant::now();
    let _permit = shared.pulls.acquire().await;
    let began = Instant::now();
    let pulled = match try_pull(store, name, &keyring(shared, pod).await).await {
        Ok(()) => find(store, name).await.and_then(|found| {
            shared.garbage.pulled(name, shared.context.environment.now());
            let gone = || Refusal {
                reason: PULL_FAILED,
                message: format!("image {written:?} was pulled and is not there"),
            };
            found.ok_or_else(gone)
        }),
        Err(message) => {
            let told = format!("Failed to pull image {written:?}: {message}");
            say(shared, pod, Notice::warning("Failed", told)).await;
            if message.contains(FULL) {
                // The next try may find room.
                collect(shared, store).await;
            }
            Err(Refusal { reason: PULL_FAILED, message })
        }
    }?;
    let seconds = |since: Instant| format!("{:.3}s", since.elapsed().as_secs_f64());
    let message = format!(
        "Successfully pulled image {written:?} in {} ({} including waiting). Image size: {} bytes.",
        seconds(began),
        seconds(asked),
        pulled.bytes
    );
    say(shared, pod, Notice::normal("Pulled", message)).await;
    Ok(pulled)
}

/// Removes images that nobody uses from time to time, where room is short, until it is dropped.
pub async fn collect_garbage(shared: &Shared) {
    let Some(store) = shared.runtime.image_store() else { return };
    loop {
        tokio::time::sleep(PERIOD).await;
        collect(shared, store).await;
    }
}

/// Removes images that no container uses, because the node is short of disk space. Returns whether
/// there were any.
pub async fn reclaim_space(shared: &Shared) -> bool {
    match shared.runtime.image_store() {
        Some(store) => !collect(shared, store).await.is_empty(),
        None => false,
    }
}

async fn collect(shared: &Shared, store: &dyn ImageStore) -> Vec<String> {
    let containers = shared.runtime.containers().into_values().flatten();
    let names = containers.filter_map(|it| ImageName::parse(&it.image).ok());
    let in_use: BTreeSet<String> = names.map(|name| name.full()).collect();
    let now = shared.context.environment.now();
    shared.garbage.collect(store, &in_use, (now, AGE_MIN)).await
}

/// Tries all credentials that are for the image; the error is that of the last.
async fn try_pull(
    store: &dyn ImageStore,
    name: &ImageName,
    keyring: &Keyring,
) -> Result<(), String> {
    let known = keyring.of(name);
    if known.is_empty() {
        return store.pull(name, None).await;
    }
    let mut failed = String::new();
    for credentials in known {
        match store.pull(name, Some(credentials)).await {
            Ok(()) => return Ok(()),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// What the pull secrets of the pod say; those of its service account are among them since it was
/// admitted. One that is missing is no reason not to try.
async fn keyring(shared: &Shared, pod: &Object) -> Keyring {
    let mut keyring = Keyring::default();
    let requests = shared.context.requests(MANAGER, Default::default());
    let named = pod.value["spec"]["imagePullSecrets"].as_array().into_iter().flatten();
    for name in named.filter_map(|one| one["name"].as_str()).filter(|name| prepare::is_name(name)) {
        let key = Name::new(&*pod.name.namespace, name);
        match requests.get(SECRET, &key).await {
            Ok(Some(secret)) => keyring.add(&prepare::decoded(&secret)),
            Ok(None) => {
                let message = format!(
                    "Unable to retrieve some image pull secrets ({name}); attempting to pull the \
                     image may not succeed."
                );
                say(shared, pod, Notice::warning("FailedToRetrieveImagePullSecret", message)).await;
            }
            Err(error) => tracing::debug!(secret = %key, error = %error.chain(), "not read"),
        }
    }
    keyring
}
