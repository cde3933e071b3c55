//! Puts what is wrong with a body in the order of the body, in which clients expect it.
//!
//! Objects are sorted once they are parsed, so the order is found again, only when there is
//! something to say and the body is not huge.

use super::{PROBLEMS_MAX, duplicate_field, unknown_field};

/// Above this, unknown fields come first, then those given twice.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The texts of all problems of a JSON body that was parsed without error.
pub fn problems(body: &[u8], unknown: Vec<String>, duplicates: Vec<String>) -> Vec<String> {
    // Nothing is said of what is inside an unknown field.
    let is_inside = |path: &str, outer: &str| {
        path.strip_prefix(outer).is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let duplicates = duplicates
        .into_iter()
        .filter(|path| !unknown.iter().any(|outer| is_inside(path, outer)))
        .map(|path| Problem { text: duplicate_field(&path), path, occurrence: 2 });
    let known = unknown.iter().map(|path| Problem {
        text: unknown_field(path),
        path: path.clone(),
        occurrence: 1,
    });
    let mut problems: Vec<Problem> = known.chain(duplicates).collect();
    if problems.len() > 1 && body.len() <= BODY_BYTES_MAX {
        let places = places(body, &problems);
        let mut order: Vec<usize> = (0..problems.len()).collect();
        order.sort_by_key(|at| places[*at]);
        let mut sorted: Vec<Option<Problem>> = problems.into_iter().map(Some).collect();
        problems = order.into_iter().filter_map(|at| sorted[at].take()).collect();
    }
    problems.truncate(PROBLEMS_MAX);
    problems.into_iter().map(|problem| problem.text).collect()
}

struct Problem {
    path: String,
    text: String,
    /// The how-manieth time that the path is met is the problem.
    occurrence: usize,
}

/// Where in the body each problem is.
fn places(body: &[u8], problems: &[Problem]) -> Vec<usize> {
    let mut places = vec![usize::MAX; problems.len()];
    let mut met = vec![0; problems.len()];
    let mut scanner = Scanner { body, at: 0, path: String::new(), open: Vec::new() };
    while let Some(place) = scanner.next_key() {
        for (at, problem) in problems.iter().enumerate() {
            if problem.path == scanner.path {
                met[at] += 1;
                if met[at] == problem.occurrence {
                    places[at] = place;
                }
            }
        }
    }
    places
}

/// Meets the keys of all objects, with their paths.
struct Scanner<'a> {
    body: &'a [u8],
    at: usize,
    path: String,
    open: Vec<Open>,
}

/// An object or list that the scanner is in.
struct Open {
    /// How long the path to it is.
    path_length: usize,
    /// The element it is at; None for an object.
    index: Option<usize>,
    /// Whether the next string of an object is a key.
    is_at_key: bool,
}

impl Scanner<'_> {
    /// The place of the next key; its path is in `path`.
    fn next_key(&mut self) -> Option<usize> {
        loop {
            let place = self.at;
            let byte = *self.body.get(place)?;
            self.at += 1;
            match byte {
                b'{' => self.enter(None),
                b'[' => {
                    self.enter(Some(0));
                    self.write_index();
                }
                b'}' | b']' => {
                    self.open.pop();
                }
                b',' => self.go_on(),
                b'"' => {
                    let key = self.string(place);
                    if self.is_key(&key) {
                        return Some(place);
                    }
                }
                _ => {}
            }
        }
    }

    fn enter(&mut self, index: Option<usize>) {
        let path_length = self.path.len();
        self.open.push(Open { path_length, index, is_at_key: index.is_none() });
    }

    fn go_on(&mut self) {
        let Some(open) = self.open.last_mut() else { return };
        self.path.truncate(open.path_length);
        match &mut open.index {
            Some(index) => {
                *index += 1;
                self.write_index();
            }
            None => open.is_at_key = true,
        }
    }

    fn write_index(&mut self) {
        if let Some(Open { index: Some(index), .. }) = self.open.last() {
            self.path.push_str(&format!("[{index}]"));
        }
    }

    /// Adds the string to the path if it is a key.
    fn is_key(&mut self, key: &str) -> bool {
        let Some(open) = self.open.last_mut() else { return false };
        if !std::mem::take(&mut open.is_at_key) {
            return false;
        }
        self.path.truncate(open.path_length);
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
        true
    }

    /// The string that begins at a quote.
    fn string(&mut self, start: usize) -> String {
        while let Some(byte) = self.body.get(self.at) {
            self.at += match byte {
                b'\\' => 2,
                _ => 1,
            };
            if *byte == b'"' {
                break;
            }
        }
        let literal = self.body.get(start..self.at).unwrap_or_default();
        serde_json::from_slice(literal).unwrap_or_default()
    }
}
