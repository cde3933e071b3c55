//! Sets of completion indexes as a Job writes them: `1,3-5,7`.

use std::collections::BTreeSet;
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<u32>);

impl Indexes {
    /// Reads a text; what lies at or above the bound, or cannot be read, is left out.
    pub fn read(text: &str, below: u32) -> Indexes {
        let mut all = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
            else {
                continue;
            };
            all.extend(first..=last.min(below.saturating_sub(1)));
        }
        all.retain(|index| *index < below);
        Indexes(all)
    }

    pub fn insert(&mut self, index: u32) {
        self.0.insert(index);
    }

    pub fn has(&self, index: u32) -> bool {
        self.0.contains(&index)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

impl Extend<u32> for Indexes {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, indexes: T) {
        self.0.extend(indexes);
    }
}

/// Runs of three and more are written as a range.
impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut is_first = true;
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.peek() == Some(&(last + 1)) {
                last += 1;
                rest.next();
            }
            if !is_first {
                f.write_str(",")?;
            }
            is_first = false;
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_they_are_read() {
        for (text, below, expected) in [
            ("", 10, ""),
            ("0,1,2,5,7,8", 10, "0-2,5,7,8"),
            ("1,3-5,7", 6, "1,3-5"),
            ("2-4000000000", 4, "2,3"),
            ("x,3,-", 10, "3"),
        ] {
            assert_eq!(Indexes::read(text, below).to_string(), expected, "{text}");
        }
    }
}
