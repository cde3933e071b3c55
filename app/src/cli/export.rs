//! `setpoint export`: a cluster in one file: its state at one revision, and a window of its past.
//!
//! The file is lines of JSON. The first says what it is, the last how many lines there are and what
//! they hash to, so that half a file is no file. Secrets and objects with inline secrets, such as
//! the cloud-init of virtual machines, are encrypted lines, or left out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use apiserver::history::{diff, redact};
use apiserver::secrets_at_rest::kinds::{ConfidentialFields, confidential_fields};
use aws_lc_rs::digest::{self, SHA256};
use clap::Args;
use serde_json::{Value, json};

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Kind, Named, Printed, items, text};
use super::sealed::{self, Passphrase};
use super::{Context, small_runtime};

/// What the first line of every export says.
pub const FORMAT: &str = "setpoint-export";
pub const VERSION: u64 = 1;
/// The lines with Secrets: the first, and the rest.
const SECRETS: &str = "secrets";
const MORE_SECRETS: &str = "moreSecrets";
/// The longest line that is read.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Secrets are sealed in pieces of about this size, each a line that can be read.
const SEALED_BYTES: usize = 16 << 20;
/// Kinds that say how things are at the moment and are made again by themselves.
const LEFT_OUT: [&str; 3] = ["events", "leases", "componentstatuses"];

const AFTER_HELP: &str = "\
Examples:
  SETPOINT_PASSPHRASE=... setpoint export cluster.setpoint    with its Secrets, sealed
  setpoint export cluster.setpoint --without-secrets
  setpoint history deployment/web --file cluster.setpoint     read what happened, without a cluster
  setpoint import cluster.setpoint                            bring it into another cluster";

/// Write a cluster's state and its history into one file.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Export {
    /// The file to write.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only changes after this revision; all that are kept when nothing is said.
    #[arg(long, value_name = "REVISION")]
    since: Option<u64>,

    #[command(flatten)]
    passphrase: Passphrase,

    #[command(flatten)]
    target: Target,
}

impl Export {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let since = Some(self.since.unwrap_or(0));
        let wanted = Wanted { file: &self.file, since, passphrase: &self.passphrase };
        let written = small_runtime()?.block_on(write(&self.target, wanted))?;
        context.output.print(&written)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What is written where.
pub struct Wanted<'a> {
    pub file: &'a Path,
    /// Changes after this revision; `None` for no history.
    pub since: Option<u64>,
    pub passphrase: &'a Passphrase,
}

/// Writes an export. It has its name when it is whole.
pub async fn write(target: &Target, wanted: Wanted<'_>) -> Result<Printed> {
    let passphrase = wanted.passphrase.read()?;
    let cluster = Cluster::connect(target).await?;
    let timeline = cluster.get(&format!("{GROUP}/timeline")).await.map_err(past::without_past)?;
    let revision = timeline["newest"]["revision"].as_u64().context("the cluster has no past")?;
    let mut partial = wanted.file.as_os_str().to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let failed = || format!("could not write {}", partial.display());
    let out = Lines::create(&partial).with_context(failed)?;
    let written = fill(&cluster, (out, &passphrase), &timeline, (wanted.since, revision)).await;
    let moved = |counts| {
        std::fs::rename(&partial, wanted.file)
            .with_context(|| format!("could not write {}", wanted.file.display()))
            .map(|()| counts)
    };
    let Counts { objects, sealed, changes, left_out } = match written.and_then(moved) {
        Ok(counts) => counts,
        Err(error) => {
            // Half an export is of no use to anybody; what went wrong is told.
            let _ = std::fs::remove_file(&partial);
            return Err(error);
        }
    };
    let secrets = match passphrase {
        Some(_) => format!("{sealed} secrets sealed"),
        None => "secrets left out".to_owned(),
    };
    let file = wanted.file.display();
    let mut text = format!(
        "{file}: revision {revision}, {objects} objects, {secrets}, {changes} changes of history"
    );
    for object in &left_out {
        text.push_str(&format!("\n    {object} left out: it has inline secrets"));
    }
    let value = json!({"file": wanted.file, "revision": revision, "objects": objects,
        "secrets": sealed, "changes": changes, "leftOut": left_out});
    Ok(Printed::new(value, text))
}

/// How much was written.
struct Counts {
    objects: usize,
    sealed: usize,
    changes: usize,
    /// Objects other than Secrets that are left out because they have inline secrets.
    left_out: Vec<String>,
}

/// Writes all lines.
async fn fill(
    cluster: &Cluster,
    (mut out, passphrase): (Lines, &Option<String>),
    timeline: &Value,
    (since, revision): (Option<u64>, u64),
) -> Result<Counts> {
    let kinds = kept(cluster.kinds().await?);
    out.add(&json!({"format": FORMAT, "version": VERSION, "revision": revision,
        "time": timeline["newest"]["time"], "program": env!("CARGO_PKG_VERSION"),
        "kinds": kinds.iter().map(words_of).collect::<Vec<_>>()}))?;
    let mut objects = 0;
    let (mut secrets, mut left_out) = (Vec::new(), Vec::new());
    for kind in kinds {
        let confidential = confidential_fields(&kind.group, &kind.kind);
        let list = match confidential {
            None => cluster.get(&format!("{GROUP}/at/{revision}/{}", kind.path("", ""))).await?,
            Some(ConfidentialFields::SecretData) if passphrase.is_none() => continue,
            // History hides confidential values; these objects are read as they are.
            Some(_) => cluster.get(&kind.path("", "")).await?,
        };
        for object in items(&list["items"]) {
            let mut object = object.clone();
            object["apiVersion"] = list["apiVersion"].clone();
            object["kind"] = json!(kind.kind);
            match (is_secret(confidential, &object), passphrase) {
                (false, _) => {
                    out.add(&json!({"object": object}))?;
                    objects += 1;
                }
                (true, Some(_)) => secrets.push(object),
                (true, None) => {
                    let (kind, metadata) = (&kind.kind, &object["metadata"]);
                    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
                    left_out.push(format!("{kind} {namespace}/{name}"));
                }
            }
        }
    }
    let sealed = secrets.len();
    if let Some(passphrase) = passphrase {
        for (at, piece) in pieces(secrets, SEALED_BYTES).iter().enumerate() {
            // A program that knows of one line only refuses a file with more of them.
            let name = if at == 0 { SECRETS } else { MORE_SECRETS };
            out.add(&json!({name: sealed::seal(passphrase, piece.as_bytes())?}))?;
        }
    }
    let changes = match since {
        Some(since) => write_changes(cluster, &mut out, (since, revision)).await?,
        None => 0,
    };
    out.finish().context("could not write the export")?;
    Ok(Counts { objects, sealed, changes, left_out })
}

/// Returns whether an object is a Secret or has inline secrets.
fn is_secret(confidential: Option<ConfidentialFields>, object: &Value) -> bool {
    confidential.is_some_and(|fields| {
        fields == ConfidentialFields::SecretData || redact::has_confidential_values(fields, object)
    })
}

/// What people call a kind, so that a file can be asked without a cluster.
fn words_of(kind: &Kind) -> Value {
    json!({"group": kind.group, "kind": kind.kind, "plural": kind.plural,
        "singular": kind.singular, "shortNames": kind.short})
}

/// Whether a word means a kind of a file.
fn is_word_for(word: &str, told: &Value) -> bool {
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    let names = ["kind", "plural", "singular"].map(|field| text(&told[field]));
    let short = items(&told["shortNames"]).iter().map(text);
    let is_named = names.into_iter().chain(short).any(|known| known.eq_ignore_ascii_case(name));
    is_named && (group.is_empty() || text(&told["group"]) == group)
}

/// Lists of objects as text, each about as long as is said, and one at least.
fn pieces(objects: Vec<Value>, bytes: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for object in objects {
        piece.push(if piece.is_empty() { '[' } else { ',' });
        piece.push_str(&object.to_string());
        if piece.len() >= bytes {
            pieces.push(std::mem::take(&mut piece) + "]");
        }
    }
    if !piece.is_empty() || pieces.is_empty() {
        pieces.push(if piece.is_empty() { "[]".to_owned() } else { piece + "]" });
    }
    pieces
}

/// The kinds that are exported, each in the version that the server prefers.
fn kept(kinds: Vec<Kind>) -> Vec<Kind> {
    let mut kept: Vec<Kind> = Vec::new();
    for kind in kinds {
        let has = |verb: &str| kind.verbs.iter().any(|one| one == verb);
        let is_known =
            kept.iter().any(|one| (&one.group, &one.plural) == (&kind.group, &kind.plural));
        let is_kept = has("list") && has("create") && !LEFT_OUT.contains(&kind.plural.as_str());
        if is_kept && !is_known {
            kept.push(kind);
        }
    }
    kept
}

async fn write_changes(
    cluster: &Cluster,
    out: &mut Lines,
    (mut after, to): (u64, u64),
) -> Result<usize> {
    let mut count = 0;
    loop {
        let page = cluster.get(&format!("{GROUP}/changes?after={after}&to={to}")).await?;
        for item in items(&page["items"]) {
            out.add(&json!({"change": item}))?;
            count += 1;
        }
        match text(&page["metadata"]["continue"]).parse() {
            Ok(next) => after = next,
            Err(_) => return Ok(count),
        }
    }
}

/// Lines as they are written, and what they hash to.
struct Lines {
    out: BufWriter<File>,
    hash: digest::Context,
    count: u64,
}

impl Lines {
    fn create(path: &Path) -> Result<Lines> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Lines { out: BufWriter::new(file), hash: digest::Context::new(&SHA256), count: 0 })
    }

    fn add(&mut self, line: &Value) -> Result<()> {
        let line = format!("{line}\n");
        self.hash.update(line.as_bytes());
        self.count += 1;
        self.out.write_all(line.as_bytes()).context("could not write the export")
    }

    fn finish(mut self) -> Result<()> {
        let hash = sealed::base64(self.hash.clone().finish().as_ref());
        let end = json!({"end": {"lines": self.count, "sha256": hash}});
        writeln!(self.out, "{end}")?;
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        Ok(())
    }
}

/// An export that was read whole and checked.
pub struct Read {
    pub head: Value,
    pub objects: Vec<Value>,
    /// Sealed, in pieces.
    pub secrets: Vec<Value>,
    pub changes: Vec<Value>,
}

/// Reads an export; what is not whole, not ours or too new is refused.
pub fn read(path: &Path) -> Result<Read> {
    let file = File::open(path).with_context(|| format!("could not read {}", path.display()))?;
    let foreign = || format!("{} is no export of setpoint", path.display());
    let broken =
        || format!("{} is broken: it is not as it was written; export again", path.display());
    let mut read =
        Read { head: Value::Null, objects: Vec::new(), secrets: Vec::new(), changes: Vec::new() };
    let mut hash = digest::Context::new(&SHA256);
    let mut input = BufReader::new(file);
    let mut count = 0;
    loop {
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut input, LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line).with_context(broken)?;
        let value: Option<Value> = serde_json::from_slice(&line).ok();
        let Some(mut value) = value.filter(|_| line.ends_with(b"\n")) else {
            bail!(if count == 0 { foreign() } else { broken() });
        };
        if count == 0 {
            if value["format"] != FORMAT {
                bail!(foreign());
            }
            if value["version"] != VERSION {
                bail!(
                    "{} has version {} of the format, and this program reads {VERSION}; use the \
                     program that wrote it, or a newer one",
                    path.display(),
                    value["version"]
                );
            }
            read.head = value;
        } else if let Some(end) = value.get("end") {
            let found = sealed::base64(hash.finish().as_ref());
            if end["lines"] != count || end["sha256"] != found.as_str() {
                bail!(broken());
            }
            return Ok(read);
        } else if let Some(object) = value.get_mut("object") {
            read.objects.push(object.take());
        } else if let Some(change) = value.get_mut("change") {
            read.changes.push(change.take());
        } else {
            match [SECRETS, MORE_SECRETS].into_iter().find(|name| value.get(name).is_some()) {
                Some(name) => read.secrets.push(value[name].take()),
                None => bail!(broken()),
            }
        }
        hash.update(&line);
        count += 1;
    }
}

/// An object of an export: group, kind, namespace and name.
pub type Who = (String, String, String, String);

/// Names an object, whatever version of its kind it is of.
pub fn who(api_version: &Value, kind: &Value, namespace: &Value, name: &Value) -> Who {
    let group = text(api_version).split_once('/').map_or("", |(group, _)| group);
    (group.into(), text(kind).into(), text(namespace).into(), text(name).into())
}

/// What happened to each object, as an export tells it, newest first.
pub fn windows(changes: &[Value]) -> BTreeMap<Who, Vec<Value>> {
    let mut windows: BTreeMap<Who, Vec<Value>> = BTreeMap::new();
    let mut last: BTreeMap<Who, Value> = BTreeMap::new();
    for change in changes {
        for part in items(&change["changes"]) {
            let who = who(&part["apiVersion"], &part["kind"], &part["namespace"], &part["name"]);
            let after = part["object"].clone();
            let before = last.insert(who.clone(), after.clone()).unwrap_or_default();
            windows.entry(who).or_default().push(told(change, &before, &after));
        }
    }
    windows.values_mut().for_each(|window| window.reverse());
    windows
}

/// A change of an object, as `revisions` of the API tells it.
fn told(change: &Value, before: &Value, after: &Value) -> Value {
    let kind = match (before, after) {
        (_, Value::Null) => "Deleted",
        (Value::Null, object) => match object["metadata"]["generation"].as_u64() {
            None | Some(0 | 1) => "Created",
            _ => "Changed",
        },
        _ => "Changed",
    };
    let changes = match before.is_null() || after.is_null() {
        true => Vec::new(),
        false => diff::between(before, after),
    };
    let mut told = change.clone();
    told["type"] = json!(kind);
    told["cause"] = match change["cause"].as_u64() {
        Some(cause) => json!({"revision": cause}),
        None => Value::Null,
    };
    told["changes"] = changes.iter().map(diff::Change::to_json).collect();
    told
}

/// What happened to an object, as an export tells it, newest first.
pub fn revisions(path: &Path, named: &Named, namespace: &str) -> Result<Value> {
    let (word, name) = named.parts()?;
    let read = read(path)?;
    let windows = windows(&read.changes);
    let mut kinds: Vec<Value> = items(&read.head["kinds"]).to_vec();
    // Of kinds that were there once, the changes tell; they say no more of them than this.
    kinds.extend(windows.keys().map(|(group, kind, ..)| {
        let plural = format!("{}s", kind.to_lowercase());
        json!({"group": group, "kind": kind, "plural": plural})
    }));
    let meant: Vec<(&str, &str)> = kinds
        .iter()
        .filter(|told| is_word_for(word, told))
        .map(|told| (text(&told["group"]), text(&told["kind"])))
        .collect();
    if meant.is_empty() {
        bail!("{} tells of no kind {word:?}", path.display());
    }
    let is_meant = |(group, kind, place, own): &Who| {
        meant.contains(&(group.as_str(), kind.as_str()))
            && own == name
            && (place == namespace || place.is_empty())
    };
    let found = windows.into_iter().find(|(who, _)| is_meant(who));
    let revisions = found.map(|(_, window)| window).unwrap_or_default();
    Ok(json!({"kind": "RevisionList", "items": revisions}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_sealed_in_pieces_that_are_lists() {
        let all: Vec<Value> = (0..5).map(|number| json!({"n": number})).collect();
        assert_eq!(
            pieces(all.clone(), 10),
            [r#"[{"n":0},{"n":1}]"#, r#"[{"n":2},{"n":3}]"#, r#"[{"n":4}]"#]
        );
        assert_eq!(pieces(all, 1 << 20).len(), 1);
        assert_eq!(pieces(Vec::new(), 10), ["[]"]);
    }

    #[test]
    fn a_file_is_asked_by_any_name_of_a_kind() {
        let told = json!({"group": "apps", "kind": "Deployment", "plural": "deployments",
            "singular": "deployment", "shortNames": ["deploy"]});
        for word in ["deploy", "Deployment", "deployments", "deploy.apps", "deployment.apps"] {
            assert!(is_word_for(word, &told), "{word}");
        }
        for word in ["dep", "deploy.batch", "", "pods"] {
            assert!(!is_word_for(word, &told), "{word}");
        }
    }

    fn write_to(path: &Path, lines: &[Value]) {
        let _ = std::fs::remove_file(path);
        let mut out = Lines::create(path).unwrap();
        lines.iter().for_each(|line| out.add(line).unwrap());
        out.finish().unwrap();
    }

    #[test]
    fn what_is_not_whole_or_not_ours_is_refused() {
        let directory =
            std::env::temp_dir().join(format!("setpoint-export-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a");
        let head = json!({"format": FORMAT, "version": VERSION});
        write_to(&path, &[head.clone(), json!({"object": {"kind": "Pod"}})]);
        assert_eq!(read(&path).unwrap().objects.len(), 1);
        let whole = std::fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            format!("{:#}", read(&path).err().unwrap())
        };
        assert!(refused(b"").contains("no export"));
        assert!(refused(b"\x00\x01 something else").contains("no export"));
        assert!(refused(b"{\"kind\":\"List\"}\n").contains("no export"));
        for end in [whole.len() - 1, whole.len() - 30, 40] {
            let text = refused(&whole[..end]);
            assert!(text.contains("broken") || text.contains("no export"), "{end} {text}");
        }
        let changed = String::from_utf8(whole).unwrap().replace("Pod", "Pox");
        assert!(refused(changed.as_bytes()).contains("broken"));
        write_to(&path, &[json!({"format": FORMAT, "version": 99})]);
        assert!(format!("{:#}", read(&path).err().unwrap()).contains("version 99"));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
