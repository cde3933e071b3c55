//! The fields that nobody owns: the server sets them, or they say which object it is.

use std::sync::OnceLock;

use crate::set::Set;

/// The set of them.
pub fn stripped() -> &'static Set {
    static STRIPPED: OnceLock<Set> = OnceLock::new();
    STRIPPED.get_or_init(|| {
        Set::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "clusterName"],
            &["metadata", "creationTimestamp"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "resourceVersion"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
        ])
    })
}
