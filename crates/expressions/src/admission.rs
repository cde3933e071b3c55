//! The type of `request` in match conditions and admission policies.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/compile.go

use crate::declared::{Declared, ListKind, MapKind};

/// The fields of an admission request that expressions may read.
pub(crate) fn request() -> Declared {
    let kind = |last: &str| {
        object(
            "kubernetes.GroupVersionKind",
            &["group", "version", last].map(|name| (name, text())),
        )
    };
    let groups = Declared::list(text(), None, ListKind::Atomic);
    let extra = Declared::map(groups.clone(), None, MapKind::Granular);
    let user = object(
        "kubernetes.UserInfo",
        &[("username", text()), ("uid", text()), ("groups", groups), ("extra", extra)],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind("kind")),
            ("resource", kind("resource")),
            ("subResource", text()),
            ("requestKind", kind("kind")),
            ("requestResource", kind("resource")),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Declared::Bool),
            ("options", Declared::Dyn),
        ],
    )
}

fn text() -> Declared {
    Declared::string(None, None)
}

fn object(name: &str, fields: &[(&str, Declared)]) -> Declared {
    Declared::plain_object(name, fields.to_vec())
}
