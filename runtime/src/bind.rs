//! What a launch passes as each parameter of its kernel. This is the only place that says what an [`Argument`] means at
//! run time: every operation, on every machine, alone or in a batch, binds its parameters here.

use std::sync::Arc;

use arrayvec::ArrayVec;
use bsr_codegen::epilogue::MOST_INPUTS;
use bsr_codegen::{Argument, LaunchShape, Operand};

use crate::error::KernelError;
use crate::machine::{Bound, Lists, Session};

#[cfg(all(test, feature = "simulator"))]
mod tests;

/// Most operands of a launch: those of a score, and the eleven of a gradient.
const MOST_OPERANDS: usize = MOST_INPUTS + 11;

/// What the operands of one launch are, at addresses `A`. An operand that the operation does not have has no slot.
#[derive(Clone, Debug)]
pub(crate) struct Slots<A> {
    operands: ArrayVec<(Operand, Option<A>), MOST_OPERANDS>,
    scalars: ArrayVec<(usize, f32), MOST_INPUTS>,
    strides: ArrayVec<(usize, u64), MOST_INPUTS>,
    scale: Option<f32>,
    list: Option<Arc<[u32]>>,
}

impl<A: Copy> Slots<A> {
    pub(crate) fn new(operands: impl IntoIterator<Item = (Operand, A)>) -> Self {
        Self {
            operands: operands.into_iter().map(|(operand, at)| (operand, Some(at))).collect(),
            scalars: ArrayVec::new_const(),
            strides: ArrayVec::new_const(),
            scale: None,
            list: None,
        }
    }

    /// Those of two factors and their product.
    pub(crate) fn factors(a: A, b: A, c: A) -> Self {
        Self::new([(Operand::A, a), (Operand::B, b), (Operand::C, c)])
    }

    /// The address of an operand; null for one that the kernel can do without.
    pub(crate) fn operand(&mut self, operand: Operand, at: Option<A>) {
        self.operands.push((operand, at));
    }

    /// The number of the parameter `at` of an epilogue or a score.
    pub(crate) fn scalar(&mut self, at: usize, value: f32) {
        self.scalars.push((at, value));
    }

    /// The strides of the vector of a score's parameter `at`.
    pub(crate) fn strides(&mut self, at: usize, packed: u64) {
        self.strides.push((at, packed));
    }

    /// The work list of a launch that passes it by value.
    pub(crate) fn list(&mut self, words: Arc<[u32]>) {
        self.list = Some(words);
    }

    /// The scale of an attention.
    pub(crate) fn scale(&mut self, scale: f32) {
        self.scale = Some(scale);
    }

    /// The address of an operand that `parameter` describes by a tensor map.
    ///
    /// # Errors
    /// [`KernelError::Argument`] for one that has none, or null.
    pub(crate) fn mapped(&self, operand: Operand, parameter: &'static str) -> Result<A, KernelError> {
        of(&self.operands, operand).flatten().ok_or(KernelError::Argument { parameter })
    }
}

/// The values of the parameters of a launch.
///
/// # Errors
/// [`KernelError::Argument`] with the name of a parameter for which the launch has no slot; a tensor map that the machine
/// does not take.
pub(crate) fn bind<S: Session>(
    session: &S,
    shape: &LaunchShape,
    slots: &Slots<S::Address>,
    lists: &Lists<S::Address>,
) -> Result<Bound<S>, S::Error> {
    let mut values = ArrayVec::new_const();
    for parameter in &shape.parameters {
        let missing = || KernelError::Argument { parameter: parameter.name };
        let list = |at: Option<S::Address>| at.map(S::pointer).ok_or_else(missing);
        let mapped = |operand| slots.mapped(operand, parameter.name);
        values.push(match &parameter.argument {
            Argument::Map(map) => session.map(mapped(map.operand)?, map)?,
            Argument::Strided(map) => session.strided(mapped(map.operand)?, map)?,
            Argument::Rows(map) => session.rows(mapped(map.operand)?, map)?,
            Argument::Pointer(operand) => match of(&slots.operands, *operand).ok_or_else(missing)? {
                Some(at) => S::pointer(at),
                None => S::bits(0),
            },
            Argument::Maps => list(lists.maps)?,
            Argument::Problems => list(lists.problems)?,
            Argument::ColIdx => list(lists.columns)?,
            Argument::BlockIdx => list(lists.blocks)?,
            Argument::RowPtr => list(lists.tiles)?,
            Argument::WorkHead => list(lists.heads)?,
            Argument::Work => list(lists.tiles)?,
            Argument::WorkList(_) => S::words(slots.list.clone().ok_or_else(missing)?),
            Argument::StageMetadata => list(lists.stage_metadata)?,
            Argument::Workspace => list(lists.workspace)?,
            Argument::Probes => list(lists.probes)?,
            Argument::Number(number) => S::number(*number),
            Argument::Stride(bytes) => S::bits(*bytes),
            Argument::Scalar(at) => S::float(of(&slots.scalars, *at).ok_or_else(missing)?),
            Argument::Scale => S::float(slots.scale.ok_or_else(missing)?),
            Argument::VectorStrides(at) => S::bits(of(&slots.strides, *at).ok_or_else(missing)?),
        });
    }
    Ok(values)
}

fn of<K: Copy + PartialEq, V: Copy>(entries: &[(K, V)], key: K) -> Option<V> {
    entries.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
}
