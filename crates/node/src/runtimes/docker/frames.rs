//! How Docker tells two outputs apart on one stream: eight bytes before each piece, of which the
//! first names the output and the last four say how long the piece is. With a terminal there is one
//! output and no frame.

use bytes::{Buf, BytesMut};

const HEAD_BYTES: usize = 8;
/// A longer piece is an error.
const PIECE_BYTES_MAX: usize = 16 << 20;

/// One piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub is_error: bool,
    pub bytes: Vec<u8>,
}

/// Takes the next piece from what was read, if all of it is there.
pub fn next(held: &mut BytesMut) -> Result<Option<Piece>, ()> {
    let Some(head) = held.get(..HEAD_BYTES) else { return Ok(None) };
    let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > PIECE_BYTES_MAX {
        return Err(());
    }
    if held.len() < HEAD_BYTES + length {
        return Ok(None);
    }
    let is_error = head[0] == 2;
    held.advance(HEAD_BYTES);
    Ok(Some(Piece { is_error, bytes: held.split_to(length).to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_taken_when_they_are_whole() {
        let mut held = BytesMut::from(&[1, 0, 0, 0, 0, 0, 0, 2, b'o'][..]);
        assert_eq!(next(&mut held), Ok(None));
        held.extend_from_slice(&[b'k', 2, 0, 0, 0, 0, 0, 0, 1, b'e']);
        assert_eq!(next(&mut held), Ok(Some(Piece { is_error: false, bytes: b"ok".to_vec() })));
        assert_eq!(next(&mut held), Ok(Some(Piece { is_error: true, bytes: b"e".to_vec() })));
        assert_eq!(next(&mut held), Ok(None));
        held.extend_from_slice(&[1, 0, 0, 0, 255, 255, 255, 255]);
        assert_eq!(next(&mut held), Err(()));
    }
}
