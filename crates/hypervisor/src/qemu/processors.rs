//! Processors of a machine that runs: more can come, within what it was started for.

use serde_json::{Value, json};

use super::running::Running;
use crate::error::Error;

impl Running {
    /// Gives the machine processors until it has so many.
    pub async fn add_processors(&self, count: u32) -> Result<(), Error> {
        let places = self.execute("query-hotpluggable-cpus", json!({})).await?;
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let chosen = choose(&places, wanted)?;
        for place in &chosen {
            self.execute("device_add", place.clone()).await?;
        }
        // Also where none was missing: whoever added them may not have come to tell the guest.
        let started_with = usize::try_from(self.machine.processors).unwrap_or(0);
        if wanted > started_with {
            self.use_processors().await;
        }
        Ok(())
    }
}

/// The devices that are missing to a count of processors, lowest places first.
fn choose(places: &Value, wanted: usize) -> Result<Vec<Value>, Error> {
    let places = places.as_array().map(Vec::as_slice).unwrap_or_default();
    let (there, mut free): (Vec<&Value>, Vec<&Value>) =
        places.iter().partition(|place| place["qom-path"].is_string());
    if wanted > places.len() {
        let why = format!("{wanted} processors are more than the {} it has room for", places.len());
        return Err(Error::Invalid(why));
    }
    free.sort_by_key(|place| place["props"]["socket-id"].as_u64());
    let missing = free.into_iter().take(wanted.saturating_sub(there.len()));
    Ok(missing.map(device).collect())
}

fn device(place: &Value) -> Value {
    let mut device = place["props"].clone();
    device["driver"] = place["type"].clone();
    device["id"] = json!(format!("processor-{}", place["props"]["socket-id"]));
    device
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_places_are_taken() {
        let place = |socket: u64, path: Option<&str>| {
            json!({"type": "max-x86_64-cpu", "vcpus-count": 1, "qom-path": path,
                "props": {"socket-id": socket, "core-id": 0, "thread-id": 0}})
        };
        let places =
            json!([place(3, None), place(2, None), place(1, None), place(0, Some("/machine/0"))]);
        let chosen = choose(&places, 3).unwrap();
        assert_eq!(
            chosen,
            [1, 2].map(|socket| json!({"driver": "max-x86_64-cpu", "socket-id": socket,
                "id": format!("processor-{socket}"), "core-id": 0, "thread-id": 0}))
        );
        assert_eq!(choose(&places, 1).unwrap(), [Value::Null; 0], "it never gets fewer");
        assert!(choose(&places, 5).is_err());
    }
}
