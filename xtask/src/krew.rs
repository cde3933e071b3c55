//! `cargo xtask krew TAG URL FILE.sha256...`: the manifest by which Krew, kubectl's own installer
//! of plugins, finds the archives of a release. They are below URL, and their checksums are in the
//! files that a release makes beside them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// What a release is called, and where its archives are.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    pub tag: String,
    pub url: String,
    pub checksums: Vec<PathBuf>,
}

/// What the beginning of a target's name is to Kubernetes.
const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];

/// Prints the manifest.
pub fn run(release: &Release) -> Result<()> {
    let mut lines = String::new();
    for file in &release.checksums {
        let text = fs::read_to_string(file);
        lines.push_str(&text.with_context(|| format!("could not read {}", file.display()))?);
    }
    print!("{}", manifest(&release.tag, &release.url, &lines)?);
    Ok(())
}

/// The manifest, of lines as `sha256sum` prints them.
fn manifest(tag: &str, url: &str, checksums: &str) -> Result<String> {
    let mut platforms = String::new();
    for line in checksums.lines() {
        let (sum, archive) = line.split_once("  ").context("not a line of sha256sum")?;
        let known = ARCHITECTURES.iter().find(|(target, _)| archive.contains(target));
        let Some((_, architecture)) = known else { bail!("for which machine is {archive}?") };
        platforms.push_str(&format!(
            "  - selector: {{matchLabels: {{os: linux, arch: {architecture}}}}}\n    \
             uri: {url}/{tag}/{archive}\n    sha256: {sum}\n    bin: setpoint\n    \
             files: [{{from: ./setpoint, to: .}}, {{from: ./LICENSE, to: .}}]\n"
        ));
    }
    if platforms.is_empty() {
        bail!("a manifest needs at least one archive");
    }
    Ok(format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\n\
         metadata: {{name: setpoint}}\nspec:\n  version: {tag}\n  \
         shortDescription: Say why, undo, train, serve and run machines\n  description: |\n    \
         The commands of Setpoint for the cluster that kubectl asks: training jobs,\n    \
         inference graphs and virtual machines on every cluster with the operators,\n    \
         history, why and undo on clusters of Setpoint.\n  platforms:\n{platforms}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_archive_is_a_platform_with_its_checksum() {
        let sums = "aa  setpoint-x86_64-unknown-linux-gnu.tar.gz\n\
                    bb  setpoint-aarch64-unknown-linux-gnu.tar.gz\n";
        let text = manifest("v1.2.3", "https://example.com/d", sums).unwrap();
        for line in [
            "  version: v1.2.3\n",
            "arch: arm64}}\n    \
             uri: https://example.com/d/v1.2.3/setpoint-aarch64-unknown-linux-gnu.tar.gz\n    \
             sha256: bb\n    bin: setpoint\n",
            "arch: amd64}}\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        for bad in ["", "aa setpoint", "aa  setpoint-riscv64.tar.gz\n"] {
            assert!(manifest("v1", "u", bad).is_err(), "{bad}");
        }
    }
}
