//! The launches of the products.

use bsr::gpu::{DeviceBsr, GpuError, Plain};
use bsr::{AutoError, Element, Refusal, bf16, f16};
use burn::tensor::DType;
use cubecl::server::ServerError;

use super::memory::{Cuda, Lines, Resource, contiguous, empty, in_lines};
use super::state::{Kind, State, Typed, locked};
use crate::{Call, Pattern};

/// Why a product cannot be computed on a GPU.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No kernel, or one that refuses the operands.
    #[error(transparent)]
    Auto(#[from] AutoError),
    /// The driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Memory that the kernels cannot address.
    #[error(transparent)]
    Foreign(#[from] Refusal),
    /// Burn does not give the memory of a tensor.
    #[error("Burn does not give access to the memory of a tensor: {0:?}")]
    Burn(ServerError),
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        Self::Burn(error)
    }
}

/// An element type of the kernels.
pub(super) trait Number: Element + Plain {
    /// The cached products and patterns of this type.
    fn cached(state: &State) -> &Typed<Self>;
}

impl Number for f16 {
    fn cached(state: &State) -> &Typed<Self> {
        &state.f16
    }
}

impl Number for bf16 {
    fn cached(state: &State) -> &Typed<Self> {
        &state.bf16
    }
}

/// The operands of a product.
#[derive(Clone, Copy)]
pub(super) struct Operands<'o> {
    pub(super) first: &'o Cuda,
    pub(super) second: &'o Cuda,
    pub(super) pattern: &'o Pattern,
    pub(super) call: Call,
}

/// `x W^T`, or `x W`; none if the kernels do not multiply such tensors.
pub(super) fn linear(operands: Operands<'_>) -> Result<Option<Cuda>, Error> {
    match of_one_type(&operands) {
        Some(DType::F16) => linear_of::<f16>(operands),
        Some(DType::BF16) => linear_of::<bf16>(operands),
        _ => Ok(None),
    }
}

/// The stored blocks of `y^T x`; none if the kernels do not multiply such tensors.
pub(super) fn sddmm(operands: Operands<'_>) -> Result<Option<Cuda>, Error> {
    match of_one_type(&operands) {
        Some(DType::F16) => sddmm_of::<f16>(operands),
        Some(DType::BF16) => sddmm_of::<bf16>(operands),
        _ => Ok(None),
    }
}

fn of_one_type(Operands { first, second, .. }: &Operands<'_>) -> Option<DType> {
    (first.dtype == second.dtype).then_some(first.dtype)
}

fn linear_of<T: Number>(operands: Operands<'_>) -> Result<Option<Cuda>, Error> {
    let Operands { first, second, pattern, call } = operands;
    let x = in_lines(first);
    let Some(lines) = Lines::of(&x).map(Lines::transposed) else { return Ok(None) };
    let [rows, cols] = pattern.shape();
    let outputs = if call.transpose { cols } else { rows };
    // The result has the layout of x, so that it is transposed as x was.
    let result = match lines.layout {
        bsr::Layout::ColMajor => Lines { rows: outputs, ld: outputs, ..lines },
        bsr::Layout::RowMajor => Lines { rows: outputs, ld: lines.cols, ..lines },
    };
    if !lines.are_whole::<T>() || !result.are_whole::<T>() {
        return Ok(None);
    }
    let shape = if result.layout == bsr::Layout::ColMajor { [lines.cols, outputs] } else { [outputs, lines.cols] };
    let y = Resource::new(empty(&x, shape, x.dtype))?;
    let (values, x) = (Resource::new(contiguous(second))?, Resource::new(x)?);
    if ![&y, &values, &x].into_iter().all(Resource::is_aligned) {
        return Ok(None);
    }
    let state = State::of(first.device.index)?;
    let product = state.linear::<T>(call.transpose, lines.layout, call.first_use);
    // SAFETY: all three are held until the products that follow are ordered behind this one, and have these shapes.
    let (b, mut c) = unsafe { (lines.matrix::<T>(&x)?, result.matrix::<T>(&y)?) };
    let kind = Kind::Linear(call.transpose, lines.layout);
    let known = (pattern.fingerprint(), kind, is_f16::<T>(), lines.cols, call.first_use == bsr::FirstUse::Measure);
    let mut patterns = locked(&T::cached(&state).patterns);
    let a = stored(&state, &mut patterns, pattern, values.ptr())?;
    state.ordered(known, || Ok::<_, Error>(product.launch(&state.stream, (&*a, &b), &mut c)?))?;
    let y = y.into_tensor();
    Ok(Some(if result.layout == bsr::Layout::ColMajor { y } else { transposed(y) }))
}

fn sddmm_of<T: Number>(operands: Operands<'_>) -> Result<Option<Cuda>, Error> {
    let Operands { first, second, pattern, call } = operands;
    let (y, x) = (in_lines(first), in_lines(second));
    let (Some(of_y), Some(of_x)) = (Lines::of(&y).map(Lines::transposed), Lines::of(&x)) else { return Ok(None) };
    if !of_y.are_whole::<T>() || !of_x.are_whole::<T>() {
        return Ok(None);
    }
    let out = Resource::new(empty(&x, pattern.values_shape(), x.dtype))?;
    let (y, x) = (Resource::new(y)?, Resource::new(x)?);
    if ![&out, &y, &x].into_iter().all(Resource::is_aligned) {
        return Ok(None);
    }
    let state = State::of(first.device.index)?;
    let product = state.sddmm::<T>(of_y.layout, of_x.layout, call.first_use);
    // SAFETY: as in `linear_of`.
    let (a, b) = unsafe { (of_y.matrix::<T>(&y)?, of_x.matrix::<T>(&x)?) };
    let kind = Kind::Sddmm(of_y.layout, of_x.layout);
    let known = (pattern.fingerprint(), kind, is_f16::<T>(), of_y.cols, call.first_use == bsr::FirstUse::Measure);
    let mut patterns = locked(&T::cached(&state).patterns);
    let c = stored(&state, &mut patterns, pattern, out.ptr())?;
    state.ordered(known, || Ok::<_, Error>(product.launch(&state.stream, (&a, &b), &mut *c)?))?;
    Ok(Some(out.into_tensor()))
}

/// The pattern with these values: its block columns stay on the GPU from one product to the next.
fn stored<'p, T: Number>(
    state: &State,
    patterns: &'p mut std::collections::HashMap<bsr::gpu::Fingerprint, DeviceBsr<T>>,
    pattern: &Pattern,
    values: u64,
) -> Result<&'p mut DeviceBsr<T>, Error> {
    use std::collections::hash_map::Entry;
    match patterns.entry(pattern.fingerprint()) {
        Entry::Occupied(entry) => {
            let known = entry.into_mut();
            // SAFETY: as many values, which the caller holds; the launch that reads them follows.
            unsafe { known.set_values(values)? };
            Ok(known)
        }
        Entry::Vacant(entry) => {
            // SAFETY: the tensor has the values of all stored blocks, zeros beyond the edge, and is held by the caller.
            let matrix = unsafe { DeviceBsr::from_raw(&state.device, pattern.structure(), values)? };
            Ok(entry.insert(matrix))
        }
    }
}

/// Whether the type is f16: products of the two types are different ones.
fn is_f16<T: Number>() -> bool {
    T::DTYPE == bsr::Dtype::F16
}

/// The same memory as the transposed matrix.
fn transposed(mut tensor: Cuda) -> Cuda {
    tensor.meta.swap(0, 1);
    tensor
}
