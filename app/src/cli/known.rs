//! Errors that have a page: each has a code that stands behind its message, and this table says
//! what it means and what to do about it.
//!
//! `setpoint errors` and `setpoint help SP1001` print it, and docs/errors.md is made of it. A code
//! is never given to another error.

use std::io;

use serde::Serialize;

use super::exit::{self, Failure};
use super::past::Refused;
use crate::instance::InUse;

/// An error that people may look up.
#[derive(Debug, Serialize)]
pub struct Known {
    pub code: &'static str,
    /// What happened, in few words.
    pub what: &'static str,
    /// Why it happens.
    pub why: &'static str,
    /// What to do, each on its own.
    pub remedies: &'static [&'static str],
}

// Reaching a cluster, and being let in.
pub const NO_CLUSTER: Known = Known {
    code: "SP1001",
    what: "no cluster is configured",
    why: "Nothing runs on the data directory, KUBECONFIG is not set, ~/.kube/config has no current \
          context, and this is no pod of a cluster: there is nobody to ask.",
    remedies: &[
        "`setpoint up` starts a cluster on this machine.",
        "`export KUBECONFIG=FILE` or `--kubeconfig FILE` names one that you have.",
        "`setpoint ls` lists clusters of this machine; `--data-dir DIR` picks one.",
    ],
};
pub const UNREACHABLE: Known = Known {
    code: "SP1002",
    what: "the cluster does not answer",
    why: "No connection could be made to the address of the kubeconfig, or it ended before the \
          answer was whole.",
    remedies: &[
        "`setpoint status` says whether a cluster of this machine runs, `setpoint up` starts it.",
        "Another cluster may want a VPN or a proxy: `proxy-url` of the kubeconfig's cluster, or \
         HTTPS_PROXY; NO_PROXY names what is reached without it.",
    ],
};
pub const CREDENTIAL: Known = Known {
    code: "SP1003",
    what: "the credential of the kubeconfig cannot be used",
    why: "The program that the kubeconfig names for a token failed or is not installed, a token \
          expired and could not be renewed, or a certificate cannot be read.",
    remedies: &[
        "Run the command below `users[].user.exec` of the kubeconfig by hand and see what it says.",
        "Sign in again with the tool that wrote the kubeconfig.",
    ],
};
pub const UNKNOWN_TO_SERVER: Known = Known {
    code: "SP1004",
    what: "unauthorized (401)",
    why: "It answered 401: the token or certificate is of another cluster, expired, or missing.",
    remedies: &[
        "`setpoint kubeconfig` prints a valid one for a cluster of this machine.",
        "`kubectl config current-context` says which context is asked; `--context` picks another.",
    ],
};
pub const FORBIDDEN: Known = Known {
    code: "SP1005",
    what: "the server does not allow it",
    why: "It answered 403: it knows who asks, and no role lets them do this.",
    remedies: &[
        "`setpoint auth can-i --list` says what is allowed.",
        "An administrator binds a role: `setpoint create rolebinding --help`.",
    ],
};

// What the server said about the request.
pub const NOT_FOUND: Known = Known {
    code: "SP2001",
    what: "there is no such object, kind or cluster",
    why: "The name is wrong, it is in another namespace or cluster, or it is gone.",
    remedies: &[
        "`setpoint get KIND -A` lists all namespaces; `setpoint api-resources` lists kinds.",
        "`setpoint history KIND/NAME` says when it went and by whom.",
    ],
};
pub const CONFLICT: Known = Known {
    code: "SP2002",
    what: "there is such an object already, or another has changed it",
    why: "A name was taken, the object has moved on since it was read, or a field belongs to \
          another manager that applied it.",
    remedies: &[
        "Read it again and repeat the change.",
        "`setpoint apply --force-conflicts` takes fields over from other managers.",
        "`setpoint history KIND/NAME` says who changed what.",
    ],
};
pub const INVALID: Known = Known {
    code: "SP2003",
    what: "the server does not take the object",
    why: "It answered 400 or 422: a field is missing, unknown or wrong, or an admission webhook \
          refuses it. The message names the field.",
    remedies: &[
        "`setpoint explain KIND.FIELD` says what a field takes.",
        "`setpoint apply --dry-run=server -f FILE` tries without writing.",
    ],
};
pub const TOO_SLOW: Known = Known {
    code: "SP2004",
    what: "the server took too long, or has too much to do",
    why: "It answered 408, 429, 503 or 504.",
    remedies: &["Try again in a moment.", "`setpoint status` says whether it is well."],
};

// Waiting for something that was started.
pub const WAITED_TOO_LONG: Known = Known {
    code: "SP3001",
    what: "what was waited for did not happen in time",
    why: "The object exists and continues; only the wait ended. The message has the newest line of \
          output or event.",
    remedies: &[
        "The same command waits again; `--timeout 10m` waits longer.",
        "`setpoint why KIND/NAME` explains what it is waiting for.",
    ],
};
pub const WORKLOAD_FAILED: Known = Known {
    code: "SP3002",
    what: "a workload failed",
    why: "A job, a graph, a machine or a pod ended with an error, and nobody will try again.",
    remedies: &[
        "The last events and lines of output are below the message; `setpoint logs POD` has all \
         lines.",
        "`setpoint why KIND/NAME` explains the cause.",
    ],
};
pub const UNSCHEDULABLE: Known = Known {
    code: "SP3003",
    what: "a pod fits on no node",
    why: "Every node says no: too little processor, memory or GPUs, a taint, a selector, a volume \
          that is elsewhere. The message counts the reasons.",
    remedies: &[
        "`setpoint why pod/NAME` has the reason of each node.",
        "Ask for less (`resources.requests`), or add room: another node, or `setpoint up \
         --node-resources nvidia.com/gpu=1` for a GPU that is played.",
    ],
};
pub const CRASHES: Known = Known {
    code: "SP3004",
    what: "container is crash-looping",
    why: "CrashLoopBackOff: it is started, ends, and is started again after ever longer pauses.",
    remedies: &[
        "`setpoint logs POD --previous` has the output of the run that crashed.",
        "`setpoint describe pod POD` has its exit code and events.",
    ],
};
pub const NO_IMAGE: Known = Known {
    code: "SP3005",
    what: "image pull failed",
    why: "The runtime could not pull it: the name is wrong, the registry cannot be reached, or it \
          wants a secret.",
    remedies: &[
        "`setpoint describe pod POD` has what the registry said.",
        "`imagePullSecrets` names the secret of a private registry.",
        "Images are not supported by the process runtime: set `command` for the container, or \
         start with `--runtime docker`.",
    ],
};

// Starting the program, and what it reads.
pub const IN_USE: Known = Known {
    code: "SP4001",
    what: "the data directory is in use",
    why: "Another setpoint has it. Two would write over each other.",
    remedies: &[
        "`setpoint status` shows it, `setpoint down` stops it.",
        "`--data-dir DIR` starts a second cluster beside it.",
    ],
};
pub const ADDRESS_TAKEN: Known = Known {
    code: "SP4002",
    what: "an address is taken",
    why: "Another program listens there.",
    remedies: &[
        "Without `--listen` a free port is taken where 6443 is not free.",
        "`--listen 127.0.0.1:0` takes a free one and says which.",
    ],
};
pub const NEWER_DATA: Known = Known {
    code: "SP4003",
    what: "the data is of a newer setpoint",
    why: "A newer program has written it in a form that this one does not know. Nothing was \
          changed.",
    remedies: &[
        "Use that program again; `setpoint version --check` says which form the data has.",
        "Go back to the copy from before the upgrade: with everything stopped, put the directory \
         that `setpoint version --check` names in the place of the store.",
        "`setpoint export` there and `setpoint import` here carry objects over.",
    ],
};
pub const DAMAGED: Known = Known {
    code: "SP4004",
    what: "the store is damaged",
    why: "A checksum does not hold: the disk lost or changed what was written. The program stops \
          here, so that wrong data does not spread.",
    remedies: &[
        "Look at the disk first (`dmesg`, `smartctl`).",
        "Restore the directory from a backup, or `setpoint import` an export.",
    ],
};
pub const STORE_UNAVAILABLE: Known = Known {
    code: "SP4005",
    what: "the store cannot be reached or written",
    why: "The disk is full or refuses, or the MySQL or etcd server does not answer or does not let \
          us in.",
    remedies: &[
        "`setpoint doctor` looks at the disk.",
        "`setpoint config show --origin` says which server is asked and who says so.",
    ],
};
pub const NOT_YAML: Known = Known {
    code: "SP4006",
    what: "a file is not YAML",
    why: "It cannot be read; the message says where, and the line is shown.",
    remedies: &["Indent with spaces, not with tabs, and quote texts with `: ` or `#` in them."],
};
pub const NO_KUBECTL: Known = Known {
    code: "SP4007",
    what: "kubectl is missing",
    why: "The command is one of kubectl's, and is done by it.",
    remedies: &["Install kubectl: https://kubernetes.io/docs/tasks/tools/"],
};

/// Every one, in the order of the page.
pub const ALL: [&Known; 21] = [
    &NO_CLUSTER,
    &UNREACHABLE,
    &CREDENTIAL,
    &UNKNOWN_TO_SERVER,
    &FORBIDDEN,
    &NOT_FOUND,
    &CONFLICT,
    &INVALID,
    &TOO_SLOW,
    &WAITED_TOO_LONG,
    &WORKLOAD_FAILED,
    &UNSCHEDULABLE,
    &CRASHES,
    &NO_IMAGE,
    &IN_USE,
    &ADDRESS_TAKEN,
    &NEWER_DATA,
    &DAMAGED,
    &STORE_UNAVAILABLE,
    &NOT_YAML,
    &NO_KUBECTL,
];

/// Words of Kubernetes that tell more than that something waits or failed.
const REASONS: [(&str, &Known); 5] = [
    ("nodes are available", &UNSCHEDULABLE),
    ("CrashLoopBackOff", &CRASHES),
    ("ImagePull", &NO_IMAGE),
    ("ErrImage", &NO_IMAGE),
    ("InvalidImageName", &NO_IMAGE),
];

/// Whether a word looks like a code.
pub fn is_code(word: &str) -> bool {
    let digits = word.get(..2).filter(|start| start.eq_ignore_ascii_case("SP")).map(|_| &word[2..]);
    digits.is_some_and(|digits| digits.len() == 4 && digits.bytes().all(|it| it.is_ascii_digit()))
}

/// The one with this code, however it is written.
pub fn find(code: &str) -> Option<&'static Known> {
    ALL.into_iter().find(|known| known.code.eq_ignore_ascii_case(code))
}

/// Which one an error is, if it has a page.
pub fn of(error: &anyhow::Error) -> Option<&'static Known> {
    error.chain().find_map(of_cause)
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<&'static Known> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return failure.known.or_else(|| of_failure(failure));
    }
    if let Some(error) = cause.downcast_ref::<kube::Error>() {
        return of_client(error);
    }
    if let Some(refused) = cause.downcast_ref::<Refused>() {
        return of_answer(refused.code);
    }
    if let Some(error) = cause.downcast_ref::<store::Error>() {
        return of_store(error);
    }
    if cause.is::<InUse>() {
        return Some(&IN_USE);
    }
    let taken = cause.downcast_ref::<io::Error>()?.kind() == io::ErrorKind::AddrInUse;
    taken.then_some(&ADDRESS_TAKEN)
}

fn of_failure(failure: &Failure) -> Option<&'static Known> {
    let general = match failure.code {
        exit::TIMED_OUT => &WAITED_TOO_LONG,
        exit::WORKLOAD_FAILED => &WORKLOAD_FAILED,
        exit::NOT_FOUND => &NOT_FOUND,
        exit::CONFLICT => &CONFLICT,
        exit::FORBIDDEN => &FORBIDDEN,
        _ => return None,
    };
    let waited = matches!(failure.code, exit::TIMED_OUT | exit::WORKLOAD_FAILED);
    let told = REASONS.iter().find(|(words, _)| waited && failure.what.contains(words));
    Some(told.map_or(general, |(_, known)| *known))
}

fn of_client(error: &kube::Error) -> Option<&'static Known> {
    match error {
        kube::Error::Api(status) => of_answer(status.code),
        kube::Error::Auth(_) => Some(&CREDENTIAL),
        kube::Error::HyperError(_) | kube::Error::Service(_) => Some(&UNREACHABLE),
        _ => None,
    }
}

/// What an answer of a server comes to.
pub fn of_answer(code: u16) -> Option<&'static Known> {
    match code {
        400 | 422 => Some(&INVALID),
        401 => Some(&UNKNOWN_TO_SERVER),
        403 => Some(&FORBIDDEN),
        404 => Some(&NOT_FOUND),
        409 => Some(&CONFLICT),
        408 | 429 | 503 | 504 => Some(&TOO_SLOW),
        _ => None,
    }
}

fn of_store(error: &store::Error) -> Option<&'static Known> {
    match error {
        store::Error::Locked { .. } => Some(&IN_USE),
        store::Error::NewerFormat { .. } => Some(&NEWER_DATA),
        store::Error::Corrupt { .. } => Some(&DAMAGED),
        store::Error::Unavailable { .. } | store::Error::Disk { .. } => Some(&STORE_UNAVAILABLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn every_code_is_one_errors_alone_and_says_what_to_do() {
        let codes: BTreeSet<&str> = ALL.iter().map(|known| known.code).collect();
        assert_eq!(codes.len(), ALL.len());
        assert!(ALL.is_sorted_by_key(|known| known.code), "as on the page");
        for known in ALL {
            assert!(known.code.len() == 6 && known.code.starts_with("SP"), "{known:?}");
            assert!(!known.why.is_empty() && !known.remedies.is_empty(), "{known:?}");
        }
        assert!(find("sp1001").is_some_and(|known| known.code == NO_CLUSTER.code));
        assert!(find("SP9999").is_none());
    }

    #[test]
    fn an_error_has_the_code_of_its_cause() {
        let code = |error: anyhow::Error| of(&error).map(|known| known.code);
        assert_eq!(code(anyhow!("plain")), None);
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        assert_eq!(code(anyhow!(taken).context("could not listen")), Some("SP4002"));
        let newer = store::Error::NewerFormat { file: "f".to_owned(), found: 2, supported: 1 };
        assert_eq!(code(anyhow!(newer).context("could not open")), Some("SP4003"));
        let missing = Err::<(), _>(exit::not_found("there is no job")).context("showing it");
        assert_eq!(code(missing.expect_err("an error")), Some("SP2001"));
        let late = |why: &str| anyhow!(Failure::new(exit::TIMED_OUT, why));
        assert_eq!(code(late("it starts")), Some("SP3001"));
        assert_eq!(code(late("0/1 nodes are available: 1 Insufficient cpu")), Some("SP3003"));
        assert_eq!(code(anyhow!(Failure::new(exit::INTERRUPTED, "left"))), None);
        assert_eq!(of_answer(401).map(|known| known.code), Some("SP1004"));
    }
}
