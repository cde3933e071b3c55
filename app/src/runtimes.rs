//! Which runtime runs the containers of this machine: the one that is asked for, or the first of
//! the usual ones that answers.
//!
//! A program that is installed counts for nothing, and neither does a socket that nobody listens
//! on: whoever is to run containers has to say its version first.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use node::runtimes::Answer;
use node::runtimes::{cri, docker};

/// How long a runtime may take to say its version.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What runs containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Runtime {
    /// The first of docker, podman, containerd and cri-o that answers, else process.
    #[default]
    Auto,
    Docker,
    Podman,
    Containerd,
    #[value(name = "cri-o", alias = "crio")]
    CriO,
    /// Every container is a process of this machine; images are not pulled.
    Process,
    /// Nothing runs here; the node is there, but not ready.
    None,
}

/// Those that are looked for, in this order.
const LOOKED_FOR: [Runtime; 4] =
    [Runtime::Docker, Runtime::Podman, Runtime::Containerd, Runtime::CriO];

impl Runtime {
    /// As the command line and the configuration have it.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Auto => "auto",
            Runtime::Docker => "docker",
            Runtime::Podman => "podman",
            Runtime::Containerd => "containerd",
            Runtime::CriO => "cri-o",
            Runtime::Process => "process",
            Runtime::None => "none",
        }
    }

    pub fn parse(text: &str) -> Option<Runtime> {
        <Runtime as clap::ValueEnum>::from_str(text, false).ok()
    }

    /// Where it usually listens.
    fn sockets(self) -> Vec<PathBuf> {
        let named = |variable: &str| {
            let value = std::env::var(variable).ok()?;
            value.strip_prefix("unix://").map(PathBuf::from)
        };
        let own =
            |below: &str| Some(PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join(below));
        let usual = |path: &str| Some(PathBuf::from(path));
        let sockets = match self {
            Runtime::Docker => vec![named("DOCKER_HOST"), usual("/var/run/docker.sock")],
            Runtime::Podman => vec![
                named("CONTAINER_HOST"),
                usual("/run/podman/podman.sock"),
                own("podman/podman.sock"),
            ],
            Runtime::Containerd => vec![
                usual("/run/containerd/containerd.sock"),
                usual("/run/k3s/containerd/containerd.sock"),
            ],
            Runtime::CriO => vec![usual("/run/crio/crio.sock"), usual("/var/run/crio/crio.sock")],
            Runtime::Auto | Runtime::Process | Runtime::None => Vec::new(),
        };
        sockets.into_iter().flatten().collect()
    }
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub runtime: Runtime,
    /// Where it listens, if not where it usually does.
    pub socket: Option<PathBuf>,
}

/// What runs the containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Any but `Auto`.
    pub runtime: Runtime,
    pub socket: Option<PathBuf>,
    /// What it said; `None` if it has not answered.
    pub version: Option<String>,
    why: String,
}

impl fmt::Display for Chosen {
    /// For people: what was chosen, and why.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runtime {
            Runtime::Process => write!(formatter, "plain processes")?,
            other => write!(formatter, "{}", other.name())?,
        }
        if let Some(version) = &self.version {
            write!(formatter, " {version}")?;
        }
        if let Some(socket) = &self.socket {
            write!(formatter, "   {}", socket.display())?;
        }
        write!(formatter, "   ({})", self.why)
    }
}

impl Wanted {
    /// Asks who is there.
    pub async fn choose(&self) -> Chosen {
        match self.runtime {
            Runtime::None => {
                let why = "as asked: pods are not run here".to_owned();
                Chosen { runtime: Runtime::None, socket: None, version: None, why }
            }
            Runtime::Process => {
                let why = "as asked".to_owned();
                Chosen { runtime: Runtime::Process, socket: None, version: None, why }
            }
            Runtime::Auto => self.look(Runtime::sockets).await,
            named => self.ask_for(named).await,
        }
    }

    /// One that was named is chosen even if it does not answer: it may yet.
    async fn ask_for(&self, runtime: Runtime) -> Chosen {
        let sockets = match &self.socket {
            Some(socket) => vec![socket.clone()],
            None => runtime.sockets(),
        };
        let mut silent = String::new();
        for socket in &sockets {
            match ask(runtime, socket.clone()).await {
                Ok(answer) => return Chosen::answered(runtime, socket.clone(), answer, "as asked"),
                Err(why) => silent = why,
            }
        }
        let socket = sockets.iter().find(|socket| socket.exists()).or(sockets.first()).cloned();
        let why = format!("as asked, but it does not answer yet: {silent}");
        Chosen { runtime, socket, version: None, why }
    }

    async fn look(&self, usual: impl Fn(Runtime) -> Vec<PathBuf>) -> Chosen {
        for runtime in LOOKED_FOR {
            let sockets = match &self.socket {
                Some(socket) => vec![socket.clone()],
                None => usual(runtime),
            };
            for socket in sockets {
                if let Ok(answer) = ask(runtime, socket.clone()).await {
                    let why = "chosen by itself: the first that answered";
                    return Chosen::answered(runtime, socket, answer, why);
                }
            }
        }
        let names: Vec<&str> = LOOKED_FOR.iter().map(|one| one.name()).collect();
        let why = format!("chosen by itself: none of {} answers", names.join(", "));
        Chosen { runtime: Runtime::Process, socket: None, version: None, why }
    }
}

impl Chosen {
    fn answered(runtime: Runtime, socket: PathBuf, answer: Answer, why: &str) -> Chosen {
        let (socket, version) = (Some(socket), Some(answer.version));
        Chosen { runtime, socket, version, why: why.to_owned() }
    }
}

/// Asks a socket who is there; an answer of another runtime than is meant is none.
pub async fn ask(runtime: Runtime, socket: PathBuf) -> Result<Answer, String> {
    let asked = async {
        match runtime {
            Runtime::Docker | Runtime::Podman => docker::ask(&socket).await,
            Runtime::Containerd | Runtime::CriO => cri::ask(&socket).await,
            _ => Err("nobody is to be asked".to_owned()),
        }
    };
    let at = socket.display();
    match tokio::time::timeout(ANSWER_MAX, asked).await {
        Err(_) => Err(format!("{at} says nothing for {} s", ANSWER_MAX.as_secs())),
        Ok(Err(why)) => Err(format!("{at}: {why}")),
        Ok(Ok(answer)) if answer.name != runtime.name() => {
            Err(format!("{at} is {}, not {}", answer.name, runtime.name()))
        }
        Ok(Ok(answer)) => Ok(answer),
    }
}

/// A socket as it is written: a path, or `unix://` and a path.
pub fn parse_socket(text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    (path.starts_with('/') && path.len() > 1).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    const DOCKER: &str = r#"{"Version": "1.0", "Components": [{"Name": "Engine"}]}"#;
    const PODMAN: &str = r#"{"Version": "2.0", "Components": [{"Name": "Podman Engine"}]}"#;

    /// Says the same to everybody who connects.
    #[expect(clippy::disallowed_methods, reason = "it ends with its test")]
    fn answer(path: &PathBuf, body: &'static str) -> tokio::task::JoinHandle<()> {
        let listener = UnixListener::bind(path).expect("a socket");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = [0; 1024];
                let _ = stream.read(&mut asked).await;
                let length = body.len();
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(text.as_bytes()).await;
            }
        })
    }

    #[tokio::test]
    async fn the_first_that_answers_is_chosen() {
        let name = format!("setpoint-runtimes-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        for presence in 0..4_u8 {
            std::fs::create_dir_all(&directory).expect("a directory");
            let socket = |runtime: Runtime| directory.join(runtime.name());
            let mut servers = Vec::new();
            if presence & 1 != 0 {
                servers.push(answer(&socket(Runtime::Docker), DOCKER));
            } else {
                // Somebody was there, and nobody is.
                drop(std::os::unix::net::UnixListener::bind(socket(Runtime::Docker)));
            }
            if presence & 2 != 0 {
                servers.push(answer(&socket(Runtime::Podman), PODMAN));
            }
            let chosen = Wanted::default().look(|runtime| vec![socket(runtime)]).await;
            let expected = match presence {
                0 => (Runtime::Process, None),
                2 => (Runtime::Podman, Some("2.0")),
                _ => (Runtime::Docker, Some("1.0")),
            };
            assert_eq!((chosen.runtime, chosen.version.as_deref()), expected, "{chosen}");
            // One that is named and does not answer is chosen all the same, and says so.
            let named = Wanted { runtime: Runtime::Podman, socket: Some(socket(Runtime::Docker)) };
            let chosen = named.choose().await;
            assert_eq!((chosen.runtime, chosen.version.is_some()), (Runtime::Podman, false));
            assert!(chosen.to_string().contains("does not answer yet"), "{chosen}");
            servers.iter().for_each(|server| server.abort());
            std::fs::remove_dir_all(&directory).expect("it goes");
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        for name in ["auto", "docker", "podman", "containerd", "cri-o", "process", "none"] {
            assert_eq!(Runtime::parse(name).map(Runtime::name), Some(name));
        }
        assert_eq!(Runtime::parse("rkt"), None);
        assert_eq!(parse_socket("unix:///run/a.sock"), Some(PathBuf::from("/run/a.sock")));
        assert_eq!(parse_socket("tcp://here"), None);
    }
}
