//! LIST: at one revision, in pages, without parsing what is sent.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use store::{Entry, Key, Page, PageRequest, Revision, Store};

use super::Request;
use super::reach::{self, Refused};
use super::selection::Selection;
use crate::answer::{Answer, JSON};
use crate::conversion;
use crate::history::redact;
use crate::persist::stored;
use crate::request::negotiate::Representation;
use crate::request::options::Freshness;
use crate::resources::Resource;
use crate::server::Server;
use crate::status::Error;

/// How long a request waits for a revision that does not exist yet.
const FUTURE_MAX: Duration = Duration::from_secs(3);
/// Lists are sent in pieces of about this size.
const PIECE_BYTES: usize = 128 << 10;
/// How many entries are looked at at once when a selector leaves most of them out.
const SCAN_ENTRIES: usize = 10_000;

/// What a list found.
pub struct Found {
    pub entries: Vec<Arc<Entry>>,
    pub revision: Revision,
    pub go_on: Option<String>,
    pub remaining: Option<usize>,
}

pub async fn list(server: &Server, request: &Request) -> Result<Answer, Error> {
    let resource = &request.resource;
    let selection = Selection::parse(&request.options, resource)?;
    let mut found = find(server, request, &selection).await?;
    found.entries = conversion::served(resource, found.entries).await?;
    if request.options.past.is_some() {
        found.entries = redact::entries(resource, found.entries);
    }
    match request.representation {
        Representation::Table { stage, .. } => {
            Ok(super::representations::table_of_list(request, found, stage, request.now(server)))
        }
        Representation::Metadata { stage, .. } => {
            Ok(super::representations::metadata_of_list(found, stage))
        }
        _ => Ok(objects(resource, found)),
    }
}

/// Finds what a list asks for.
pub async fn find(
    server: &Server,
    request: &Request,
    selection: &Selection,
) -> Result<Found, Error> {
    let resource = &request.resource;
    let options = &request.options;
    let freshness = options.freshness_of_list()?;
    let token = Token::parse(&options.go_on)?;
    let (mut at, mut after) = match &token {
        Some(token) => (token.revision, Some(token.key(resource)?)),
        None => (revision_for(server, freshness).await?, None),
    };
    let named = match (&token, freshness) {
        (Some(_), _) | (None, Freshness::Exact(_)) => at,
        _ => None,
    };
    match (options.past, named) {
        // Who may read the past, and how much of it, is decided where it is asked for.
        (Some(past), _) => at = Some(past.revision),
        (None, Some(named)) => check(server, request, named, token.as_ref()).await?,
        (None, None) => {}
    }
    let limit = match freshness {
        // What is at hand is cheap to send whole.
        Freshness::Any => usize::MAX,
        _ if options.limit == 0 => usize::MAX,
        _ => options.limit as usize,
    };
    let range = resource.range(&request.target.namespace);
    let mut entries = Vec::new();
    loop {
        let wanted = if selection.is_everything() { limit } else { SCAN_ENTRIES };
        let page = PageRequest { limit: Some(wanted), after: after.take() };
        let page = server.store.list(&range, page, at).await;
        let page = page.map_err(|error| failure(error, token.as_ref()))?;
        let Page { entries: found, revision, next, remaining } = page;
        at = Some(revision);
        let last = take(resource, selection, found, limit, &mut entries);
        let is_full = entries.len() >= limit;
        let rest = if is_full { last.or(next.clone()) } else { next.clone() };
        match rest {
            Some(key) if is_full => {
                let more = remaining > 0 || next.is_none();
                let go_on = more.then(|| Token::after(resource, &key, revision).text());
                let remaining = selection.is_everything().then_some(remaining);
                return Ok(Found { entries, revision, go_on, remaining });
            }
            Some(key) => after = Some(key),
            None => return Ok(Found { entries, revision, go_on: None, remaining: None }),
        }
    }
}

/// Adds what matches; when that is enough, says where it stopped.
fn take(
    resource: &Resource,
    selection: &Selection,
    found: Vec<Arc<Entry>>,
    limit: usize,
    entries: &mut Vec<Arc<Entry>>,
) -> Option<Key> {
    if selection.is_everything() {
        entries.extend(found);
        return None;
    }
    let count = found.len();
    for (position, entry) in found.into_iter().enumerate() {
        if selection.matches(stored(&entry), resource.relative(&entry.key)) {
            let key = entry.key.clone();
            entries.push(entry);
            if entries.len() >= limit && position + 1 < count {
                return Some(key);
            }
        }
    }
    None
}

/// The revision to read at; `None` is the newest.
pub async fn revision_for(
    server: &Server,
    freshness: Freshness,
) -> Result<Option<Revision>, Error> {
    match freshness {
        Freshness::Newest => Ok(None),
        Freshness::Any => Ok(Some(server.store.revision())),
        Freshness::NotOlderThan(wanted) => {
            wait_for(&*server.store, wanted).await?;
            Ok(Some(server.store.revision()))
        }
        Freshness::Exact(wanted) => {
            wait_for(&*server.store, wanted).await?;
            Ok(Some(Revision(wanted)))
        }
    }
}

async fn wait_for(store: &dyn Store, wanted: u64) -> Result<(), Error> {
    if store.revision().0 >= wanted {
        return Ok(());
    }
    let reached = async {
        let mut watch = store.watch(store::KeyRange::all(), Revision(wanted - 1)).await?;
        watch.next().await
    };
    match tokio::time::timeout(FUTURE_MAX, reached).await {
        Ok(Ok(_)) => Ok(()),
        _ if store.revision().0 >= wanted => Ok(()),
        _ => Err(Error::too_large_resource_version(wanted, store.revision().0)),
    }
}

async fn check(
    server: &Server,
    request: &Request,
    at: Revision,
    token: Option<&Token>,
) -> Result<(), Error> {
    match reach::check(server, request, "list", at).await {
        Ok(()) => Ok(()),
        Err(Refused::Failed(error)) => Err(error),
        Err(Refused::TooOld { requested, oldest }) => {
            Err(failure(store::Error::Compacted { requested, oldest }, token))
        }
    }
}

/// The revision that a token goes on at.
pub fn revision_of_token(text: &str) -> Result<Option<Revision>, Error> {
    Ok(Token::parse(text)?.and_then(|token| token.revision))
}

fn failure(error: store::Error, token: Option<&Token>) -> Error {
    match (error, token) {
        (store::Error::Compacted { .. }, Some(token)) => {
            let text = "The provided continue parameter is too old to display a consistent list \
                        result. You can start a new list without the continue parameter, or use \
                        the continue token in this response to retrieve the remainder of the \
                        results. Continuing with the provided token results in an inconsistent \
                        list - objects that were created, modified, or deleted between the time \
                        the first chunk was returned and now may show up in the list.";
            let go_on = Token { revision: None, start: token.start.clone() }.text();
            Error { go_on: Some(go_on), ..Error::expired(text) }
        }
        (store::Error::Compacted { requested, oldest }, None) => {
            Error::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        (error, _) => crate::server::store_failure(error),
    }
}

/// Where the next page begins.
struct Token {
    /// `None` goes on at the newest revision.
    revision: Option<Revision>,
    /// The last key of the page before, relative to the resource, and a zero byte.
    start: String,
}

impl Token {
    fn after(resource: &Resource, key: &Key, revision: Revision) -> Token {
        let start = format!("{}\0", resource.relative(key));
        Token { revision: Some(revision), start }
    }

    fn text(&self) -> String {
        let revision = self.revision.map_or(-1, |revision| revision.0 as i64);
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn parse(text: &str) -> Result<Option<Token>, Error> {
        if text.is_empty() {
            return Ok(None);
        }
        let invalid = |why: &str| Error::bad_request(format!("continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid("not base64"))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| invalid("not JSON"))?;
        if token["v"] != "meta.k8s.io/v1" {
            return Err(invalid("unknown version"));
        }
        let revision = match token["rv"].as_i64() {
            Some(-1) => None,
            Some(revision @ 1..) => Some(Revision(revision as u64)),
            _ => return Err(invalid("incorrect encoded start resourceVersion")),
        };
        let start = token["start"].as_str().unwrap_or_default().to_owned();
        let clean = start.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if !clean || start.starts_with('/') {
            return Err(invalid("the start is not a clean path"));
        }
        Ok(Some(Token { revision, start }))
    }

    fn key(&self, resource: &Resource) -> Result<Key, Error> {
        let last = self.start.strip_suffix('\0').unwrap_or(&self.start);
        Key::new(format!("{}{last}", resource.prefix))
            .map_err(|error| Error::bad_request(error.to_string()))
    }
}

/// The beginning of a list, up to its items.
pub fn head(kind: &str, api_version: &str, found: &Found) -> String {
    let metadata = list_metadata(found);
    let kind = json!(kind);
    let api_version = json!(api_version);
    format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{metadata},\"items\":[")
}

pub fn list_metadata(found: &Found) -> Value {
    let mut metadata = json!({"resourceVersion": found.revision.to_string()});
    if let Some(go_on) = &found.go_on {
        metadata["continue"] = json!(go_on);
        if let Some(remaining) = found.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    metadata
}

/// Sends stored bytes.
fn objects(resource: &Resource, found: Found) -> Answer {
    let head = head(&resource.list_kind, &resource.api_version(), &found);
    items(head, found.entries, |entry, out| stored(entry).write(entry.modified, out))
}

/// Sends items that are written one after the other, a piece at a time.
pub fn items(
    head: String,
    entries: Vec<Arc<Entry>>,
    write: impl Fn(&Entry, &mut Vec<u8>) + Send + Unpin + 'static,
) -> Answer {
    let (piece, entries) = (head.into_bytes(), entries.into_iter());
    let mut items = Items { entries, write, piece, is_first: true, is_over: false };
    let first = items.next().unwrap_or_default();
    // A short list is one piece with its length known.
    if items.is_over {
        return Answer::json(200, first);
    }
    Answer::stream(JSON, stream::iter(std::iter::once(first).chain(items)))
}

struct Items<W> {
    entries: std::vec::IntoIter<Arc<Entry>>,
    write: W,
    piece: Vec<u8>,
    is_first: bool,
    is_over: bool,
}

impl<W: Fn(&Entry, &mut Vec<u8>)> Iterator for Items<W> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        for entry in self.entries.by_ref() {
            if !std::mem::take(&mut self.is_first) {
                self.piece.push(b',');
            }
            (self.write)(&entry, &mut self.piece);
            if self.piece.len() >= PIECE_BYTES {
                let next = Vec::with_capacity(self.piece.capacity());
                return Some(std::mem::replace(&mut self.piece, next).into());
            }
        }
        self.is_over = true;
        self.piece.extend_from_slice(b"]}");
        Some(std::mem::take(&mut self.piece).into())
    }
}
