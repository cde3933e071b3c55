//! The committed pages of the web console match their sources. Checked without Node: the manifest
//! in `console/dist` has a checksum of every file that a build reads and writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::console::{CONSOLE, DIST, MANIFEST, manifest, read_dist, read_sources};

const REMEDY: &str = "run `cargo xtask console`";

/// Compares the manifest with the tree.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let dist = root.join(CONSOLE).join(DIST);
    let built = if dist.exists() { read_dist(root)? } else { BTreeMap::new() };
    let expected = manifest(&read_sources(root)?, &built);
    let committed = fs::read_to_string(dist.join(MANIFEST)).unwrap_or_default();
    Ok(compare(&committed, &expected))
}

fn compare(committed: &str, expected: &str) -> Vec<Finding> {
    if committed == expected {
        return Vec::new();
    }
    let place = format!("{CONSOLE}/{DIST}/{MANIFEST}");
    let (before, now) = (lines(committed), lines(expected));
    let paths = before.keys().chain(now.keys());
    let changed = paths.filter(|path| before.get(*path) != now.get(*path)).min();
    let what = match changed {
        _ if committed.is_empty() => format!("the console is not built: {REMEDY}"),
        Some((_, path)) => format!("{path} changed after the console was built: {REMEDY}"),
        None => format!("the manifest is damaged: {REMEDY}"),
    };
    vec![Finding::new(&place, 1, what)]
}

/// Checksums by section and path.
fn lines(manifest: &str) -> BTreeMap<(&str, &str), &str> {
    let entry = |line| {
        let mut words = str::splitn(line, 3, ' ');
        let (section, checksum, path) = (words.next()?, words.next()?, words.next()?);
        (section != "#").then_some(((section, path), checksum))
    };
    manifest.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(committed: &str, expected: &str) -> Vec<String> {
        compare(committed, expected).into_iter().map(|one| one.what).collect()
    }

    #[test]
    fn pages_that_are_older_than_their_sources_are_found() {
        let text = "# comment\nsource 0a src/a.ts\nbuilt 0b index.html\n";
        assert!(found(text, text).is_empty());
        let edited = text.replace("0a", "ff");
        let what = "src/a.ts changed after the console was built: run `cargo xtask console`";
        assert_eq!(found(text, &edited), [what]);
        let what = "index.html changed after the console was built: run `cargo xtask console`";
        assert_eq!(found(text, &text.replace("0b", "ff")), [what]);
        let what = "src/b.ts changed after the console was built: run `cargo xtask console`";
        assert_eq!(found(text, &format!("{text}source 0c src/b.ts\n")), [what]);
        assert_eq!(found("", text), ["the console is not built: run `cargo xtask console`"]);
    }
}
