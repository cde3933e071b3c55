//! How many writes a server has carried out, as it counts them itself.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::api::client::Connection;
use crate::api::target::Target;

const COUNTER: &str = "apiserver_request_total{";
const VERBS: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];
/// Written whatever happens, and what nothing rests on.
const LEFT_OUT: [&str; 2] = ["leases", "events"];

/// Counts at a moment: of each verb and resource.
pub struct Writes(BTreeMap<String, u64>);

impl Writes {
    pub async fn read(target: &Target, connection: &mut Connection) -> Result<Writes> {
        let answer = connection.send(target.request("GET", "/metrics", String::new())).await?;
        ensure!(answer.status == 200, "/metrics answers {}", answer.status);
        Ok(Writes(count(&String::from_utf8_lossy(&answer.body))))
    }

    pub fn since(&self, before: &Writes) -> u64 {
        self.by_kind(before).iter().map(|(_, count)| count).sum()
    }

    /// The same by what was written, the most first.
    pub fn by_kind(&self, before: &Writes) -> Vec<(&str, u64)> {
        let of = |what: &String| before.0.get(what).copied().unwrap_or(0);
        let more = self.0.iter().map(|(what, count)| (&**what, count.saturating_sub(of(what))));
        let mut more: Vec<(&str, u64)> = more.filter(|(_, count)| *count > 0).collect();
        more.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        more
    }
}

fn count(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(COUNTER)?.split_once("} "));
    let mut counts = BTreeMap::new();
    for (labels, count) in lines {
        let label = |name: &str| {
            let mut pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
            pairs.find(|(own, _)| *own == name).map_or("", |(_, value)| value.trim_matches('"'))
        };
        let (verb, resource, part) = (label("verb"), label("resource"), label("subresource"));
        let is_done = label("code").starts_with('2');
        if !VERBS.contains(&verb) || !is_done || LEFT_OUT.contains(&resource) {
            continue;
        }
        let slash = if part.is_empty() { "" } else { "/" };
        let count = count.trim().parse::<f64>().unwrap_or(0.0) as u64;
        *counts.entry(format!("{verb} {resource}{slash}{part}")).or_default() += count;
    }
    counts
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
        let expected = [("APPLY jobs".to_owned(), 13), ("POST pods".to_owned(), 3)];
        assert_eq!(count(text), BTreeMap::from(expected));
    }
}
