//! A kernel of any operation on the simulator.

use bsr_codegen::{Op, Plan};
use bsr_runtime::attention::{SimulatedAttention, SimulatedGradient};
use bsr_runtime::simulated::{Coverage, Simulated, Statement};

use crate::{Failure, Planned};

/// A kernel as the simulator reads it.
#[derive(Clone, Debug)]
pub enum SimulatedKernel {
    /// Of a product or of an SDDMM.
    Product(Box<Simulated>),
    /// Of an attention.
    Attention(Box<SimulatedAttention>),
    /// Of a part of an attention's gradient.
    Gradient(Box<SimulatedGradient>),
}

impl From<Simulated> for SimulatedKernel {
    fn from(kernel: Simulated) -> Self {
        Self::Product(Box::new(kernel))
    }
}

impl From<SimulatedAttention> for SimulatedKernel {
    fn from(kernel: SimulatedAttention) -> Self {
        Self::Attention(Box::new(kernel))
    }
}

impl From<SimulatedGradient> for SimulatedKernel {
    fn from(kernel: SimulatedGradient) -> Self {
        Self::Gradient(Box::new(kernel))
    }
}

impl SimulatedKernel {
    /// Reads the PTX of a kernel.
    ///
    /// # Errors
    /// Bad input: what the simulator does not model, with its place in the text.
    pub fn new(planned: &Planned) -> Result<Self, Failure> {
        let unreadable = |error| Failure::bad_input(format!("{}:{error}", planned.origin()));
        Self::of_text(&planned.plan, planned.ptx.text(), planned.ptx.entry()).map_err(unreadable)
    }

    /// Reads a text that is launched by a plan.
    ///
    /// # Errors
    /// What the simulator does not model, with line and column.
    pub fn of_text(plan: &Plan, text: &str, entry: &str) -> Result<Self, Failure> {
        Ok(match plan.spec().op {
            Op::Attention => SimulatedAttention::new(plan, text, entry)?.into(),
            Op::AttentionDq | Op::AttentionDkv => SimulatedGradient::new(plan, text, entry)?.into(),
            _ => Simulated::new(plan, text, entry)?.into(),
        })
    }

    /// The plan by which it is launched.
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Product(kernel) => kernel.plan(),
            Self::Attention(kernel) => kernel.plan(),
            Self::Gradient(kernel) => kernel.plan(),
        }
    }

    /// What the last launch of a kernel with probes recorded.
    pub fn records(&self) -> Option<Vec<u32>> {
        match self {
            Self::Product(kernel) => kernel.records(),
            Self::Attention(kernel) => kernel.records(),
            Self::Gradient(kernel) => kernel.records(),
        }
    }

    /// The instructions, each with whether the runs that `coverage` was merged of have executed it.
    pub fn statements(&self, coverage: &Coverage) -> Vec<(Statement, bool)> {
        match self {
            Self::Product(kernel) => kernel.statements(coverage),
            Self::Attention(kernel) => kernel.statements(coverage),
            Self::Gradient(kernel) => kernel.statements(coverage),
        }
    }

    /// # Errors
    /// Bad input: a kernel of attention.
    pub(crate) fn product(&self) -> Result<&Simulated, Failure> {
        match self {
            Self::Product(kernel) => Ok(kernel),
            Self::Attention(_) | Self::Gradient(_) => {
                Err(Failure::bad_input("a kernel of attention multiplies no matrices"))
            }
        }
    }

    /// # Errors
    /// Bad input: a kernel of another operation.
    pub(crate) fn attention(&self) -> Result<&SimulatedAttention, Failure> {
        match self {
            Self::Attention(kernel) => Ok(kernel),
            _ => Err(Failure::bad_input("a kernel of another operation computes no attention")),
        }
    }

    /// # Errors
    /// Bad input: a kernel of another operation.
    pub(crate) fn gradient(&self) -> Result<&SimulatedGradient, Failure> {
        match self {
            Self::Gradient(kernel) => Ok(kernel),
            _ => Err(Failure::bad_input("a kernel of another operation computes no gradient")),
        }
    }
}
