//! Why a spec cannot be planned: every reason, each with its arithmetic and a remedy.

use std::fmt;
use std::sync::Arc;

use super::remedy::{Planner, Remedies};
use crate::{Dtype, KernelSpec};

/// One reason why a spec cannot be planned.
#[derive(Clone)]
pub struct PlanError {
    key: &'static str,
    pub(super) fact: String,
    arithmetic: String,
    /// The remedy as the step of the recipe worded it, before it was planned.
    pub(super) help: String,
    /// The refusal that it is a part of, and its number there.
    remedies: Option<(Arc<Remedies>, usize)>,
}

/// Equal in what they say.
impl PartialEq for PlanError {
    fn eq(&self, other: &Self) -> bool {
        let said = |error: &Self| (error.key, error.fact.clone(), error.arithmetic.clone());
        said(self) == said(other) && self.help() == other.help()
    }
}

impl Eq for PlanError {}

message_as_debug!(PlanError, and help);

impl PlanError {
    pub(crate) fn new(
        key: &'static str,
        fact: impl Into<String>,
        arithmetic: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { key, fact: fact.into(), arithmetic: arithmetic.into(), help: help.into(), remedies: None }
    }

    /// The same with one remedy more.
    pub(crate) fn or(self, help: &str) -> Self {
        Self { help: format!("{}, or {help}", self.help), ..self }
    }

    /// i32 results are those of i8 operands.
    pub(crate) fn no_integer(spec: &KernelSpec) -> Self {
        Self::new(
            "out",
            format!("a product of {} matrices cannot be an integer", spec.a),
            "out = i32 needs i8 operands",
            format!("out = {}", spec.a.default_out()),
        )
    }

    /// A tile whose rows are none of the `legal` ones of a block: the arithmetic, why, and the nearest that are.
    pub(crate) fn tile_rows(rows: u32, block_rows: u32, legal: impl Iterator<Item = u32>, why: &str) -> Self {
        let nearest = legal.min_by_key(|legal| legal.abs_diff(rows));
        let remedy = nearest.map_or(String::new(), |nearest| format!("cta_m = {nearest}, or "));
        Self::new(
            "cta_m",
            format!("a block of {block_rows} rows is not divided into tiles of {rows}"),
            format!("{block_rows} / {rows} = {:.2}; {why}", f64::from(block_rows) / f64::from(rows.max(1))),
            format!("{remedy}leave `cta_m` to the plan"),
        )
    }

    /// A size that is not a multiple of `unit` up to `largest`: the arithmetic, and the nearest sizes that are.
    pub(crate) fn size(key: &'static str, what: &str, value: u32, (unit, largest): (u32, u32), why: &str) -> Self {
        let arithmetic = if value > largest {
            format!("{value} > {largest}, the largest supported")
        } else if value == 0 {
            why.to_owned()
        } else {
            format!("{value} = {} x {unit} + {}; {why}", value / unit, value % unit)
        };
        let below = (value / unit * unit).min(largest / unit * unit);
        let nearest = match below {
            0 => unit.to_string(),
            below if below + unit > largest => below.to_string(),
            below => format!("{below} or {}", below + unit),
        };
        Self::new(key, format!("{what} of {value} are not supported"), arithmetic, format!("{key} = {nearest}"))
    }

    /// The spec key to blame, for instance `"stages"`.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The remedy in one line. What it suggests was planned, after the first remedies of the errors before it.
    pub fn help(&self) -> Option<&str> {
        let help = self.remedies.as_ref().map_or(self.help.as_str(), |(remedies, at)| remedies.of(*at));
        Some(help).filter(|help| !help.is_empty())
    }
}

/// The fact, then the arithmetic behind it on a line of its own; [`PlanError::help`] is kept apart.
impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact)?;
        if !self.arithmetic.is_empty() {
            write!(f, "\n  {}", self.arithmetic)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}

/// Every reason found, in the order of the planning recipe.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PlanErrors(Vec<PlanError>);

message_as_debug!(PlanErrors);

impl PlanErrors {
    pub(crate) fn push(&mut self, error: PlanError) {
        self.0.push(error);
    }

    /// The refusal of `spec`, with remedies that `planner` plans when they are read.
    pub(crate) fn with_remedies(self, spec: &KernelSpec, planner: Planner) -> Self {
        let remedies = Arc::new(Remedies::new(*spec, planner, self.0.clone()));
        let of = |(at, error)| PlanError { remedies: Some((Arc::clone(&remedies), at)), ..error };
        Self(self.0.into_iter().enumerate().map(of).collect())
    }

    /// `Err(self)` when something was found.
    pub(crate) fn check(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    /// The reasons, in the order of the planning recipe.
    pub fn iter(&self) -> std::slice::Iter<'_, PlanError> {
        self.0.iter()
    }
}

/// Refuses factors that one instruction does not multiply together, and accumulators of another type than it has.
pub(crate) fn check_factors(spec: &KernelSpec, instruction: &str, errors: &mut PlanErrors) {
    if spec.a != spec.b && !(spec.a.is_fp8() && spec.b.is_fp8()) {
        errors.push(PlanError::new(
            "b",
            format!("A is {} and B is {}", spec.a, spec.b),
            format!("one {instruction} multiplies operands of the same type, or e4m3 and e5m2 in any mix"),
            format!("b = {}", spec.a),
        ));
    }
    let accumulator = spec.a.accumulator();
    if spec.acc == Dtype::F16 && spec.a == Dtype::F16 {
        check_half_sums(spec, errors);
    } else if spec.acc != accumulator {
        errors.push(PlanError::new(
            "acc",
            format!("products of {} cannot be accumulated in {}", spec.a, spec.acc),
            match (spec.acc, spec.a.is_fp8()) {
                (Dtype::F16, true) => {
                    format!("sums of {} have some 14 bits in the tensor cores, of which f16 would leave 11", spec.a)
                }
                _ => format!("{instruction}s accumulate products of {} in {accumulator}", spec.a),
            },
            format!("acc = {accumulator}"),
        ));
    }
}

/// Sums of f16 are written as they are.
fn check_half_sums(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.out != Dtype::F16 {
        errors.push(PlanError::new(
            "out",
            format!("sums of f16 are not written as {}", spec.out),
            format!("acc = f16 leaves 11 significant bits of a sum, and C of {} would have no more", spec.out),
            "out = f16, or acc = f32",
        ));
    }
}

impl From<PlanError> for PlanErrors {
    fn from(error: PlanError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "error: {error}")?;
            if let Some(help) = error.help() {
                write!(f, "\n  help: {help}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for PlanErrors {}
