//! Why a write is made, as controllers say in headers: the change they react to, the reconcile they
//! are in, and the term of the leader they are.
//!
//! A term may be begun only by who writes the Lease of its name; whoever else names one must name
//! one that has begun, so that nobody shuts a leader out by counting ahead.

use std::sync::Arc;

use http::HeaderMap;
use store::{Epoch, Key, Revision};

use crate::persist::stored;
use crate::request::path::Target;
use crate::server::{Server, store_failure};
use crate::status::Error;

const CAUSE_HEADER: &str = "x-setpoint-cause";
const RECONCILE_HEADER: &str = "x-setpoint-reconcile";
const EPOCH_HEADER: &str = "x-setpoint-epoch";
/// The longest name of a reconcile.
const RECONCILE_BYTES_MAX: usize = 64;
/// The namespace of the leases that terms are named after where they name none.
const LEASES: &str = "kube-system";

/// What a writer says of its write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// The revision whose change is reacted to.
    pub revision: Option<Revision>,
    pub reconcile: Arc<str>,
    pub epoch: Option<Epoch>,
}

impl Cause {
    pub fn read(headers: &HeaderMap) -> Result<Cause, Error> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let revision = match text(CAUSE_HEADER) {
            None => None,
            Some(text) => Some(Revision(text.parse().map_err(|_| malformed(CAUSE_HEADER, text))?)),
        };
        let reconcile = text(RECONCILE_HEADER).unwrap_or_default();
        if reconcile.len() > RECONCILE_BYTES_MAX {
            return Err(malformed(RECONCILE_HEADER, reconcile));
        }
        let epoch = match text(EPOCH_HEADER) {
            None => None,
            Some(text) => Some(epoch(text).ok_or_else(|| malformed(EPOCH_HEADER, text))?),
        };
        Ok(Cause { revision, reconcile: reconcile.into(), epoch })
    }
}

fn epoch(text: &str) -> Option<Epoch> {
    let (group, number) = text.split_once('=')?;
    (!group.is_empty()).then_some(Epoch { group: group.into(), number: number.parse().ok()? })
}

fn malformed(header: &str, text: &str) -> Error {
    Error::bad_request(format!("the header {header} cannot be {text:?}"))
}

/// The lease that a group of terms is named after: `NAME`, or `NAMESPACE/NAME`.
fn lease_of(group: &str) -> (&str, &str) {
    group.split_once('/').unwrap_or((LEASES, group))
}

/// The term of a write is one that its writer may name.
pub async fn check_epoch(server: &Server, target: &Target, cause: &Cause) -> Result<(), Error> {
    let Some(epoch) = &cause.epoch else { return Ok(()) };
    let (namespace, name) = lease_of(&epoch.group);
    let is_its_lease = target.resource == "leases"
        && target.namespace.as_str() == namespace
        && target.name.as_str() == name;
    // A lease that is made has its name in the body; it begins the first term or none.
    let is_new_lease = target.resource == "leases" && target.name.is_empty();
    if is_its_lease || (is_new_lease && epoch.number == 1) {
        return Ok(());
    }
    let key = Key::new(format!("leases/{namespace}/{name}"));
    let key = key.map_err(|error| Error::bad_request(error.to_string()))?;
    let lease = server.store.get(&key, None).await.map_err(store_failure)?;
    let transitions = lease.map(|entry| {
        let lease = stored(&entry).object(entry.modified);
        lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0) + 1
    });
    if transitions.is_none_or(|begun| epoch.number > begun) {
        let (group, number) = (&epoch.group, epoch.number);
        let text = format!("term {number} of {group} has not begun");
        return Err(Error::bad_request(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &'static str, value: &'static str) -> Result<Cause, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header, value.parse().unwrap());
        Cause::read(&headers)
    }

    #[test]
    fn a_term_is_named_after_a_lease() {
        assert_eq!(lease_of("scheduler"), ("kube-system", "scheduler"));
        assert_eq!(lease_of("a/b"), ("a", "b"));
    }

    #[test]
    fn a_cause_is_read_from_headers_and_bad_ones_are_refused() {
        assert_eq!(read(CAUSE_HEADER, "7").unwrap().revision, Some(Revision(7)));
        let epoch = read(EPOCH_HEADER, "scheduler=3").unwrap().epoch.unwrap();
        assert_eq!((&*epoch.group, epoch.number), ("scheduler", 3));
        for (header, value) in
            [(CAUSE_HEADER, "x"), (EPOCH_HEADER, "scheduler"), (EPOCH_HEADER, "=3")]
        {
            assert_eq!(read(header, value).expect_err("refused").code, 400, "{value}");
        }
    }
}
