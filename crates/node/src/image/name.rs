//! The name of an image, read as the kubelet does.
//!
//! Upstream: github.com/distribution/reference

use std::fmt;

const DOMAIN: &str = "docker.io";
const NAME_BYTES_MAX: usize = 255;
const TAG_BYTES_MAX: usize = 128;

/// A name in its parts, with what is usual filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// As it was written.
    pub written: String,
    /// The registry: `docker.io` where none is named.
    pub domain: String,
    /// `library/busybox`.
    pub path: String,
    pub tag: Option<String>,
    pub digest: Option<String>,
}

/// A text that is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid;

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("invalid reference format")
    }
}

impl ImageName {
    pub fn parse(text: &str) -> Result<ImageName, Invalid> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest.to_owned())),
            Some(_) => return Err(Invalid),
            None => (text, None),
        };
        let (rest, tag) = match rest.rsplit_once(':') {
            // A colon before a slash is that of a port.
            Some((rest, tag)) if !tag.contains('/') => (rest, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(Invalid);
        }
        let (domain, path) = match rest.split_once('/') {
            Some((first, path)) if is_domain(first) => (first, path.to_owned()),
            _ => (DOMAIN, rest.to_owned()),
        };
        let domain = if domain == "index.docker.io" { DOMAIN } else { domain };
        let path = match domain == DOMAIN && !path.contains('/') {
            true => format!("library/{path}"),
            false => path,
        };
        if !path.split('/').all(is_step) || domain.len() + path.len() > NAME_BYTES_MAX {
            return Err(Invalid);
        }
        // Without anything else the newest is meant.
        let tag = match (tag, &digest) {
            (None, None) => Some("latest".to_owned()),
            (tag, _) => tag.map(str::to_owned),
        };
        Ok(ImageName { written: text.to_owned(), domain: domain.to_owned(), path, tag, digest })
    }

    /// `localhost/busybox:latest` for one that names no registry: what Podman calls an image that
    /// was made on the machine.
    pub fn local(&self) -> Option<ImageName> {
        let is_short = self.domain == DOMAIN
            && !["docker.io/", "index.docker.io/"].iter().any(|it| self.written.starts_with(it));
        let name = ImageName::parse(&format!("localhost/{}", self.written));
        name.ok().filter(|_| is_short)
    }

    /// `docker.io/library/busybox`.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.domain, self.path)
    }

    /// `docker.io/library/busybox:latest`.
    pub fn full(&self) -> String {
        let tag = self.tag.iter().map(|tag| format!(":{tag}"));
        let digest = self.digest.iter().map(|digest| format!("@{digest}"));
        self.repository() + &tag.chain(digest).collect::<String>()
    }
}

/// What stands before the first slash is a registry if it cannot be a step of a path.
fn is_domain(text: &str) -> bool {
    let looks = text.contains(['.', ':']) || text == "localhost";
    let is_known = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | ':');
    let begins = text.starts_with(|it: char| it.is_ascii_alphanumeric());
    looks && begins && !text.contains("..") && text.chars().all(is_known)
}

fn is_step(step: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_joined = |joint: &str| {
        joint.is_empty() || matches!(joint, "." | "_" | "__") || joint.bytes().all(|it| it == b'-')
    };
    let bytes = step.as_bytes();
    let ends =
        bytes.first().copied().is_some_and(is_plain) && bytes.last().copied().is_some_and(is_plain);
    let plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    ends && step.split(plain).all(is_joined)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let is_known = |it: char| is_word(it) || matches!(it, '.' | '-');
    tag.len() <= TAG_BYTES_MAX && tag.starts_with(is_word) && tag.chars().all(is_known)
}

fn is_digest(digest: &str) -> bool {
    let Some((kind, sum)) = digest.split_once(':') else { return false };
    let is_hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    !kind.is_empty() && sum.len() >= 32 && sum.bytes().all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_registries_do() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let cases = [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("me/it", "docker.io/me/it:latest"),
            ("host:5000/it", "host:5000/it:latest"),
            ("localhost/a/b:v1", "localhost/a/b:v1"),
            ("registry.example/a-b/c__d.e:1", "registry.example/a-b/c__d.e:1"),
        ];
        for (text, full) in cases {
            assert_eq!(ImageName::parse(text).map(|name| name.full()).as_deref(), Ok(full));
        }
        let name = ImageName::parse(&format!("a/b:1@{digest}")).unwrap();
        assert_eq!(name.full(), format!("docker.io/a/b:1@{digest}"));
    }

    #[test]
    fn what_names_no_registry_may_be_of_this_machine() {
        let local = |text: &str| ImageName::parse(text).unwrap().local().map(|it| it.full());
        assert_eq!(local("app").as_deref(), Some("localhost/app:latest"));
        assert_eq!(local("me/app:1").as_deref(), Some("localhost/me/app:1"));
        for named in ["docker.io/app", "localhost/app", "registry.example/app:1"] {
            assert_eq!(local(named), None, "{named}");
        }
    }

    #[test]
    fn what_is_no_name_is_told() {
        for text in
            ["", "UPPER", "a//b", "a:", "a b", "-a", "a/_b", "a@sha256:1", "a:b:c", "a.../b"]
        {
            assert_eq!(ImageName::parse(text), Err(Invalid), "{text:?}");
        }
    }
}
