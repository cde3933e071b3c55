//! What bounds a durable commit on this disk: the bare sync, and another engine with our batches.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use redb::{Database, TableDefinition};

use super::VALUE_BYTES;
use super::subject::Place;
use crate::statistics::{Samples, now};

/// Our record around a value of the benchmark, roughly.
const RECORD_BYTES: usize = VALUE_BYTES + 64;
const FILE_BYTES: usize = 64 << 20;

/// A loop of one write and one fdatasync on a file of zeros; a write holds `batch` records.
pub fn write_and_sync(place: &Place, batch: usize, duration: Duration) -> anyhow::Result<Samples> {
    let path = place.temporary("bound");
    let file = File::create(&path)?;
    file.write_all_at(&vec![0; FILE_BYTES], 0)?;
    file.sync_all()?;
    let record = vec![1; RECORD_BYTES * batch];
    let mut samples = Samples::default();
    let mut offset = 0;
    let end = now() + duration;
    while now() < end {
        let start = now();
        file.write_all_at(&record, offset as u64)?;
        file.sync_data()?;
        samples.push(start.elapsed());
        offset = (offset + record.len()) % (FILE_BYTES - record.len());
    }
    std::fs::remove_file(path)?;
    Ok(samples)
}

/// Records per second of redb, with `batch` of them in a transaction.
pub fn redb(place: &Place, batch: usize, duration: Duration) -> anyhow::Result<f64> {
    const TABLE: TableDefinition<&str, &[u8]> = TableDefinition::new("bench");
    let path = place.temporary("redb");
    let database = Database::create(&path)?;
    let value = vec![b'x'; VALUE_BYTES];
    let mut records = 0;
    let start = now();
    while start.elapsed() < duration {
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for _ in 0..batch {
                let writer = records % batch;
                table.insert(format!("{writer}/{}", records / batch).as_str(), &value[..])?;
                records += 1;
            }
        }
        transaction.commit()?;
    }
    let rate = records as f64 / start.elapsed().as_secs_f64();
    drop(database);
    std::fs::remove_file(path)?;
    Ok(rate)
}
