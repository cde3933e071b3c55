//! SQL as text: literals of bytes, and scripts of statements that go out in few packets.
//!
//! Text and not prepared statements, since a batch of any size then needs two round trips.

use memchr::memchr3;

/// The most bytes of a packet, however many the server allows.
const PACKET_BYTES_MAX: usize = 8 << 20;
/// What the protocol adds to a statement, generously.
const PACKET_OVERHEAD: usize = 1_024;

/// Appends a literal of binary bytes. The session's `sql_mode` must allow backslashes, see
/// `connect.rs`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"_binary'");
    let mut rest = bytes;
    while let Some(at) = memchr3(b'\'', b'\\', 0, rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(if rest[at] == 0 { b'0' } else { rest[at] });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'\'');
}

/// Appends `(a, b, ..)`.
pub fn put_list<'a>(out: &mut Vec<u8>, items: impl IntoIterator<Item = &'a [u8]>) {
    out.push(b'(');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put_bytes(out, item);
    }
    out.push(b')');
}

/// One row of values.
pub struct Values(Vec<u8>);

impl Values {
    pub fn new() -> Values {
        Values(vec![b'('])
    }

    pub fn number(mut self, number: u64) -> Values {
        self.separate();
        self.0.extend_from_slice(number.to_string().as_bytes());
        self
    }

    pub fn signed(mut self, number: i64) -> Values {
        self.separate();
        self.0.extend_from_slice(number.to_string().as_bytes());
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Values {
        self.separate();
        put_bytes(&mut self.0, bytes);
        self
    }

    pub fn null(mut self) -> Values {
        self.separate();
        self.0.extend_from_slice(b"NULL");
        self
    }

    pub fn optional_number(self, number: Option<u64>) -> Values {
        match number {
            Some(number) => self.number(number),
            None => self.null(),
        }
    }

    pub fn optional_bytes(self, bytes: Option<&[u8]>) -> Values {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.null(),
        }
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.push(b')');
        self.0
    }

    fn separate(&mut self) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
    }
}

/// Statements to be sent one after the other, in as few packets as the server allows.
pub struct Script {
    packets: Vec<Vec<u8>>,
    packet_bytes_max: usize,
}

impl Script {
    /// `max_allowed_packet` is the server's variable of that name.
    pub fn new(max_allowed_packet: usize) -> Script {
        let allowed = max_allowed_packet.saturating_sub(PACKET_OVERHEAD);
        Script { packets: Vec::new(), packet_bytes_max: allowed.min(PACKET_BYTES_MAX) }
    }

    pub fn statement(&mut self, text: &[u8]) {
        match self.packets.last_mut() {
            Some(packet) if packet.len() + 1 + text.len() <= self.packet_bytes_max => {
                packet.push(b';');
                packet.extend_from_slice(text);
            }
            _ => self.packets.push(text.to_vec()),
        }
    }

    /// A statement with a list of items in its middle, repeated when the list is too long for one
    /// packet. Without items there is no statement.
    pub fn listing(&mut self, items: impl IntoIterator<Item = Vec<u8>>, form: Form) {
        let frame = form.before.len() + form.after.len();
        let mut text = Vec::new();
        for item in items {
            let longer = text.len() + form.between.len() + item.len() + form.after.len();
            if !text.is_empty() && longer > self.packet_bytes_max {
                text.extend_from_slice(form.after.as_bytes());
                self.statement(&text);
                text.clear();
            }
            if text.is_empty() {
                text.reserve(frame + item.len());
                text.extend_from_slice(form.before.as_bytes());
            } else {
                text.extend_from_slice(form.between.as_bytes());
            }
            text.extend_from_slice(&item);
        }
        if !text.is_empty() {
            text.extend_from_slice(form.after.as_bytes());
            self.statement(&text);
        }
    }

    pub fn packets(self) -> Vec<Vec<u8>> {
        self.packets
    }
}

/// What surrounds the items of a listing statement.
#[derive(Clone, Copy)]
pub struct Form {
    pub before: &'static str,
    pub between: &'static str,
    pub after: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, bytes);
        out
    }

    #[test]
    fn quotes_backslashes_and_zeros_are_escaped() {
        assert_eq!(literal(b"a'b\\c\0d"), b"_binary'a\\'b\\\\c\\0d'");
        assert_eq!(literal(b""), b"_binary''");
        assert_eq!(literal(&[0xff, 0xfe]), b"_binary'\xff\xfe'");
    }

    #[test]
    fn a_long_list_is_split_and_every_item_kept() {
        let mut script = Script::new(PACKET_OVERHEAD + 40);
        let items = (0..10).map(|number| Values::new().number(number).number(7).end());
        let form = Form { before: "INSERT INTO t VALUES ", between: ",", after: "" };
        script.listing(items, form);
        script.statement(b"COMMIT");
        let packets = script.packets();
        assert!(packets.iter().all(|packet| packet.len() <= 40), "{packets:?}");
        let all = String::from_utf8(packets.join(&b'|')).unwrap();
        for number in 0..10 {
            assert_eq!(all.matches(&format!("({number},7)")).count(), 1, "{all}");
        }
        assert!(all.ends_with("COMMIT"), "{all}");
    }

    #[test]
    fn an_empty_list_is_no_statement() {
        let mut script = Script::new(1 << 20);
        script.listing([], Form { before: "INSERT ", between: ",", after: "" });
        assert!(script.packets().is_empty());
    }
}
