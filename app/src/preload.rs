//! Images that lie in a directory are loaded at the start: once, unless an archive changes or what
//! was loaded is gone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use node::image::{ImageName, ImageStore};
use serde::{Deserialize, Serialize};

/// In the data directory: archives of images.
const IMAGES: &str = "images";
/// What an archive is called at its end.
const ENDS: [&str; 3] = [".tar", ".tar.gz", ".tgz"];

/// An archive as it was loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Loaded {
    bytes: u64,
    /// When it was changed last: seconds and nanoseconds.
    changed: (i64, i64),
    names: Vec<String>,
}

/// Loads what is not loaded yet; `record` is where it is kept what is.
pub async fn load(data: &Path, record: &Path, store: &dyn ImageStore) {
    let entries = fs::read_dir(data.join(IMAGES)).into_iter().flatten().flatten();
    let is_archive = |name: &String| ENDS.iter().any(|end| name.ends_with(end));
    let mut archives: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    archives.retain(is_archive);
    archives.sort();
    if archives.is_empty() {
        return;
    }
    let text = fs::read(record).unwrap_or_default();
    let before: BTreeMap<String, Loaded> = serde_json::from_slice(&text).unwrap_or_default();
    let mut after = BTreeMap::new();
    for name in archives {
        let path = data.join(IMAGES).join(&name);
        let Ok(found) = fs::metadata(&path) else { continue };
        let changed = (found.mtime(), found.mtime_nsec());
        let known = before.get(&name);
        let known = known.filter(|it| (it.bytes, it.changed) == (found.len(), changed));
        if let Some(known) = known
            && are_there(store, &known.names).await
        {
            after.insert(name, known.clone());
            continue;
        }
        match store.load(&path).await {
            Ok(names) => {
                tracing::info!(archive = %path.display(), ?names, "images loaded");
                after.insert(name, Loaded { bytes: found.len(), changed, names });
            }
            Err(error) => tracing::warn!(archive = %path.display(), error, "images not loaded"),
        }
    }
    if after != before {
        let kept = fs::write(record, serde_json::to_vec(&after).unwrap_or_default());
        if let Err(error) = kept {
            tracing::warn!(path = %record.display(), %error, "it is not kept what was loaded");
        }
    }
}

async fn are_there(store: &dyn ImageStore, names: &[String]) -> bool {
    for name in names {
        let Ok(name) = ImageName::parse(name) else { return false };
        if !matches!(store.find(&name).await, Ok(Some(_))) {
            return false;
        }
    }
    !names.is_empty()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use node::image::{Credentials, Found, Usage};

    use super::*;

    /// Has what was loaded, each archive under the name of its file.
    #[derive(Default)]
    struct Store {
        images: Mutex<Vec<String>>,
        loads: Mutex<usize>,
    }

    #[async_trait::async_trait]
    impl ImageStore for Store {
        async fn find(&self, name: &ImageName) -> Result<Option<Found>, String> {
            let is_there = self.images.lock().expect("a list").contains(&name.written);
            Ok(is_there.then(Found::default))
        }

        async fn pull(&self, _: &ImageName, _: Option<&Credentials>) -> Result<(), String> {
            Err("nobody is there".to_owned())
        }

        async fn load(&self, archive: &Path) -> Result<Vec<String>, String> {
            let name = archive.file_stem().expect("a name").to_string_lossy().into_owned();
            *self.loads.lock().expect("a number") += 1;
            self.images.lock().expect("a list").push(name.clone());
            Ok(vec![name])
        }

        async fn remove(&self, _: &ImageName) -> Result<(), String> {
            Ok(())
        }

        async fn usage(&self) -> Option<Usage> {
            None
        }
    }

    #[tokio::test]
    async fn an_archive_is_loaded_again_only_when_it_changed_or_its_image_is_gone() {
        let data = std::env::temp_dir().join(format!("setpoint-preload-{}", std::process::id()));
        fs::create_dir_all(data.join(IMAGES)).expect("a directory");
        for name in ["a.tar", "b.tar.gz", "c.txt"] {
            fs::write(data.join(IMAGES).join(name), name).expect("a file");
        }
        let (store, record) = (Store::default(), data.join("record.json"));
        let loads = || *store.loads.lock().expect("a number");
        load(&data, &record, &store).await;
        assert_eq!(loads(), 2);
        load(&data, &record, &store).await;
        assert_eq!(loads(), 2);
        fs::write(data.join(IMAGES).join("a.tar"), "other").expect("a file");
        load(&data, &record, &store).await;
        assert_eq!(loads(), 3);
        store.images.lock().expect("a list").clear();
        load(&data, &record, &store).await;
        assert_eq!(loads(), 5);
        fs::remove_dir_all(&data).expect("it goes");
    }
}
