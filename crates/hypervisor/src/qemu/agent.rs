//! What the agent inside a guest says of it. All of it is the guest's word: it is bounded, it says
//! something of that guest and of nothing else, and whose word it is follows from the socket, which
//! is in a directory of ours, never from what is said.
//!
//! Upstream: qemu, qga/qapi-schema.json

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::machine::{Guest, GuestInterface, GuestSystem};

/// What one line may have, and all lines of one conversation.
const LINE_BYTES_MAX: usize = 64 << 10;
const BYTES_MAX: usize = 512 << 10;
/// How long one answer may take, and all of them: whoever asks waits with everything else.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const ANSWERS_MAX: Duration = Duration::from_secs(10);
/// What is kept of a text, of a list of interfaces, and of one of addresses.
const CHARACTERS_MAX: usize = 128;
const INTERFACES_MAX: usize = 32;
const ADDRESSES_MAX: usize = 16;
const PROCESSORS_MAX: usize = 512;

/// Asks a guest about itself; `None` if nobody answers as an agent would.
pub async fn ask<S>(stream: S, number: u32) -> Option<Guest>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut talk = begin(stream, number).await?;
    let info = talk.ask("guest-info").await;
    let host = talk.ask("guest-get-host-name").await;
    let system = talk.ask("guest-get-osinfo").await;
    let interfaces = talk.ask("guest-network-get-interfaces").await;
    Some(Guest {
        agent_version: word(&info["version"]),
        host_name: word(&host["host-name"]),
        system: GuestSystem {
            id: word(&system["id"]),
            name: word(&system["name"]),
            pretty_name: word(&system["pretty-name"]),
            version: word(&system["version"]),
            version_id: word(&system["version-id"]),
            kernel_release: word(&system["kernel-release"]),
            kernel_version: word(&system["kernel-version"]),
            machine: word(&system["machine"]),
        },
        interfaces: list(&interfaces).iter().take(INTERFACES_MAX).map(interface).collect(),
    })
}

/// Has the guest hold its file systems still; says whether it does.
pub async fn freeze<S>(stream: S, number: u32) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match begin(stream, number).await {
        Some(mut talk) => talk.ask("guest-fsfreeze-freeze").await.is_u64(),
        None => false,
    }
}

/// Lets them go on; says whether they do.
pub async fn thaw<S>(stream: S, number: u32) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match begin(stream, number).await {
        Some(mut talk) => talk.ask("guest-fsfreeze-thaw").await.is_u64(),
        None => false,
    }
}

/// Has the guest use all processors that it sees.
pub async fn use_processors<S>(stream: S, number: u32)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(mut talk) = begin(stream, number).await else { return };
    let seen = talk.ask("guest-get-vcpus").await;
    let idle = list(&seen).iter().filter(|one| one["online"] == false);
    let idle = idle.filter_map(|one| one["logical-id"].as_u64()).take(PROCESSORS_MAX);
    let wanted: Vec<Value> =
        idle.map(|number| json!({"logical-id": number, "online": true})).collect();
    if !wanted.is_empty() {
        talk.ask_with("guest-set-vcpus", json!({"vcpus": wanted})).await;
    }
}

/// Begins to talk to an agent: what was said to somebody before is not an answer to us.
async fn begin<S>(stream: S, number: u32) -> Option<Talk<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let until = Instant::now() + ANSWERS_MAX;
    let mut talk = Talk { stream, buffer: Vec::new(), left: BYTES_MAX, until };
    let synchronized = async {
        talk.say("guest-sync", json!({"id": number})).await?;
        loop {
            if talk.line().await?["return"] == number {
                return Some(());
            }
        }
    };
    timeout(ANSWER_MAX, synchronized).await.ok().flatten()?;
    Some(talk)
}

struct Talk<S> {
    stream: S,
    buffer: Vec<u8>,
    /// What may still be read, and until when.
    left: usize,
    until: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    async fn say(&mut self, command: &str, arguments: Value) -> Option<()> {
        let line = match arguments.is_null() {
            true => json!({"execute": command}),
            false => json!({"execute": command, "arguments": arguments}),
        };
        self.stream.write_all(format!("{line}\n").as_bytes()).await.ok()
    }

    /// What is answered; nothing if it is refused, nonsense, or late.
    async fn ask(&mut self, command: &str) -> Value {
        self.ask_with(command, Value::Null).await
    }

    async fn ask_with(&mut self, command: &str, arguments: Value) -> Value {
        let until = self.until.min(Instant::now() + ANSWER_MAX);
        let asked = async {
            self.say(command, arguments).await?;
            self.line().await
        };
        let answer = timeout_at(until, asked).await.ok().flatten();
        answer.map(|mut answer| answer["return"].take()).unwrap_or_default()
    }

    async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                // An agent says this before an answer if it is asked to.
                let line = line.strip_prefix(&[0xff]).unwrap_or(&line);
                return Some(serde_json::from_slice(line).unwrap_or_default());
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return None;
            }
            let read = self.stream.read_buf(&mut self.buffer).await.ok()?;
            self.left = self.left.checked_sub(read).filter(|_| read > 0)?;
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text without what a terminal would obey.
fn word(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default().chars();
    text.filter(|character| !character.is_control()).take(CHARACTERS_MAX).collect()
}

fn interface(value: &Value) -> GuestInterface {
    let all = list(&value["ip-addresses"]).iter().take(ADDRESSES_MAX);
    // What is no address is not shown as one.
    let addresses = all.filter_map(|one| one["ip-address"].as_str()?.parse().ok());
    GuestInterface {
        name: word(&value["name"]),
        hardware_address: word(&value["hardware-address"]).to_ascii_lowercase(),
        addresses: addresses.collect(),
        received_bytes: value["statistics"]["rx-bytes"].as_u64().unwrap_or(0),
        sent_bytes: value["statistics"]["tx-bytes"].as_u64().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest that says these lines, whatever it is asked.
    async fn told(lines: Vec<Vec<u8>>) -> Option<Guest> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        for line in lines {
            theirs.write_all(&line).await.unwrap();
            theirs.write_all(b"\n").await.unwrap();
        }
        ask(ours, 7).await
    }

    fn text(line: &str) -> Vec<u8> {
        line.as_bytes().to_vec()
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_says_what_it_is() {
        let interfaces = r#"{"return": [{"name": "eth0", "hardware-address": "02:AB:00:00:00:01",
            "statistics": {"rx-bytes": 7, "tx-bytes": 8},
            "ip-addresses": [{"ip-address": "10.0.2.2"}, {"ip-address": "not one"}]}]}"#
            .replace('\n', " ");
        let guest = told(vec![
            text(r#"{"return": "of somebody before"}"#),
            text(r#"{"return": 7}"#),
            text(r#"{"return": {"version": "1.0"}}"#),
            text(r#"{"return": {"host-name": "web\u001b[31m"}}"#),
            text(r#"{"error": {"desc": "not supported"}}"#),
            text(&interfaces),
        ]);
        let guest = guest.await.unwrap();
        assert_eq!((guest.agent_version.as_str(), guest.host_name.as_str()), ("1.0", "web[31m"));
        assert_eq!(guest.system, GuestSystem::default());
        let found = &guest.interfaces[0];
        assert_eq!(found.hardware_address, "02:ab:00:00:00:01");
        assert_eq!((found.received_bytes, found.sent_bytes), (7, 8));
        assert_eq!(found.addresses, ["10.0.2.2".parse::<std::net::IpAddr>().unwrap()]);
    }

    /// VM-9: what a guest says is bounded.
    #[tokio::test(start_paused = true)]
    async fn a_guest_that_says_too_much_or_nothing_is_not_listened_to() {
        let flood = vec![b'x'; LINE_BYTES_MAX + 4_096];
        assert_eq!(told(vec![flood]).await, None);
        let many = (0..12).map(|_| vec![b'x'; LINE_BYTES_MAX - 1]).collect();
        assert_eq!(told(many).await, None);
        assert_eq!(told(Vec::new()).await, None);
        let long = format!(r#"{{"return": {{"host-name": "{}"}}}}"#, "h".repeat(10_000));
        let lines = [r#"{"return": 7}"#, "{}", &long].map(text).to_vec();
        assert_eq!(told(lines).await.unwrap().host_name.len(), CHARACTERS_MAX);
    }

    /// VM-10: whose word it is does not follow from what is said.
    #[tokio::test(start_paused = true)]
    async fn who_a_guest_says_it_is_changes_nothing() {
        let lies = r#"{"return": {"version": "1", "id": "other", "uuid": "other"}}"#;
        let guest = told([r#"{"return": 7}"#, lies].map(text).to_vec()).await.unwrap();
        assert_eq!(guest, Guest { agent_version: "1".to_owned(), ..Guest::default() });
    }
}
