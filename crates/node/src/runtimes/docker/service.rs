//! A server beside pods, in a container of the engine: found by its name, ours by its label, on the
//! network of the machine, its data in a volume of the engine that outlives it.

use std::path::Path;
use std::time::Duration;

use http::Method;
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use super::client::{Client, Error, encode};
use super::found::has_not_run;
use super::images::Images;
use super::machine;
use crate::image::{ImageName, ImageStore};

/// What marks it as started by us, with which server it is.
const LABEL: &str = "setpoint.dev/server";
/// What tells with which settings it was started.
const SETTINGS: &str = "setpoint.dev/settings";
/// What a server gets to write down what it has.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How much of its output is told when it ends by itself.
const LINES_MAX: usize = 5;
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    pub image: String,
    /// In place of the image's own program, if that is not to run.
    pub entrypoint: Option<Vec<String>>,
    pub arguments: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The volume that holds its data, and where it sees it.
    pub volume: (String, String),
}

/// Whether it runs already, started by another process: whoever finds it leaves it alone, also at
/// the end. An error is for people, and says why it can be neither used nor started.
pub async fn is_running(socket: &Path, service: &Service) -> Result<bool, String> {
    let client = Client { socket: socket.to_owned() };
    match client.get(&format!("/containers/{}/json", service.name)).await {
        Ok(found) => is_usable(service, &found),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error.message),
    }
}

/// Whether a container that was found is the server, and runs.
fn is_usable(service: &Service, found: &Value) -> Result<bool, String> {
    let (name, labels) = (&service.name, &found["Config"]["Labels"]);
    if labels[LABEL].as_str() != Some(name) {
        return Err(format!("a container {name} is there that is not ours; it is left alone"));
    }
    if found["State"]["Running"] != true {
        return Ok(false);
    }
    match labels[SETTINGS].as_str() {
        Some(with) if with != settings(service) => Err(format!(
            "the container {name} runs with other settings; stop whoever uses it, or give this \
             store the same settings"
        )),
        _ => Ok(true),
    }
}

/// What tells settings from others.
fn settings(service: &Service) -> String {
    reconcile::names::digest(&[&format!("{service:?}")])
}

/// Who started it, and is to stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Here,
    Elsewhere,
}

/// Starts it in place of one that ended. An error is for people.
pub async fn start(socket: &Path, service: &Service) -> Result<Begun, String> {
    let client = Client { socket: socket.to_owned() };
    let name = &service.name;
    // It may be of other settings: the data are what counts. One that runs is not removed so.
    match client.delete(&format!("/containers/{name}")).await {
        Err(error) if error.is_missing() => {}
        Err(error) if error.status == Some(409) => return Ok(Begun::Elsewhere),
        removed => removed.map_err(|error| error.message)?,
    }
    let images = Images { client: client.clone() };
    let image = ImageName::parse(&service.image).map_err(|error| error.to_string())?;
    if images.find(&image).await?.is_none() {
        tracing::info!(image = service.image, "pulling");
        let pulled = images.pull(&image, None).await;
        pulled.map_err(|error| format!("could not pull {}: {error}", service.image))?;
    }
    let is_podman = super::ask(socket).await?.name == "podman";
    let told = told(service, is_podman);
    let path = format!("/containers/create?name={}", encode(name));
    match client.post(&path, Some(&told)).await {
        // Somebody else was faster.
        Err(error) if error.is_taken() => return Ok(Begun::Elsewhere),
        made => made.map_err(|error| error.message)?,
    };
    let started = client.post(&format!("/containers/{name}/start"), None).await;
    if let Err(error) = started {
        let _ = remove(&client, name).await;
        return Err(error.message);
    }
    Ok(Begun::Here)
}

fn told(service: &Service, is_podman: bool) -> Value {
    let limits = machine::engine(Path::new("/"), is_podman).ulimits();
    let (volume, place) = &service.volume;
    let env = service.env.iter().map(|(name, value)| format!("{name}={value}"));
    let mut told = json!({
        "Image": service.image,
        "Cmd": service.arguments,
        "Env": env.collect::<Vec<_>>(),
        "Labels": {LABEL: service.name, SETTINGS: settings(service)},
        "HostConfig": {
            "NetworkMode": "host",
            "Binds": [format!("{volume}:{place}")],
            "Ulimits": limits,
            "RestartPolicy": {"Name": "no"},
        },
    });
    if let Some(entrypoint) = &service.entrypoint {
        told["Entrypoint"] = json!(entrypoint);
    }
    told
}

/// Whether it runs; else its last words.
pub async fn runs(socket: &Path, name: &str) -> Result<(), String> {
    let client = Client { socket: socket.to_owned() };
    let found = client.get(&format!("/containers/{name}/json")).await;
    let found = found.map_err(|error| error.message)?;
    // It may be about to be started.
    if found["State"]["Running"] == true || has_not_run(&found["State"]) {
        return Ok(());
    }
    let code = found["State"]["ExitCode"].as_i64().unwrap_or(-1);
    let said = last_words(&client, name).await.unwrap_or_default();
    Err(format!("{name} ended with code {code}: {said}"))
}

/// The end of its output, in one line.
async fn last_words(client: &Client, name: &str) -> Result<String, Error> {
    let path = format!("/containers/{name}/logs?stdout=1&stderr=1&tail={LINES_MAX}");
    let answer = client.stream((Method::GET, &path), &[]).await?;
    let body = Limited::new(answer, OUTPUT_BYTES_MAX).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    // Numbers stand before every piece.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().map(|line| line.trim_matches(|it: char| it.is_control()).trim());
    Ok(lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; "))
}

/// Stops it and takes the container away; its data stay.
pub async fn stop(socket: &Path, name: &str) -> Result<(), String> {
    let client = Client { socket: socket.to_owned() };
    match client.get(&format!("/containers/{name}/json")).await {
        Ok(found) if found["Config"]["Labels"][LABEL].as_str() == Some(name) => {}
        Ok(_) => return Ok(()),
        Err(error) if error.is_missing() => return Ok(()),
        Err(error) => return Err(error.message),
    }
    let seconds = STOP_GRACE.as_secs();
    match client.post(&format!("/containers/{name}/stop?t={seconds}"), None).await {
        Err(error) if !error.is_missing() => return Err(error.message),
        _ => {}
    }
    remove(&client, name).await.map_err(|error| error.message)
}

async fn remove(client: &Client, name: &str) -> Result<(), Error> {
    // Without `v`: the volume stays.
    match client.delete(&format!("/containers/{name}?force=true")).await {
        Err(error) if !error.is_missing() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_runs_is_used_as_it_is_or_not_at_all() {
        let service = |port: &str| Service {
            name: "db".to_owned(),
            image: "db:1".to_owned(),
            entrypoint: None,
            arguments: vec![port.to_owned()],
            env: Vec::new(),
            volume: ("data".to_owned(), "/data".to_owned()),
        };
        let found = |labels: Value, runs: bool| {
            let found = json!({"Config": {"Labels": labels}, "State": {"Running": runs}});
            is_usable(&service("1"), &found)
        };
        let of = |port: &str| told(&service(port), false)["Labels"].clone();
        assert_eq!(found(of("1"), true), Ok(true));
        assert_eq!(found(of("1"), false), Ok(false));
        // One that ended is replaced, whatever it was told.
        assert_eq!(found(of("2"), false), Ok(false));
        assert!(found(of("2"), true).unwrap_err().contains("other settings"));
        assert!(found(json!({}), false).unwrap_err().contains("not ours"));
    }
}
