//! What is said between a server and a node of another process: frames of a kind, a length and
//! bytes. One connection is one question; a connection to a port is only bytes after its answer.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{DialRequest, LogRequest, MachineRefusal, MachineRequest, Missing, ProgramRequest};

/// The largest frame that is read. A command may be long; pieces of streams are short.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// The largest piece of a stream in one frame.
pub const PIECE_BYTES_MAX: usize = 32 << 10;
/// What of a stream waits for who takes it.
pub const STREAM_BYTES_MAX: usize = 64 << 10;
/// Frames that wait to be written.
pub const FRAMES_MAX: usize = 8;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The question, or what it is answered with.
    Said,
    Stdin,
    Stdout,
    Stderr,
    /// The size of a terminal.
    Size,
    /// How a program ended.
    End,
}

const KINDS: [Kind; 6] =
    [Kind::Said, Kind::Stdin, Kind::Stdout, Kind::Stderr, Kind::Size, Kind::End];

/// One frame. A stream ends with a frame of it that is empty.
pub type Frame = (Kind, Vec<u8>);

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    Logs(LogRequest),
    Runs { pod: String, container: String },
    Program(ProgramRequest),
    Dial(DialRequest),
    Machine(MachineRequest),
}

/// What is answered to each, in this order.
pub type LogsAnswer = Result<(), Missing>;
pub type RunsAnswer = Result<bool, String>;
/// Whether there is a terminal whose size can be said.
pub type ProgramAnswer = Result<bool, String>;
pub type DialAnswer = Result<(), String>;
pub type MachineSaid = Result<Said, MachineRefusal>;

/// What is said of a virtual machine.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    Done,
    Value(Value),
    /// From here on there are only bytes.
    Connected,
}

pub async fn write<W>(writer: &mut W, kind: Kind, bytes: &[u8]) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let place = KINDS.iter().position(|one| *one == kind).unwrap_or_default();
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let length = u32::try_from(bytes.len()).map_err(too_long)?;
    let mut frame = Vec::with_capacity(bytes.len() + 5);
    frame.push(u8::try_from(place).map_err(too_long)?);
    frame.extend(length.to_be_bytes());
    frame.extend(bytes);
    writer.write_all(&frame).await?;
    writer.flush().await
}

/// The next frame; `None` when the other side has said everything.
pub async fn read<R>(reader: &mut R) -> io::Result<Option<Frame>>
where
    R: AsyncRead + Unpin,
{
    let kind = match reader.read_u8().await {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let kind = KINDS.get(usize::from(kind)).ok_or(io::ErrorKind::InvalidData)?;
    let length = usize::try_from(reader.read_u32().await?).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).await?;
    Ok(Some((*kind, bytes)))
}

pub async fn say<W, T>(writer: &mut W, what: &T) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
    T: Serialize + Sync,
{
    let bytes = serde_json::to_vec(what).map_err(io::Error::other)?;
    write(writer, Kind::Said, &bytes).await
}

pub async fn hear<R, T>(reader: &mut R) -> io::Result<T>
where
    R: AsyncRead + Unpin,
    T: DeserializeOwned,
{
    match read(reader).await? {
        Some((Kind::Said, bytes)) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
