//! The configuration: what can be set, what holds when nothing is, and where it came from.
//!
//! Read [`Config`] and `storage.rs` for the keys, `file.rs` for which file is read. A flag wins
//! over the file: the commands see to that.

mod audit;
mod cluster;
pub mod duration;
mod file;
pub mod origin;
mod pods;
pub mod reference;
mod section;
mod size;
mod storage;
mod tree;
mod unknown;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

pub use audit::Audit;
pub use cluster::{Cluster, PodSecurityDefault, Policy};
pub use file::{Fallback, Source, usual_files};
pub use pods::{Pods, is_name};
pub use storage::{Etcd, Mysql, Storage, StoreKind};
pub use unknown::nearest;

use crate::operators;
use crate::runtimes::{self, Runtime, Wanted};
use crate::telemetry::Format;
use section::Section;
use tree::Document;

/// Where `setpoint web` serves its page, unless something else is said.
pub const WEB_PORT: u16 = 8_080;
/// Every key with its default.
const EXAMPLE: &str = include_str!("../../../configs/config-example.yaml");
/// Keys whose values are for nobody's screen.
const SECRETS: [&str; 2] = ["storage.mysql.password", "storage.etcd.password"];

/// Everything a file can say that has an effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub storage: Storage,
    pub cluster: Cluster,
    /// `operators`: the families that do not run unless they are asked for by name.
    pub operators_off: BTreeSet<&'static str>,
    pub log_level: LogLevel,
    pub log_format: Format,
    /// Whether it is written who asked for what.
    pub audit: Audit,
    /// `runtime` and `container_runtime_endpoint`: what runs containers.
    pub runtime: Wanted,
    /// `python` and `pod_environment`: what pods that run as processes see.
    pub pods: Pods,
    /// `web.port`: where `setpoint web` serves its page.
    pub web_port: Option<u16>,
}

impl Config {
    /// Whether another configuration says anything else than what is logged.
    pub fn differs_beyond_the_log(&self, other: &Config) -> bool {
        let log = |config: &Config| Config { log_level: LogLevel::default(), ..config.clone() };
        log(self) != log(other)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// A configuration, its source, and what should be said about it.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub source: Source,
    pub remarks: Remarks,
}

/// What a reader of a file noticed. None of it is an error.
#[derive(Debug, Default, PartialEq)]
pub struct Remarks {
    /// What the user should look at.
    pub warnings: Vec<String>,
    /// Keys that are known but that nothing uses.
    pub without_effect: Vec<String>,
}

/// Finds the file and reads it.
pub fn load(option: Option<&Path>) -> Result<Loaded> {
    load_with(option, Fallback::Defaults)
}

/// Finds the file, or the one that the command falls back to, and reads it.
pub fn load_with(option: Option<&Path>, fallback: Fallback) -> Result<Loaded> {
    let source = file::find(option, fallback)?;
    let (config, remarks) = match &source {
        Source::File(path) | Source::Example(path) => {
            read(&file::read(path)?, &path.display().to_string())?
        }
        Source::Defaults { .. } => (Config::default(), Remarks::default()),
    };
    Ok(Loaded { config, source, remarks })
}

/// Reads a configuration from YAML. The name is for messages.
fn read(text: &str, name: &str) -> Result<(Config, Remarks)> {
    let document = Document::parse(text, name)?;
    let mut remarks = Remarks::default();
    let mut root = Section::root(&document)?;
    let storage = Storage::read(root.section("storage")?, &mut remarks)?;
    let cluster = Cluster::read(&mut root, &mut remarks)?;
    let operators_off = read_operators(root.section("operators")?, &mut remarks)?;
    let unless_said = match root.flag("debug")? {
        Some(true) => LogLevel::Debug,
        Some(false) | None => LogLevel::default(),
    };
    let (log_level, log_format) = read_log(root.section("log")?, &mut remarks)?;
    let (log_level, log_format) =
        (log_level.unwrap_or(unless_said), log_format.unwrap_or_default());
    let audit = Audit::read(root.section("audit")?, &mut remarks)?;
    let web_port = read_web(root.section("web")?, &mut remarks)?;
    let runtime = read_runtime(&mut root)?;
    let pods = Pods::read(&mut root)?;
    read_without_effect(&mut root, &mut remarks)?;
    root.finish(&mut remarks);
    let config = Config {
        storage,
        cluster,
        operators_off,
        log_level,
        log_format,
        audit,
        runtime,
        pods,
        web_port,
    };
    Ok((config, remarks))
}

fn read_operators(
    mut section: Section<'_>,
    remarks: &mut Remarks,
) -> Result<BTreeSet<&'static str>> {
    let mut off = BTreeSet::new();
    for family in operators::ALL {
        if section.flag(family.name())? == Some(false) {
            off.insert(family.name());
        }
    }
    section.finish(remarks);
    Ok(off)
}

fn read_runtime(root: &mut Section<'_>) -> Result<Wanted> {
    let expected = "auto, docker, podman, containerd, cri-o, process or none";
    let runtime = root.read("runtime", expected, Runtime::parse)?;
    let expected = "a path of a socket, with or without unix:// before it";
    let socket = root.read("container_runtime_endpoint", expected, |text| match text {
        "" => Some(None),
        text => runtimes::parse_socket(text).map(Some),
    })?;
    Ok(Wanted { runtime: runtime.unwrap_or_default(), socket: socket.flatten() })
}

/// The port of the page for people.
fn read_web(mut web: Section<'_>, remarks: &mut Remarks) -> Result<Option<u16>> {
    let port = web.number("port", 1, u64::from(u16::MAX))?;
    web.skip("cors", remarks);
    web.finish(remarks);
    Ok(port.and_then(|port| u16::try_from(port).ok()))
}

fn read_log(
    mut log: Section<'_>,
    remarks: &mut Remarks,
) -> Result<(Option<LogLevel>, Option<Format>)> {
    let expected = "trace, debug, info, warn or error";
    let level = log.read("level", expected, |text| match text.to_lowercase().as_str() {
        "trace" => Some(LogLevel::Trace),
        "debug" => Some(LogLevel::Debug),
        "info" => Some(LogLevel::Info),
        "warn" | "warning" => Some(LogLevel::Warn),
        "error" => Some(LogLevel::Error),
        _ => None,
    })?;
    let format = log.read("format", "auto, text or json", |text| match text {
        "auto" => Some(Format::Auto),
        "text" => Some(Format::Text),
        "json" => Some(Format::Json),
        _ => None,
    })?;
    log.skip("path", remarks);
    log.finish(remarks);
    Ok((level, format))
}

/// Keys of k3's own configuration that Setpoint accepts and does not need.
fn read_without_effect(root: &mut Section<'_>, remarks: &mut Remarks) -> Result<()> {
    root.skip("role", remarks);
    let mut jwt = root.section("jwt")?;
    jwt.skip("signing_key", remarks);
    jwt.finish(remarks);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(text: &str) -> Config {
        read(text, "c.yaml").map(|(config, _)| config).expect("the configuration must load")
    }

    fn warnings(text: &str) -> Vec<String> {
        read(text, "c.yaml").map(|(_, remarks)| remarks.warnings).expect("it must load")
    }

    fn error(text: &str) -> String {
        let error = read(text, "c.yaml").expect_err("the configuration must be refused");
        crate::output::one_line(&error)
    }

    /// As the mission's document gives it.
    const MISSION: &str = r#"storage:
  type: mysql   # memory / mysql / etcd
  mysql:
    host: localhost
    port: 3306
    user: root
    password: password
    database: k3
    max_open_conns: 10
    max_idle_conns: 5
  etcd:
    endpoints:
      - http://127.0.0.1:2379
    dial_timeout: 5s
    username: ""
    password: ""
"#;

    #[test]
    fn the_missions_own_file_loads_verbatim_and_says_the_defaults() {
        let (loaded, remarks) = read(MISSION, "c.yaml").expect("it must load");
        let mut expected = Config::default();
        expected.storage.kind = StoreKind::Mysql;
        assert_eq!(loaded, expected);
        assert_eq!(remarks, Remarks::default());
    }

    #[test]
    fn the_example_says_the_defaults_and_every_key_of_the_mission() {
        let example = EXAMPLE;
        let (loaded, remarks) = read(example, "config-example.yaml").expect("it must load");
        assert_eq!(loaded, Config { web_port: Some(WEB_PORT), ..Config::default() });
        assert_eq!(remarks, Remarks::default());
        for line in MISSION.lines() {
            let key = line.split_once(':').map_or("", |(key, _)| key);
            let starts = |line: &&str| line.starts_with(&format!("{key}:"));
            assert!(key.contains('-') || example.lines().any(|line| starts(&line)), "{key}");
        }
    }

    #[test]
    fn every_key_that_is_read_is_told_of() {
        let rows: Vec<String> = reference::rows().into_iter().map(|row| row.key).collect();
        let of_any = |key: &str| match key.strip_prefix("controllers.") {
            Some(rest) => format!("controllers.NAME.{}", rest.rsplit('.').next().unwrap_or(rest)),
            None => key.to_owned(),
        };
        for key in section::keys_read(|| drop(config(""))) {
            assert!(rows.contains(&of_any(&key)), "{key} is not in configs/config-example.yaml");
        }
    }

    #[test]
    fn single_controllers_can_be_tuned() {
        let text = "controllers:\n  job-controller: {workers: 3, per_second: 7, backoff: 1s}\n";
        let tuned = config(text).cluster.tunings["job-controller"];
        assert_eq!((tuned.workers_max, tuned.per_second_max), (Some(3), Some(7)));
        assert_eq!((tuned.backoff_first, tuned.backoff_max), (Some(Duration::from_secs(1)), None));
        let warned = warnings("controllers:\n  job-controler: {workers: 3}\n");
        assert!(warned[0].contains("did you mean controllers.job-controller?"), "{warned:?}");
        let refused = error("controllers:\n  job-controller: {workers: 0}\n");
        assert!(refused.contains("expected a number from 1 to 1024"), "{refused}");
    }

    #[test]
    fn variables_of_pods_have_a_value_or_that_of_the_server() {
        let text = "python: /opt/venv\npod_environment:\n  A: \"1\"\n  HTTPS_PROXY:\n  C: \"\"\n";
        let pods = config(text).pods;
        assert_eq!(pods.python.as_deref(), Some(Path::new("/opt/venv")));
        let value = |name: &str| pods.environment[name].as_deref();
        assert_eq!((value("A"), value("HTTPS_PROXY"), value("C")), (Some("1"), None, Some("")));
        let refused = error("pod_environment: {A-B: c}\n");
        assert_eq!(
            refused,
            "c.yaml:1:19: pod_environment.A-B is not the name of an environment variable"
        );
        let refused = error("pod_environment: [A]\n");
        assert!(refused.contains("expected keys and values"), "{refused}");
    }

    #[test]
    fn operators_can_be_left_out() {
        let off = |text: &str| config(text).operators_off;
        assert_eq!(off("operators: {training: false}\n"), BTreeSet::from(["training"]));
        assert_eq!(off("operators: {training: true}\n"), BTreeSet::new());
        assert!(warnings("operators: {trainig: true}\n")[0].contains("operators.training?"));
    }

    #[test]
    fn an_empty_file_and_empty_values_say_the_defaults() {
        let nothing = ["", "# nothing\n", "---\n", "storage:\n", "storage:\n  mysql: ~\n"];
        for text in nothing.into_iter().chain(["storage:\n  mysql:\n    port:\n"]) {
            assert_eq!(config(text), Config::default(), "{text:?}");
        }
    }

    #[test]
    fn unknown_keys_are_warned_about_where_they_are() {
        let text = "storage:\n  mysql:\n    hots: db\n  other: {a: 1}\ntranslation: x\n";
        let expected = [
            "c.yaml:3:5: storage.mysql.hots is not a known key and is ignored; did you mean \
             storage.mysql.host?",
            "c.yaml:4:3: storage.other is not a known key and is ignored",
            "c.yaml:5:1: translation is not a known key and is ignored",
        ];
        assert_eq!(warnings(text), expected);
    }

    #[test]
    fn keys_of_k3_are_accepted() {
        let text = "debug: true\nrole: one\nweb: {port: 8080, cors: [a]}\n\
                    log: {level: warn, path: logs}\njwt: {signing_key: s}\n";
        let (loaded, remarks) = read(text, "c.yaml").expect("it must load");
        assert_eq!((loaded.log_level, loaded.web_port), (LogLevel::Warn, Some(8_080)));
        assert_eq!(remarks.warnings, [""; 0]);
        let expected = [
            "c.yaml:4:20: log.path has no effect",
            "c.yaml:3:19: web.cors has no effect",
            "c.yaml:2:1: role has no effect",
            "c.yaml:5:7: jwt.signing_key has no effect",
        ];
        assert_eq!(remarks.without_effect, expected);
        assert_eq!(config("debug: true").log_level, LogLevel::Debug);
        assert_eq!(config("log: {format: json}").log_format, Format::Json);
    }

    #[test]
    fn wrong_values_are_refused_with_their_position_and_what_is_expected() {
        let cases = [
            (
                "storage:\n  type: sqlite\n",
                "c.yaml:2:9: storage.type is \"sqlite\"; expected memory, embedded, mysql or etcd",
            ),
            (
                "storage: {mysql: {port: 70000}}\n",
                "c.yaml:1:25: storage.mysql.port is \"70000\"; expected a number from 1 to 65535",
            ),
            (
                "storage: {mysql: {max_open_conns: many}}\n",
                "c.yaml:1:35: storage.mysql.max_open_conns is \"many\"; expected a number from 1 \
                 to 10000",
            ),
            (
                "storage: {etcd: {dial_timeout: 5}}\n",
                "c.yaml:1:32: storage.etcd.dial_timeout is \"5\"; expected a duration such as 5s, \
                 1m30s or 500ms",
            ),
            (
                "storage: {etcd: {endpoints: http://a:1}}\n",
                "c.yaml:1:29: storage.etcd.endpoints is a value; expected a list of addresses \
                 such as http://127.0.0.1:2379",
            ),
            (
                "storage: {etcd: {endpoints: [ftp://a]}}\n",
                "c.yaml:1:30: storage.etcd.endpoints[0] is \"ftp://a\"; expected an address such \
                 as http://127.0.0.1:2379",
            ),
            (
                "storage: {etcd: {cert_file: a}}\n",
                "c.yaml:1:29: storage.etcd.cert_file needs storage.etcd.key_file; give both or \
                 neither",
            ),
            (
                "storage: {history: {max_bytes: 1 TB}}\n",
                "c.yaml:1:32: storage.history.max_bytes is \"1 TB\"; expected a size such as \
                 256MiB, or a number of bytes",
            ),
            ("storage: 5\n", "c.yaml:1:10: storage is a value; expected keys and values"),
            (
                "storage: {mysql: {password: [a]}}\n",
                "c.yaml:1:29: storage.mysql.password is a list; expected text",
            ),
            ("- a\n", "c.yaml:1:1: the file is a list; expected keys and values"),
            (
                "runtime: rkt\n",
                "c.yaml:1:10: runtime is \"rkt\"; expected auto, docker, podman, containerd, \
                 cri-o, process or none",
            ),
            ("profile: k3\n", "c.yaml:1:10: profile is \"k3\"; expected kubernetes or mission"),
            (
                "scheduler: {policy: last}\n",
                "c.yaml:1:21: scheduler.policy is \"last\"; expected default or first-ready",
            ),
            ("debug: maybe\n", "c.yaml:1:8: debug is \"maybe\"; expected true or false"),
        ];
        for (text, expected) in cases {
            assert_eq!(error(text), expected);
        }
    }

    #[test]
    fn broken_yaml_is_refused_with_its_position() {
        let cases = [
            ("a: [1\n", "c.yaml:1:4: this is not YAML: unclosed bracket '['"),
            ("a: 1\na: 2\n", "c.yaml:2:1: the key a is there twice; keep one"),
            ("a: 1\n---\nb: 2\n", "c.yaml:3:1: a second document begins; keep one"),
        ];
        for (text, expected) in cases {
            assert_eq!(error(text), expected);
        }
    }

    #[test]
    fn text_is_taken_as_it_is_written() {
        let loaded = config("storage: {mysql: {user: 0123, password: 1.50, tls: on}}\n");
        assert_eq!(loaded.storage.mysql.user, "0123");
        assert_eq!(loaded.storage.mysql.password.expose(), "1.50");
        assert!(loaded.storage.mysql.tls);
    }

    #[test]
    fn secrets_are_not_printed() {
        let text = "storage: {mysql: {password: s3cret}, etcd: {password: s3cret}}\n";
        assert!(!format!("{:?}", config(text)).contains("s3cret"));
    }
}
