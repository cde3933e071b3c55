//! Which kind of object is meant, and where it is served.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A kind in the version that its controller speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// Only the objects of this name are followed; `None` is all.
    pub only: Option<&'static str>,
}

impl Kind {
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Kind {
        Kind { group, version, kind, plural, namespaced: true, only: None }
    }

    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Kind {
        Kind { group, version, kind, plural, namespaced: false, only: None }
    }

    /// A kind that is known only at run time. Its names are kept for ever, once each, so the
    /// number of kinds that come and go bounds what is kept.
    pub fn interned(names: [&str; 4], namespaced: bool) -> Kind {
        let [group, version, kind, plural] = names.map(intern);
        Kind { group, version, kind, plural, namespaced, only: None }
    }

    /// The objects of one name, in every namespace: a cache of their own, so that who needs one
    /// object of each namespace does not hold them all.
    pub const fn only(self, name: &'static str) -> Kind {
        Kind { only: Some(name), ..self }
    }

    /// What a list or a watch of the kind asks for besides, with its `&`.
    pub fn field_query(&self) -> String {
        self.only.map(|name| format!("&fieldSelector=metadata.name%3D{name}")).unwrap_or_default()
    }

    /// What its objects say in `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all its objects, or of those in a namespace.
    pub fn collection(&self, namespace: &str) -> String {
        let base = match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if self.namespaced && !namespace.is_empty() {
            format!("{base}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("{base}/{}", self.plural)
        }
    }

    /// The path of one object.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }
}

fn intern(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(text) {
        return found;
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(kept);
    kept
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_from_group_and_scope() {
        let pods = Kind::namespaced("", "v1", "Pod", "pods");
        assert_eq!(pods.path("a", "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(pods.collection(""), "/api/v1/pods");
        let classes = Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
        assert_eq!(classes.path("", "b"), "/apis/storage.k8s.io/v1/storageclasses/b");
        assert_eq!(pods.field_query(), "");
        assert_eq!(pods.only("b").field_query(), "&fieldSelector=metadata.name%3Db");
    }
}
