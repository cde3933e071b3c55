//! Bytes in JSON: standard base64, checked and written as Go's encoder writes it. Never decoded,
//! since nothing here needs the bytes.

use std::borrow::Cow;

/// The canonical form of base64 text: without line ends, the unused bits of its end zero.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, String> {
    let text = match text.contains(['\r', '\n']) {
        true => Cow::Owned(text.replace(['\r', '\n'], "")),
        false => Cow::Borrowed(text),
    };
    let bytes = text.as_bytes();
    let data = bytes.iter().position(|byte| sextet(*byte).is_none()).unwrap_or(bytes.len());
    let padding = bytes.len() - data;
    let is_whole = bytes.len() % 4 == 0 && padding <= 2 && bytes[data..].iter().all(|b| *b == b'=');
    if !is_whole {
        return Err(format!("illegal base64 data at input byte {data}"));
    }
    // One or two characters of padding leave two or four bits of the last character unused.
    let unused_bits = 2 * padding as u32;
    let last = data.checked_sub(1).and_then(|last| sextet(bytes[last]));
    match last {
        Some(last) if last & ((1 << unused_bits) - 1) != 0 => {
            let cleared = ALPHABET[usize::from(last >> unused_bits << unused_bits)];
            let mut text = text.into_owned();
            text.replace_range(data - 1..data, char::from(cleared).encode_utf8(&mut [0; 4]));
            Ok(Cow::Owned(text))
        }
        _ => Ok(text),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What six bits a character stands for.
fn sextet(byte: u8) -> Option<u8> {
    match SEXTETS[usize::from(byte)] {
        NONE => None,
        sextet => Some(sextet),
    }
}

const NONE: u8 = 255;

static SEXTETS: [u8; 256] = {
    let mut table = [NONE; 256];
    let mut sextet = 0;
    while sextet < 64 {
        table[ALPHABET[sextet] as usize] = sextet as u8;
        sextet += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_checked_and_cleaned() {
        let cases = [
            ("", Ok("")),
            ("YQ==", Ok("YQ==")),
            ("YR==", Ok("YQ==")),
            ("YWJ=", Ok("YWI=")),
            ("YW\nJj\r\n", Ok("YWJj")),
            ("YWJjZA==", Ok("YWJjZA==")),
            ("YWJ", Err("illegal base64 data at input byte 3")),
            ("Y===", Err("illegal base64 data at input byte 1")),
            ("a b=", Err("illegal base64 data at input byte 1")),
            ("====", Err("illegal base64 data at input byte 0")),
            ("YQ==YQ==", Err("illegal base64 data at input byte 2")),
        ];
        for (text, expected) in cases {
            let found = canonical(text);
            let found = found.as_deref().map_err(String::as_str);
            assert_eq!(found, expected, "{text}");
        }
    }
}
