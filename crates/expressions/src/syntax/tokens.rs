//! Text to tokens.

use std::sync::Arc;

use crate::syntax::Literal;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Literal(Literal),
    /// An integer without its sign: the smallest one has no positive counterpart.
    Integer(u64),
    Ident(Box<str>),
    Symbol(&'static str),
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) at: u32,
}

/// A fault and where it is.
pub(crate) type Fault = (u32, String);

/// Longer symbols first.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "{?", "<", ">", "!", "+", "-", "*", "/", "%",
    "?", ":", ".", ",", "[", "]", "{", "}",
];
const PARENTHESES: [&str; 2] = ["(", ")"];

pub(crate) fn tokenize(source: &str) -> Result<Vec<Placed>, Fault> {
    let characters: Vec<char> = source.chars().collect();
    let mut reader = Reader { characters: &characters, position: 0 };
    let mut tokens = Vec::new();
    loop {
        reader.skip_blank();
        let at = reader.position as u32;
        let token = reader.next_token()?;
        let last = token == Token::End;
        tokens.push(Placed { token, at });
        if last {
            return Ok(tokens);
        }
    }
}

struct Reader<'s> {
    characters: &'s [char],
    position: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn fault<T>(&self, at: usize, message: impl Into<String>) -> Result<T, Fault> {
        Err((at as u32, message.into()))
    }

    fn skip_blank(&mut self) {
        while let Some(character) = self.peek(0) {
            if character.is_whitespace() {
                self.position += 1;
            } else if character == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|character| character != '\n') {
                    self.position += 1;
                }
            } else {
                return;
            }
        }
    }

    fn next_token(&mut self) -> Result<Token, Fault> {
        let Some(first) = self.peek(0) else { return Ok(Token::End) };
        if first.is_ascii_digit() || (first == '.' && self.digit(1)) {
            return self.number();
        }
        if first == '"' || first == '\'' {
            return self.text(false, false);
        }
        if let Some((raw, bytes, skip)) = self.text_prefix() {
            self.position += skip;
            return self.text(raw, bytes);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(self.word());
        }
        for symbol in SYMBOLS.iter().chain(&PARENTHESES) {
            if symbol.chars().enumerate().all(|(index, want)| self.peek(index) == Some(want)) {
                self.position += symbol.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        let message = format!("Syntax error: token recognition error at: '{first}'");
        self.fault(self.position, message)
    }

    fn digit(&self, ahead: usize) -> bool {
        self.peek(ahead).is_some_and(|character| character.is_ascii_digit())
    }

    fn word(&mut self) -> Token {
        let start = self.position;
        while self.peek(0).is_some_and(|next| next.is_ascii_alphanumeric() || next == '_') {
            self.position += 1;
        }
        let word: String = self.characters[start..self.position].iter().collect();
        match word.as_str() {
            "true" => Token::Literal(Literal::Bool(true)),
            "false" => Token::Literal(Literal::Bool(false)),
            "null" => Token::Literal(Literal::Null),
            "in" => Token::Symbol("in"),
            _ => Token::Ident(word.into()),
        }
    }

    /// `r`, `b` and both, before a quote: raw, bytes, characters to skip.
    fn text_prefix(&self) -> Option<(bool, bool, usize)> {
        let quote = |ahead| matches!(self.peek(ahead), Some('"' | '\''));
        let lower = |ahead| self.peek(ahead).map(|character| character.to_ascii_lowercase());
        match (lower(0)?, lower(1)) {
            ('r', _) if quote(1) => Some((true, false, 1)),
            ('b', _) if quote(1) => Some((false, true, 1)),
            ('r', Some('b')) | ('b', Some('r')) if quote(2) => Some((true, true, 2)),
            _ => None,
        }
    }

    fn number(&mut self) -> Result<Token, Fault> {
        let start = self.position;
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.position += 2;
            return self.integer(start, 16);
        }
        while self.digit(0) {
            self.position += 1;
        }
        let mut is_double = false;
        if self.peek(0) == Some('.') && self.digit(1) {
            is_double = true;
            self.position += 1;
            while self.digit(0) {
                self.position += 1;
            }
        }
        let signed = matches!(self.peek(1), Some('+' | '-')) as usize;
        if matches!(self.peek(0), Some('e' | 'E')) && self.digit(1 + signed) {
            is_double = true;
            self.position += 1 + signed;
            while self.digit(0) {
                self.position += 1;
            }
        }
        if !is_double {
            self.position = start;
            return self.integer(start, 10);
        }
        let digits: String = self.characters[start..self.position].iter().collect();
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Literal(Literal::Double(value))),
            _ => self.fault(start, "invalid double literal"),
        }
    }

    fn integer(&mut self, start: usize, radix: u32) -> Result<Token, Fault> {
        let first = self.position;
        while self.peek(0).is_some_and(|next| next.is_digit(radix)) {
            self.position += 1;
        }
        let digits: String = self.characters[first..self.position].iter().collect();
        let value = u64::from_str_radix(&digits, radix);
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.position += 1;
            return match value {
                Ok(value) => Ok(Token::Literal(Literal::Uint(value))),
                Err(_) => self.fault(start, "invalid uint literal"),
            };
        }
        match value {
            Ok(value) if value <= 1 << 63 => Ok(Token::Integer(value)),
            _ => self.fault(start, "invalid int literal"),
        }
    }

    fn text(&mut self, raw: bool, bytes: bool) -> Result<Token, Fault> {
        let start = self.position;
        let quote = self.peek(0).unwrap_or('"');
        let long = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.position += if long { 3 } else { 1 };
        let mut out: Vec<u8> = Vec::new();
        loop {
            let Some(character) = self.peek(0) else {
                return self.fault(start, unterminated(self.characters, start));
            };
            if character == quote && !long {
                self.position += 1;
                break;
            }
            if long && (0..3).all(|ahead| self.peek(ahead) == Some(quote)) {
                self.position += 3;
                break;
            }
            if !long && (character == '\n' || character == '\r') {
                return self.fault(start, unterminated(self.characters, start));
            }
            self.position += 1;
            if character == '\\' && !raw {
                self.escape(bytes, &mut out)?;
            } else {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if bytes {
            return Ok(Token::Literal(Literal::Bytes(out.into())));
        }
        let text = String::from_utf8_lossy(&out);
        Ok(Token::Literal(Literal::String(Arc::from(text.as_ref()))))
    }

    /// After a backslash.
    fn escape(&mut self, bytes: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
        let at = self.position.saturating_sub(1);
        let Some(character) = self.peek(0) else { return self.fault(at, "unable to unescape") };
        self.position += 1;
        let plain = match character {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => character as u8,
            'x' | 'X' => return self.code(at, (2, 16), bytes, out),
            'u' if !bytes => return self.code(at, (4, 16), false, out),
            'U' if !bytes => return self.code(at, (8, 16), false, out),
            '0'..='3' => {
                self.position -= 1;
                return self.code(at, (3, 8), bytes, out);
            }
            _ => {
                let message = format!("Syntax error: token recognition error at: '\\{character}'");
                return self.fault(at, message);
            }
        };
        out.push(plain);
        Ok(())
    }

    fn code(
        &mut self,
        at: usize,
        (digits, radix): (usize, u32),
        bytes: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let mut value = 0u32;
        for _ in 0..digits {
            let Some(digit) = self.peek(0).and_then(|character| character.to_digit(radix)) else {
                return self.fault(at, "Syntax error: invalid escape sequence");
            };
            self.position += 1;
            value = value.wrapping_mul(radix).wrapping_add(digit);
        }
        if bytes {
            out.push(value as u8);
            return Ok(());
        }
        match char::from_u32(value) {
            Some(character) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                Ok(())
            }
            None => self.fault(at, "Syntax error: invalid unicode code point"),
        }
    }
}

fn unterminated(characters: &[char], start: usize) -> String {
    let rest: String = characters[start..].iter().take_while(|next| **next != '\n').collect();
    format!("Syntax error: token recognition error at: '{rest}'")
}
