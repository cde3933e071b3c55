//! `cargo xtask deb DIST FILE`: a Debian package of what a release packs (`setpoint`, `man/`,
//! completions, LICENSE, CHANGELOG.md), made by dpkg-deb. The same files give the same bytes where
//! SOURCE_DATE_EPOCH is set.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::check;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What a file of a release is called in the package.
const PLACES: [(&str, &str, u32); 6] = [
    ("setpoint", "usr/bin/setpoint", 0o755),
    ("setpoint.bash", "usr/share/bash-completion/completions/setpoint", 0o644),
    ("setpoint.zsh", "usr/share/zsh/vendor-completions/_setpoint", 0o644),
    ("setpoint.fish", "usr/share/fish/vendor_completions.d/setpoint.fish", 0o644),
    ("LICENSE", "usr/share/doc/setpoint/copyright", 0o644),
    ("CHANGELOG.md", "usr/share/doc/setpoint/changelog", 0o644),
];
const MANUALS: &str = "usr/share/man/man1";

/// Makes the package of a directory that a release has packed.
pub fn run(packed: &Path, file: &Path) -> Result<()> {
    let root = file.with_extension("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("could not clear {}", root.display()))?;
    }
    lay_out(packed, &root)?;
    let made = check(Command::new("dpkg-deb").arg("--root-owner-group").arg("--build").args([
        "-Zxz".as_ref(),
        root.as_os_str(),
        file.as_os_str(),
    ]));
    let _ = fs::remove_dir_all(&root);
    made
}

fn lay_out(packed: &Path, root: &Path) -> Result<()> {
    for (name, place, mode) in PLACES {
        put(&packed.join(name), &root.join(place), mode)?;
    }
    let manuals = packed.join("man");
    let reading = || format!("could not read {}", manuals.display());
    for entry in fs::read_dir(&manuals).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        put(&entry.path(), &root.join(MANUALS).join(entry.file_name()), 0o644)?;
    }
    // Which makes it `kubectl setpoint` as well.
    symlink("setpoint", root.join("usr/bin/kubectl-setpoint")).context("could not make a link")?;
    let control = root.join("DEBIAN/control");
    fs::create_dir_all(root.join("DEBIAN")).context("could not make a directory")?;
    let text = control_text(architecture(&packed.join("setpoint"))?);
    fs::write(&control, text).context("could not write the control file")
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let copying = || format!("could not copy {} to {}", from.display(), to.display());
    let directory = to.parent().context("a file must be in a directory")?;
    fs::create_dir_all(directory).with_context(copying)?;
    fs::copy(from, to).with_context(copying)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).with_context(copying)
}

/// What Debian calls the machine that a program is for, from the head of its ELF file.
pub fn architecture(program: &Path) -> Result<&'static str> {
    let bytes = fs::read(program).with_context(|| format!("no {}", program.display()))?;
    match (bytes.get(..4), bytes.get(18..20)) {
        (Some(b"\x7fELF"), Some([0x3e, 0])) => Ok("amd64"),
        (Some(b"\x7fELF"), Some([0xb7, 0])) => Ok("arm64"),
        _ => anyhow::bail!("{} is no program for amd64 or arm64", program.display()),
    }
}

/// Who needs what: programs that Setpoint starts where they are there are suggestions.
fn control_text(architecture: &str) -> String {
    format!(
        "Package: setpoint\nVersion: {VERSION}\nArchitecture: {architecture}\nSection: admin\n\
         Priority: optional\nMaintainer: The Setpoint authors <noreply@setpoint.dev>\n\
         Depends: libc6 (>= 2.36)\nSuggests: python3, qemu-system-x86, qemu-utils, slirp4netns\n\
         Description: Kubernetes control plane in one program\n \
         Serves the Kubernetes API, runs pods, training jobs, inference graphs and virtual\n \
         machines; `setpoint demo` shows all of it.\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn printed(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_package_has_the_program_its_manuals_and_completions_and_is_roots() {
        let name = format!("setpoint-deb-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let packed = directory.join("dist");
        fs::create_dir_all(packed.join("man")).unwrap();
        for (name, _, _) in PLACES {
            fs::write(packed.join(name), name).unwrap();
        }
        // The head of a program for amd64.
        let head = [b"\x7fELF".as_slice(), &[0; 14], &[0x3e, 0], &[0; 44]].concat();
        fs::write(packed.join("setpoint"), head).unwrap();
        fs::write(packed.join("man/setpoint.1"), ".TH").unwrap();
        let file: PathBuf = directory.join("setpoint.deb");
        run(&packed, &file).unwrap();
        let listed = printed(Command::new("dpkg-deb").arg("--contents").arg(&file));
        for line in ["./usr/bin/setpoint\n", "./usr/share/man/man1/setpoint.1\n", "-> setpoint\n"] {
            assert!(listed.contains(line), "{line} {listed}");
        }
        assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
        let fields = printed(Command::new("dpkg-deb").arg("--field").arg(&file));
        assert!(fields.contains(&format!("Version: {VERSION}\n")), "{fields}");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let text = std::env::temp_dir().join(format!("setpoint-no-elf-{}", std::process::id()));
        fs::write(&text, "#!/bin/sh\n").unwrap();
        assert!(architecture(&text).is_err());
        fs::remove_file(&text).unwrap();
    }
}
