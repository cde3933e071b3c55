//! Guesses which key was meant.

/// The known key that differs least from a word, when it looks like a slip.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|key| (distance(word, key), *key));
    let (distance, key) = distances.min()?;
    // Two slips in a long word are likely, in a short one they make another word.
    let slips_max = if key.len() < 5 { 1 } else { 2 };
    (distance <= slips_max).then_some(key)
}

/// How many letters must be put in, taken out, replaced or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.to_lowercase().chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut best = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["host", "port", "user", "password", "max_open_conns"];
        let cases = [
            ("hots", Some("host")),
            ("Port", Some("port")),
            ("passwd", Some("password")),
            ("max_open_cons", Some("max_open_conns")),
            ("maxopenconns", Some("max_open_conns")),
            ("part", Some("port")),
            ("socket", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, &known), expected, "{word}");
        }
        assert_eq!(nearest("host", &[]), None);
    }
}
