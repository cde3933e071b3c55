//! Blocks of headers, and the words that both sides know before the first of them.

use std::collections::BTreeMap;

/// Names in lower case.
pub type Headers = BTreeMap<String, String>;

/// Headers of one block.
const HEADERS_MAX: u32 = 256;

/// Counted names and values. `None` if they are not what they say.
pub fn parse(block: &[u8]) -> Option<Headers> {
    let mut rest = block;
    let count = number(&mut rest)?;
    if count > HEADERS_MAX {
        return None;
    }
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = text(&mut rest)?.to_ascii_lowercase();
        headers.insert(name, text(&mut rest)?);
    }
    Some(headers)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The dictionary that the protocol prescribes: words with their lengths, then bare text.
pub fn dictionary() -> Vec<u8> {
    let mut dictionary = Vec::new();
    for word in WORDS.split(' ') {
        // Spaces within a word are written as underscores here.
        let word = word.replace('_', " ");
        dictionary.extend_from_slice(&(word.len() as u32).to_be_bytes());
        dictionary.extend_from_slice(word.as_bytes());
    }
    dictionary.extend_from_slice(TEXT.as_bytes());
    dictionary
}

const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding \
    accept-language accept-ranges age allow authorization cache-control connection content-base \
    content-encoding content-language content-length content-location content-md5 content-range \
    content-type date etag expect expires from host if-match if-modified-since if-none-match \
    if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url \
    public set-cookie keep-alive origin";
const TEXT: &str = "1001012012022052063003023033043053063074024054064074084094104114124134144154164\
    17502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad \
    Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not \
    Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,\
    deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_has_the_length_of_the_standard() {
        assert_eq!(dictionary().len(), 1423);
    }

    #[test]
    fn what_is_shorter_than_it_says_is_refused() {
        let good = [0, 0, 0, 1, 0, 0, 0, 1, b'A', 0, 0, 0, 2, b'b', b'c'];
        assert_eq!(parse(&good), Some(Headers::from([("a".to_owned(), "bc".to_owned())])));
        for length in 0..good.len() {
            assert_eq!(parse(&good[..length]), None, "{length}");
        }
        assert_eq!(parse(&[0xff; 64]), None);
    }
}
