//! The name of this node: `NODE_NAME`, else the host's.

use std::ffi::OsString;
use std::fs;

use anyhow::{Result, bail};

const VARIABLE: &str = "NODE_NAME";
const HOSTNAME_FILE: &str = "/proc/sys/kernel/hostname";
/// The name when the host has none that can be used.
const LAST_RESORT: &str = "node-1";
const NAME_BYTES_MAX: usize = 253;

/// The name, in lower case, valid as the name of an object.
pub fn of_this_node() -> Result<String> {
    choose(std::env::var_os(VARIABLE), &of_host())
}

/// The name of the machine as it is; empty when it has none.
pub fn of_host() -> String {
    fs::read_to_string(HOSTNAME_FILE).unwrap_or_default().trim().to_owned()
}

fn choose(variable: Option<OsString>, hostname: &str) -> Result<String> {
    if let Some(name) = variable.filter(|name| !name.is_empty()) {
        let given = name.to_string_lossy();
        let name = given.to_lowercase();
        if !is_subdomain(&name) {
            bail!(
                "{VARIABLE} is {given:?}, which cannot name a node; use letters, digits, '-' and \
                 '.', beginning and ending with a letter or digit, at most {NAME_BYTES_MAX} of them"
            );
        }
        return Ok(name);
    }
    let name = hostname.to_lowercase();
    Ok(if is_subdomain(&name) { name } else { LAST_RESORT.to_owned() })
}

/// Whether a name is a DNS subdomain as RFC 1123 has it.
fn is_subdomain(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !label.is_empty()
        && label.bytes().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variable: &str, hostname: &str) -> Option<String> {
        choose(Some(variable.into()), hostname).ok()
    }

    #[test]
    fn the_variable_wins_over_the_hostname() {
        assert_eq!(chosen("my-node-1", "host").as_deref(), Some("my-node-1"));
        assert_eq!(chosen("Node.Example", "host").as_deref(), Some("node.example"));
        assert_eq!(chosen("", "Host").as_deref(), Some("host"));
        assert_eq!(choose(None, "host").ok().as_deref(), Some("host"));
    }

    #[test]
    fn a_variable_that_cannot_name_a_node_is_refused() {
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for name in ["Bad_Name", "-a", "a-", "a..b", ".", "a b", "é", &long] {
            assert_eq!(chosen(name, "host"), None, "{name}");
        }
    }

    #[test]
    fn a_hostname_that_cannot_name_a_node_is_replaced() {
        assert_eq!(choose(None, "my_host").ok().as_deref(), Some(LAST_RESORT));
        assert_eq!(choose(None, "").ok().as_deref(), Some(LAST_RESORT));
    }
}
