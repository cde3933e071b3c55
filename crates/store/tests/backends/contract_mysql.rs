//! The contract on a real MariaDB: a database for each case.

use std::sync::Arc;

use async_trait::async_trait;
use store::backends::mysql::{self, Settings};
use store::contract::{Harness, Subject};
use store::{Environment, Error, Retention, Store, System, store_contract};

struct Database(Settings);

#[async_trait]
impl Harness for Database {
    async fn open(
        &self,
        retention: Retention,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<dyn Store>, Error> {
        mysql::open(&self.0, retention, environment).await
    }
}

async fn subject() -> Subject {
    let server = servers::shared_mariadb().unwrap();
    let settings = Settings {
        host: server.host.clone(),
        port: server.port,
        user: server.user.into(),
        password: server.password.into(),
        database: format!("contract_{:016x}", System.random()),
        ..Default::default()
    };
    Subject::open(Database(settings)).await
}

store_contract!(crate::contract_mysql::subject);
