//! JSON bodies, in one pass: the value, and the keys that an object has twice.
//!
//! Our own parser, for three things that clients see: keys given twice are found and the last one
//! counts, the texts of errors are those of Go's decoder, and the depth has a limit of our choice.
//!
//! Upstream: sigs.k8s.io/json

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::path::Path;
use super::{DEPTH_MAX, Error, OBJECTS_MAX, PROBLEMS_MAX, Parsed};

/// Reads one JSON value and nothing after it.
pub fn parse(body: &[u8]) -> Result<Parsed, Error> {
    parse_within(body, 0)
}

/// Reads one JSON value that goes into an object which is `depth` deep.
pub fn parse_within(body: &[u8], depth: usize) -> Result<Parsed, Error> {
    read(body, depth, OBJECTS_MAX)
}

/// Reads a value that was accepted before, however many objects it has.
pub fn parse_accepted(body: &[u8]) -> Result<Value, Error> {
    read(body, 0, usize::MAX).map(|parsed| parsed.value)
}

fn read(body: &[u8], depth: usize, objects_left: usize) -> Result<Parsed, Error> {
    let text = std::str::from_utf8(body).map_err(|error| {
        Error::Syntax(format!("invalid UTF-8 at byte {} of the body", error.valid_up_to()))
    })?;
    let mut parser = Parser { text, at: 0, depth, objects_left, duplicates: Vec::new() };
    parser.skip_space();
    let value = parser.value(&Path::ROOT)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(Parsed { value, duplicates: parser.duplicates }),
        Some(_) => Err(parser.unexpected("after top-level value")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    objects_left: usize,
    duplicates: Vec<String>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// The error for what stands here; `place` says where one was.
    fn unexpected(&self, place: &str) -> Error {
        let rest = self.text.get(self.at..).unwrap_or_default();
        Error::Syntax(match rest.chars().next() {
            None => "unexpected end of JSON input".to_owned(),
            Some('\'') => format!(r"invalid character '\'' {place}"),
            Some('"') => format!("invalid character '\"' {place}"),
            Some(other) => {
                let quoted = format!("{other:?}");
                format!("invalid character {quoted} {place}")
            }
        })
    }

    fn value(&mut self, path: &Path<'_>) -> Result<Value, Error> {
        match self.peek() {
            Some(b'{') => self.nested(path, Parser::object),
            Some(b'[') => self.nested(path, Parser::array),
            Some(b'"') => Ok(Value::String(self.string()?.into_owned())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(
        &mut self,
        path: &Path<'_>,
        parse: fn(&mut Parser<'a>, &Path<'_>) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        if self.depth >= DEPTH_MAX {
            return Err(Error::Syntax("exceeded max depth".to_owned()));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        let value = parse(self, path)?;
        self.depth -= 1;
        Ok(value)
    }

    /// After the opening brace.
    fn object(&mut self, path: &Path<'_>) -> Result<Value, Error> {
        let mut map = Map::new();
        if self.take(b'}') {
            return Ok(Value::Object(map));
        }
        self.objects_left = self.objects_left.checked_sub(1).ok_or(Error::TooLarge)?;
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.skip_space();
            let value = self.value(&path.key(&key))?;
            if let Some(_overwritten) = map.insert(key.clone().into_owned(), value) {
                self.note_duplicate(&path.key(&key));
            }
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
            self.skip_space();
        }
    }

    /// After the opening bracket.
    fn array(&mut self, path: &Path<'_>) -> Result<Value, Error> {
        let mut elements = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(elements));
        }
        loop {
            elements.push(self.value(&path.index(elements.len()))?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(elements));
                }
                _ => return Err(self.unexpected("after array element")),
            }
            self.skip_space();
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn note_duplicate(&mut self, path: &Path<'_>) {
        if self.duplicates.len() < PROBLEMS_MAX {
            let path = path.to_string();
            if !self.duplicates.contains(&path) {
                self.duplicates.push(path);
            }
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result<Value, Error> {
        for expected in word.bytes() {
            if !self.take(expected) {
                let expected = char::from(expected);
                return Err(self.unexpected(&format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Error> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            return Err(self.unexpected("in numeric literal"));
        }
        let mut is_whole = true;
        if self.take(b'.') {
            is_whole = false;
            if self.digits() == 0 {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
        }
        let literal = &self.text[start..self.at];
        if is_whole && let Ok(number) = literal.parse::<i64>() {
            return Ok(Value::Number(number.into()));
        }
        if is_whole && let Ok(number) = literal.parse::<u64>() {
            return Ok(Value::Number(number.into()));
        }
        let number = literal.parse().ok().and_then(Number::from_f64);
        number.map(Value::Number).ok_or_else(|| {
            let problem = "into Go value of type float64";
            Error::Type(format!("json: cannot unmarshal number {literal} {problem}"))
        })
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    /// A string, its opening quote being here. Borrowed where nothing in it is escaped.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        self.at += 1;
        let start = self.at;
        self.skip_plain();
        if self.peek() == Some(b'"') {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Cow::Borrowed(text));
        }
        let mut text = self.text[start..self.at].to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escaped()?);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
            let start = self.at;
            self.skip_plain();
            text.push_str(&self.text[start..self.at]);
        }
    }

    /// To the next quote, backslash or control character.
    fn skip_plain(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| IS_SPECIAL[usize::from(*byte)]);
        self.at += length.unwrap_or(rest.len());
    }

    /// After a backslash.
    fn escaped(&mut self) -> Result<char, Error> {
        let escaped = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// After `\u`. Half a surrogate pair is replaced, as Go does.
    fn unicode(&mut self) -> Result<char, Error> {
        let first = self.hexadecimal()?;
        if !(0xd800..0xdc00).contains(&first) || !self.text[self.at..].starts_with("\\u") {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        self.at += 2;
        let second = self.hexadecimal()?;
        if (0xdc00..0xe000).contains(&second) {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = after_first;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hexadecimal(&mut self) -> Result<u32, Error> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let place = "in \\u hexadecimal character escape";
            code = code * 16 + digit.ok_or_else(|| self.unexpected(place))?;
            self.at += 1;
        }
        Ok(code)
    }
}

/// The bytes that end a run of plain characters in a string.
static IS_SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(error: Error) -> String {
        error.to_string()
    }

    #[test]
    fn values_are_those_of_a_json_parser() {
        let texts = [
            r#"{"a":[1,-2,3.5,1e3,true,false,null,"x\n\"\\\/\b\f\r\té😀"],"":{}}"#,
            " [ ] ",
            "\t{ \"a\" : { } , \"b\" : [ 1 , 2 ] }\n",
            "18446744073709551615",
            "-9223372036854775808",
            "\"\"",
            "0",
        ];
        for text in texts {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap().value, expected, "{text}");
        }
        assert_eq!(parse(b"-0").unwrap().value, 0);
        assert_eq!(
            parse(br#""\ud800x\udc00\ud83d\u0041""#).unwrap().value,
            "\u{fffd}x\u{fffd}\u{fffd}A"
        );
    }

    #[test]
    fn errors_are_worded_as_clients_know_them() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("[1,", "unexpected end of JSON input"),
            ("\"a", "unexpected end of JSON input"),
            ("{]", "invalid character ']' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("1 é", "invalid character 'é' after top-level value"),
            ("nul'", r"invalid character '\'' in literal null (expecting 'l')"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("\"\n\"", r"invalid character '\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u00g0""#, r"invalid character 'g' in \u hexadecimal character escape"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
            ("apiVersion: v1", "invalid character 'a' looking for beginning of value"),
        ];
        for (text, expected) in cases {
            assert_eq!(text_of(parse(text.as_bytes()).unwrap_err()), expected, "{text}");
        }
        let error = parse(b"{\"a\":\"\xff\"}").unwrap_err();
        assert_eq!(text_of(error), "invalid UTF-8 at byte 6 of the body");
    }

    #[test]
    fn a_key_given_twice_is_named_once_and_the_last_value_counts() {
        let text = r#"{"a":1,"spec":{"l":[{},{"x":1,"x":2,"x":3}],"b":0,"b":1},"a":2}"#;
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.duplicates, ["spec.l[1].x", "spec.b", "a"]);
        let expected = serde_json::json!({"a": 2, "spec": {"l": [{}, {"x": 3}], "b": 1}});
        assert_eq!(parsed.value, expected);
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        let error = parse(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(text_of(error), "exceeded max depth");
        assert!(parse("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_a_json_parser_takes_is_taken_alike(
            text in "[\\[\\]{}:,\"a0-9eE.+\\\\ tru-]{0,20}"
        ) {
            let expected = serde_json::from_str::<Value>(&text).ok();
            let found = parse(text.as_bytes()).ok().map(|parsed| parsed.value);
            // Ours reads `-0` as an integer.
            if !text.contains("-0") {
                proptest::prop_assert_eq!(found, expected);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
