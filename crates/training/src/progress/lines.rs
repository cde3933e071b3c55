//! Splits the stream of a log into lines, within a limit.

use k8s_openapi::jiff::Timestamp;

/// Longest line that is read. The rest of a longer one is skipped.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// Splits bytes into lines. Carriage returns end lines too: that is how bars are redrawn.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// Time of the line, which the server puts before it.
    at: Option<Timestamp>,
    is_redrawn: bool,
}

impl Lines {
    /// Takes bytes, and hands over every line that they end.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Option<Timestamp>, &str)) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match piece.split_last() {
                Some((end @ (b'\n' | b'\r'), text)) => (text, Some(*end)),
                _ => (piece, None),
            };
            let space = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(space)]);
            if let Some(end) = end {
                self.finish(&mut take);
                self.is_redrawn = end == b'\r';
            }
        }
    }

    /// Hands over a last line without an end.
    pub fn finish(&mut self, mut take: impl FnMut(Option<Timestamp>, &str)) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let mut text: &str = &text;
        if !self.is_redrawn {
            self.at = None;
            if let Some((time, rest)) = text.split_once(' ')
                && let Ok(at) = time.parse()
            {
                (self.at, text) = (Some(at), rest);
            }
        }
        self.is_redrawn = false;
        if !text.trim().is_empty() {
            take(self.at, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        let mut take = |at: Option<Timestamp>, line: &str| {
            seen.push(format!("{}|{line}", at.map_or(0, |at| at.as_second())));
        };
        for piece in pieces {
            lines.push(piece, &mut take);
        }
        lines.finish(&mut take);
        seen
    }

    #[test]
    fn lines_have_the_time_that_stands_before_them() {
        let text = b"1970-01-01T00:00:05.5Z one\n1970-01-01T00:00:06Z  1%\r 2%\r\nplain\n\nlast";
        let expected = ["5|one", "6| 1%", "6| 2%", "0|plain", "0|last"];
        assert_eq!(read(&[text]), expected);
        // However it arrives.
        for at in 0..text.len() {
            assert_eq!(read(&[&text[..at], &text[at..]]), expected, "{at}");
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for _ in 0..1_000 {
            lines.push(&[b'x'; 10_000], |_, line| seen.push(line.len()));
        }
        assert!(lines.line.capacity() <= 4 * LINE_BYTES_MAX && seen.is_empty());
        lines.push(b"\nloss=1\n", |_, line| seen.push(line.len()));
        assert_eq!(seen, [LINE_BYTES_MAX, "loss=1".len()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_text(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let whole = read(&[&bytes]);
            let middle = bytes.len() / 2;
            prop_assert_eq!(whole, read(&[&bytes[..middle], &bytes[middle..]]));
        }
    }
}
