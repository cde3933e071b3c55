//! What a namespace uses, by looking at everything there that a quota is about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use amounts::pod::Amounts;
use amounts::quota::{self, Counted};
use reconcile::requests::{Origin, Requests, escape};
use reconcile::{Context, Error, Kind, Object};
use serde_json::Value;
use tokio::time::Instant;

use super::{COUNT_INTERVAL, plan};
use crate::discovery;

/// Objects a page of a list.
const PAGE_OBJECTS_MAX: usize = 500;

/// What was found.
#[derive(Debug)]
pub enum Observed {
    /// The total of what a quota counts.
    Counted(Amounts),
    /// It was counted a moment ago and looks right; it is counted when it is quiet.
    Later(Duration),
    /// Exactly this was counted.
    Known,
}

/// When each quota was last counted, and at which revision.
#[derive(Default)]
pub struct Counts {
    last: Mutex<BTreeMap<String, (Instant, u64)>>,
    kinds: Mutex<BTreeMap<(String, String), Kind>>,
}

impl Counts {
    /// The quota is gone.
    pub fn forget(&self, uid: &str) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

pub async fn observe(
    context: &Context,
    counts: &Counts,
    object: &Object,
) -> Result<Observed, Error> {
    let now = Instant::now();
    if plan::is_complete(object) {
        let last = counts.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.get(&object.uid) {
            Some((_, revision)) if *revision == object.revision => return Ok(Observed::Known),
            Some((at, _)) if *at + COUNT_INTERVAL > now => {
                return Ok(Observed::Later(*at + COUNT_INTERVAL - now));
            }
            _ => {}
        }
    }
    let requests = context.requests("resourcequota-controller", Origin::default());
    let mut total = Amounts::new();
    let counted: BTreeSet<Counted<'_>> = quota::counted(&object.value).collect();
    for counted in counted {
        let Some(kind) = kind_of(&requests, counts, counted).await? else { continue };
        let mut add = |found: &Value| quota::add(&mut total, &object.value, counted, found);
        let listed = each(&requests, kind, &object.name.namespace, &mut add).await;
        if listed.as_ref().is_err_and(Error::is_not_found) {
            // It may be served in another version by now.
            counts.kinds.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        listed?;
    }
    let mut last = counts.last.lock().unwrap_or_else(PoisonError::into_inner);
    last.insert(object.uid.clone(), (now, object.revision));
    Ok(Observed::Counted(total))
}

/// Hands over every object of a kind in a namespace.
async fn each(
    requests: &Requests,
    kind: Kind,
    namespace: &str,
    add: &mut (dyn FnMut(&Value) + Send),
) -> Result<(), Error> {
    let collection = kind.collection(namespace);
    let mut next = String::new();
    loop {
        let page = requests.read(&format!("{collection}?limit={PAGE_OBJECTS_MAX}{next}")).await?;
        page["items"].as_array().into_iter().flatten().for_each(&mut *add);
        next = match page["metadata"]["continue"].as_str() {
            None | Some("") => return Ok(()),
            Some(token) => format!("&continue={}", escape(token)),
        };
    }
}

/// The kind of a counted resource; `None` if the server has none of the name.
async fn kind_of(
    requests: &Requests,
    counts: &Counts,
    counted: Counted<'_>,
) -> Result<Option<Kind>, Error> {
    let key = (counted.group.to_owned(), counted.resource.to_owned());
    let known = |key: &(String, String)| {
        counts.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    };
    if let Some(kind) = known(&key) {
        return Ok(Some(kind));
    }
    let found = discovery::served(requests).await?;
    let mut kinds = counts.kinds.lock().unwrap_or_else(PoisonError::into_inner);
    for served in found.served.iter().filter(|served| served.kind.namespaced) {
        let key = (served.kind.group.to_owned(), served.kind.plural.to_owned());
        kinds.insert(key, served.kind);
    }
    Ok(kinds.get(&key).copied())
}
