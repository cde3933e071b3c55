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

use crate::podman;

/// How it is told that every container is a process of this machine.
pub const PLAIN: &str = "plain processes";
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
    pub fn sockets(self) -> Vec<PathBuf> {
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
            Runtime::Process => write!(formatter, "{PLAIN}")?,
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
    /// The same where something has containers already: unless another is named, it goes on.
    pub async fn choose_after(&self, former: Option<Wanted>) -> Chosen {
        let is_open = |former: &Wanted| {
            let is_same = self.socket.is_none() || self.socket == former.socket;
            self.runtime == Runtime::Auto && is_same
        };
        let why = "it has the containers of this node";
        match former.filter(is_open) {
            None => self.choose().await,
            Some(Wanted { runtime: Runtime::Process, .. }) => Chosen {
                runtime: Runtime::Process,
                socket: None,
                version: None,
                why: "containers of this node run so".to_owned(),
            },
            Some(former) => former.ask_for(former.runtime, why).await,
        }
    }

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
            named => self.ask_for(named, "as asked").await,
        }
    }

    /// One that was named is chosen even if it does not answer: it may yet.
    async fn ask_for(&self, runtime: Runtime, why: &str) -> Chosen {
        let sockets = match &self.socket {
            Some(socket) => vec![socket.clone()],
            None => runtime.sockets(),
        };
        let mut silent = String::new();
        for socket in &sockets {
            match ask(runtime, socket.clone()).await {
                Ok(answer) => return Chosen::answered(runtime, socket.clone(), answer, why),
                Err(why) => silent = why,
            }
        }
        let socket = sockets.iter().find(|socket| socket.exists()).or(sockets.first()).cloned();
        let why = format!("{why}, but it does not answer yet: {silent}");
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
        // It has no daemon that would answer before somebody uses it.
        let hint = match podman::is_installed() {
            true => "; --runtime podman starts podman's service",
            false => "",
        };
        let why = format!("chosen by itself: none of {} answers{hint}", names.join(", "));
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
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::StreamBody;
    use hyper::body::{Body, Frame};
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
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

    /// What a runtime of CRI says when it is asked for its version.
    fn version(name: &str) -> http::Response<impl Body<Data = Bytes, Error = Infallible> + use<>> {
        let field = |number: u8, text: &str| {
            let length = u8::try_from(text.len()).expect("a short text");
            [&[number << 3 | 2, length], text.as_bytes()].concat()
        };
        let message =
            [field(1, "0.1.0"), field(2, name), field(3, "v3.0"), field(4, "v1")].concat();
        let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
        let data = Bytes::from([&[0][..], &length, &message].concat());
        let ended = http::HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            http::HeaderValue::from_static("0"),
        )]);
        let frames = [Frame::data(data), Frame::trailers(ended)].map(Ok::<_, Infallible>);
        let body = StreamBody::new(futures::stream::iter(frames));
        let answer = http::Response::builder().header("content-type", "application/grpc");
        answer.body(body).expect("an answer")
    }

    #[expect(clippy::disallowed_methods, reason = "it ends with its test")]
    fn answer_cri(path: &PathBuf, name: &'static str) -> tokio::task::JoinHandle<()> {
        let listener = UnixListener::bind(path).expect("a socket");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service =
                    service_fn(move |_| async move { Ok::<_, Infallible>(version(name)) });
                let serve = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(serve.serve_connection(TokioIo::new(stream), service));
            }
        })
    }

    /// Somebody answers there.
    fn play(runtime: Runtime, path: &PathBuf) -> tokio::task::JoinHandle<()> {
        match runtime {
            Runtime::Docker => answer(path, DOCKER),
            Runtime::Podman => answer(path, PODMAN),
            named => answer_cri(path, named.name()),
        }
    }

    fn directory(name: &str) -> PathBuf {
        let name = format!("setpoint-runtimes-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    #[tokio::test]
    async fn the_first_of_the_sixteen_that_answers_is_chosen() {
        for presence in 0..16_u8 {
            let directory = directory(&presence.to_string());
            let socket = |runtime: Runtime| directory.join(runtime.name());
            let is_there = |number: usize| presence & 1 << number != 0;
            let mut servers = Vec::new();
            for (number, runtime) in LOOKED_FOR.into_iter().enumerate() {
                match is_there(number) {
                    true => servers.push(play(runtime, &socket(runtime))),
                    // It is installed, and does not run.
                    false => drop(std::os::unix::net::UnixListener::bind(socket(runtime))),
                }
            }
            let chosen = Wanted::default().look(|runtime| vec![socket(runtime)]).await;
            let first = (0..LOOKED_FOR.len()).find(|number| is_there(*number));
            let expected = first.map_or(Runtime::Process, |number| LOOKED_FOR[number]);
            assert_eq!(chosen.runtime, expected, "{presence:04b}: {chosen}");
            let version = match expected {
                Runtime::Docker => Some("1.0"),
                Runtime::Podman => Some("2.0"),
                Runtime::Process => None,
                _ => Some("3.0"),
            };
            assert_eq!(chosen.version.as_deref(), version, "{chosen}");
            assert_eq!(chosen.socket, first.map(|_| socket(expected)));
            for (number, runtime) in LOOKED_FOR.into_iter().enumerate() {
                // One that is named is chosen all the same, and says when it does not answer.
                let named = Wanted { runtime, socket: Some(socket(runtime)) }.choose().await;
                assert_eq!((named.runtime, named.version.is_some()), (runtime, is_there(number)));
                let is_silent = named.to_string().contains("does not answer yet");
                assert_eq!(is_silent, !is_there(number), "{named}");
                // A socket that was named is asked who it is.
                let any = Wanted { runtime: Runtime::Auto, socket: Some(socket(runtime)) };
                let expected = if is_there(number) { runtime } else { Runtime::Process };
                assert_eq!(any.choose().await.runtime, expected);
            }
            servers.iter().for_each(|server| server.abort());
            std::fs::remove_dir_all(&directory).expect("it goes");
        }
    }

    /// Nobody waits longer than the limit for one that says nothing.
    #[tokio::test]
    async fn one_that_says_nothing_is_passed_over() {
        let directory = directory("silent");
        let socket = |runtime: Runtime| directory.join(runtime.name());
        let _silent = UnixListener::bind(socket(Runtime::Docker)).expect("a socket");
        let server = play(Runtime::CriO, &socket(Runtime::CriO));
        let began = tokio::time::Instant::now();
        let chosen = Wanted::default().look(|runtime| vec![socket(runtime)]).await;
        assert_eq!(chosen.runtime, Runtime::CriO, "{chosen}");
        assert!(began.elapsed() >= ANSWER_MAX && began.elapsed() < ANSWER_MAX * 3);
        server.abort();
        std::fs::remove_dir_all(&directory).expect("it goes");
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
