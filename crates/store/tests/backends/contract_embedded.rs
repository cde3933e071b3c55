//! The contract on the embedded backend: on a real directory, and on a simulated disk with files
//! so small that every case crosses segments and snapshots.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use store::backends::embedded::simulated_disk::SimulatedDisk;
use store::backends::embedded::{self, Inline, Settings, Tuning};
use store::contract::{Harness, Subject};
use store::{Environment, Error, Retention, Store, System};

struct Directory(PathBuf);

#[async_trait]
impl Harness for Directory {
    async fn open(
        &self,
        retention: Retention,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<dyn Store>, Error> {
        embedded::open(&Settings { directory: self.0.clone() }, retention, environment).await
    }

    async fn clean_up(&self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn in_a_directory() -> Subject {
    let name = format!("setpoint-contract-{:016x}", System.random());
    Subject::open(Directory(std::env::temp_dir().join(name))).await
}

mod directory {
    store::store_contract!(crate::contract_embedded::in_a_directory);
}

#[derive(Default)]
struct Simulated(SimulatedDisk);

#[async_trait]
impl Harness for Simulated {
    async fn open(
        &self,
        retention: Retention,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<dyn Store>, Error> {
        let tuning = Tuning {
            segment_bytes_min: 4 << 20,
            segment_bytes_max: 4 << 20,
            snapshot_log_bytes_min: 2_000,
        };
        let disk = Arc::new(self.0.clone());
        let inline = Inline::open(disk, retention, environment.clone(), tuning)?;
        let store = inline.store.clone();
        if let Some(thinning) = retention.thinning {
            // There is no task inside, so that a simulation decides when things happen.
            #[expect(clippy::disallowed_methods, reason = "it dies with the test")]
            tokio::spawn(async move {
                while inline.store.health().is_ok() {
                    let before = environment.now().minus(thinning.after);
                    inline.thin(&thinning, before).unwrap();
                    tokio::time::sleep(retention.interval).await;
                }
            });
        }
        Ok(store)
    }
}

async fn on_a_simulated_disk() -> Subject {
    Subject::open(Simulated::default()).await
}

mod simulated {
    store::store_contract!(crate::contract_embedded::on_a_simulated_disk);
}
