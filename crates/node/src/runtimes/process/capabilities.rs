//! Capabilities by name, and which of them a container has. Pure.
//!
//! Upstream: containerd's defaultUnixCaps; pkg/kubelet/kuberuntime/security_context.go

use crate::confinement::Security;

/// In the order of the kernel's numbers.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];
/// What a container has when nothing is said.
const USUAL: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];
pub const CHOWN: u32 = 0;
pub const SYS_ADMIN: u32 = 21;
pub const SETPCAP: u32 = 8;

/// One bit for each.
pub type Set = u64;

/// Every capability there is.
pub const ALL: Set = (1 << NAMES.len()) - 1;

/// What a container may have.
pub fn of(security: &Security) -> Result<Set, String> {
    if security.privileged {
        return Ok(ALL);
    }
    let usual = USUAL.iter().try_fold(0, |set, name| Ok::<_, String>(set | bit(name)?))?;
    let is_all = |list: &[String]| list.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
    let bits = |list: &[String]| {
        let named = list.iter().filter(|name| !name.eq_ignore_ascii_case("ALL"));
        named.into_iter().try_fold(0, |set, name| Ok::<_, String>(set | bit(name)?))
    };
    let (add, drop) = (bits(&security.add)?, bits(&security.drop)?);
    Ok(match (is_all(&security.add), is_all(&security.drop)) {
        (true, true) => ALL & !drop,
        (true, false) => ALL & !drop,
        (false, true) => add,
        (false, false) => (usual & !drop) | add,
    })
}

fn bit(name: &str) -> Result<Set, String> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
    let index = NAMES.iter().position(|known| *known == short);
    index.map(|index| 1 << index).ok_or_else(|| format!("unknown capability {name:?}"))
}

/// What a process may do now, from its `/proc/PID/status`.
pub fn effective(status: &str) -> Set {
    let text = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    text.and_then(|text| Set::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
}

pub fn has(set: Set, number: u32) -> bool {
    set & (1 << number) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(add: &[&str], drop: &[&str]) -> Vec<&'static str> {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let security = Security { add: list(add), drop: list(drop), ..Security::default() };
        let set = of(&security).unwrap();
        (0..41).filter(|number| has(set, *number)).map(|number| NAMES[number as usize]).collect()
    }

    #[test]
    fn capabilities_are_the_usual_with_what_is_said() {
        assert_eq!(told(&[], &[]).len(), 14);
        assert_eq!(told(&["NET_ADMIN"], &["ALL"]), ["NET_ADMIN"]);
        assert_eq!(told(&["ALL"], &["SYS_TIME"]).len(), 40);
        assert_eq!(told(&["cap_sys_time"], &["KILL"]).len(), 14);
        let unknown = Security { add: vec!["FLY".to_owned()], ..Security::default() };
        assert_eq!(of(&unknown), Err("unknown capability \"FLY\"".to_owned()));
        let privileged = Security { privileged: true, ..Security::default() };
        assert_eq!(of(&privileged), Ok(ALL));
        assert_eq!(effective("Name:\tx\nCapEff:\t000001fffeffffff\n") & 0xff, 0xff);
    }
}
