//! What commands about objects and their past share: asking the server, and finding out what
//! `deployment.apps/web` means there.

use anyhow::{Context as _, Result, anyhow, bail};
pub use api::value::{list as items, text};
use clap::Args;
use serde_json::{Value, json};

use super::connect::{self, Target};
use super::exit::{self, Failure};
use crate::config::nearest;

/// The group that answers for the past.
pub const GROUP: &str = "apis/history.setpoint.dev/v1";
const MANAGER: &str = "setpoint";
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/// Among how many objects a name is looked for that was probably meant.
const NAMES_MAX: usize = 500;
/// What asks for rows in place of objects.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// One object, as kubectl names it.
#[derive(Args, Clone)]
pub struct Named {
    /// The object, such as `pod/web`, `deployment.apps/web` or `trainjob web`.
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    words: Vec<String>,
}

impl Named {
    /// The kind and the name.
    pub fn parts(&self) -> Result<(&str, &str)> {
        match &self.words[..] {
            [kind, name] if !kind.contains('/') => Ok((kind, name)),
            [one] => match one.split_once('/') {
                Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
                _ => bail!("{one:?} names no object; write KIND/NAME, such as pod/web"),
            },
            _ => bail!("write KIND/NAME or KIND NAME, such as pod/web"),
        }
    }
}

/// A kind of objects, as the server calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub short: Vec<String>,
    pub is_namespaced: bool,
    pub verbs: Vec<String>,
}

impl Kind {
    /// The path of one object, or of a list, without a slash before it.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("api/{}", self.version),
            group => format!("apis/{group}/{}", self.version),
        };
        if self.is_namespaced && !namespace.is_empty() {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{}", self.plural));
        if !name.is_empty() {
            path.push_str(&format!("/{name}"));
        }
        path
    }

    /// `deployment.apps/web`.
    pub fn name_of(&self, name: &str) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}/{name}", self.singular, self.group)
    }

    /// Whether a word of a command line means it.
    fn is_meant(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let names = [&self.plural, &self.singular].into_iter().chain(&self.short);
        let mut names = names.filter(|name| !name.is_empty());
        names.any(|name| {
            let rest = word.strip_prefix(name.as_str());
            rest.is_some_and(|rest| {
                let full = format!(".{}.{}", self.version, self.group);
                rest.is_empty() || rest == format!(".{}", self.group) || rest == full
            })
        })
    }
}

/// A cluster that is asked.
pub struct Cluster {
    pub client: kube::Client,
    pub namespace: String,
}

/// What the server said of a request that failed.
#[derive(Debug)]
pub struct Refused {
    pub code: u16,
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// The code that the server refused with, if that is why something failed.
pub fn code_of(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<Refused>().map(|refused| refused.code)
}

impl Cluster {
    pub async fn connect(target: &Target) -> Result<Cluster> {
        let client = connect::connect(target, MANAGER).await?.client;
        let namespace = target.namespace(&client);
        Ok(Cluster { client, namespace })
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.get_as(path, "application/json").await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Result<Value> {
        self.ask(("GET", path), ("accept", accept), String::new()).await
    }

    /// What is no JSON: the log of a pod.
    pub async fn text(&self, path: &str) -> Result<String> {
        let uri = format!("/{path}");
        let request = http::Request::get(&uri).body(Vec::new());
        let request = request.with_context(|| format!("{uri} is no address"))?;
        self.client.request_text(request).await.context("could not ask the cluster")
    }

    pub async fn post(&self, path: &str, body: String) -> Result<Value> {
        self.ask(("POST", path), ("content-type", "application/json"), body).await
    }

    async fn ask(
        &self,
        (method, path): (&str, &str),
        header: (&str, &str),
        body: String,
    ) -> Result<Value> {
        let uri = format!("/{path}");
        let request = http::Request::builder().method(method).uri(&uri);
        let request = request.header(header.0, header.1).body(body.into_bytes());
        let request = request.with_context(|| format!("{uri} is no address"))?;
        let text = self.client.request_text(request).await.map_err(|error| match error {
            kube::Error::Api(status) => {
                anyhow!(Refused { code: status.code, message: status.message.clone() })
            }
            other => anyhow!(other).context("could not ask the cluster"),
        })?;
        serde_json::from_str(&text).with_context(|| format!("{uri} was not answered with JSON"))
    }

    /// Every kind that is served, in the order in which the server prefers them.
    pub async fn kinds(&self) -> Result<Vec<Kind>> {
        let mut kinds = Vec::new();
        for root in ["api", "apis"] {
            let found = self.get_as(root, DISCOVERY).await?;
            for group in items(&found["items"]) {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                for version in items(&group["versions"]) {
                    let version_name = text(&version["version"]);
                    let resources = items(&version["resources"]);
                    kinds.extend(resources.iter().map(|one| kind(name, version_name, one)));
                }
            }
        }
        Ok(kinds)
    }

    /// The kind that a word means.
    pub async fn kind(&self, word: &str) -> Result<Kind> {
        let kinds = self.kinds().await?;
        let meant = |kind: &&Kind| {
            kind.is_meant(word) && kind.verbs.iter().any(|verb| verb == "get" || verb == "list")
        };
        let found = kinds.iter().find(meant).cloned();
        found.ok_or_else(|| {
            let names = kinds.iter().flat_map(|kind| [&kind.plural, &kind.singular]);
            let names: Vec<&str> = names.map(String::as_str).collect();
            let hint = match nearest(word, &names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "`setpoint api-resources` lists what it serves".to_owned(),
            };
            let what = format!("the cluster serves no kind {word:?}");
            anyhow!(Failure::new(exit::NOT_FOUND, what).hint(hint))
        })
    }

    /// The same error; where an object is not there, with the name that was probably meant.
    pub async fn with_nearest(
        &self,
        error: anyhow::Error,
        kind: &Kind,
        name: &str,
    ) -> anyhow::Error {
        let Some(refused) = error.downcast_ref::<Refused>().filter(|it| it.code == 404) else {
            return error;
        };
        let what = refused.message.clone();
        let path = format!("{}?limit={NAMES_MAX}", kind.path(&self.namespace, ""));
        let Ok(list) = self.get(&path).await else { return error };
        let names = items(&list["items"]).iter().map(|item| text(&item["metadata"]["name"]));
        match nearest(name, &names.collect::<Vec<_>>()) {
            Some(near) if near != name => {
                let hint = format!("did you mean `{}`?", kind.name_of(near));
                anyhow!(Failure::new(exit::NOT_FOUND, what).hint(hint))
            }
            _ => error,
        }
    }

    /// The object that is meant: its kind, its name and its path.
    pub async fn find(&self, named: &Named) -> Result<(Kind, String, String)> {
        let (word, name) = named.parts()?;
        let kind = self.kind(word).await?;
        let path = kind.path(&self.namespace, name);
        Ok((kind, name.to_owned(), path))
    }
}

fn kind(group: &str, version: &str, resource: &Value) -> Kind {
    let texts = |list: &Value| items(list).iter().map(|one| text(one).to_owned()).collect();
    let kind = text(&resource["responseKind"]["kind"]).to_owned();
    let singular = match text(&resource["singularResource"]) {
        "" => kind.to_lowercase(),
        singular => singular.to_owned(),
    };
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: text(&resource["resource"]).to_owned(),
        singular,
        kind,
        short: texts(&resource["shortNames"]),
        is_namespaced: resource["scope"] == "Namespaced",
        verbs: texts(&resource["verbs"]),
    }
}

/// A value for a query of a URL.
pub fn encoded(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char);
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Rows under each other, as wide as they need to be.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}   "));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.pop();
    out
}

/// A value on one line.
pub fn short(value: &Value) -> String {
    const CHARS_MAX: usize = 80;
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = text.replace('\n', "\\n");
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A difference on one line.
pub fn difference(change: &Value) -> String {
    let path = text(&change["path"]);
    match (&change["from"], &change["to"]) {
        (Value::Null, to) => format!("+ {path}: {}", short(to)),
        (from, Value::Null) => format!("- {path}: {}", short(from)),
        (from, to) => format!("~ {path}: {} -> {}", short(from), short(to)),
    }
}

/// Something that is printed as text for people and as it is for programs.
pub struct Printed {
    pub value: Value,
    pub text: String,
}

impl Printed {
    pub fn new(value: Value, text: impl Into<String>) -> Printed {
        Printed { value, text: text.into() }
    }
}

impl std::fmt::Display for Printed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl serde::Serialize for Printed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// A moment as the server reads it: a time may lack its day or its seconds nowhere.
pub fn moment(text: &str) -> Result<String> {
    if text.is_empty() || text.contains(['/', '?', '#', ' ']) {
        bail!(
            "invalid time {text:?}; give a revision, a time such as 2026-01-02T15:04:05Z, or -5m"
        );
    }
    Ok(encoded(text))
}

/// Whether the cluster answers for the past; others do not know the group. Told by discovery: what
/// is in the group may be refused, also by those who have none.
pub async fn has_past(cluster: &Cluster) -> Result<bool> {
    match cluster.get(GROUP).await {
        Ok(_) => Ok(true),
        Err(error) if code_of(&error) == Some(404) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What to say of a cluster that keeps no past.
pub fn without_past(error: anyhow::Error) -> anyhow::Error {
    let is_unknown = error.downcast_ref::<Refused>().is_some_and(|refused| {
        refused.code == 404
            && (refused.message.contains("page not found")
                || refused.message.contains("could not find the requested resource"))
    });
    match is_unknown {
        true => anyhow!("this cluster keeps no past: it is not one of setpoint, or an old one"),
        false => error,
    }
}

/// Names what is meant, for messages and programs.
pub fn about(kind: &Kind, name: &str) -> Value {
    json!({"kind": kind.kind, "name": name})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Kind {
        Kind {
            group: "apps".into(),
            version: "v1".into(),
            plural: "deployments".into(),
            singular: "deployment".into(),
            kind: "Deployment".into(),
            short: vec!["deploy".into()],
            is_namespaced: true,
            verbs: vec!["get".into()],
        }
    }

    #[test]
    fn a_kind_is_named_as_kubectl_names_it() {
        for word in
            ["deployment", "Deployments", "deploy", "deployment.apps", "deployments.v1.apps"]
        {
            assert!(deployment().is_meant(word), "{word}");
        }
        for word in ["deploym", "deployment.batch", "pod"] {
            assert!(!deployment().is_meant(word), "{word}");
        }
        assert_eq!(deployment().path("a", "web"), "apis/apps/v1/namespaces/a/deployments/web");
        assert_eq!(deployment().name_of("web"), "deployment.apps/web");
    }

    #[test]
    fn rows_stand_under_each_other() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(columns(&[row(["A", "B"]), row(["long", ""])]), "A      B\nlong");
    }

    #[test]
    fn a_value_of_a_query_is_encoded() {
        assert_eq!(encoded("a=b,c d+1:2"), "a%3Db%2Cc%20d%2B1%3A2");
    }
}
