//! The contract on the memory backend.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use store::backends::memory;
use store::contract::{Harness, Subject};
use store::{Environment, Error, Retention, Revision, Store, store_contract};

#[derive(Default)]
struct Memory(Mutex<Option<Arc<dyn Store>>>);

#[async_trait]
impl Harness for Memory {
    async fn open(
        &self,
        retention: Retention,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<dyn Store>, Error> {
        let mut store = self.0.lock().unwrap();
        // Nothing survives, so there is nothing to open but a store that is still empty.
        store.take_if(|store| store.revision() == Revision::ZERO);
        Ok(store.get_or_insert_with(|| memory::open(retention, environment)).clone())
    }

    fn is_durable(&self) -> bool {
        false
    }
}

async fn subject() -> Subject {
    Subject::open(Memory::default()).await
}

store_contract!(crate::contract_memory::subject);
