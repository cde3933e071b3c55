//! The installer: `packaging/install.sh` with the URL of the releases and the public key.

use anyhow::{Result, bail};

const TEMPLATE: &str = include_str!("../../../packaging/install.sh");

/// Returns the script that installs releases of this URL, signed with this key.
pub fn text(releases: &str, public_key: &str) -> Result<String> {
    if releases.contains(['\'', '"', '$', '`', '\\', '}', ' ']) {
        bail!("`{releases}` cannot be the URL of releases");
    }
    Ok(TEMPLATE.replace("@RELEASES@", releases).replace("@PUBLIC_KEY@", public_key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_and_the_key_are_filled_in() {
        let text = text("https://example.org/releases", "-----BEGIN PUBLIC KEY-----").unwrap();
        assert!(text.contains(":-https://example.org/releases}"), "{text}");
        assert!(text.contains("public_key='-----BEGIN PUBLIC KEY-----'"), "{text}");
        assert!(!text.contains('@'), "{text}");
    }

    #[test]
    fn a_url_that_is_shell_code_is_refused() {
        assert!(text("https://example.org/$(id)", "").is_err());
    }
}
