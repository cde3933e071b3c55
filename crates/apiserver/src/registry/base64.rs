//! Base64 as JSON carries bytes: the standard alphabet, padded.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * position) & 63) as usize] as char;
            text.push(if position <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

/// The bytes, or nothing when the text is not base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(decoded_len(text));
    let mut bits = 0u32;
    for (index, digit) in digits.bytes().enumerate() {
        let value = ALPHABET.iter().position(|known| *known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        if index % 4 > 0 {
            bytes.push((bits >> (6 - 2 * (index % 4))) as u8);
        }
    }
    Some(bytes)
}

/// How many bytes the text stands for.
pub fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        for bytes in [&b""[..], b"f", b"fo", b"foo", b"foob", b"\xff\x00\xfe\x80\x81"] {
            let text = encode(bytes);
            assert_eq!(decode(&text).as_deref(), Some(bytes));
            assert_eq!(decoded_len(&text), bytes.len());
        }
        assert_eq!(encode(b"hello"), "aGVsbG8=");
        assert_eq!(decode("a"), None);
        assert_eq!(decode("a=b="), None);
    }
}
