//! Regular expressions of `pattern`, in the syntax of Go.
//!
//! The engine is linear like Go's. Its syntax differs in places: `\d`, `\s`, `\w` and `\b` are
//! ASCII in Go, a brace that repeats nothing is a brace, and classes have no operators. The text is
//! rewritten before it is compiled, and compiled when first used.

use std::sync::OnceLock;

use regex::Regex;

/// The most a repetition may ask for in Go.
const REPEAT_MAX: u32 = 1000;

/// A pattern and, once used, its compiled form.
#[derive(Debug)]
pub struct Pattern {
    pub text: Box<str>,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.into(), compiled: OnceLock::new() }
    }

    /// # Errors
    /// What is wrong with the pattern, as the end of a sentence.
    pub fn compile(&self) -> Result<&Regex, &str> {
        let compiled = self.compiled.get_or_init(|| compile(&self.text));
        compiled.as_ref().map_err(String::as_str)
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let failed = |why: &str| format!("error parsing regexp: {why}: `{text}`");
    let translated = translate(text).map_err(|why| failed(&why))?;
    Regex::new(&translated).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        failed(last.strip_prefix("error: ").unwrap_or(last))
    })
}

/// Rewrites what the engine reads differently.
fn translate(text: &str) -> Result<String, String> {
    let mut out = Translator { text, at: 0, out: String::with_capacity(text.len() + 16) };
    let mut class = Class::Outside;
    let mut repeat = Repeat::None;
    while let Some(character) = out.take() {
        if character == '\\' {
            let Some(escaped) = out.take() else {
                return Err("trailing backslash at end of expression".to_owned());
            };
            out.out.push_str(&escape(escaped, class));
            class = class.next();
            repeat = Repeat::None;
            continue;
        }
        match class {
            Class::Outside => {
                repeat = out.outside(character, repeat)?;
                if character == '[' {
                    class = Class::Start;
                }
            }
            Class::Inside if character == ']' => {
                out.out.push(']');
                class = Class::Outside;
            }
            Class::Start | Class::Inside => {
                out.inside(character, class);
                class = Class::Inside;
            }
        }
    }
    Ok(out.out)
}

struct Translator<'t> {
    text: &'t str,
    at: usize,
    out: String,
}

impl Translator<'_> {
    fn take(&mut self) -> Option<char> {
        let character = self.text[self.at..].chars().next()?;
        self.at += character.len_utf8();
        Some(character)
    }

    /// Takes as many bytes as they are.
    fn copy(&mut self, bytes: usize) {
        self.out.push_str(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
    }

    fn outside(&mut self, character: char, repeat: Repeat) -> Result<Repeat, String> {
        match character {
            '*' | '+' | '?' => {
                self.out.push(character);
                return repeat.then(character);
            }
            '{' => match repetition(&self.text[self.at - 1..]) {
                Some((low, high)) if low > REPEAT_MAX || high > REPEAT_MAX => {
                    return Err("invalid repeat count".to_owned());
                }
                Some(_) => {
                    self.out.push('{');
                    self.copy(self.text[self.at..].find('}').unwrap_or_default() + 1);
                    return repeat.then('{');
                }
                None => self.out.push_str("\\{"),
            },
            '[' => {
                self.out.push('[');
                if self.text[self.at..].starts_with('^') {
                    self.copy(1);
                }
            }
            other => self.out.push(other),
        }
        Ok(Repeat::None)
    }

    fn inside(&mut self, character: char, class: Class) {
        let rest = &self.text[self.at..];
        match character {
            '[' => match rest.strip_prefix(':').and_then(|rest| rest.find(":]")) {
                // A named class: the colon before, the name, and the end.
                Some(end) => {
                    self.out.push('[');
                    self.copy(end + 3);
                }
                None => self.out.push_str("\\["),
            },
            ']' | '&' | '~' => {
                self.out.push('\\');
                self.out.push(character);
            }
            '-' if matches!(class, Class::Start) => self.out.push_str("\\-"),
            // A range that ends in a dash; the engine would read a difference of classes.
            '-' if rest.starts_with('-') => {
                self.out.push_str("-\\-");
                self.at += 1;
            }
            other => self.out.push(other),
        }
    }
}

/// What was just repeated. The engine would repeat a repetition; Go refuses that.
#[derive(Clone, Copy)]
enum Repeat {
    None,
    Greedy,
    Lazy,
}

impl Repeat {
    fn then(self, operator: char) -> Result<Repeat, String> {
        match (self, operator) {
            (Repeat::None, _) => Ok(Repeat::Greedy),
            (Repeat::Greedy, '?') => Ok(Repeat::Lazy),
            _ => Err("invalid nested repetition operator".to_owned()),
        }
    }
}

#[derive(Clone, Copy)]
enum Class {
    Outside,
    /// Right after the bracket, where a closing one is meant literally.
    Start,
    Inside,
}

impl Class {
    /// After a character that is not a bracket.
    fn next(self) -> Class {
        match self {
            Class::Start => Class::Inside,
            other => other,
        }
    }
}

fn escape(character: char, class: Class) -> String {
    let outside = matches!(class, Class::Outside);
    match (character, outside) {
        ('d', true) => "[0-9]".to_owned(),
        ('d', false) => "0-9".to_owned(),
        ('w', true) => "[0-9A-Za-z_]".to_owned(),
        ('w', false) => "0-9A-Za-z_".to_owned(),
        ('s', true) => "[\\t\\n\\f\\r ]".to_owned(),
        ('s', false) => "\\t\\n\\f\\r ".to_owned(),
        ('D', _) => "[^0-9]".to_owned(),
        ('W', _) => "[^0-9A-Za-z_]".to_owned(),
        ('S', _) => "[^\\t\\n\\f\\r ]".to_owned(),
        ('b', true) => "(?-u:\\b)".to_owned(),
        ('<' | '>', _) => character.to_string(),
        _ => format!("\\{character}"),
    }
}

/// The bounds of the repetition at the start of the text, if it is one.
fn repetition(text: &str) -> Option<(u32, u32)> {
    let inside = text.strip_prefix('{')?.split_once('}')?.0;
    let (low, high) = match inside.split_once(',') {
        Some((low, high)) => (low, high),
        None => (inside, inside),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if low.is_empty() || !digits(low) || !digits(high) {
        return None;
    }
    let bound = |part: &str| part.parse().unwrap_or(u32::MAX);
    Some((bound(low), if high.is_empty() { 0 } else { bound(high) }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            ("^[a-z]+$", "abc", true),
            ("^[a-z]+$", "aBc", false),
            (r"^\d+$", "\u{664}", false),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^[\W]$", "é", true),
            (r"^\s$", "\u{b}", false),
            ("^a{2}$", "aa", true),
            ("^{{x}}$", "{{x}}", true),
            ("^a{,2}$", "a{,2}", true),
            ("^[[a]$", "[", true),
            ("^[]a]$", "]", true),
            ("^[^]a]$", "b", true),
            ("^[a&&b]+$", "&ab", true),
            ("^[[:alpha:]_]+$", "ab_", true),
            ("^[+--]$", ",", true),
            (r"^\<a\>$", "<a>", true),
            (r"\bfoo\b", "a foo b", true),
            ("(?i)^ABC$", "abc", true),
            ("^(?P<a>x)(?:y)$", "xy", true),
            ("^a+?b{1,2}?$", "aab", true),
        ];
        for (pattern, text, expected) in cases {
            let pattern = Pattern::new(pattern);
            assert_eq!(pattern.compile().unwrap().is_match(text), expected, "{pattern:?} {text}");
        }
    }

    #[test]
    fn patterns_go_refuses_are_refused() {
        for pattern in ["[a", "(", "a{1001}", "a**", r"\8", "(?=a)", r"(a)\1", "a\\"] {
            let pattern = Pattern::new(pattern);
            let error = pattern.compile().unwrap_err();
            assert!(error.starts_with("error parsing regexp: "), "{error}");
        }
    }
}
