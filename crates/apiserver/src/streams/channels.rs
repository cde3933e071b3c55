//! Streams in the messages of one WebSocket, told apart by the first byte of each message.
//!
//! In version 5 a message of two bytes, 255 and a channel, says that nothing follows on it.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::mpsc;

use super::FAREWELL_MAX;
use super::handshake::Channels;
use super::websocket::{self, Event, Fault, Reader, TEXT_BYTES_MAX, pong};
use super::wire::{Frames, Gone};

const CLOSE: u8 = 255;
/// How often a client that is made to wait hears that somebody is there: its questions wait behind
/// its data, and without an answer for a minute kubectl gives up.
const ALIVE: Duration = Duration::from_secs(5);

/// Whom the channels lead to.
pub type Inputs = BTreeMap<u8, mpsc::Sender<Bytes>>;

/// What the message that is being read is about.
#[derive(Clone, Copy)]
enum About {
    Channel(u8),
    Close,
    Nothing,
}

/// Hands on what the client says, until it goes away.
pub async fn read<R>(stream: R, frames: &Frames, channels: Channels, mut inputs: Inputs) -> Fault
where
    R: AsyncRead + Unpin,
{
    let mut reader = Reader::new(BufReader::new(stream));
    let mut about = About::Nothing;
    let mut text = Vec::new();
    loop {
        let Some(event) = frames.unless_idle(reader.next()).await else { return Fault::Gone };
        let (mut bytes, is_first, is_last) = match event {
            Ok(Event::Data { bytes, is_first, is_last }) => (bytes, is_first, is_last),
            Ok(Event::Ping(bytes)) => match frames.send(pong(&bytes)).await {
                Ok(()) => continue,
                Err(Gone) => return Fault::Gone,
            },
            Ok(Event::Pong) => continue,
            Ok(Event::Close) => return Fault::Gone,
            Err(fault) => return fault,
        };
        if channels.is_base64 {
            text.extend_from_slice(&bytes);
            if text.len() > TEXT_BYTES_MAX {
                return Fault::Protocol;
            }
            if !is_last {
                continue;
            }
            let Some((number, decoded)) = decode(&std::mem::take(&mut text)) else {
                return Fault::Protocol;
            };
            deliver(&mut inputs, number, decoded, frames).await;
            continue;
        }
        if is_first {
            about = match bytes.split_to(bytes.len().min(1)).first() {
                None => About::Nothing,
                Some(&CLOSE) if channels.version >= 5 => About::Close,
                Some(&number) => About::Channel(number),
            };
        }
        match about {
            About::Channel(number) => deliver(&mut inputs, number, bytes, frames).await,
            About::Close => bytes.iter().for_each(|number| drop(inputs.remove(number))),
            About::Nothing => {}
        }
    }
}

/// Runs a deed on the streams of a client, until it is done or the client goes away; then takes
/// leave. `writing` is what sends the frames.
pub async fn serve(
    frames: &Frames,
    running: impl Future<Output = ()>,
    (reading, writing): (impl Future<Output = Fault>, impl Future<Output = ()>),
) {
    let mut reading = std::pin::pin!(reading);
    let talking = async {
        let fault = tokio::select! {
            () = running => None,
            fault = reading.as_mut() => Some(fault),
        };
        let _ = frames.send(websocket::close(fault)).await;
        frames.end().await;
        // What the client still sends is read, or its system would drop what it has not read yet.
        if fault.is_none() {
            let _ = tokio::time::timeout(FAREWELL_MAX, reading).await;
        }
    };
    tokio::join!(talking, writing);
}

fn decode(text: &[u8]) -> Option<(u8, Bytes)> {
    let (number, rest) = text.split_first()?;
    let number = number.checked_sub(b'0').filter(|number| *number <= 9)?;
    Some((number, BASE64_STANDARD.decode(rest).ok()?.into()))
}

async fn deliver(inputs: &mut Inputs, number: u8, bytes: Bytes, frames: &Frames) {
    let Some(input) = inputs.get(&number).filter(|_| !bytes.is_empty()) else { return };
    let is_taken = {
        let mut send = std::pin::pin!(input.send(bytes));
        loop {
            match tokio::time::timeout(ALIVE, send.as_mut()).await {
                Ok(sent) => break sent.is_ok(),
                Err(_) if frames.send(pong(&[])).await.is_err() => break false,
                Err(_) => {}
            }
        }
    };
    if !is_taken {
        inputs.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::wire;

    /// A message as a client sends it, its mask being zero.
    fn message(bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).unwrap();
        [&[0x82, 0x80 | length, 0, 0, 0, 0], bytes].concat()
    }

    async fn heard(version: u8, is_base64: bool, bytes: Vec<u8>) -> (Vec<u8>, Fault, bool) {
        let (frames, writing) = Frames::new(tokio::io::sink());
        let (sender, mut source) = wire::source();
        let channels = Channels { version, is_base64 };
        let inputs = Inputs::from([(0, sender)]);
        let reading = async {
            let fault = read(&bytes[..], &frames, channels, inputs).await;
            frames.end().await;
            fault
        };
        let ((), fault) = tokio::join!(writing, reading);
        let mut whole = Vec::new();
        while let Some(piece) = source.recv().await {
            whole.extend_from_slice(&piece);
        }
        (whole, fault, source.is_closed())
    }

    #[tokio::test]
    async fn the_first_byte_names_the_channel_and_255_closes_it() {
        let bytes = [message(b"\0one "), message(b"\x07none"), message(b""), message(b"\0two")];
        let bytes = bytes.concat();
        assert_eq!(heard(4, false, bytes.clone()).await, (b"one two".to_vec(), Fault::Gone, true));
        let closed = [bytes.clone(), message(&[255, 0]), message(b"\0late")].concat();
        assert_eq!(heard(5, false, closed.clone()).await.0, b"one two");
        // Older versions have no word for it.
        assert_eq!(heard(4, false, closed).await.0, b"one twolate");
    }

    #[tokio::test]
    async fn text_is_decoded_and_what_is_no_text_ends_it() {
        let good = message(b"0aGk=");
        assert_eq!(heard(4, true, good).await.0, b"hi");
        for bad in [&b"x"[..], b"", b"0?"] {
            assert_eq!(heard(4, true, message(bad)).await.1, Fault::Protocol);
        }
    }
}
