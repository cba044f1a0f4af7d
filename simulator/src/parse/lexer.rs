//! Characters to tokens.

use super::{ParseError, Parsed, Span, steps};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// Identifier, opcode with its modifiers, directive (leading dot) or register.
    Word(&'a str),
    Int(u64),
    F32(u32),
    F64(u64),
    Text,
    Punct(char),
    End,
}

/// Every token with its place; the last one is `End`.
pub(crate) fn tokens(text: &str) -> Parsed<Vec<(Token<'_>, Span)>> {
    Lexer { text, at: 0, line: 1, mark: (0, 1) }.run()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    /// A byte offset in the current line, and its column: places are queried from left to right, and each counts the
    /// characters since the one before.
    mark: (usize, u32),
}

fn word_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

fn word_part(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

impl<'a> Lexer<'a> {
    /// The place that has been reached.
    fn span(&mut self) -> Span {
        let (from, column) = self.mark;
        steps::add(self.at - from);
        let characters = self.text.get(from..self.at).map_or(self.at - from, |text| text.chars().count());
        self.mark = (self.at, column + characters as u32);
        Span { line: self.line, column: self.mark.1 }
    }

    /// The next line begins at `at`.
    fn new_line(&mut self, at: usize) {
        self.line += 1;
        self.mark = (at, 1);
    }

    fn peek(&self, ahead: usize) -> u8 {
        steps::add(1);
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(mut self) -> Parsed<Vec<(Token<'a>, Span)>> {
        let mut out = Vec::with_capacity(self.text.len() / 4 + 1);
        loop {
            self.skip()?;
            let span = self.span();
            if self.at >= self.text.len() {
                out.push((Token::End, span));
                return Ok(out);
            }
            let token = self.one(span)?;
            out.push((token, span));
        }
    }

    /// White space and comments.
    fn skip(&mut self) -> Parsed<()> {
        while self.at < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'\n', _) => {
                    self.at += 1;
                    self.new_line(self.at);
                }
                (c, _) if c.is_ascii_whitespace() => self.at += 1,
                (b'/', b'/') => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    let open = self.span();
                    self.at += 2;
                    while !(self.peek(0) == b'*' && self.peek(1) == b'/') {
                        if self.at >= self.text.len() {
                            return Err(ParseError::new(open, "this comment is never closed"));
                        }
                        if self.peek(0) == b'\n' {
                            self.new_line(self.at + 1);
                        }
                        self.at += 1;
                    }
                    self.at += 2;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn one(&mut self, span: Span) -> Parsed<Token<'a>> {
        let c = self.peek(0);
        let begin = self.at;
        if word_start(c) {
            loop {
                if word_part(self.peek(0)) {
                    self.at += 1;
                } else if self.peek(0) == b':' && self.peek(1) == b':' && word_part(self.peek(2)) {
                    self.at += 2;
                } else {
                    break;
                }
            }
            return Ok(Token::Word(&self.text[begin..self.at]));
        }
        if c.is_ascii_digit() {
            return self.number(span);
        }
        if c == b'"' {
            self.at += 1;
            while self.peek(0) != b'"' {
                if self.at >= self.text.len() || self.peek(0) == b'\n' {
                    return Err(ParseError::new(span, "this string is never closed"));
                }
                self.at += 1;
            }
            self.at += 1;
            return Ok(Token::Text);
        }
        if b",;:(){}[]<>@!|+-=*".contains(&c) {
            self.at += 1;
            return Ok(Token::Punct(c as char));
        }
        let ch = self.text[self.at..].chars().next().unwrap_or('?');
        Err(ParseError::new(span, format!("the character `{}` is not allowed in PTX", ch.escape_debug())))
    }

    fn number(&mut self, span: Span) -> Parsed<Token<'a>> {
        let begin = self.at;
        let mut fraction = false;
        while self.peek(0).is_ascii_alphanumeric()
            || (self.peek(0) == b'.' && self.peek(1).is_ascii_digit())
            || (matches!(self.peek(0), b'+' | b'-')
                && matches!(self.text.as_bytes()[self.at - 1], b'e' | b'E')
                && fraction)
        {
            fraction |= self.peek(0) == b'.';
            self.at += 1;
        }
        let word = &self.text[begin..self.at];
        let bad = |what: &str| ParseError::new(span, format!("`{word}` is not {what}"));
        steps::add(word.len());
        let lower = word.to_ascii_lowercase();
        if let Some(hex) = lower.strip_prefix("0f") {
            let bits = (hex.len() == 8).then(|| u32::from_str_radix(hex, 16).ok()).flatten();
            return bits.map(Token::F32).ok_or_else(|| bad("a single-precision constant: 0f and 8 hexadecimal digits"));
        }
        if let Some(hex) = lower.strip_prefix("0d") {
            let bits = (hex.len() == 16).then(|| u64::from_str_radix(hex, 16).ok()).flatten();
            return bits
                .map(Token::F64)
                .ok_or_else(|| bad("a double-precision constant: 0d and 16 hexadecimal digits"));
        }
        let digits = lower.strip_suffix('u').unwrap_or(&lower);
        let value = if let Some(hex) = digits.strip_prefix("0x") {
            u64::from_str_radix(hex, 16).ok()
        } else if let Some(bin) = digits.strip_prefix("0b") {
            u64::from_str_radix(bin, 2).ok()
        } else if digits.contains('.') || digits.contains('e') {
            return digits.parse::<f64>().map(|v| Token::F64(v.to_bits())).map_err(|_| bad("a number"));
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(&digits[1..], 8).ok()
        } else {
            digits.parse().ok()
        };
        value.map(Token::Int).ok_or_else(|| bad("an integer of 64 bits"))
    }
}
