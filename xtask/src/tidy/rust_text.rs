//! Rust source split into code and comments, without parsing it.
//!
//! Good enough for rules about words and lines: strings and comments never look like code.

/// A source file in three parallel views, equal in lines and columns.
pub struct RustText {
    /// Comments are blank; the insides of strings are underscores.
    pub code: Vec<String>,
    /// Everything but comments is blank.
    pub comments: Vec<String>,
    /// Whether the line begins inside a string.
    pub starts_in_string: Vec<bool>,
    /// Whether the line belongs to an item under `#[cfg(test)]`.
    pub is_test: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    String,
    RawString { hashes: usize },
}

impl RustText {
    pub fn read(text: &str) -> RustText {
        let characters: Vec<char> = text.chars().collect();
        let mut views = Views::default();
        let mut state = State::Code;
        let mut at = 0;
        while at < characters.len() {
            let (taken, next) = token(state, &characters, at);
            let end = (at + taken).min(characters.len());
            // The marks that open and close a comment or a string belong to it.
            let kind = if state == State::Code { next } else { state };
            views.push(&characters[at..end], kind, next);
            (at, state) = (end, next);
        }
        let mut text = views.finish();
        text.is_test = test_lines(&text.code);
        text
    }

    /// The lines of code that are not blank, from one line to another (from 0, both included).
    pub fn code_lines(&self, first: usize, last: usize) -> usize {
        let lines = &self.code[first..=last.min(self.code.len() - 1)];
        lines.iter().filter(|line| !line.trim().is_empty()).count()
    }
}

/// How many characters the token here takes, and the state after it.
fn token(state: State, characters: &[char], at: usize) -> (usize, State) {
    let rest = &characters[at..];
    let next = rest.get(1).copied();
    match (state, rest[0], next) {
        (State::Code, '/', Some('/')) => (2, State::LineComment),
        (State::Code, '/', Some('*')) => (2, State::BlockComment { depth: 1 }),
        (State::Code, '"', _) => (1, State::String),
        (State::Code, 'r', _) => match raw_string_hashes(characters, at) {
            Some(hashes) => (hashes + 2, State::RawString { hashes }),
            None => (1, State::Code),
        },
        (State::Code, '\'', _) => (character_length(rest), State::Code),
        (State::LineComment, '\n', _) => (1, State::Code),
        (State::BlockComment { depth }, '/', Some('*')) => {
            (2, State::BlockComment { depth: depth + 1 })
        }
        (State::BlockComment { depth: 1 }, '*', Some('/')) => (2, State::Code),
        (State::BlockComment { depth }, '*', Some('/')) => {
            (2, State::BlockComment { depth: depth - 1 })
        }
        (State::String, '\\', _) => (2, State::String),
        (State::String, '"', _) => (1, State::Code),
        (State::RawString { hashes }, '"', _) if closes(rest, hashes) => (hashes + 1, State::Code),
        _ => (1, state),
    }
}

/// The number of `#` of a raw string that begins here, if one does.
fn raw_string_hashes(characters: &[char], at: usize) -> Option<usize> {
    let before = |back: usize| at.checked_sub(back).map(|index| characters[index]);
    let prefix = match before(1) {
        Some('b' | 'c') => before(2),
        other => other,
    };
    if prefix.is_some_and(is_word) {
        return None;
    }
    let hashes = characters[at + 1..].iter().take_while(|c| **c == '#').count();
    (characters.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn closes(rest: &[char], hashes: usize) -> bool {
    rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#')
}

/// The length of a character literal; 1 for the mark of a lifetime.
fn character_length(rest: &[char]) -> usize {
    match (rest.get(1), rest.get(2)) {
        (Some('\\'), _) => {
            // The escaped character may be the quote itself.
            let end = rest.iter().skip(3).position(|c| *c == '\'');
            end.map_or(1, |index| index + 4)
        }
        (Some(_), Some('\'')) => 3,
        _ => 1,
    }
}

pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Collects the views, line by line.
#[derive(Default)]
struct Views {
    code: String,
    comments: String,
    line_starts: Vec<bool>,
}

impl Views {
    fn push(&mut self, token: &[char], kind: State, after: State) {
        for character in token {
            let (code, comment) = match (*character, kind) {
                ('\n', _) => ('\n', '\n'),
                (c, State::LineComment | State::BlockComment { .. }) => (' ', c),
                (c, State::Code) if token.len() == 1 => (c, ' '),
                // A character literal: its inside must not look like code either.
                ('\'', State::Code) => ('\'', ' '),
                ('"', State::String | State::RawString { .. }) => ('"', ' '),
                (c, _) => (if c.is_whitespace() { ' ' } else { '_' }, ' '),
            };
            self.code.push(code);
            self.comments.push(comment);
            if code == '\n' {
                let in_string = matches!(after, State::String | State::RawString { .. });
                self.line_starts.push(in_string);
            }
        }
    }

    fn finish(self) -> RustText {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let code = lines(&self.code);
        let mut starts_in_string = vec![false];
        starts_in_string.extend(self.line_starts);
        starts_in_string.truncate(code.len());
        RustText { comments: lines(&self.comments), is_test: Vec::new(), starts_in_string, code }
    }
}

/// Marks the items under `#[cfg(test)]`, or everything when the file is under it.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut is_test = vec![code.iter().any(|line| line.trim() == "#![cfg(test)]"); code.len()];
    for line in 0..code.len() {
        if let Some(column) = code[line].find("#[cfg(test)]") {
            let after = Place { line, column: column + "#[cfg(test)]".len() };
            let last = item_end(code, after).map_or(line, |end| end.line);
            is_test[line..=last].fill(true);
        }
    }
    is_test
}

/// A place in the code; the column counts bytes, which the views keep at character borders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// Where the item that begins here ends: its `;`, or the brace that closes its body.
pub fn item_end(code: &[String], from: Place) -> Option<Place> {
    let mut brackets = 0usize;
    let mut braces = 0usize;
    for (line, text) in code.iter().enumerate().skip(from.line) {
        let skipped = if line == from.line { from.column } else { 0 };
        for (column, character) in text.char_indices().skip_while(|(at, _)| *at < skipped) {
            match character {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                '{' => braces += 1,
                '}' if braces <= 1 => return Some(Place { line, column }),
                '}' => braces -= 1,
                ';' if brackets == 0 && braces == 0 => return Some(Place { line, column }),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        RustText::read(text).code.join("\n")
    }

    #[test]
    fn strings_and_comments_do_not_look_like_code() {
        let cases = [
            ("a // b {", "a       "),
            ("a /* { /* } */ x */ b", "a                   b"),
            (r#"f("a } \" b") }"#, r#"f("_ _ _" _") }"#),
            (r##"r#"a " }"# }"##, r##"__"_ " _"_ }"##),
            ("r#fn", "r#fn"),
            ("'{' '\\'' 'a>", "'_' '_'' 'a>"),
            ("b'\"' x", "b'_' x"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_are_kept_apart() {
        let text = RustText::read("x // why\n\"// no\"\n");
        assert_eq!(text.comments, ["  // why", "       "]);
    }

    #[test]
    fn lines_inside_a_string_are_known() {
        let text = RustText::read("let a = \"x\ny\";\nb\n");
        assert_eq!(text.starts_in_string, [false, true, false]);
    }

    #[test]
    fn an_item_under_cfg_test_is_test_code_and_what_follows_is_not() {
        let source = "a\n#[cfg(test)]\nmod tests {\n  { }\n}\nb\n#[cfg(test)]\nmod more;\nc\n";
        let text = RustText::read(source);
        let expected = [false, true, true, true, true, false, true, true, false];
        assert_eq!(text.is_test, expected);
        assert_eq!(RustText::read("//! x\n#![cfg(test)]\na").is_test, [true; 3]);
    }
}
