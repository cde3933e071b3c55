//! The compressed stream of headers: zlib, with the dictionary of SPDY, flushed after each block.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, TINFL_LZ_DICT_SIZE, decompress};

use super::headers::dictionary;

/// Adler-32 of the dictionary: how a stream says that it uses it.
const DICTIONARY: u32 = 0xe3c6_a7c2;
const DEFLATE: u8 = 8;
const HAS_DICTIONARY: u8 = 0x20;

/// Reads block after block.
#[derive(Default)]
pub struct Inflate(Option<State>);

struct State {
    decompressor: Box<DecompressorOxide>,
    /// What was written last, which is what copies refer to. The dictionary is there at the start.
    window: Vec<u8>,
    at: usize,
}

impl Inflate {
    /// What a block says; `None` if it is damaged or longer than allowed.
    pub fn block(&mut self, block: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        let mut rest = block;
        let state = match &mut self.0 {
            Some(state) => state,
            None => {
                let state = begin(&mut rest)?;
                self.0.insert(state)
            }
        };
        let mut whole = Vec::new();
        loop {
            let State { decompressor, window, at } = state;
            let (status, read, written) =
                decompress(decompressor, rest, window, *at, TINFL_FLAG_HAS_MORE_INPUT);
            rest = rest.get(read..)?;
            whole.extend_from_slice(window.get(*at..*at + written)?);
            *at = (*at + written) % window.len();
            if whole.len() > bytes_max {
                return None;
            }
            match status {
                TINFLStatus::NeedsMoreInput => return Some(whole),
                TINFLStatus::HasMoreOutput => {}
                // The stream never ends while the connection lasts.
                _ => return None,
            }
        }
    }
}

/// Reads the head of the stream.
fn begin(rest: &mut &[u8]) -> Option<State> {
    let ([method, flags], after) = rest.split_first_chunk::<2>()?;
    let is_whole = u16::from_be_bytes([*method, *flags]).is_multiple_of(31);
    if method & 0x0f != DEFLATE || !is_whole {
        return None;
    }
    *rest = after;
    let mut window = vec![0; TINFL_LZ_DICT_SIZE];
    let mut at = 0;
    if flags & HAS_DICTIONARY != 0 {
        let (name, after) = rest.split_first_chunk::<4>()?;
        if u32::from_be_bytes(*name) != DICTIONARY {
            return None;
        }
        *rest = after;
        let dictionary = dictionary();
        at = dictionary.len();
        window[..at].copy_from_slice(&dictionary);
    }
    Some(State { decompressor: Box::default(), window, at })
}
