//! Declarations: module directives, variables, kernels with their parameters and directives, registers.

use super::ast::*;
use super::lexer::Token;
use super::parser::Parser;
use super::{ParseError, Parsed};

impl Parser<'_> {
    pub(super) fn version(&mut self) -> Parsed<Name> {
        self.next();
        let span = self.span();
        match self.next() {
            Token::F64(bits) => Ok(Name { text: format!("{:.1}", f64::from_bits(bits)), span }),
            _ => Err(ParseError::new(span, "`.version` takes major.minor, for instance 8.0")),
        }
    }

    pub(super) fn target(&mut self) -> Parsed<Name> {
        self.next();
        let target = self.word("a target such as sm_90a")?;
        while self.take(',') {
            self.word("a target option")?;
        }
        Ok(target)
    }

    pub(super) fn pragma(&mut self) -> Parsed<()> {
        self.next();
        if self.next() != Token::Text {
            return Err(self.unexpected("a string"));
        }
        self.expect(';')
    }

    pub(super) fn skip_line(&mut self) {
        let line = self.span().line;
        while self.span().line == line && self.peek() != Token::End {
            self.next();
        }
    }

    /// `.shared .align 16 .b8 name[64], ... ;`
    pub(super) fn variable_list(&mut self) -> Parsed<Vec<Variable>> {
        self.next();
        let (align, ty) = self.variable_type()?;
        let mut out = Vec::new();
        loop {
            out.push(self.variable(align, &ty)?);
            if !self.take(',') {
                self.expect(';')?;
                return Ok(out);
            }
        }
    }

    pub(super) fn variable_type(&mut self) -> Parsed<(Option<u32>, Name)> {
        let mut align = None;
        loop {
            match self.peek() {
                Token::Word(".align") => {
                    self.next();
                    let span = self.span();
                    let v = self.small(1 << 16)?;
                    if !v.is_power_of_two() {
                        return Err(ParseError::new(span, format!("an alignment is a power of two; {v} is not")));
                    }
                    align = Some(v as u32);
                }
                // `.ptr .global .align 8` on kernel parameters: only hints.
                Token::Word(".ptr" | ".global" | ".const" | ".local") => {
                    self.next();
                }
                _ => break,
            }
        }
        let ty = self.word("a type such as .b8")?;
        // `.param .u64 .ptr .global .align 16 name`
        while let Token::Word(".ptr" | ".global" | ".const" | ".shared" | ".align") = self.peek() {
            if self.next() == Token::Word(".align") {
                self.small(1 << 16)?;
            }
        }
        Ok((align, ty))
    }

    pub(super) fn variable(&mut self, align: Option<u32>, ty: &Name) -> Parsed<Variable> {
        let element = type_bytes(&ty.text)
            .ok_or_else(|| ParseError::new(ty.span, format!("`{}` is not a type that memory can hold", ty.text)))?;
        let name = self.word("a name")?;
        let mut bytes = u64::from(element);
        while self.take('[') {
            let n = if matches!(self.peek(), Token::Int(_)) { self.small(1 << 30)? } else { 0 };
            bytes = bytes.saturating_mul(n);
            self.expect(']')?;
        }
        if bytes > 1 << 30 {
            return Err(ParseError::new(
                name.span,
                format!("`{}` has {bytes} bytes, more than any memory here", name.text),
            ));
        }
        Ok(Variable { name, align: align.unwrap_or(element), bytes })
    }

    pub(super) fn entry(&mut self) -> Parsed<Entry> {
        self.next();
        let name = self.word("the kernel's name")?;
        let mut params = Vec::new();
        if self.take('(') && !self.take(')') {
            loop {
                if self.next() != Token::Word(".param") {
                    return Err(self.unexpected("`.param`"));
                }
                let (align, ty) = self.variable_type()?;
                params.push(self.variable(align, &ty)?);
                if !self.take(',') {
                    self.expect(')')?;
                    break;
                }
            }
        }
        let mut directives = Vec::new();
        while !self.take('{') {
            if self.peek() == Token::Word(".pragma") {
                self.pragma()?;
                continue;
            }
            let name = self.word("a directive such as .maxntid, or `{`")?;
            let mut values = Vec::new();
            while let Token::Int(v) = self.peek() {
                values.push(v);
                self.next();
                if !self.take(',') {
                    break;
                }
            }
            directives.push(Directive { name, values });
        }
        let body = self.body()?;
        Ok(Entry { name, params, directives, body })
    }

    pub(super) fn registers(&mut self, out: &mut Vec<Statement>) -> Parsed<()> {
        self.next();
        let ty = self.word("a register type")?;
        loop {
            let name = self.word("a register name")?;
            let mut count = None;
            if self.take('<') {
                count = Some(self.small(1 << 16)? as u32);
                self.expect('>')?;
            }
            out.push(Statement::Reg { ty: ty.clone(), name, count });
            if !self.take(',') {
                return self.expect(';');
            }
        }
    }
}

/// Bytes of one element of a memory type.
fn type_bytes(ty: &str) -> Option<u32> {
    Some(match ty {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        _ => return None,
    })
}
