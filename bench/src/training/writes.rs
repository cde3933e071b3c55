//! How many writes a server has carried out, as it counts them itself.

use anyhow::{Result, ensure};

use crate::api::client::Connection;
use crate::api::target::Target;

const COUNTER: &str = "apiserver_request_total{";
const VERBS: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];
/// Written whatever happens, and what nothing rests on.
const LEFT_OUT: [&str; 2] = ["leases", "events"];

/// A count at a moment.
pub struct Writes(u64);

impl Writes {
    pub async fn read(target: &Target, connection: &mut Connection) -> Result<Writes> {
        let answer = connection.send(target.request("GET", "/metrics", String::new())).await?;
        ensure!(answer.status == 200, "/metrics answers {}", answer.status);
        Ok(Writes(count(&String::from_utf8_lossy(&answer.body))))
    }

    pub fn since(&self, before: &Writes) -> u64 {
        self.0.saturating_sub(before.0)
    }
}

fn count(text: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(COUNTER)?.split_once("} "));
    let is_write = |labels: &str| {
        let label = |name: &str, value: &str| labels.contains(&format!("{name}=\"{value}\""));
        VERBS.iter().any(|verb| label("verb", verb))
            && labels.contains("code=\"2")
            && !LEFT_OUT.iter().any(|resource| label("resource", resource))
    };
    let counts = lines.filter(|(labels, _)| is_write(labels));
    counts.filter_map(|(_, count)| count.trim().parse::<f64>().ok()).map(|count| count as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_that_were_carried_out_count() {
        let text = "\
# TYPE apiserver_request_total counter
apiserver_request_total{resource=\"pods\",verb=\"POST\",code=\"201\"} 3
apiserver_request_total{resource=\"pods\",verb=\"PATCH\",code=\"409\"} 5
apiserver_request_total{resource=\"pods\",verb=\"GET\",code=\"200\"} 7
apiserver_request_total{resource=\"leases\",verb=\"PUT\",code=\"200\"} 11
apiserver_request_total{resource=\"jobs\",verb=\"APPLY\",code=\"200\"} 13
";
        assert_eq!(count(text), 16);
    }
}
