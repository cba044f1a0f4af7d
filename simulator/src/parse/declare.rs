//! Declarations: module directives, variables, kernels with their parameters and directives, registers.

use super::ast::*;
use super::lexer::Token;
use super::parser::Parser;
use super::{ParseError, Parsed};

/// What precedes the names of variables.
pub(super) struct VariableType {
    align: Option<u32>,
    ty: Name,
    pointer: bool,
}

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

    /// `.shared .align 16 .b8 name[64], ... ;`, and variables of other state spaces.
    pub(super) fn variable_list(&mut self) -> Parsed<Vec<Variable>> {
        self.next();
        let of = self.variable_type()?;
        let mut out = Vec::new();
        loop {
            out.push(self.variable(&of)?);
            if !self.take(',') {
                self.expect(';')?;
                return Ok(out);
            }
        }
    }

    pub(super) fn variable_type(&mut self) -> Parsed<VariableType> {
        let (mut align, mut pointer) = (None, false);
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
                    pointer |= self.next() == Token::Word(".ptr");
                }
                _ => break,
            }
        }
        let ty = self.word("a type such as .b8")?;
        // `.param .u64 .ptr .global .align 16 name`
        while let Token::Word(".ptr" | ".global" | ".const" | ".shared" | ".local" | ".align") = self.peek() {
            match self.next() {
                Token::Word(".align") => _ = self.small(1 << 16)?,
                word => pointer |= word == Token::Word(".ptr"),
            }
        }
        Ok(VariableType { align, ty, pointer })
    }

    pub(super) fn variable(&mut self, of: &VariableType) -> Parsed<Variable> {
        let VariableType { align, ty, pointer } = of;
        let element = type_bytes(&ty.text)
            .ok_or_else(|| ParseError::new(ty.span, format!("`{}` is not a type that memory can hold", ty.text)))?;
        let name = self.word("a name")?;
        let mut bytes = u64::from(element);
        let mut unstated = false;
        while self.take('[') {
            let n = if matches!(self.peek(), Token::Int(_)) { self.small(1 << 30)? } else { 0 };
            unstated |= n == 0;
            bytes = bytes.saturating_mul(n);
            self.expect(']')?;
        }
        if bytes > 1 << 30 {
            return Err(ParseError::new(
                name.span,
                format!("`{}` has {bytes} bytes, more than any memory here", name.text),
            ));
        }
        let image = if self.take('=') { self.image(element as usize)? } else { Vec::new() };
        if unstated {
            bytes = bytes.max(image.len() as u64);
        }
        if image.len() as u64 > bytes {
            let text = format!("`{}` has {bytes} bytes and is given {}", name.text, image.len());
            return Err(ParseError::new(name.span, text));
        }
        let (align, ty, pointer) = (align.unwrap_or(element), ty.text.clone(), *pointer);
        Ok(Variable { name, ty, align, bytes, pointer, register: false, image })
    }

    /// `(.param .u64 a, .param .align 8 .b8 b[16], .reg .u32 c)`, or nothing.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        let mut out = Vec::new();
        if !self.take('(') || self.take(')') {
            return Ok(out);
        }
        loop {
            let register = match self.peek() {
                Token::Word(".param") => false,
                Token::Word(".reg") => true,
                _ => return Err(self.unexpected("`.param`")),
            };
            self.next();
            let of = self.variable_type()?;
            out.push(Variable { register, ..self.variable(&of)? });
            if !self.take(',') {
                self.expect(')')?;
                return Ok(out);
            }
        }
    }

    /// A kernel, or nothing if it is declared and defined elsewhere.
    pub(super) fn entry(&mut self) -> Parsed<Option<Entry>> {
        self.next();
        let name = self.word("the kernel's name")?;
        let params = self.parameters()?;
        if let Some(register) = params.iter().find(|p| p.register) {
            return Err(ParseError::new(register.name.span, "a kernel's parameters are `.param`"));
        }
        let mut directives = Vec::new();
        while !self.take('{') {
            if self.take(';') {
                return Ok(None);
            }
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
        Ok(Some(Entry { name, params, directives, body }))
    }

    pub(super) fn registers(&mut self, out: &mut Vec<Statement>) -> Parsed<()> {
        let whole = self.word("`.reg`")?;
        let ty = match whole.text.strip_prefix(".reg") {
            Some(ty) if !ty.is_empty() => Name { text: ty.to_owned(), span: whole.span },
            _ => self.word("a register type")?,
        };
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
