//! The contract on a real etcd: a prefix for each case.

use std::sync::Arc;

use async_trait::async_trait;
use store::backends::etcd::{self, Settings};
use store::contract::{Harness, Subject};
use store::{Environment, Error, Retention, Store, System, store_contract};

struct Prefix(Settings);

#[async_trait]
impl Harness for Prefix {
    async fn open(
        &self,
        retention: Retention,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<dyn Store>, Error> {
        etcd::open(&self.0, retention, environment).await
    }
}

async fn subject() -> Subject {
    let settings = Settings {
        endpoints: vec![servers::shared_etcd().unwrap().endpoint.clone()],
        prefix: format!("/contract-{:016x}", System.random()),
        // The other cases share the server's history.
        compact_server: false,
        ..Default::default()
    };
    Subject::open(Prefix(settings)).await
}

store_contract!(crate::contract_etcd::subject);
