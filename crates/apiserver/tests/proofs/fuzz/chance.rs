//! Changes made by chance to inputs that mean something.

/// The largest input that is made.
const INPUT_BYTES_MAX: usize = 4 << 10;
const CHANGES_MAX: u64 = 6;

/// Bytes that readers treat differently from others.
const MARKS: &[u8] = b"\"\\{}[]:,/'&*!|>%#@$=<>()-+.~?^\0\n\t\r 0159eEx\x7f\x80\xc3\xff\xef\xbb";

/// A generator (splitmix64): small, and the same everywhere.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// One input: a good one with a few changes.
    pub fn input(&mut self, corpus: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
        let mut input = self.of(corpus).clone();
        for _ in 0..=self.next() % CHANGES_MAX {
            self.change(&mut input, corpus, words);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str]) {
        let at = self.below(input.len() + 1);
        let end = (at + self.below(16)).min(input.len());
        match self.below(10) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = *self.of(MARKS),
            2 => input.insert(at, *self.of(MARKS)),
            3 => drop(input.drain(at..end)),
            4 => {
                let piece = input[at..end].to_vec();
                let times = 1 + self.below(64);
                input.splice(at..at, piece.repeat(times));
            }
            5 | 6 => {
                let word = self.of(words).as_bytes().to_vec();
                input.splice(at..at, word);
            }
            7 => {
                let word = self.of(words).as_bytes().to_vec();
                input.splice(at..end, word);
            }
            8 => {
                let other = self.of(corpus);
                let from = self.below(other.len());
                input.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let number = self.next() >> self.below(64);
                input.splice(at..end, number.to_string().into_bytes());
            }
        }
    }
}
