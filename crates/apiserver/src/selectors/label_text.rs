//! Label selectors as text: the grammar of `?labelSelector=` and `kubectl -l`.
//!
//! One pass makes tokens, one pass reads them; both are linear in the text.
//!
//! Upstream: apimachinery/pkg/labels/selector.go (Lexer, Parser)

use super::Error;
use super::labels::{Requirement, Selector, Test};
use super::names::{label_key_problems, label_value_problems};

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or the words `in` and `notin`, which are operators only after a key.
    Word(&'a str),
    Symbol(&'static str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Selector, Error> {
    let mut tokens = Tokens { tokens: scan(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match tokens.peek() {
            Token::Word(_) | Token::Symbol("!") => {}
            Token::End => return Ok(Selector::of(requirements)),
            other => {
                let found = other.text();
                return refuse(format!(
                    "found '{found}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
        let requirement = requirement(&mut tokens)
            .map_err(|error| Error(format!("unable to parse requirement: {error}")))?;
        requirements.push(requirement);
        match tokens.take() {
            Token::End => return Ok(Selector::of(requirements)),
            Token::Symbol(",") => match tokens.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => {
                    let found = other.text();
                    return refuse(format!("found '{found}', expected: identifier after ','"));
                }
            },
            other => {
                let found = other.text();
                return refuse(format!("found '{found}', expected: ',' or 'end of string'"));
            }
        }
    }
}

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error(text))
}

struct Tokens<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }
}

fn scan(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        if is_space(bytes[start]) {
            start += 1;
            continue;
        }
        if let Some(symbol) = symbol_at(&bytes[start..]) {
            tokens.push(Token::Symbol(symbol));
            start += symbol.len();
            continue;
        }
        let ends = |byte: &u8| is_space(*byte) || symbol_at(&[*byte]).is_some();
        let length = bytes[start..].iter().position(ends).unwrap_or(bytes.len() - start);
        // Words end only at ASCII bytes, so the slice is at character boundaries.
        tokens.push(Token::Word(&text[start..start + length]));
        start += length;
    }
    tokens
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn symbol_at(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'=', b'=', ..] => Some("=="),
        [b'!', b'=', ..] => Some("!="),
        [b'=', ..] => Some("="),
        [b'!', ..] => Some("!"),
        [b'(', ..] => Some("("),
        [b')', ..] => Some(")"),
        [b',', ..] => Some(","),
        [b'>', ..] => Some(">"),
        [b'<', ..] => Some("<"),
        _ => None,
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, Error> {
    let mut token = tokens.take();
    let negated = token == Token::Symbol("!");
    if negated {
        token = tokens.take();
    }
    let Token::Word(key) = token else {
        return refuse(format!("found '{}', expected: identifier", token.text()));
    };
    check_key(key)?;
    let bare = matches!(tokens.peek(), Token::End | Token::Symbol(","));
    let test = match (negated, bare) {
        (true, _) => Test::DoesNotExist,
        (false, true) => Test::Exists,
        (false, false) => test(tokens, key)?,
    };
    Ok(Requirement { key: key.to_owned(), test })
}

fn check_key(key: &str) -> Result<(), Error> {
    let problems = label_key_problems(key);
    if problems.is_empty() {
        return Ok(());
    }
    // Clients know this text with the path that is not there.
    refuse(format!("<nil>: Invalid value: {key:?}: {}", problems.join("; ")))
}

fn test(tokens: &mut Tokens<'_>, key: &str) -> Result<Test, Error> {
    let operator = tokens.take();
    match operator {
        Token::Word("in") => Ok(Test::In(checked(key, values(tokens)?)?)),
        Token::Word("notin") => Ok(Test::NotIn(checked(key, values(tokens)?)?)),
        Token::Symbol("=") => Ok(Test::Equals(one_value(tokens, key)?)),
        Token::Symbol("==") => Ok(Test::DoubleEquals(one_value(tokens, key)?)),
        Token::Symbol("!=") => Ok(Test::NotEquals(one_value(tokens, key)?)),
        Token::Symbol(">") => Ok(Test::GreaterThan(bound(tokens, key)?)),
        Token::Symbol("<") => Ok(Test::LessThan(bound(tokens, key)?)),
        other => refuse(format!("found '{}', expected: {OPERATORS}", other.text())),
    }
}

fn one_value(tokens: &mut Tokens<'_>, key: &str) -> Result<String, Error> {
    let value = exact_value(tokens)?;
    checked(key, vec![value.clone()])?;
    Ok(value)
}

fn bound(tokens: &mut Tokens<'_>, key: &str) -> Result<i64, Error> {
    let value = exact_value(tokens)?;
    let number = value.parse();
    let mut problems = Vec::new();
    if number.is_err() {
        problems.push(format!(
            "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an \
             integer"
        ));
    }
    problems.extend(value_problems(key, 0, &value));
    match number {
        Ok(number) if problems.is_empty() => Ok(number),
        _ => refuse(together(&problems)),
    }
}

fn exact_value(tokens: &mut Tokens<'_>) -> Result<String, Error> {
    match tokens.peek() {
        Token::End | Token::Symbol(",") => Ok(String::new()),
        Token::Word(value) => {
            tokens.take();
            Ok(value.to_owned())
        }
        other => refuse(format!("found '{}', expected: identifier", other.text())),
    }
}

/// The values in brackets; `()` and gaps between commas are the empty value.
fn values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, Error> {
    let open = tokens.take();
    if open != Token::Symbol("(") {
        return refuse(format!("found '{}' expected: '('", open.text()));
    }
    let mut values = match tokens.peek() {
        Token::Symbol(")") => {
            tokens.take();
            return Ok(vec![String::new()]);
        }
        Token::Word(_) | Token::Symbol(",") => listed_values(tokens)?,
        other => {
            return refuse(format!("found '{}', expected: ',', ')' or identifier", other.text()));
        }
    };
    let close = tokens.take();
    if close != Token::Symbol(")") {
        return refuse(format!("found '{}', expected: ')'", close.text()));
    }
    values.sort();
    values.dedup();
    Ok(values)
}

fn listed_values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, Error> {
    let mut values = Vec::new();
    loop {
        match tokens.take() {
            Token::Word(value) => {
                values.push(value.to_owned());
                match tokens.peek() {
                    Token::Symbol(",") => {}
                    Token::Symbol(")") => return Ok(values),
                    other => {
                        let found = other.text();
                        return refuse(format!("found '{found}', expected: ',' or ')'"));
                    }
                }
            }
            Token::Symbol(",") => {
                if values.is_empty() {
                    values.push(String::new());
                }
                match tokens.peek() {
                    Token::Symbol(")") => {
                        values.push(String::new());
                        return Ok(values);
                    }
                    Token::Symbol(",") => {
                        tokens.take();
                        values.push(String::new());
                    }
                    _ => {}
                }
            }
            other => {
                let found = other.text();
                return refuse(format!("found '{found}', expected: ',', or identifier"));
            }
        }
    }
}

fn checked(key: &str, values: Vec<String>) -> Result<Vec<String>, Error> {
    let problems: Vec<String> = values
        .iter()
        .enumerate()
        .filter_map(|(index, value)| value_problems(key, index, value))
        .collect();
    if problems.is_empty() { Ok(values) } else { refuse(together(&problems)) }
}

fn value_problems(key: &str, index: usize, value: &str) -> Option<String> {
    let problems = label_value_problems(value);
    if problems.is_empty() {
        return None;
    }
    Some(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", problems.join("; ")))
}

fn together(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_printed_in_its_canonical_form() {
        let cases = [
            ("", ""),
            ("  ", ""),
            ("x", "x"),
            ("!x", "!x"),
            ("! x", "!x"),
            ("x=a,y=b", "x=a,y=b"),
            ("y=b,x=a", "x=a,y=b"),
            ("x = a", "x=a"),
            ("x==a", "x==a"),
            ("x!=a", "x!=a"),
            ("x=", "x="),
            ("x=,y", "x=,y"),
            ("x in (b,a,b)", "x in (a,b)"),
            ("x notin ( b , a )", "x notin (a,b)"),
            ("x in ()", "x in ()"),
            ("x in (,)", "x in ()"),
            ("x in (a,)", "x in (,a)"),
            ("x in (,a)", "x in (,a)"),
            ("x in (a,,b)", "x in (,a,b)"),
            ("x>1", "x>1"),
            ("x < 7", "x<7"),
            ("x>007", "x>7"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin=in", "notin=in"),
            ("in", "in"),
            ("x.io/y in(a)", "x.io/y in (a)"),
            ("a\t=\nb", "a=b"),
        ];
        for (text, canonical) in cases {
            assert_eq!(parse(text).unwrap().to_string(), canonical, "{text:?}");
        }
    }

    #[test]
    fn errors_say_what_was_found_and_what_was_expected() {
        let cases = [
            ("x,", "found '', expected: identifier after ','"),
            ("x,,y", "found ',', expected: identifier after ','"),
            (",x", "found ',', expected: !, identifier, or 'end of string'"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("!x=a", "found '=', expected: ',' or 'end of string'"),
            ("x=a b", "found 'b', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("!!x", "unable to parse requirement: found '!', expected: identifier"),
            (
                "x y",
                "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "x!y",
                "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("x=(", "unable to parse requirement: found '(', expected: identifier"),
            ("x===a", "unable to parse requirement: found '=', expected: identifier"),
            ("x in", "unable to parse requirement: found '' expected: '('"),
            ("x in a", "unable to parse requirement: found 'a' expected: '('"),
            ("x in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("x in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
            ("x in (,,)", "unable to parse requirement: found ')', expected: ',', or identifier"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }

    #[test]
    fn bad_keys_and_values_are_refused() {
        let begins = [
            ("a$", "unable to parse requirement: <nil>: Invalid value: \"a$\": name part must"),
            ("a=b/c", "unable to parse requirement: values[0][a]: Invalid value: \"b/c\": a valid"),
            ("a in (x,*)", "unable to parse requirement: values[0][a]: Invalid value: \"*\""),
            ("a in (*,/)", "unable to parse requirement: [values[0][a]: Invalid value: \"*\""),
            ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt'"),
            ("a>", "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt'"),
        ];
        for (text, begin) in begins {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.starts_with(begin), "{text:?}: {message}");
        }
        assert!(parse("a>99999999999999999999").is_err());
        assert!(parse(&"x".repeat(64)).is_err());
    }

    #[test]
    fn long_text_takes_linear_time() {
        let many = vec!["k in (a,b,c)"; 50_000].join(",");
        assert_eq!(parse(&many).unwrap().requirements().len(), 50_000);
        assert!(parse(&"!".repeat(1_000_000)).is_err());
        assert!(parse(&format!("x in ({}", ",".repeat(1_000_000))).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_prints_stably(text in "[ -~é\\t]{0,40}") {
            if let Ok(selector) = parse(&text) {
                let printed = selector.to_string();
                let again = parse(&printed).unwrap();
                prop_assert_eq!(&again, &selector);
                prop_assert_eq!(again.to_string(), printed);
            }
        }

        #[test]
        fn likely_text_prints_stably(
            parts in prop::collection::vec(
                prop_oneof![
                    "!?[abin]{1,2}",
                    "[ab]{1,2} ?(=|==|!=) ?[a1]{0,2}",
                    "[ab] (in|notin) \\([ab,]{0,6}\\)",
                    "n[<>][0-9]{1,3}",
                ],
                0..6,
            )
        ) {
            let text = parts.join(",");
            if let Ok(selector) = parse(&text) {
                let printed = selector.to_string();
                prop_assert_eq!(parse(&printed).unwrap(), selector);
            }
        }
    }
}
