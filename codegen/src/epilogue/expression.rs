//! Expressions, by rank of their operators; values are made while they are read.

use std::collections::HashMap;

use super::builder::{BROKEN, Value};
use super::lex::LexemeKind;
use super::program::{Cmp, Id, Node};
use super::syntax::{Parser, Read};
use crate::place::Place;
use crate::words::Dtype;

/// A sign between two operands, and what it makes of them.
type Operator = (&'static str, fn(Id, Id) -> Node);

impl<P: Place> Parser<'_, P> {
    /// A comparison, or less.
    pub(super) fn expression(&mut self) -> Read<P, Value> {
        let place = self.here();
        let left = self.sum()?;
        let cmp = match self.peek() {
            Some(LexemeKind::Sign("<")) => (Cmp::Lt, "<"),
            Some(LexemeKind::Sign("<=")) => (Cmp::Le, "<="),
            Some(LexemeKind::Sign(">")) => (Cmp::Gt, ">"),
            Some(LexemeKind::Sign(">=")) => (Cmp::Ge, ">="),
            Some(LexemeKind::Sign("==")) => (Cmp::Eq, "=="),
            Some(LexemeKind::Sign("!=")) => (Cmp::Ne, "!="),
            _ => return Ok(left),
        };
        let a = self.builder.float(left, &place.through(&self.before()));
        self.advance();
        self.text.push_str(&format!(" {} ", cmp.1));
        let place = self.here();
        let right = self.sum()?;
        let b = self.builder.float(right, &place.through(&self.before()));
        Ok(Value::Truth(cmp.0, a, b))
    }

    fn sum(&mut self) -> Read<P, Value> {
        self.chain(Self::product, &[("+", Node::Add), ("-", Node::Sub)])
    }

    fn product(&mut self) -> Read<P, Value> {
        self.chain(Self::cast, &[("*", Node::Mul), ("/", Node::Div)])
    }

    /// Operands of one kind with operators of one rank between them, from left to right.
    fn chain(&mut self, operand: fn(&mut Self) -> Read<P, Value>, operators: &[Operator]) -> Read<P, Value> {
        let start = self.here();
        let mut left = operand(self)?;
        while let Some((sign, node)) = operators.iter().find(|(sign, _)| self.next_is(sign)) {
            let a = self.builder.float(left, &start.through(&self.before()));
            self.advance();
            self.text.push_str(&format!(" {sign} "));
            let place = self.here();
            let right = operand(self)?;
            let b = self.builder.float(right, &place.through(&self.before()));
            left = Value::Float(self.builder.node(node(a, b)));
        }
        Ok(left)
    }

    /// `x as bf16`.
    fn cast(&mut self) -> Read<P, Value> {
        let start = self.here();
        let mut value = self.within(Self::unary)?;
        while self.next_is_word("as") {
            let x = self.builder.float(value, &start.through(&self.before()));
            self.advance();
            let (word, place) = self.name("a type after `as`")?;
            self.text.push_str(&format!(" as {word}"));
            value = Value::Float(match word.as_str() {
                "f32" => x,
                "f16" => self.builder.node(Node::Round(Dtype::F16, x)),
                "bf16" => self.builder.node(Node::Round(Dtype::BF16, x)),
                _ => {
                    let help = "`as f16` and `as bf16` round, `as f32` changes nothing";
                    self.builder.error(place, format!("a value cannot be rounded to `{word}`"), &[help]);
                    x
                }
            });
        }
        Ok(value)
    }

    fn unary(&mut self) -> Read<P, Value> {
        if !self.next_is("-") {
            return self.primary();
        }
        self.advance();
        self.text.push('-');
        let place = self.here();
        let value = self.within(Self::unary)?;
        let x = self.builder.float(value, &place.through(&self.before()));
        Ok(Value::Float(self.builder.node(Node::Neg(x))))
    }

    fn primary(&mut self) -> Read<P, Value> {
        let place = self.here();
        match self.peek() {
            Some(LexemeKind::Number(text)) => {
                self.advance();
                self.text.push_str(text);
                Ok(Value::Float(self.literal(text, place)))
            }
            Some(LexemeKind::Word(word)) if word == "if" => self.choice(),
            Some(LexemeKind::Word(word)) => {
                self.advance();
                self.text.push_str(word);
                if self.next_is("(") {
                    let arguments = self.arguments()?;
                    return Ok(self.builder.call(word, &place, &arguments));
                }
                let id = self.builder.lookup(word, &place);
                self.builder.mark_used(id);
                Ok(Value::Float(id))
            }
            Some(LexemeKind::Sign("(")) => self.parenthesis(),
            Some(LexemeKind::Sign("{")) => self.block(),
            _ => Err(self.unexpected("expected a value", &[])),
        }
    }

    fn literal(&mut self, text: &str, place: P) -> Id {
        let digits = text.replace('_', "");
        match digits.strip_suffix("f32").unwrap_or(&digits).parse::<f32>() {
            Ok(value) if value.is_finite() => self.builder.literal(value),
            Ok(_) => {
                self.builder.error(place, format!("`{text}` is out of the range of f32, which ends at 3.4e38"), &[]);
                BROKEN
            }
            Err(_) => {
                self.builder.error(
                    place,
                    format!("`{text}` is not a number of an epilogue"),
                    &["write `0.5`, `2` or `1e-3`"],
                );
                BROKEN
            }
        }
    }

    fn arguments(&mut self) -> Read<P, Vec<(Value, P)>> {
        self.take_silently("(")?;
        self.text.push('(');
        let mut arguments = Vec::new();
        while !self.next_is(")") {
            if !arguments.is_empty() {
                self.text.push_str(", ");
            }
            let place = self.here();
            let value = self.expression()?;
            arguments.push((value, place.through(&self.before())));
            if self.next_is(",") {
                self.advance();
            } else if !self.next_is(")") {
                return Err(self.unexpected("expected `,` or `)` after an argument", &[]));
            }
        }
        self.advance();
        self.text.push(')');
        Ok(arguments)
    }

    /// `(x)` or `(x, row_sum(y))`.
    fn parenthesis(&mut self) -> Read<P, Value> {
        let start = self.here();
        let values = self.arguments()?;
        let whole = start.through(&self.before());
        match &values[..] {
            [(value, _)] => Ok(*value),
            [(first, place), (Value::Collected(reduction, second), _)] => {
                let first = self.builder.float(*first, place);
                Ok(Value::Pair(first, *reduction, *second))
            }
            _ => {
                let help = "results are `x` or `(x, row_sum(y))` or `(x, row_max(y))`";
                let fact = format!("{} values in parentheses are not a result", values.len());
                self.builder.error(whole, fact, &[help]);
                Ok(Value::Float(BROKEN))
            }
        }
    }

    /// `{ let x = ..; y }`.
    fn block(&mut self) -> Read<P, Value> {
        self.take_silently("{")?;
        self.text.push_str("{ ");
        self.builder.scopes.push(HashMap::new());
        self.statements()?;
        let value = self.number()?;
        self.builder.scopes.pop();
        self.take_silently("}")?;
        self.text.push_str(" }");
        Ok(Value::Float(value))
    }

    /// `if a < b { x } else { y }`. Both sides are computed and one is taken.
    fn choice(&mut self) -> Read<P, Value> {
        self.advance();
        self.text.push_str("if ");
        let place = self.here();
        let condition = self.expression()?;
        let place = place.through(&self.before());
        self.text.push(' ');
        if !self.next_is("{") {
            let joins = self.next_is("&") || self.next_is("|") || self.next_is_word("and") || self.next_is_word("or");
            let help = match joins {
                true => "`if` takes one comparison: write the second as an `if` within its braces",
                false => "write `if a < b { x } else { y }`",
            };
            return Err(self.unexpected("expected `{`", &[help]));
        }
        let x = self.block()?;
        if !self.next_is_word("else") {
            return Err(self.unexpected("expected `else`", &["both branches of an `if` need a value"]));
        }
        self.advance();
        self.text.push_str(" else ");
        let y = if self.next_is_word("if") { self.within(Self::choice)? } else { self.block()? };
        let Value::Truth(cmp, a, b) = condition else {
            self.builder.error(place, "`if` takes a comparison", &["write `if a < b { x } else { y }`"]);
            return Ok(Value::Float(BROKEN));
        };
        let [x, y] = [x, y].map(|side| self.builder.float(side, &place));
        Ok(Value::Float(self.builder.node(Node::Select(cmp, a, b, x, y))))
    }
}
