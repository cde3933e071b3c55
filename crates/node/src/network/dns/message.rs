//! DNS messages: the question that is asked, and the answer as bytes. Takes any bytes without harm.
//!
//! RFC 1035 section 4, RFC 6891 (EDNS), RFC 2782 (SRV).

use std::net::{Ipv4Addr, Ipv6Addr};

pub const A: u16 = 1;
pub const CNAME: u16 = 5;
const SOA: u16 = 6;
pub const PTR: u16 = 12;
const TXT: u16 = 16;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;
const OPT: u16 = 41;
pub const ANY: u16 = 255;
const INTERNET: u16 = 1;

/// How long others may believe an answer, in seconds.
pub const LIFETIME_SECONDS: u32 = 5;
/// What whoever says nothing else takes over UDP, and the most that we send.
const PLAIN_BYTES_MAX: usize = 512;
const EXTENDED_BYTES_MAX: usize = 1_232;
const HEADER_BYTES: usize = 12;
const NAME_BYTES_MAX: usize = 255;
/// Names that refer to others of the same message do so a few times at most.
const JUMPS_MAX: usize = 16;
/// Records of another server's answer that are looked at.
const RECORDS_MAX: u16 = 256;

/// A question, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub id: u16,
    /// In small letters, without the dot at the end.
    pub name: String,
    pub kind: u16,
    /// The bytes of the question, which the answer repeats.
    raw: Vec<u8>,
    wants_recursion: bool,
    /// How many bytes the asker takes over UDP, if he speaks EDNS.
    extended: Option<u16>,
}

/// Why a message is not a question that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Good = 0,
    Malformed = 1,
    Failed = 2,
    NoSuchName = 3,
    NotDone = 4,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(String),
    Ptr(String),
    Srv { port: u16, target: String },
    Txt(&'static str),
}

/// One thing that is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub data: Data,
}

/// What is said to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub records: Vec<Record>,
    pub more: Vec<Record>,
    /// There is no such name, rather than nothing of that kind.
    pub is_missing: bool,
}

/// Reads a question; the error is the answer to what is none, if there is one.
pub fn parse(bytes: &[u8]) -> Result<Question, Option<Vec<u8>>> {
    let word = |at: usize| bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let (Some(id), Some(flags), Some(questions)) = (word(0), word(2), word(4)) else {
        return Err(None);
    };
    // Whoever answers an answer never stops.
    if bytes.len() < HEADER_BYTES || flags & 0x8000 != 0 {
        return Err(None);
    }
    let refuse = |code: Code| Err(Some(header(id, flags & 0x0100 != 0, code, [0; 4])));
    if flags & 0x7800 != 0 {
        return refuse(Code::NotDone);
    }
    if questions != 1 {
        return refuse(Code::Malformed);
    }
    let Some((name, end)) = name_at(bytes, HEADER_BYTES) else { return refuse(Code::Malformed) };
    let (Some(kind), Some(class)) = (word(end), word(end + 2)) else {
        return refuse(Code::Malformed);
    };
    if class != INTERNET && class != ANY {
        return refuse(Code::NotDone);
    }
    let raw = bytes[HEADER_BYTES..end + 4].to_vec();
    let counts = [6, 8, 10].iter().filter_map(|at| word(*at)).map(u32::from).sum::<u32>();
    let extended = extension(bytes, end + 4, counts);
    let wants_recursion = flags & 0x0100 != 0;
    Ok(Question { id, name, kind, raw, wants_recursion, extended })
}

/// The size in the record of EDNS, if there is one among the rest.
fn extension(bytes: &[u8], mut at: usize, count: u32) -> Option<u16> {
    for _ in 0..count.min(u32::from(RECORDS_MAX)) {
        let (_, end) = name_at(bytes, at)?;
        let field = bytes.get(end..end + 10)?;
        if u16::from_be_bytes([field[0], field[1]]) == OPT {
            return Some(u16::from_be_bytes([field[2], field[3]]));
        }
        at = end + 10 + usize::from(u16::from_be_bytes([field[8], field[9]]));
    }
    None
}

/// A name in small letters and where it ends.
fn name_at(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let (mut name, mut end, mut jumps) = (String::new(), None, 0);
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some((name, end.unwrap_or(at + 1))),
            1..=63 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
                if name.len() > NAME_BYTES_MAX {
                    return None;
                }
                at += 1 + length;
            }
            192..=255 => {
                let low = usize::from(*bytes.get(at + 1)?);
                end = end.or(Some(at + 2));
                jumps += 1;
                if jumps > JUMPS_MAX {
                    return None;
                }
                at = ((length & 0x3f) << 8) | low;
            }
            _ => return None,
        }
    }
}

/// The addresses and other names in the answer of another server.
pub fn records(bytes: &[u8]) -> Option<Vec<Record>> {
    let word = |at: usize| bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    if word(2)? & 0x000f != 0 || word(4)? != 1 {
        return None;
    }
    let (_, mut at) = name_at(bytes, HEADER_BYTES)?;
    at += 4;
    let mut records = Vec::new();
    for _ in 0..word(6)?.min(RECORDS_MAX) {
        let (name, end) = name_at(bytes, at)?;
        let (kind, length) = (word(end)?, usize::from(word(end + 8)?));
        let data = bytes.get(end + 10..end + 10 + length)?;
        let data = match kind {
            A => <[u8; 4]>::try_from(data).ok().map(|octets| Data::A(octets.into())),
            AAAA => <[u8; 16]>::try_from(data).ok().map(|octets| Data::Aaaa(octets.into())),
            CNAME => name_at(bytes, end + 10).map(|(name, _)| Data::Cname(name)),
            _ => None,
        };
        records.extend(data.map(|data| Record { name, data }));
        at = end + 10 + length;
    }
    Some(records)
}

/// A question for another server.
pub fn ask(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[0..2].copy_from_slice(&id.to_be_bytes());
    bytes[2] = 1;
    bytes[5] = 1;
    put_name(&mut bytes, name);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    bytes
}

fn header(id: u16, wants_recursion: bool, code: Code, counts: [u16; 4]) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    let recursion = if wants_recursion { 0x0180 } else { 0x0080 };
    let number: u16 = match code {
        Code::Good => 0,
        Code::Malformed => 1,
        Code::Failed => 2,
        Code::NoSuchName => 3,
        Code::NotDone => 4,
    };
    let ours = matches!(code, Code::Good | Code::NoSuchName);
    let authority = if ours { 0x0400 } else { 0 };
    bytes.extend((0x8000_u16 | authority | recursion | number).to_be_bytes());
    bytes.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    bytes
}

impl Question {
    /// The most bytes that may be sent back over UDP.
    pub fn bytes_max(&self) -> usize {
        let asked = self.extended.map_or(PLAIN_BYTES_MAX, usize::from);
        asked.clamp(PLAIN_BYTES_MAX, EXTENDED_BYTES_MAX)
    }

    /// The answer that nobody knows an answer.
    pub fn failed(&self) -> Vec<u8> {
        self.write(Code::Failed, &Reply::default(), "")
    }

    /// The answer; cut to what fits, which is said in it.
    pub fn answer(&self, reply: &Reply, domain: &str, bytes_max: usize) -> Vec<u8> {
        let code = if reply.is_missing { Code::NoSuchName } else { Code::Good };
        let whole = self.write(code, reply, domain);
        if whole.len() <= bytes_max {
            return whole;
        }
        let short = Reply { more: Vec::new(), ..reply.clone() };
        let shorter = self.write(code, &short, domain);
        if shorter.len() <= bytes_max {
            return shorter;
        }
        let mut cut = self.write(code, &Reply::default(), "");
        cut[2] |= 0x02;
        cut
    }

    fn write(&self, code: Code, reply: &Reply, domain: &str) -> Vec<u8> {
        let count = |records: &[Record]| u16::try_from(records.len()).unwrap_or(u16::MAX);
        let has_authority = reply.records.is_empty() && !domain.is_empty();
        let more = count(&reply.more) + u16::from(self.extended.is_some());
        let counts = [1, count(&reply.records), u16::from(has_authority), more];
        let mut bytes = header(self.id, self.wants_recursion, code, counts);
        bytes.extend(&self.raw);
        for record in &reply.records {
            self.put_record(&mut bytes, record);
        }
        if has_authority {
            put_authority(&mut bytes, domain);
        }
        for record in &reply.more {
            self.put_record(&mut bytes, record);
        }
        if self.extended.is_some() {
            bytes.push(0);
            bytes.extend(OPT.to_be_bytes());
            bytes.extend(u16::try_from(EXTENDED_BYTES_MAX).unwrap_or(512).to_be_bytes());
            bytes.extend([0; 6]);
        }
        bytes
    }

    fn put_record(&self, bytes: &mut Vec<u8>, record: &Record) {
        if record.name == self.name {
            // The name of the question begins after the header.
            bytes.extend([0xc0, 12]);
        } else {
            put_name(bytes, &record.name);
        }
        let mut data = Vec::new();
        let kind = match &record.data {
            Data::A(address) => (A, data.extend(address.octets())).0,
            Data::Aaaa(address) => (AAAA, data.extend(address.octets())).0,
            Data::Cname(name) => (CNAME, put_name(&mut data, name)).0,
            Data::Ptr(name) => (PTR, put_name(&mut data, name)).0,
            Data::Txt(text) => {
                data.push(u8::try_from(text.len()).unwrap_or(0));
                data.extend(text.as_bytes());
                TXT
            }
            Data::Srv { port, target } => {
                let (priority, weight) = (0_u16, 100_u16);
                data.extend([priority, weight, *port].iter().flat_map(|it| it.to_be_bytes()));
                put_name(&mut data, target);
                SRV
            }
        };
        put_data(bytes, kind, &data);
    }
}

fn put_data(bytes: &mut Vec<u8>, kind: u16, data: &[u8]) {
    bytes.extend(kind.to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    bytes.extend(LIFETIME_SECONDS.to_be_bytes());
    bytes.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
    bytes.extend(data);
}

/// Who is responsible, and how long it is true that there is nothing.
fn put_authority(bytes: &mut Vec<u8>, domain: &str) {
    put_name(bytes, domain);
    let mut data = Vec::new();
    put_name(&mut data, &format!("ns.dns.{domain}"));
    put_name(&mut data, &format!("hostmaster.{domain}"));
    let (serial, refresh, retry, expire) = (1_u32, 7_200_u32, 1_800_u32, 86_400_u32);
    let numbers = [serial, refresh, retry, expire, LIFETIME_SECONDS];
    data.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    put_data(bytes, SOA, &data);
}

fn put_name(bytes: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label);
    }
    bytes.push(0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_question_is_read_and_its_answer_read_again() {
        let bytes = ask(7, "Web.Default.svc.cluster.local", A);
        let question = parse(&bytes).unwrap();
        assert_eq!((question.id, question.kind), (7, A));
        assert_eq!(question.name, "web.default.svc.cluster.local");
        let record = |name: &str, data| Record { name: name.to_owned(), data };
        let reply = Reply {
            records: vec![
                record(&question.name, Data::Cname("other.example".to_owned())),
                record("other.example", Data::A(Ipv4Addr::new(1, 2, 3, 4))),
            ],
            ..Reply::default()
        };
        let answer = question.answer(&reply, "cluster.local", 512);
        assert_eq!(records(&answer), Some(reply.records.clone()));
        let cut = question.answer(&reply, "cluster.local", 60);
        assert_eq!((cut[2] & 0x02, &cut[6..8]), (0x02, &[0, 0][..]));
        let missing = Reply { is_missing: true, ..Reply::default() };
        let answer = question.answer(&missing, "cluster.local", 512);
        assert_eq!((answer[3] & 0x0f, &answer[8..10]), (3, &[0, 1][..]));
    }

    #[test]
    fn what_is_no_question_is_refused_or_ignored() {
        let good = ask(7, "a.b", A);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            parse(&bytes).map_err(|answer| answer.map(|bytes| bytes[3] & 0x0f))
        };
        assert_eq!(with(2, 0x80), Err(None));
        assert_eq!(with(2, 0x28), Err(Some(4)));
        assert_eq!(with(5, 2), Err(Some(1)));
        assert_eq!(with(12, 0xc0), Err(Some(1)));
        assert_eq!(parse(&good[..5]), Err(None));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes);
            let _ = records(&bytes);
        }
    }
}
