//! Base64, both alphabets, without a crate: a few lines that are used for tokens and keys.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The URL alphabet, without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    encode(bytes, URL)
}

/// The standard alphabet, padded.
pub fn encode_standard(bytes: &[u8]) -> String {
    let mut text = encode(bytes, STANDARD);
    while text.len() % 4 != 0 {
        text.push('=');
    }
    text
}

pub fn decode_url(text: &str) -> Option<Vec<u8>> {
    decode(text, URL)
}

pub fn decode_standard(text: &str) -> Option<Vec<u8>> {
    decode(text, STANDARD)
}

fn encode(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
        let group = group << (8 * (3 - chunk.len()));
        for position in 0..=chunk.len() {
            let six = group >> (18 - 6 * position) & 0x3f;
            text.push(alphabet[six as usize] as char);
        }
    }
    text
}

fn decode(text: &str, alphabet: &[u8; 64]) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        if chunk.len() == 1 {
            return None;
        }
        let mut group = 0_u32;
        for byte in chunk {
            group = group << 6 | alphabet.iter().position(|known| known == byte)? as u32;
        }
        group <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&group.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for length in 0..50_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(decode_url(&encode_url(&bytes)).unwrap(), bytes);
            assert_eq!(decode_standard(&encode_standard(&bytes)).unwrap(), bytes);
        }
        assert_eq!(encode_standard(b"setpoint"), "c2V0cG9pbnQ=");
        assert_eq!(decode_url("a"), None);
        assert_eq!(decode_url("a!"), None);
    }
}
