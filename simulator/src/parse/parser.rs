//! Tokens to a syntax tree.

use super::ast::*;
use super::lexer::{Token, tokens};
use super::{ParseError, Parsed, Span, steps};

/// Scopes nest at most this deep: text from outside must not exhaust the stack.
const MAX_DEPTH: u32 = 64;

/// Parses a whole module.
pub(crate) fn module(text: &str) -> Parsed<Module> {
    let mut p = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let mut module = Module::default();
    loop {
        match p.peek() {
            Token::End => return Ok(module),
            Token::Word(".version") => module.version = Some(p.version()?),
            Token::Word(".target") => module.target = Some(p.target()?),
            Token::Word(".address_size") => {
                p.next();
                let span = p.span();
                if p.int()? != 64 {
                    return Err(ParseError::new(span, "only `.address_size 64` is modelled"));
                }
            }
            Token::Word(".visible" | ".extern" | ".weak" | ".common") => {
                p.next();
            }
            Token::Word(".shared") => module.shared.extend(p.variable_list()?),
            Token::Word(".global" | ".const") => module.globals.extend(p.variable_list()?),
            Token::Word(".func") => module.functions.push(p.function()?),
            Token::Word(".section") => p.section()?,
            Token::Word(".entry") => module.entries.extend(p.entry()?),
            Token::Word(".file") => p.skip_line(),
            Token::Word(".pragma") => p.pragma()?,
            _ => {
                return Err(p.unexpected(
                    "a directive of a module: .version, .target, .address_size, .shared, .global, .func or .entry",
                ));
            }
        }
    }
}

pub(super) struct Parser<'a> {
    tokens: Vec<(Token<'a>, Span)>,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Token<'a> {
        steps::add(1);
        self.tokens[self.at].0
    }

    fn peek2(&self) -> Token<'a> {
        self.tokens.get(self.at + 1).map_or(Token::End, |t| t.0)
    }

    pub(super) fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    pub(super) fn unexpected(&self, wanted: &str) -> ParseError {
        let found = match self.peek() {
            Token::Word(w) => format!("`{w}`"),
            Token::Punct(c) => format!("`{c}`"),
            Token::Int(v) => format!("`{v}`"),
            Token::F32(_) | Token::F64(_) => "a floating-point constant".into(),
            Token::Text => "a string".into(),
            Token::End => "the end of the text".into(),
        };
        ParseError::new(self.span(), format!("expected {wanted}, found {found}"))
    }

    pub(super) fn take(&mut self, c: char) -> bool {
        let yes = self.peek() == Token::Punct(c);
        if yes {
            self.next();
        }
        yes
    }

    pub(super) fn expect(&mut self, c: char) -> Parsed<()> {
        if self.take(c) { Ok(()) } else { Err(self.unexpected(&format!("`{c}`"))) }
    }

    pub(super) fn word(&mut self, wanted: &str) -> Parsed<Name> {
        let span = self.span();
        match self.peek() {
            Token::Word(w) => {
                self.next();
                Ok(Name { text: w.to_owned(), span })
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    pub(super) fn int(&mut self) -> Parsed<u64> {
        match self.peek() {
            Token::Int(v) => {
                self.next();
                Ok(v)
            }
            _ => Err(self.unexpected("an integer")),
        }
    }

    pub(super) fn small(&mut self, max: u64) -> Parsed<u64> {
        let span = self.span();
        let v = self.int()?;
        if v > max {
            return Err(ParseError::new(span, format!("{v} is more than {max}, the most that is allowed here")));
        }
        Ok(v)
    }

    /// Statements up to and with the closing brace.
    pub(super) fn body(&mut self) -> Parsed<Vec<Statement>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::new(self.span(), format!("scopes nest deeper than {MAX_DEPTH}")));
        }
        let mut out = Vec::new();
        while !self.take('}') {
            match self.peek() {
                Token::Punct('{') => {
                    self.next();
                    out.push(Statement::Scope(self.body()?));
                }
                // `.reg.b16` is written, too.
                Token::Word(w) if w == ".reg" || w.starts_with(".reg.") => self.registers(&mut out)?,
                Token::Word(".shared") => out.extend(self.variable_list()?.into_iter().map(Statement::Shared)),
                Token::Word(".local" | ".param") => out.extend(self.variable_list()?.into_iter().map(Statement::Local)),
                Token::Word(".branchtargets") => {
                    let Some(Statement::Label(label)) = out.pop() else {
                        return Err(self.unexpected("a label before `.branchtargets`"));
                    };
                    self.next();
                    out.push(Statement::Targets(label, self.names()?));
                }
                Token::Word(".loc" | ".file") => self.skip_line(),
                Token::Word(".pragma") => self.pragma()?,
                Token::Word(w) if !w.starts_with('.') && self.peek2() == Token::Punct(':') => {
                    let name = self.word("a label")?;
                    self.next();
                    out.push(Statement::Label(name));
                }
                Token::Word(w) if w.starts_with('.') => {
                    return Err(ParseError::new(
                        self.span(),
                        format!("the directive `{w}` is not modelled inside a kernel"),
                    ));
                }
                Token::Word(_) | Token::Punct('@') => {
                    let instr = self.instr()?;
                    out.push(Statement::Instr(instr));
                }
                _ => return Err(self.unexpected("an instruction, a label, a declaration or `}`")),
            }
        }
        self.depth -= 1;
        Ok(out)
    }

    /// `a, b, c;`
    fn names(&mut self) -> Parsed<Vec<Name>> {
        let mut out = vec![self.word("a label")?];
        while self.take(',') {
            out.push(self.word("a label")?);
        }
        self.expect(';')?;
        Ok(out)
    }

    fn instr(&mut self) -> Parsed<Instr> {
        let span = self.span();
        let mut guard = None;
        if self.take('@') {
            let negated = self.take('!');
            guard = Some((negated, self.word("a predicate register")?));
        }
        let whole = self.word("an instruction")?;
        let mut column = whole.span.column;
        let mut opcode = Vec::new();
        for part in whole.text.split('.') {
            opcode.push(Name { text: part.to_owned(), span: Span { column, ..whole.span } });
            column += part.chars().count() as u32 + 1;
        }
        let mut operands = Vec::new();
        if !self.take(';') {
            loop {
                operands.push(self.operand()?);
                if !self.take(',') {
                    self.expect(';')?;
                    break;
                }
            }
        }
        Ok(Instr { span, guard, opcode, operands })
    }

    fn operand(&mut self) -> Parsed<Operand> {
        let span = self.span();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::new(span, format!("operands nest deeper than {MAX_DEPTH}")));
        }
        let kind = match self.next() {
            Token::Int(v) => OperandKind::Int(v),
            Token::F32(v) => OperandKind::F32(v),
            Token::F64(v) => OperandKind::F64(v),
            Token::Punct('-') => match self.next() {
                Token::Int(v) => OperandKind::Int(v.wrapping_neg()),
                Token::F32(v) => OperandKind::F32(v ^ 1 << 31),
                Token::F64(v) => OperandKind::F64(v ^ 1 << 63),
                _ => return Err(ParseError::new(span, "a minus sign must precede a number")),
            },
            Token::Punct('!') => OperandKind::Not(self.word("a predicate")?.text),
            Token::Punct('{') => OperandKind::Vector(self.operands_until('}')?),
            Token::Punct('(') => OperandKind::List(self.operands_until(')')?),
            Token::Punct('[') => self.address()?,
            Token::Word(w) => {
                if self.take('|') {
                    OperandKind::Pair(w.to_owned(), self.word("a predicate")?.text)
                } else if matches!(self.peek(), Token::Punct('+' | '-')) {
                    OperandKind::Sum(w.to_owned(), self.offset()?)
                } else {
                    OperandKind::Word(w.to_owned())
                }
            }
            _ => {
                self.at -= 1;
                return Err(self.unexpected("an operand"));
            }
        };
        self.depth -= 1;
        Ok(Operand { span, kind })
    }

    fn operands_until(&mut self, close: char) -> Parsed<Vec<Operand>> {
        let mut out = Vec::new();
        if self.take(close) {
            return Ok(out);
        }
        loop {
            out.push(self.operand()?);
            if !self.take(',') {
                self.expect(close)?;
                return Ok(out);
            }
        }
    }

    fn offset(&mut self) -> Parsed<i64> {
        let mut sum = 0i64;
        loop {
            let sign = match self.peek() {
                Token::Punct('+') => 1,
                Token::Punct('-') => -1,
                _ => return Ok(sum),
            };
            self.next();
            let sign = if self.take('-') { -sign } else { sign };
            sum = sum.wrapping_add((self.int()? as i64).wrapping_mul(sign));
        }
    }

    fn address(&mut self) -> Parsed<OperandKind> {
        let span = self.span();
        let (base, mut offset) = match self.next() {
            Token::Int(v) => (None, v as i64),
            Token::Word(w) => (Some(Box::new(Operand { span, kind: OperandKind::Word(w.to_owned()) })), 0),
            _ => {
                self.at -= 1;
                return Err(self.unexpected("a register, a symbol or a number"));
            }
        };
        offset = offset.wrapping_add(self.offset()?);
        let rest = if self.take(',') {
            self.operands_until(']')?
        } else {
            self.expect(']')?;
            Vec::new()
        };
        Ok(OperandKind::Address { base, offset, rest })
    }
}
