//! Expressions: read and turned into values of the graph in one walk.

use std::collections::HashMap;

use super::error::EpilogueError;
use super::functions::Function;
use super::lex::LexemeKind;
use super::program::{Cmp, Graph, Id, Input, InputKind, Level, Node, Program, Reduction};
use super::syntax::{MOST_INPUTS, ParameterSyntax, Parser, Read, kind_of};
use crate::Dtype;
use crate::spec::{Place, suggest};

/// What an expression is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A number.
    Float(Id),
    /// A comparison.
    Truth(Cmp, Id, Id),
    /// `row_sum(x)`.
    Collected(Reduction, Id),
    /// `(x, row_sum(y))`.
    Pair(Id, Reduction, Id),
}

/// The graph so far, the names in scope, the errors.
pub(super) struct Builder<P> {
    inputs: Vec<(Input, P, bool)>,
    graph: Graph,
    scopes: Vec<HashMap<String, Id>>,
    pub(super) errors: Vec<EpilogueError<P>>,
}

/// The number that stands for what could not be understood.
const BROKEN: Id = 0;

impl<P: Place> Builder<P> {
    pub(super) fn new() -> Self {
        let mut builder =
            Self { inputs: Vec::new(), graph: Graph::default(), scopes: vec![HashMap::new()], errors: Vec::new() };
        let acc = builder.graph.add(Node::Acc, Level::Element);
        builder.scopes[0].insert("acc".to_owned(), acc);
        builder
    }

    pub(super) fn error(&mut self, place: P, fact: impl Into<String>, help: &[&str]) {
        self.errors.push(EpilogueError::new(place, fact, help));
    }

    pub(super) fn declare(&mut self, parameters: &[ParameterSyntax<P>]) {
        if let Some(first) = parameters.get(MOST_INPUTS) {
            let fact = format!("an epilogue takes at most {MOST_INPUTS} parameters, here are {}", parameters.len());
            self.error(first.name_place.clone(), fact, &["pack scalars into a vector, or fuse less"]);
        }
        for parameter in parameters.iter().take(MOST_INPUTS) {
            let name = &parameter.name;
            if self.scopes[0].contains_key(name) {
                let fact = match name.as_str() {
                    "acc" => "`acc` is the sum of an element of C: no parameter can have its name".to_owned(),
                    _ => format!("there are two parameters `{name}`"),
                };
                self.error(parameter.name_place.clone(), fact, &["choose another name"]);
                continue;
            }
            let kind = kind_of(parameter).unwrap_or_else(|(fact, help)| {
                self.errors.push(EpilogueError { fact, help, place: parameter.type_place.clone() });
                InputKind::Scalar
            });
            let id = self.graph.add(Node::Input(self.inputs.len()), kind.level());
            self.inputs.push((Input::new(name, kind), parameter.name_place.clone(), false));
            self.scopes[0].insert(name.clone(), id);
        }
    }

    /// Parameters that the body does not name.
    pub(super) fn unused(&self) -> Vec<EpilogueError<P>> {
        let unused = self.inputs.iter().filter(|(.., used)| !used);
        unused
            .map(|(input, place, _)| {
                let fact = format!("the epilogue does not use `{}`", input.name);
                EpilogueError::new(place.clone(), fact, &["use it, or drop the parameter"])
            })
            .collect()
    }

    pub(super) fn inputs(&self) -> Vec<Input> {
        self.inputs.iter().map(|(input, ..)| input.clone()).collect()
    }

    pub(super) fn into_graph(self) -> Graph {
        self.graph
    }

    pub(super) fn bind(&mut self, name: &str, value: Id, place: &P) {
        if name == "acc" {
            self.error(
                place.clone(),
                "`acc` is the sum of an element of C and keeps its name",
                &["choose another name"],
            );
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), value);
        }
    }

    fn node(&mut self, node: Node) -> Id {
        self.graph.made_of(node)
    }

    fn literal(&mut self, value: f32) -> Id {
        self.node(Node::Literal(value.to_bits()))
    }

    /// A value that must be a number.
    pub(super) fn float(&mut self, value: Value, place: &P) -> Id {
        let fact = match value {
            Value::Float(id) => return id,
            Value::Truth(..) => "a comparison is no number",
            Value::Collected(..) | Value::Pair(..) => {
                "a sum or maximum of a row is a result, and no number to go on with"
            }
        };
        let help = match value {
            Value::Truth(..) => "write `if a < b { x } else { y }`",
            _ => "the body ends in `(x, row_sum(y))`",
        };
        self.error(place.clone(), fact, &[help]);
        BROKEN
    }

    pub(super) fn outcome(&mut self, value: Value, place: &P) -> (Id, Option<(Reduction, Id)>) {
        match value {
            Value::Pair(first, reduction, second) => (first, Some((reduction, second))),
            value => (self.float(value, place), None),
        }
    }

    fn lookup(&mut self, name: &str, place: &P) -> Id {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied();
        if let Some(id) = found {
            return id;
        }
        let fact = format!("there is no `{name}` here");
        let mut names: Vec<String> = self.scopes.iter().flat_map(HashMap::keys).cloned().collect();
        names.sort_unstable();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let near = suggest::nearest(name, &names);
        let mut help: Vec<String> = Vec::new();
        if matches!(name, "a" | "b") {
            help.push("the factors are multiplied already: `acc` is their sum".to_owned());
        } else if Program::FUNCTIONS.iter().any(|(known, ..)| *known == name) {
            help.push(format!("`{name}` is a function: `{name}(acc)`"));
        } else if !near.is_empty() {
            help.push(format!("did you mean {}?", suggest::either(&near)));
        }
        help.push(match names[..] {
            [_] => "`acc` is the only name: others are parameters and `let`".to_owned(),
            _ => format!("the names are {}", suggest::list(&names, "and")),
        });
        self.errors.push(EpilogueError { fact, help, place: place.clone() });
        BROKEN
    }

    fn mark_used(&mut self, id: Id) {
        if let Node::Input(input) = self.graph.nodes()[id] {
            self.inputs[input].2 = true;
        }
    }

    fn call(&mut self, name: &str, place: &P, arguments: &[(Value, P)]) -> Value {
        let Some((_, takes, ..)) = Program::FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            let names = Program::FUNCTIONS.map(|(name, ..)| name);
            let near = suggest::nearest(name, &names);
            let mut help = vec![format!("the functions are {}", names.join(", "))];
            if !near.is_empty() {
                help.insert(0, format!("did you mean {}?", suggest::either(&near)));
            }
            self.errors.push(EpilogueError {
                fact: format!("there is no function `{name}`"),
                help,
                place: place.clone(),
            });
            return Value::Float(BROKEN);
        };
        let wanted = takes.split(", ").count();
        if arguments.len() != wanted {
            let fact = format!("`{name}` takes {wanted} argument(s), not {}", arguments.len());
            self.error(place.clone(), fact, &[&format!("write `{name}({takes})`")]);
            return Value::Float(BROKEN);
        }
        if name == "select" {
            let Value::Truth(cmp, a, b) = arguments[0].0 else {
                self.error(
                    arguments[0].1.clone(),
                    "`select` takes a comparison first",
                    &["write `select(a < b, x, y)`"],
                );
                return Value::Float(BROKEN);
            };
            let [x, y] = [1, 2].map(|at: usize| self.float(arguments[at].0, &arguments[at].1));
            return Value::Float(self.node(Node::Select(cmp, a, b, x, y)));
        }
        let x: Vec<Id> = arguments.iter().map(|(value, place)| self.float(*value, place)).collect();
        let node = match name {
            "row_sum" => return Value::Collected(Reduction::Sum, x[0]),
            "row_max" => return Value::Collected(Reduction::Max, x[0]),
            "fma" => Node::Fma(x[0], x[1], x[2]),
            "min" => Node::Min(x[0], x[1]),
            "max" => Node::Max(x[0], x[1]),
            "clamp" => Node::Min(self.node(Node::Max(x[0], x[1])), x[2]),
            "relu" => Node::Max(x[0], self.literal(0.0)),
            _ => match Function::find(name) {
                Some(function) => Node::Apply(function, x[0]),
                None => Node::Neg(x[0]),
            },
        };
        Value::Float(self.node(node))
    }
}

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
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Read<P, Value>,
        operators: &[(&'static str, fn(Id, Id) -> Node)],
    ) -> Read<P, Value> {
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
        let mut value = self.unary()?;
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
        let value = self.unary()?;
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
                self.builder.error(place, format!("`{text}` is beyond f32, which ends at 3.4e38"), &[]);
                BROKEN
            }
            Err(_) => {
                self.builder.error(
                    place,
                    format!("`{text}` is no number of an epilogue"),
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
                let fact = format!("{} values in parentheses are no result", values.len());
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
        let x = self.block()?;
        if !self.next_is_word("else") {
            return Err(self.unexpected("expected `else`", &["both sides of an `if` have a value"]));
        }
        self.advance();
        self.text.push_str(" else ");
        let y = if self.next_is_word("if") { self.choice()? } else { self.block()? };
        let Value::Truth(cmp, a, b) = condition else {
            self.builder.error(place, "`if` takes a comparison", &["write `if a < b { x } else { y }`"]);
            return Ok(Value::Float(BROKEN));
        };
        let [x, y] = [x, y].map(|side| self.builder.float(side, &place));
        Ok(Value::Float(self.builder.node(Node::Select(cmp, a, b, x, y))))
    }
}
