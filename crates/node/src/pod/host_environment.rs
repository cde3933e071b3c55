//! Environment of containers that run as processes of the host. It is built from the pod, the
//! configuration and directories of the container's own; the server's variables are not passed on,
//! because they hold its user's home directory and credentials.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use reconcile::Object;
use reconcile::plan::Notice;
use serde_json::Value;

use super::environment::Variables;
use super::prepare;
use super::worker::{Shared, say};
use crate::python::{self, Interpreter, Interpreters};
use crate::runtime::{Mount, Refusal};
use crate::runtimes::process::system::is_root;
use crate::volumes::aside;

/// Search path of programs, after those of the Python interpreter.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Below the pod's directory: one directory for each container.
const OWN: &str = "own";
/// Below the node's directory: one directory for each namespace.
pub const CACHES: &str = "caches";
/// Mount points for containers of other users, which cannot enter the data directory.
const OWN_MOUNTED: &str = "/.setpoint/pod";
const CACHE_MOUNTED: &str = "/.setpoint/cache";
/// Type of the terminal of a container with `tty: true`.
const TERM: &str = "xterm";

/// Settings of the node for containers that run as processes.
#[derive(Debug, Default)]
pub struct HostEnvironment {
    /// Interpreter of containers whose command does not name one by its path.
    pub python: Option<PathBuf>,
    /// `pod_environment` of the configuration.
    pub variables: BTreeMap<String, String>,
    pub interpreters: Interpreters,
}

/// Variables and mounts of one container.
#[derive(Debug, Default)]
pub struct ContainerEnvironment {
    pub variables: Variables,
    pub mounts: Vec<Mount>,
    /// Paths of the host that the interpreter needs.
    pub readable: Vec<PathBuf>,
}

/// Directories as the host and as the container sees them.
struct Directories {
    own: PathBuf,
    cache: PathBuf,
    own_seen: PathBuf,
    cache_seen: PathBuf,
    /// User of the container, if it is not ours.
    user: Option<u32>,
}

/// Makes the directories of a container and returns the variables that name them.
pub async fn make(
    shared: &Shared,
    pod: &Object,
    container: &Value,
    user: Option<u32>,
) -> Result<ContainerEnvironment, Refusal> {
    if shared.runtime.image_store().is_some() {
        return Ok(ContainerEnvironment::default());
    }
    let interpreter = interpreter(shared, pod, container).await;
    let directories = Directories::of(shared, pod, container, user);
    let variables = variables(&directories, interpreter.as_ref(), container);
    let variables = add(variables, &shared.options.environment.variables);
    let mounts = directories.mounts();
    let readable = readable(shared).await;
    let made = aside(move || directories.make(interpreter.as_ref())).await;
    made.map_err(|why| Refusal {
        reason: "CreateContainerError",
        message: format!("could not make its home directory: {why}"),
    })?;
    Ok(ContainerEnvironment { variables, mounts, readable })
}

fn add(mut variables: Variables, more: &BTreeMap<String, String>) -> Variables {
    more.iter().for_each(|(name, value)| variables.set(name, value.clone()));
    variables
}

/// Returns the directories of the interpreter of the node. One that a command names is not added:
/// a user who creates pods does not choose what they see of the host.
async fn readable(shared: &Shared) -> Vec<PathBuf> {
    let environment = &shared.options.environment;
    let Some(path) = &environment.python else { return Vec::new() };
    let inspected = environment.interpreters.inspect(path).await;
    inspected.map(|interpreter| interpreter.readable()).unwrap_or_default()
}

/// The interpreter that the command names by its path, otherwise that of the node.
async fn interpreter(shared: &Shared, pod: &Object, container: &Value) -> Option<Interpreter> {
    let environment = &shared.options.environment;
    let named = container["command"][0].as_str().filter(|it| python::is_interpreter(it));
    // The node runs it to have it described, with its own privileges and not with those of the pod.
    if let Some(named) = named
        && !python::is_trusted(Path::new(named), &shared.options.private)
    {
        tracing::info!(pod = %pod.name, interpreter = named, "interpreter not inspected");
        return None;
    }
    let path = named.map(PathBuf::from).or_else(|| environment.python.clone())?;
    let inspected = environment.interpreters.inspect(&path).await;
    match (inspected, named) {
        (Ok(interpreter), _) => Some(interpreter),
        // The start of the container fails and says so.
        (Err(_), Some(_)) => None,
        (Err(why), None) => {
            let message = format!(
                "Python of this node cannot be used: {why}; choose another with `python:` in the \
                 configuration or `setpoint up --python PATH`"
            );
            say(shared, pod, Notice::warning("PythonNotFound", message)).await;
            None
        }
    }
}

fn variables(
    directories: &Directories,
    interpreter: Option<&Interpreter>,
    container: &Value,
) -> Variables {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = Variables::default();
    let mut path = Vec::new();
    if let Some(interpreter) = interpreter {
        let added = directories.own_seen.join("python");
        path.extend(interpreter.programs(&added));
        if let Some(environment) = &interpreter.environment {
            variables.set("VIRTUAL_ENV", text(environment));
        }
        // Both install there, and not into a virtual environment of the user.
        variables.set("PIP_PYTHON", text(&added));
        variables.set("UV_PYTHON", text(&added.join("bin/python3")));
        variables.set("PYTHONPATH", interpreter.search_path(&added));
    }
    let is_new = |one: &&str| !path.iter().any(|known| known == Path::new(one));
    let usual: Vec<PathBuf> = PATH.split(':').filter(is_new).map(PathBuf::from).collect();
    path.extend(usual);
    let path: Vec<String> = path.iter().map(|one| text(one)).collect();
    variables.set("PATH", path.join(":"));
    variables.set("HOME", text(&directories.own_seen.join("home")));
    variables.set("XDG_CACHE_HOME", text(&directories.cache_seen));
    variables.set("HF_HOME", text(&directories.cache_seen.join("huggingface")));
    variables.set("TORCH_HOME", text(&directories.cache_seen.join("torch")));
    if container["tty"] == true {
        variables.set("TERM", TERM.to_owned());
    }
    variables
}

impl Directories {
    fn of(shared: &Shared, pod: &Object, container: &Value, user: Option<u32>) -> Directories {
        let name = container["name"].as_str().unwrap_or_default();
        let own = prepare::directory(shared, &pod.uid).join(OWN).join(name);
        let cache = shared.options.directory.join(CACHES).join(&*pod.name.namespace);
        let user = user.filter(|user| is_root() && *user != 0);
        let (own_seen, cache_seen) = match user {
            Some(_) => (PathBuf::from(OWN_MOUNTED), PathBuf::from(CACHE_MOUNTED)),
            None => (own.clone(), cache.clone()),
        };
        Directories { own, cache, own_seen, cache_seen, user }
    }

    fn mounts(&self) -> Vec<Mount> {
        // Also where nothing is moved: the data directory around them is hidden.
        let pairs = [(&self.own, &self.own_seen), (&self.cache, &self.cache_seen)];
        let mount = |(source, target): (&PathBuf, &PathBuf)| Mount {
            source: source.clone(),
            target: target.clone(),
            optional: true,
            ..Mount::default()
        };
        pairs.map(mount).into()
    }

    fn make(&self, interpreter: Option<&Interpreter>) -> io::Result<()> {
        if !self.own.exists() {
            // It appears complete: what another user can write to is not changed by us any more.
            let staged = self.own.with_extension("new");
            let _ = fs::remove_dir_all(&staged);
            fs::create_dir_all(staged.join("home"))?;
            fs::set_permissions(staged.join("home"), fs::Permissions::from_mode(0o700))?;
            make_environment(&staged, interpreter)?;
            if let Some(user) = self.user {
                give(&staged, user, 0)?;
            }
            fs::rename(&staged, &self.own)?;
        } else if self.user.is_none() {
            make_environment(&self.own, interpreter)?;
        }
        fs::create_dir_all(&self.cache)?;
        if let Some(all) = self.cache.parent() {
            fs::set_permissions(all, fs::Permissions::from_mode(0o700))?;
        }
        // Containers of one namespace may run as different users.
        fs::set_permissions(&self.cache, fs::Permissions::from_mode(0o777))
    }
}

fn make_environment(own: &Path, interpreter: Option<&Interpreter>) -> io::Result<()> {
    interpreter.map_or(Ok(()), |it| it.make_environment(&own.join("python")))
}

/// Directories below each other that are made here.
const DEPTH_MAX: u32 = 5;

/// Gives directories that were just made to a user.
fn give(path: &Path, user: u32, depth: u32) -> io::Result<()> {
    lchown(path, Some(user), None)?;
    if depth >= DEPTH_MAX || !fs::symlink_metadata(path)?.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        give(&entry?.path(), user, depth + 1)?;
    }
    Ok(())
}
