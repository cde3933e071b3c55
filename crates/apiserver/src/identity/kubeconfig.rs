//! Kubeconfig files: ours, and our entry in the user's.
//!
//! The user's file belongs to the user: what is not ours is kept as it means, and a file that
//! cannot be understood is not touched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Error;
use super::key_files::{Privacy, write_atomically};
use super::yaml_text;

/// One cluster with one user, and the context that joins them; all three have one name.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub name: &'a str,
    /// `https://127.0.0.1:6443`.
    pub server: &'a str,
    pub authority_pem: &'a str,
    pub credential: Credential<'a>,
    pub selection: Selection,
}

/// When a context becomes the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    WhereThereIsNone,
    Always,
}

#[derive(Clone, Copy)]
pub enum Credential<'a> {
    Certificate { certificate_pem: &'a str, key_pem: &'a str },
    Token(&'a str),
}

/// Never shows what is secret.
impl std::fmt::Debug for Credential<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Credential::Certificate { .. } => "Certificate",
            Credential::Token(_) => "Token",
        })
    }
}

/// A kubeconfig that holds the entry and nothing else.
pub fn alone(entry: &Entry<'_>) -> String {
    let mut config = Map::new();
    // An empty file has room for anything.
    let merged = insert(&mut config, entry);
    debug_assert!(merged.is_ok(), "an empty kubeconfig takes every entry");
    yaml_text::write(&Value::Object(config))
}

/// The text of an existing file with the entry in it.
pub fn merge(text: &str, entry: &Entry<'_>) -> Result<String, Error> {
    let mut config = match parse(text)? {
        Value::Null => Map::new(),
        Value::Object(config) => config,
        _ => return Err(not_understood("it is not a mapping")),
    };
    insert(&mut config, entry)?;
    Ok(yaml_text::write(&Value::Object(config)))
}

/// The text without the entries of a cluster, and whether there was one: those that have the
/// cluster's authority, and whose cluster, user and context have one name, as ours do.
pub fn without(text: &str, authority_pem: &str) -> Result<(String, bool), Error> {
    let Value::Object(mut config) = parse(text)? else { return Ok((text.to_owned(), false)) };
    let data = STANDARD.encode(authority_pem);
    let clusters = config.get("clusters").and_then(Value::as_array).into_iter().flatten();
    let of_it = clusters.filter(|one| one["cluster"]["certificate-authority-data"] == *data);
    let names: Vec<Value> = of_it.map(|one| one["name"].clone()).collect();
    let is_ours = |name: &&Value| {
        let context = find(&config, "contexts", name.as_str().unwrap_or_default());
        context
            .is_some_and(|it| it["context"]["cluster"] == **name && it["context"]["user"] == **name)
    };
    let names: Vec<Value> = names.iter().filter(is_ours).cloned().collect();
    if names.is_empty() {
        return Ok((text.to_owned(), false));
    }
    for list in ["clusters", "contexts", "users"] {
        if let Some(items) = config.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|one| !names.contains(&one["name"]));
        }
    }
    if config.get("current-context").is_some_and(|current| names.contains(current)) {
        config.insert("current-context".to_owned(), json!(""));
    }
    Ok((yaml_text::write(&Value::Object(config)), true))
}

/// Takes the entries of a cluster out of a file, as [`without`] has it.
pub fn remove_from_file(path: &Path, authority_pem: &str) -> Result<bool, Error> {
    let mut was_there = false;
    rewrite(path, |text| {
        let (text, found) = without(text, authority_pem)?;
        was_there = found;
        Ok(text)
    })?;
    Ok(was_there)
}

/// Merges the entry into a file, which is made if it is not there.
pub fn merge_into_file(path: &Path, entry: &Entry<'_>) -> Result<(), Error> {
    rewrite(path, |text| merge(text, entry))
}

/// Gives a file another text. Links are followed; other programs that lock the file as kubectl
/// does are respected.
fn rewrite(path: &Path, change: impl FnOnce(&str) -> Result<String, Error>) -> Result<(), Error> {
    let cannot_write = |source| Error::WriteKeyFile { name: path.display().to_string(), source };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(cannot_write)?;
    }
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _lock = Lock::take(&real).map_err(cannot_write)?;
    let text = match fs::read_to_string(&real) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => {
            return Err(Error::ReadKeyFile { name: path.display().to_string(), source });
        }
    };
    let changed = change(&text)?;
    if changed == text {
        return Ok(());
    }
    write_atomically(&real, changed.as_bytes(), Privacy::Private).map_err(cannot_write)
}

/// The file whose existence tells kubectl to keep off.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> io::Result<Lock> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Lock(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let why = format!("{} is there: another program is writing", lock.display());
                Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn parse(text: &str) -> Result<Value, Error> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        strict_booleans: false,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| not_understood(&error.to_string()))
}

fn not_understood(why: &str) -> Error {
    Error::Kubeconfig { why: why.to_owned() }
}

fn insert(config: &mut Map<String, Value>, entry: &Entry<'_>) -> Result<(), Error> {
    let data = |text: &str| STANDARD.encode(text);
    let cluster = json!({
        "server": entry.server,
        "certificate-authority-data": data(entry.authority_pem),
    });
    let user = match entry.credential {
        Credential::Token(token) => json!({"token": token}),
        Credential::Certificate { certificate_pem, key_pem } => json!({
            "client-certificate-data": data(certificate_pem),
            "client-key-data": data(key_pem),
        }),
    };
    let mut context = json!({"cluster": entry.name, "user": entry.name});
    // Where the user works is theirs to say, also in our context.
    if let Some(namespace) = find(config, "contexts", entry.name)
        .and_then(|old| old["context"]["namespace"].as_str().map(str::to_owned))
    {
        context["namespace"] = json!(namespace);
    }
    put(config, "clusters", json!({"name": entry.name, "cluster": cluster}))?;
    put(config, "contexts", json!({"name": entry.name, "context": context}))?;
    put(config, "users", json!({"name": entry.name, "user": user}))?;
    config.entry("apiVersion").or_insert_with(|| json!("v1"));
    config.entry("kind").or_insert_with(|| json!("Config"));
    let current = config.entry("current-context").or_insert(Value::Null);
    let has_none = current.as_str().is_none_or(str::is_empty);
    if has_none || entry.selection == Selection::Always {
        *current = json!(entry.name);
    }
    Ok(())
}

fn find<'a>(config: &'a Map<String, Value>, list: &str, name: &str) -> Option<&'a Value> {
    config.get(list)?.as_array()?.iter().find(|one| one["name"] == name)
}

/// Puts a named item where the one of its name is, or at the end.
fn put(config: &mut Map<String, Value>, list: &str, item: Value) -> Result<(), Error> {
    let items = config.entry(list).or_insert(Value::Null);
    if items.is_null() {
        *items = json!([]);
    }
    let Some(items) = items.as_array_mut() else {
        return Err(not_understood(&format!("its {list} are not a list")));
    };
    let place = items.iter().position(|one| one["name"] == item["name"]);
    match place {
        Some(place) => {
            let name = item["name"].clone();
            items[place] = item;
            // kubectl would take the first of two; so one is all that is meant.
            let mut seen = false;
            items.retain(|one| one["name"] != name || !std::mem::replace(&mut seen, true));
        }
        None => items.push(item),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::key_files::tests::Scratch;
    use super::*;

    const ENTRY: Entry<'_> = Entry {
        name: "setpoint",
        server: "https://127.0.0.1:6443",
        authority_pem: "CA",
        credential: Credential::Certificate { certificate_pem: "CERT", key_pem: "KEY" },
        selection: Selection::WhereThereIsNone,
    };

    /// What the merged text means, without our cluster and user.
    fn merged(text: &str) -> Value {
        let mut config = parse(&merge(text, &ENTRY).unwrap()).unwrap();
        for (list, field) in [("clusters", "cluster"), ("users", "user")] {
            let items = config[list].as_array_mut().unwrap();
            let ours = items.iter().position(|one| one["name"] == "setpoint").unwrap();
            assert!(items.remove(ours)[field].is_object());
        }
        config
    }

    #[test]
    fn an_entry_alone_is_a_whole_kubeconfig() {
        let config = parse(&alone(&ENTRY)).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "setpoint",
            "clusters": [{"name": "setpoint", "cluster": {
                "server": "https://127.0.0.1:6443", "certificate-authority-data": "Q0E="}}],
            "contexts": [{"name": "setpoint", "context": {
                "cluster": "setpoint", "user": "setpoint"}}],
            "users": [{"name": "setpoint", "user": {
                "client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"}}],
        });
        assert_eq!(config, expected);
        let token = Entry { credential: Credential::Token("t"), ..ENTRY };
        let config = parse(&alone(&token)).unwrap();
        assert_eq!(config["users"][0]["user"], json!({"token": "t"}));
    }

    #[test]
    fn merging_keeps_what_is_not_ours() {
        let ours = json!({"cluster": "setpoint", "user": "setpoint"});
        let cases = [
            // Nothing there yet.
            ("", json!("setpoint"), json!([{"name": "setpoint", "context": ours}])),
            (
                "# only a comment\n",
                json!("setpoint"),
                json!([{"name": "setpoint", "context": ours}]),
            ),
            // Lists that kubectl writes as null.
            (
                "clusters: null\ncontexts: null\nusers: null\ncurrent-context: \"\"\n",
                json!("setpoint"),
                json!([{"name": "setpoint", "context": ours}]),
            ),
            // Another context is current, and stays so.
            (
                "current-context: work\ncontexts: [{name: work, context: {cluster: w, user: w}}]",
                json!("work"),
                json!([
                    {"name": "work", "context": {"cluster": "w", "user": "w"}},
                    {"name": "setpoint", "context": ours}
                ]),
            ),
            // Ours is replaced where it is, and keeps its namespace.
            (
                "\
current-context: setpoint
contexts:
- name: setpoint
  context: {cluster: old, namespace: dev}
- {name: z, context: {}}
",
                json!("setpoint"),
                json!([
                    {"name": "setpoint", "context":
                        {"cluster": "setpoint", "user": "setpoint", "namespace": "dev"}},
                    {"name": "z", "context": {}}
                ]),
            ),
            // Twice ours becomes once.
            (
                "contexts:\n- {name: setpoint, context: {}}\n- {name: b}\n- {name: setpoint}\n",
                json!("setpoint"),
                json!([{"name": "setpoint", "context": ours}, {"name": "b"}]),
            ),
        ];
        for (text, current, contexts) in cases {
            let config = merged(text);
            assert_eq!(config["current-context"], current, "{text}");
            assert_eq!(config["contexts"], contexts, "{text}");
        }
    }

    #[test]
    fn unknown_fields_and_awkward_values_keep_their_meaning() {
        let text = r#"
apiVersion: v1
kind: Config
current-context: work
preferences: {colors: true}
extensions:
- name: x
  extension: {anything: [1, 2.5, null, "yes", "0644", "12:30", "~", ""]}
clusters:
- name: work
  cluster:
    server: https://example.com
    insecure-skip-tls-verify: yes
    tls-server-name: "on"
    certificate-authority-data: |
      two
      lines
users:
- name: work
  user:
    token: "123456"
    password: "a: b # c"
    exec:
      args: ["--x", "- y", "*z", "&w", "!t", "%p", "@q", "`r", "ünï", "tab\there"]
      env: [{name: N, value: "1e3"}]
"#;
        let before = parse(text).unwrap();
        let mut after = merged(text);
        after["contexts"].as_array_mut().unwrap().clear();
        for field in ["preferences", "extensions", "clusters", "users", "current-context"] {
            assert_eq!(after[field], before[field], "{field}");
        }
        assert_eq!(after["clusters"][0]["cluster"]["insecure-skip-tls-verify"], json!(true));
    }

    #[test]
    fn merging_twice_is_merging_once() {
        let once = merge("current-context: work\n", &ENTRY).unwrap();
        assert_eq!(merge(&once, &ENTRY).unwrap(), once);
    }

    #[test]
    fn what_was_added_can_be_taken_out_again_and_nothing_else() {
        let before = "current-context: work\ncontexts: [{name: work, context: {cluster: w}}]\n";
        let added = merge(before, &Entry { selection: Selection::Always, ..ENTRY }).unwrap();
        assert_eq!(parse(&added).unwrap()["current-context"], "setpoint");
        // That of another cluster, which has another authority, is not this one's to remove.
        assert_eq!(without(&added, "ANOTHER").unwrap(), (added.clone(), false));
        let (after, was_there) = without(&added, "CA").unwrap();
        let after = parse(&after).unwrap();
        assert!(was_there && after["clusters"] == json!([]) && after["users"] == json!([]));
        assert_eq!(after["contexts"], parse(before).unwrap()["contexts"]);
        assert_eq!(after["current-context"], "");
        // A cluster of this authority that the user named is the user's.
        let theirs = added.replace("cluster: setpoint", "cluster: other");
        assert!(!without(&theirs, "CA").unwrap().1);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in ["- a\n", "just text", "clusters: 7\n", "a: b: c\n", "x: 1\nx: 2\n", "\t{"] {
            assert!(merge(text, &ENTRY).is_err(), "{text}");
        }
    }

    #[test]
    fn files_are_private_whole_and_locked() {
        let scratch = Scratch::new("kubeconfig");
        let path = scratch.0.join("home/.kube/config");
        merge_into_file(&path, &ENTRY).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        merge_into_file(&link, &Entry { name: "second", ..ENTRY }).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().file_type().is_symlink());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("second") && text.contains("current-context: setpoint"), "{text}");

        fs::write(scratch.0.join("home/.kube/config.lock"), "").unwrap();
        assert!(merge_into_file(&path, &Entry { name: "third", ..ENTRY }).is_err());
        fs::remove_file(scratch.0.join("home/.kube/config.lock")).unwrap();

        fs::write(&path, "- not ours to break\n").unwrap();
        assert!(merge_into_file(&path, &ENTRY).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "- not ours to break\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
