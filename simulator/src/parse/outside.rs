//! What stands outside kernels: functions, initial values, sections for debuggers.

use super::ast::Function;
use super::lexer::Token;
use super::parser::Parser;
use super::{ParseError, Parsed};

impl Parser<'_> {
    /// `.func (results) name (parameters)`, with a body or without.
    pub(super) fn function(&mut self) -> Parsed<Function> {
        self.next();
        let results = self.parameters()?;
        let name = self.word("the function's name")?;
        let params = self.parameters()?;
        while let Token::Word(_) = self.peek() {
            self.next();
        }
        let body = if self.take(';') {
            None
        } else {
            self.expect('{')?;
            Some(self.body()?)
        };
        Ok(Function { name, results, params, body })
    }

    /// The bytes after `=`: numbers, or lists of them.
    pub(super) fn image(&mut self, element: usize) -> Parsed<Vec<u8>> {
        let (span, mut out, mut depth) = (self.span(), Vec::new(), 0);
        loop {
            let negative = self.take('-');
            match self.peek() {
                Token::Punct('{') => depth += 1,
                Token::Punct('}') if depth > 0 => depth -= 1,
                Token::Punct(',') if depth > 0 => {}
                Token::Int(v) => {
                    let v = if negative { v.wrapping_neg() } else { v };
                    out.extend_from_slice(&v.to_le_bytes()[..element]);
                }
                Token::F32(v) if element == 4 => out.extend_from_slice(&(v ^ u32::from(negative) << 31).to_le_bytes()),
                Token::F64(v) if element == 8 => out.extend_from_slice(&(v ^ u64::from(negative) << 63).to_le_bytes()),
                Token::Word(word) => {
                    let text = format!("an initial value that is an address, `{word}`, is not modelled; numbers are");
                    return Err(ParseError::new(span, text));
                }
                _ => return Err(self.unexpected("a number")),
            }
            self.next();
            if depth == 0 {
                return Ok(out);
            }
        }
    }

    /// `.section .debug_info { ... }`: for debuggers.
    pub(super) fn section(&mut self) -> Parsed<()> {
        self.next();
        self.word("the section's name")?;
        self.expect('{')?;
        while !self.take('}') {
            if self.next() == Token::End {
                return Err(self.unexpected("`}`"));
            }
        }
        Ok(())
    }
}
