//! What a kernel does with its sums before it writes them: the body of the attribute's function.
//!
//! ```text
//! fn body   --+
//!             +--> Lexeme --parse--> Program --+--> PTX lines for one accumulator       emit
//! closure   --+                                +--> the same expression in f64, on the CPU   eval
//! ```
//!
//! The text form is a closure, `|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)`. `acc` is the sum of an element
//! of C in f32, after the scales of 8-bit operands. All arithmetic is f32.
//!
//! | parameter | one value for |
//! |---|---|
//! | `Rows<T>` | every row of C |
//! | `Cols<T>` | every column of C |
//! | `Dense<T>` | every element of C, in C's layout |
//! | `Bsr<T>` | every stored element of the C of an SDDMM, in blocks as C is |
//! | `f32` | the launch |
//! | `Heads<T>` | every head, in the score of an attention, where rows are queries and columns are keys |
//!
//! T is `f32`, `f16` or `bf16`, and `f64` where sums are f64. The body is `+ - * /`, literals, `let x = ..;`, `x as bf16` (rounds), `if a < b { x }
//! else { y }` and functions ([`Program::FUNCTIONS`]). A second result is the sum or the greatest of a value along each
//! row of C: `(expression, row_sum(expression))`, `(expression, row_max(expression))`.

mod apply;
mod builder;
mod derivative;
mod double;
mod emit;
mod error;
mod eval;
mod expression;
mod functions;
mod lex;
mod program;
mod syntax;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::suggest::{MOST_SHOWN, more_errors};

pub use error::EpilogueError;
pub use eval::{Element, Pair};
pub use lex::{Lexeme, LexemeKind, lexemes};
pub use program::{Input, InputKind, Level, Program, Reduction};
pub use syntax::{MOST_INPUTS, ParameterSyntax, parse_function, parse_score};

pub(crate) use derivative::NoDerivative;
pub(crate) use double::lacking;
pub(crate) use emit::{At, Held, Lines, Sloped, widen};
pub(crate) use program::{Given, Node};

/// An epilogue or a score: a handle to a [`Program`] that is as cheap to copy as a number.
///
/// Two are equal where their canonical text is. `Display` and serde write that text, and parsing reads it back.
///
/// ```
/// use bsr_codegen::Epilogue;
///
/// let epilogue: Epilogue = "|bias:Rows<f32>| relu( acc+bias )".parse()?;
/// assert_eq!(epilogue.to_string(), "|bias: Rows<f32>| relu(acc + bias)");
/// # Ok::<(), bsr_codegen::epilogue::EpilogueErrors>(())
/// ```
#[derive(Clone, Copy)]
pub struct Epilogue {
    text: &'static str,
}

impl Epilogue {
    /// The epilogue of a program.
    pub fn new(program: Program) -> Self {
        let mut programs = programs();
        if let Some(known) = programs.get(program.text()) {
            return Self { text: known.both[0].text() };
        }
        let both = [program.clone(), program.transposed()];
        let (differentiated, summed) = (OnceLock::new(), OnceLock::new());
        let forms: &'static Forms = Box::leak(Box::new(Forms { both, differentiated, summed }));
        programs.insert(forms.both[0].text(), forms);
        Self { text: forms.both[0].text() }
    }

    /// `acc + beta * c`, where `c` is a full operand of the type of C, which a launch gives C itself: what `beta = on`
    /// stands for.
    ///
    /// The parameters are `c` and `beta`.
    pub const fn accumulate(out: crate::words::Dtype) -> Self {
        Self::compiled(match out {
            crate::words::Dtype::F16 => "|c: Dense<f16>, beta: f32| acc + beta * c",
            crate::words::Dtype::BF16 => "|c: Dense<bf16>, beta: f32| acc + beta * c",
            crate::words::Dtype::F64 => "|c: Dense<f64>, beta: f32| acc + beta * c",
            _ => "|c: Dense<f32>, beta: f32| acc + beta * c",
        })
    }

    /// The same of an operation: where `op` stores blocks, `c` is the values of C's blocks.
    pub const fn accumulate_of(op: crate::words::Op, out: crate::words::Dtype) -> Self {
        match (op.stores_blocks(), out) {
            (true, crate::words::Dtype::F16) => Self::compiled("|c: Bsr<f16>, beta: f32| acc + beta * c"),
            (true, crate::words::Dtype::BF16) => Self::compiled("|c: Bsr<bf16>, beta: f32| acc + beta * c"),
            (true, _) => Self::compiled("|c: Bsr<f32>, beta: f32| acc + beta * c"),
            _ => Self::accumulate(out),
        }
    }

    /// An epilogue by its canonical text, as the attribute writes it into constants.
    #[doc(hidden)]
    pub const fn compiled(text: &'static str) -> Self {
        Self { text }
    }

    /// The canonical text.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// What it computes.
    ///
    /// # Panics
    /// Where the hidden constructor was given a text that is no epilogue.
    pub fn program(self) -> &'static Program {
        &self.forms().both[0]
    }

    /// What it computes, said of the transposed C: a vector by rows is one by columns.
    pub(crate) fn transposed(self) -> &'static Program {
        &self.forms().both[1]
    }

    /// A score with its derivative, and the same of the transposed scores: as they are where that is 1 by `s * scale`.
    pub(crate) fn differentiated(self) -> Result<&'static [Program; 2], NoDerivative> {
        let forms = self.forms();
        let made = forms.differentiated.get_or_init(|| {
            let found = forms.both[0].differentiated()?;
            Ok(found.map(|program| [program.clone(), program.transposed()]))
        });
        made.as_ref().map(|made| made.as_ref().unwrap_or(&forms.both)).map_err(|none| *none)
    }

    /// A score with its derivatives by the product and by those parameters whose gradients are sums over the keys of a query, and
    /// the same of the transposed scores, by those whose gradients are sums over the queries of a key.
    pub(crate) fn summed(self) -> Result<&'static [Program; 2], NoDerivative> {
        let forms = self.forms();
        let made = forms.summed.get_or_init(|| {
            let of_queries = forms.both[0].with_derivatives(|kind| !matches!(kind, InputKind::Cols(_)))?;
            Ok([of_queries, forms.both[0].with_derivatives(|kind| matches!(kind, InputKind::Cols(_)))?.transposed()])
        });
        made.as_ref().map_err(|none| *none)
    }

    fn forms(self) -> &'static Forms {
        if let Some(known) = programs().get(self.text) {
            return known;
        }
        // A text that both grammars take means the same in both: it names nothing that only one of them has.
        let program = read(self.text).or_else(|_| read_score(self.text));
        let program = program.expect("the text was written by an epilogue or a score");
        Self::new(program);
        programs().get(self.text).expect("it was just put there")
    }
}

/// What is known of a program.
struct Forms {
    /// Itself and its mirror image.
    both: [Program; 2],
    /// Both with the derivative of a score, unless that is 1.
    differentiated: OnceLock<Result<Option<[Program; 2]>, NoDerivative>>,
    /// Both with the derivatives of a score by parameters, too.
    summed: OnceLock<Result<[Program; 2], NoDerivative>>,
}

/// Every program met so far, by canonical text. There are as many as there are kernels: none is forgotten.
fn programs() -> std::sync::MutexGuard<'static, HashMap<&'static str, &'static Forms>> {
    static PROGRAMS: OnceLock<Mutex<HashMap<&'static str, &'static Forms>>> = OnceLock::new();
    PROGRAMS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a program in the closure syntax.
///
/// # Errors
/// Everything wrong with the text; places are byte ranges.
pub fn read(text: &str) -> Result<Program, Vec<EpilogueError<Range<usize>>>> {
    let end = text.trim_end().len();
    syntax::parse_closure(&lexemes(text), &(end..end), builder::Builder::new())
}

/// Reads the score of a query and a key in the closure syntax: `|| if i >= j { s * scale } else { -inf }`.
///
/// Its names are `s`, the product of query `i` and key `j`, further `head`, `batch`, `scale` and `inf`.
///
/// # Errors
/// Everything wrong with the text; places are byte ranges.
pub fn read_score(text: &str) -> Result<Program, Vec<EpilogueError<Range<usize>>>> {
    let end = text.trim_end().len();
    syntax::parse_closure(&lexemes(text), &(end..end), builder::Builder::of_score())
}

/// What is wrong with an epilogue in text.
#[derive(Clone, PartialEq, Eq)]
pub struct EpilogueErrors(Vec<EpilogueError<Range<usize>>>);

message_as_debug!(EpilogueErrors);

impl EpilogueErrors {
    /// The errors, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &EpilogueError<Range<usize>>> {
        self.0.iter()
    }
}

impl fmt::Display for EpilogueErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().take(MOST_SHOWN).enumerate() {
            let separator = if at > 0 { "\n" } else { "" };
            write!(f, "{separator}{} at byte {}", error.fact, error.place.start)?;
            for line in &error.help {
                write!(f, "\n  help: {line}")?;
            }
        }
        match self.0.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n{}", more_errors(more)),
        }
    }
}

impl std::error::Error for EpilogueErrors {}

impl FromStr for Epilogue {
    type Err = EpilogueErrors;

    fn from_str(text: &str) -> Result<Self, EpilogueErrors> {
        read(text).map(Self::new).map_err(EpilogueErrors)
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text)
    }
}

impl fmt::Debug for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epilogue({:?})", self.text)
    }
}

impl PartialEq for Epilogue {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Epilogue {}

impl PartialOrd for Epilogue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Epilogue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(other.text)
    }
}

impl Hash for Epilogue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for Epilogue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text)
    }
}

impl<'de> Deserialize<'de> for Epilogue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let read = text.parse().or_else(|error| read_score(&text).map(Self::new).map_err(|_| error));
        read.map_err(serde::de::Error::custom)
    }
}
