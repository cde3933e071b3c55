//! What a guest is made of, from Debian's packages: fetched and unpacked, never installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::libraries::run;
use crate::program::find;

const KERNEL: &str = "linux-image-cloud-amd64";
const OTHERS: [&str; 2] = ["busybox-static", "grub-pc-bin"];
/// Packages with programs that need libraries.
const LINKED: [&str; 2] = ["qemu-guest-agent", "dropbear-bin"];
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";

/// Fetches the packages and unpacks them into a directory.
pub fn unpack(directory: &Path) -> Result<PathBuf, Error> {
    let doing = || Error::io("make a directory for packages");
    let root = directory.join("root");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).map_err(doing())?;
    let kernel = said("apt-cache", &["depends", KERNEL])?;
    let kernel = kernel.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let mut download = Command::new(find("apt-get")?);
    download.args(["download", "--quiet", kernel.unwrap_or(KERNEL)]);
    run(download.args(OTHERS).args(linked()?).current_dir(&root))?;
    for entry in fs::read_dir(&root).map_err(doing())? {
        let package = entry.map_err(doing())?.path();
        if package.extension().is_some_and(|it| it == "deb") {
            run(Command::new(find("dpkg-deb")?).arg("-x").arg(&package).arg(&root))?;
        }
    }
    Ok(root)
}

/// The packages of programs that need libraries, and those of the libraries.
fn linked() -> Result<BTreeSet<String>, Error> {
    let only = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"];
    let only = only.map(|kind| format!("--no-{kind}"));
    let mut words = vec!["depends", "--recurse"];
    words.extend(only.iter().map(String::as_str).chain(LINKED));
    Ok(libraries_of(&said("apt-cache", &words)?))
}

/// Follows what is said of dependencies, through libraries alone.
fn libraries_of(said: &str) -> BTreeSet<String> {
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut of = "";
    for line in said.lines() {
        if !line.starts_with(' ') {
            of = line;
        } else if let Some((_, needed)) = line.split_once("Depends: ") {
            needs.entry(of).or_default().push(needed);
        }
    }
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut left: Vec<&str> = LINKED.to_vec();
    while let Some(package) = left.pop() {
        if found.insert(package.to_owned()) {
            let needed = needs.get(package).into_iter().flatten();
            left.extend(needed.filter(|name| name.starts_with("lib") || name.starts_with("zlib")));
        }
    }
    found
}

fn said(program: &str, words: &[&str]) -> Result<String, Error> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(Error::io(format!("run {program}")))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where a program of the packages is.
pub fn program(root: &Path, name: &str) -> PathBuf {
    let places = ["usr/sbin", "usr/bin", "bin", "sbin"];
    let found = places.iter().map(|place| root.join(place).join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| root.join("usr/sbin").join(name))
}

/// The libraries that programs need, by the names that they ask for, and what loads them.
pub fn libraries(root: &Path, programs: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>, Error> {
    let places = [root.join(LIBRARIES), root.join("usr").join(LIBRARIES)];
    let loader = places.iter().map(|place| place.join(LOADER)).find(|file| file.is_file());
    let none = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let loader = loader.ok_or_else(none).map_err(Error::io("find what loads libraries"))?;
    let path = places.map(|place| place.display().to_string()).join(":");
    let mut all = BTreeMap::from([(LOADER.to_owned(), loader.clone())]);
    for program in programs {
        let mut command = Command::new(&loader);
        command.args(["--inhibit-cache", "--library-path", &path, "--list"]).arg(program);
        let listed = command.output().map_err(Error::io("ask which libraries are needed"))?;
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let Some((name, file)) = line.trim().split_once(" => ") else { continue };
            let file = file.split(" (").next().unwrap_or_default();
            if !name.contains('/') {
                all.insert(name.to_owned(), PathBuf::from(file));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_followed_through_libraries_alone() {
        let said = "qemu-guest-agent\n  Depends: libc6\n |Depends: libnuma1\n  Depends: perl\n\
                    libc6\n  Depends: libgcc-s1\nperl\n  Depends: libperl5.36\nlibunasked\n";
        let found = libraries_of(said);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let expected = ["dropbear-bin", "libc6", "libgcc-s1", "libnuma1", "qemu-guest-agent"];
        assert_eq!(found, expected);
    }
}
