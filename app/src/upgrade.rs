//! Before another version of the program opens an embedded store for the first time, the store is
//! copied as the version before left it. The copies are beside the store, in `STORE.upgrades`:
//!
//! ```text
//! store/                  what is in use
//! store.upgrades/version  the version that opened it last
//! store.upgrades/v0.1.0/  as 0.1.0 left it
//! ```
//!
//! A copy is made under another name, synced and renamed, and only then is the version written: a
//! crash at any moment leaves a store that was not opened yet, and the next start begins again.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use apiserver::identity::key_files::{Privacy, write_atomically};
use store::backends::embedded;
use tracing::info;

/// Copies that are kept, the newest ones.
const COPIES_MAX: usize = 2;
const VERSION: &str = "version";
/// What the data of programs is called that did not say which they were.
const EARLIER: &str = "earlier";
const UNFINISHED: &str = ".tmp";
/// The version of this program.
pub const OURS: &str = env!("CARGO_PKG_VERSION");

/// Where the copies of a store are.
pub fn place(store: &Path) -> PathBuf {
    let mut name = store.file_name().map(OsString::from).unwrap_or_default();
    name.push(".upgrades");
    store.with_file_name(name)
}

/// The copies of a store, the newest first.
pub fn copies(store: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place(store)).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| !entry.file_name().to_string_lossy().ends_with(UNFINISHED))
        .filter_map(|entry| {
            let about = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
            Some((about.modified().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// The version whose data a start of this program would copy first, if it would.
pub fn is_due(store: &Path) -> Result<Option<String>> {
    let reading = || format!("could not look into {}", store.display());
    match embedded::format_of(store).with_context(reading)? {
        Some(format) if format.found <= format.supported => {}
        // Nothing to keep, or nothing that this program will open.
        _ => return Ok(None),
    }
    let file = place(store).join(VERSION);
    let before = match fs::read_to_string(&file) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => EARLIER.to_owned(),
        Err(error) => {
            return Err(error).with_context(|| format!("could not read {}", file.display()));
        }
    };
    Ok((before != OURS).then_some(before))
}

/// Copies what another version left, and notes that this one has it from now on.
pub fn prepare(store: &Path) -> Result<()> {
    let place = place(store);
    let noted = place.join(VERSION);
    if let Some(before) = is_due(store)? {
        // A name of ours, whatever the file says.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-+".contains(letter);
        let name: String = before.chars().filter(|letter| is_plain(*letter)).collect();
        let copy = place.join(format!("v{name}"));
        keep(store, &copy).with_context(|| {
            format!(
                "could not copy {} to {} before this version opens it, and did not open it; make \
                 room there, or write {OURS} into {} to go on without a copy",
                store.display(),
                copy.display(),
                noted.display()
            )
        })?;
        info!(copy = %copy.display(), before, "another version left this data; a copy is kept");
        for old in copies(store).into_iter().skip(COPIES_MAX) {
            fs::remove_dir_all(&old)
                .with_context(|| format!("could not remove {}", old.display()))?;
        }
    }
    if fs::read_to_string(&noted).is_ok_and(|text| text.trim() == OURS) {
        return Ok(());
    }
    let noting = || format!("could not write {}", noted.display());
    make(&place).with_context(noting)?;
    write_atomically(&noted, OURS.as_bytes(), Privacy::Private).with_context(noting)
}

fn keep(store: &Path, copy: &Path) -> io::Result<()> {
    let mut unfinished = copy.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    for old in [&unfinished, &copy.to_owned()] {
        match fs::remove_dir_all(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    make(&unfinished)?;
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let to = unfinished.join(entry.file_name());
        // On file systems that can, the blocks are shared.
        fs::copy(entry.path(), &to)?;
        File::open(&to)?.sync_all()?;
    }
    File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, copy)?;
    match copy.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A directory with a store in it, gone when the test has passed.
    struct Data(PathBuf);

    impl Data {
        fn new() -> Data {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let data = Data(std::env::temp_dir().join(format!("setpoint-upgrade-{name}")));
            fs::create_dir_all(data.store()).expect("a directory");
            data
        }

        fn store(&self) -> PathBuf {
            self.0.join("store")
        }

        /// As a version leaves it.
        fn left_by(&self, version: &str, text: &str) {
            let header = [b"SETPTLOG".as_slice(), &1u32.to_le_bytes(), text.as_bytes()].concat();
            fs::write(self.store().join("0000000001.log"), header).expect("a file");
            make(&place(&self.store())).expect("a directory");
            fs::write(place(&self.store()).join(VERSION), version).expect("a file");
        }

        fn copied(&self, name: &str) -> Option<String> {
            let file = place(&self.store()).join(name).join("0000000001.log");
            fs::read(file).ok().map(|bytes| String::from_utf8_lossy(&bytes[12..]).into_owned())
        }
    }

    impl Drop for Data {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_another_version_left_is_copied_once_before_it_is_opened() {
        let data = Data::new();
        prepare(&data.store()).expect("an empty store is nothing to keep");
        assert_eq!(copies(&data.store()), Vec::<PathBuf>::new());
        data.left_by("0.0.1", "old");
        assert_eq!(is_due(&data.store()).expect("it can be read"), Some("0.0.1".to_owned()));
        prepare(&data.store()).expect("it must be copied");
        assert_eq!(data.copied("v0.0.1").as_deref(), Some("old"));
        assert_eq!(is_due(&data.store()).expect("it can be read"), None);
        // What this version writes afterwards is not in the copy.
        data.left_by(OURS, "new");
        prepare(&data.store()).expect("there is nothing to do");
        assert_eq!(data.copied("v0.0.1").as_deref(), Some("old"));
    }

    #[test]
    fn data_without_a_version_is_copied_too_and_only_the_last_copies_stay() {
        let data = Data::new();
        data.left_by("", "first");
        fs::remove_file(place(&data.store()).join(VERSION)).expect("it is there");
        prepare(&data.store()).expect("it must be copied");
        assert_eq!(data.copied("vearlier").as_deref(), Some("first"));
        for version in ["0.0.1", "../0.0.2"] {
            data.left_by(version, version);
            prepare(&data.store()).expect("it must be copied");
        }
        let names = |path: &PathBuf| path.file_name().map(|name| name.to_owned());
        let kept: Vec<_> = copies(&data.store()).iter().filter_map(names).collect();
        assert_eq!(kept, ["v..0.0.2", "v0.0.1"]);
    }

    #[test]
    fn a_copy_that_a_crash_cut_off_is_begun_again() {
        let data = Data::new();
        data.left_by("0.0.1", "whole");
        let cut = place(&data.store()).join("v0.0.1.tmp");
        make(&cut).expect("a directory");
        fs::write(cut.join("0000000001.log"), "half").expect("a file");
        assert_eq!(copies(&data.store()), Vec::<PathBuf>::new(), "what is not whole is no copy");
        prepare(&data.store()).expect("it must be copied");
        assert_eq!(data.copied("v0.0.1").as_deref(), Some("whole"));
        assert!(!cut.exists());
    }

    #[test]
    fn newer_data_is_left_alone() {
        let data = Data::new();
        data.left_by("9.0.0", "");
        let header = [b"SETPTLOG".as_slice(), &9u32.to_le_bytes(), &[0; 28]].concat();
        fs::write(data.store().join("0000000001.log"), header).expect("a file");
        assert_eq!(is_due(&data.store()).expect("it can be read"), None);
    }
}
