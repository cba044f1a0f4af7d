//! Parameters and statements: the frame around expressions.

use super::builder::{Builder, Outcome};
use super::error::EpilogueError;
use super::lex::{Lexeme, LexemeKind};
use super::program::{Id, Input, InputKind, Program};
use crate::place::Place;
use crate::steps;
use crate::suggest;
use crate::words::Dtype;

/// Most parameters that an epilogue or a score may have.
pub const MOST_INPUTS: usize = 8;

/// Most expressions within each other: brackets, arguments, signs and branches.
const MOST_DEPTH: usize = 100;

/// A parameter of a function, as a front end has read it: `bias: Rows<f32>`.
#[derive(Clone, Debug)]
pub struct ParameterSyntax<P> {
    /// Its name.
    pub name: String,
    /// The place of the name.
    pub name_place: P,
    /// The word before `<`, or the whole type: `Rows`, `f32`.
    pub kind: String,
    /// The word within `<` and `>`, where there are any.
    pub element: Option<String>,
    /// The place of the type.
    pub type_place: P,
}

/// Reads the body of a function with these parameters. `end` is the place of the brace that closes the body.
///
/// # Errors
/// Everything wrong with parameters and body, each on its own place.
pub fn parse_function<P: Place>(
    parameters: &[ParameterSyntax<P>],
    body: &[Lexeme<P>],
    end: &P,
) -> Result<Program, Vec<EpilogueError<P>>> {
    if body.is_empty() {
        let help = ["end the function with `;` to store the sum unchanged, or compute with it: `{ relu(acc) }`"];
        return Err(vec![EpilogueError::new(end.clone(), "the body is empty", &help)]);
    }
    let mut parser = Parser::new(body, end, Builder::new());
    parser.builder.declare(parameters);
    parser.finish()
}

/// Reads the body of a function of attention, with the parameters that follow `scale`.
///
/// # Errors
/// Everything wrong with parameters and body, each on its own place.
pub fn parse_score<P: Place>(
    parameters: &[ParameterSyntax<P>],
    body: &[Lexeme<P>],
    end: &P,
) -> Result<Program, Vec<EpilogueError<P>>> {
    if body.is_empty() {
        let help = ["end the function with `;` for `s * scale`, or write the score: `{ s * scale }`"];
        return Err(vec![EpilogueError::new(end.clone(), "the body is empty", &help)]);
    }
    let mut parser = Parser::new(body, end, Builder::of_score());
    parser.builder.declare(parameters);
    parser.finish()
}

/// Reads a closure whose names are those of `builder`.
pub(super) fn parse_closure<P: Place>(
    tokens: &[Lexeme<P>],
    end: &P,
    builder: Builder<P>,
) -> Result<Program, Vec<EpilogueError<P>>> {
    let mut parser = Parser::new(tokens, end, builder);
    match parser.parameters() {
        Ok(parameters) => parser.builder.declare(&parameters),
        Err(error) => return Err(vec![error]),
    }
    parser.finish()
}

/// An error of the grammar, after which nothing more is read.
pub(super) type Read<P, T> = Result<T, EpilogueError<P>>;

/// An iterator over the tokens, which writes down the canonical text of what it has read.
pub(super) struct Parser<'t, P> {
    tokens: &'t [Lexeme<P>],
    end: &'t P,
    at: usize,
    /// Expressions that are being read, each within the one before it.
    depth: usize,
    pub(super) text: String,
    pub(super) builder: Builder<P>,
}

impl<'t, P: Place> Parser<'t, P> {
    fn new(tokens: &'t [Lexeme<P>], end: &'t P, builder: Builder<P>) -> Self {
        Self { tokens, end, at: 0, depth: 0, text: String::new(), builder }
    }

    fn finish(mut self) -> Result<Program, Vec<EpilogueError<P>>> {
        let outcome = self.outcome();
        let mut errors = std::mem::take(&mut self.builder.errors);
        let ((result, second), braces) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                errors.push(error);
                return Err(errors);
            }
        };
        if errors.is_empty() {
            errors = self.builder.unused();
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let inputs: Vec<Input> = self.builder.inputs();
        let parameters: Vec<String> =
            inputs.iter().map(|input| format!("{}: {}", input.name, input.kind.words())).collect();
        let body = if braces { format!("{{ {} }}", self.text) } else { self.text };
        let text = format!("|{}| {body}", parameters.join(", "));
        Ok(Program::new(text, inputs, self.builder.into_graph(), result, second))
    }

    /// The whole body: values and whether it needs braces.
    fn outcome(&mut self) -> Read<P, (Outcome, bool)> {
        // Braces around everything are written anew where they are needed.
        let wrapped = self.is_wrapped();
        if wrapped {
            self.at += 1;
        }
        let statements = self.statements()?;
        let place = self.here();
        let value = self.expression()?;
        let place = place.through(&self.before());
        if wrapped {
            self.take_silently("}")?;
        }
        if let Some(token) = self.tokens.get(self.at) {
            let fact = format!("expected nothing after the result, found {}", token.kind.describe());
            let help = match token.kind {
                LexemeKind::Sign(".") => "write a function: `max(acc, 0)`",
                LexemeKind::Other(_) => {
                    "the operators are `+ - * /` and, within `if`, comparisons; `x * x` is a square"
                }
                _ => "the last expression is the result",
            };
            return Err(EpilogueError::new(token.place.clone(), fact, &[help]));
        }
        Ok((self.builder.outcome(value, &place), statements > 0))
    }

    /// Do braces enclose all that is left?
    fn is_wrapped(&self) -> bool {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(self.at) {
            steps::add(1);
            match token.kind {
                LexemeKind::Sign("{") => depth += 1,
                LexemeKind::Sign("}") => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at > self.at && at + 1 == self.tokens.len();
            }
        }
        false
    }

    /// `let` statements; how many.
    pub(super) fn statements(&mut self) -> Read<P, usize> {
        let mut count = 0;
        while self.next_is_word("let") {
            self.at += 1;
            if self.next_is_word("mut") {
                let help = ["drop `mut`, and give the new value a new name"];
                self.builder.error(self.here(), "names are immutable, there is no `mut`", &help);
                self.at += 1;
            }
            let (name, place) = self.name("a name after `let`")?;
            self.text.push_str(&format!("let {name}"));
            if self.next_is(":") {
                self.at += 1;
                let (word, place) = self.name("a type")?;
                if word != "f32" {
                    self.builder.error(place, format!("`{name}` is an f32, not `{word}`"), &["drop the type"]);
                }
            }
            self.take_silently("=")?;
            self.text.push_str(" = ");
            let value = self.number()?;
            self.take_silently(";")?;
            self.text.push_str("; ");
            self.builder.bind(&name, value, &place);
            count += 1;
        }
        Ok(count)
    }

    /// Reads something within an expression, which may hold another expression: no deeper than the stack allows.
    pub(super) fn within<T>(&mut self, read: fn(&mut Self) -> Read<P, T>) -> Read<P, T> {
        if self.depth == MOST_DEPTH {
            let fact = format!("an expression is nested more than {MOST_DEPTH} levels deep");
            let help = "name an inner expression: `let x = ..;`";
            return Err(EpilogueError::new(self.here(), fact, &[help]));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// An expression that must be a number.
    pub(super) fn number(&mut self) -> Read<P, Id> {
        let place = self.here();
        let value = self.expression()?;
        let place = place.through(&self.before());
        Ok(self.builder.float(value, &place))
    }

    /// `|name: Type, ..|`.
    fn parameters(&mut self) -> Read<P, Vec<ParameterSyntax<P>>> {
        const HELP: &str = "write `|bias: Rows<f32>| acc + bias`, or `|| relu(acc)`";
        if !self.next_is("|") {
            return Err(self.unexpected("an epilogue is a closure: expected `|`", &[HELP]));
        }
        self.at += 1;
        let mut found = Vec::new();
        while !self.next_is("|") {
            let (name, name_place) = self.name("the name of a parameter")?;
            self.take_silently(":")?;
            let (kind, type_place) = self.name("a type")?;
            let mut parameter = ParameterSyntax { name, name_place, kind, element: None, type_place };
            if self.next_is("<") {
                self.at += 1;
                parameter.element = Some(self.name("an element type")?.0);
                self.take_silently(">")?;
                parameter.type_place = parameter.type_place.through(&self.before());
            }
            found.push(parameter);
            if self.next_is(",") {
                self.at += 1;
            } else if !self.next_is("|") {
                return Err(self.unexpected("expected `,` or `|` after a parameter", &[HELP]));
            }
        }
        self.at += 1;
        Ok(found)
    }

    pub(super) fn peek(&self) -> Option<&'t LexemeKind> {
        steps::add(1);
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    pub(super) fn next_is(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(LexemeKind::Sign(next)) if *next == sign)
    }

    pub(super) fn next_is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(LexemeKind::Word(next)) if next == word)
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// The place of the next token.
    pub(super) fn here(&self) -> P {
        self.tokens.get(self.at).map_or_else(|| self.end.clone(), |token| token.place.clone())
    }

    /// The place of the last token that was read.
    pub(super) fn before(&self) -> P {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or_else(|| self.end.clone(), |token| token.place.clone())
    }

    pub(super) fn name(&mut self, expected: &str) -> Read<P, (String, P)> {
        match self.tokens.get(self.at) {
            Some(Lexeme { kind: LexemeKind::Word(word), place }) => {
                self.at += 1;
                Ok((word.clone(), place.clone()))
            }
            _ => Err(self.unexpected(&format!("expected {expected}"), &[])),
        }
    }

    /// Reads a sign and writes nothing.
    pub(super) fn take_silently(&mut self, sign: &str) -> Read<P, ()> {
        if self.next_is(sign) {
            self.at += 1;
            return Ok(());
        }
        Err(self.unexpected(&format!("expected `{sign}`"), &[]))
    }

    pub(super) fn unexpected(&self, expected: &str, help: &[&str]) -> EpilogueError<P> {
        let found = self.peek().map_or_else(|| "the end".to_owned(), LexemeKind::describe);
        EpilogueError::new(self.here(), format!("{expected}, found {found}"), help)
    }
}

/// What parameters of a body may be, and how its errors say so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    words: &'static [&'static str],
    forms: &'static str,
    /// The types of their elements: scores are computed in f32.
    elements: &'static [&'static str],
    /// Whose operands they are.
    pub(super) of: &'static str,
    /// The same with its article.
    pub(super) one: &'static str,
}

impl Kinds {
    /// Those of an epilogue.
    pub(super) const EPILOGUE: Self = Self {
        words: &["Rows", "Cols", "Dense", "Bsr", "f32"],
        forms: "a further operand is `Rows<f32>`, `Cols<f32>`, `Dense<bf16>` (`Bsr<bf16>` with op = sdd) or `f32`",
        elements: &["f32", "f16", "bf16", "f64"],
        of: "epilogue",
        one: "an epilogue",
    };
    /// Those of a score.
    pub(super) const SCORE: Self = Self {
        words: &["Rows", "Cols", "Heads", "f32"],
        forms: "an operand of a score is `Rows<f32>` (by query), `Cols<f32>` (by key), `Heads<f32>` (by head) or `f32`",
        elements: &["f32", "f16", "bf16"],
        of: "score",
        one: "a score",
    };
}

/// The kind of a parameter.
///
/// # Errors
/// The fact and the remedies.
pub(super) fn kind_of<P>(parameter: &ParameterSyntax<P>, kinds: Kinds) -> Result<InputKind, (String, Vec<String>)> {
    let ParameterSyntax { name, kind, element, .. } = parameter;
    let near = |word: &str, words: &[&'static str]| {
        let near = suggest::nearest(word, words);
        let hint = (!near.is_empty()).then(|| format!("did you mean {}?", suggest::either(&near)));
        hint.into_iter().collect::<Vec<_>>()
    };
    if !kinds.words.contains(&kind.as_str()) {
        let mut help = near(kind, kinds.words);
        help.push(kinds.forms.to_owned());
        return Err((format!("`{name}` cannot be a `{kind}`"), help));
    }
    let dtype = match (kind.as_str(), element.as_deref()) {
        ("f32", None) => return Ok(InputKind::Scalar),
        ("f32", Some(_)) => return Err(("`f32` has no element type".to_owned(), vec![kinds.forms.to_owned()])),
        (_, None) => {
            return Err((format!("`{kind}` lacks its element type"), vec![format!("write `{kind}<f32>`")]));
        }
        (_, Some("f32")) => Dtype::F32,
        (_, Some("f64")) if kinds.elements.contains(&"f64") => Dtype::F64,
        (_, Some("f16")) => Dtype::F16,
        (_, Some("bf16")) => Dtype::BF16,
        (_, Some(element)) => {
            let mut help = near(element, kinds.elements);
            help.push(format!("an operand of {} has elements {}", kinds.one, suggest::either(kinds.elements)));
            return Err((format!("`{name}` cannot have elements `{element}`"), help));
        }
    };
    Ok(match kind.as_str() {
        "Rows" => InputKind::Rows(dtype),
        "Cols" => InputKind::Cols(dtype),
        "Heads" => InputKind::Heads(dtype),
        "Bsr" => InputKind::Blocks(dtype),
        _ => InputKind::Dense(dtype),
    })
}
