//! What a launch gives a kernel besides its factors.

use arrayvec::ArrayVec;
use bsr_codegen::{Dtype, Layout, Scale};

use super::bsr::DeviceBsr;
use super::buffer::{DevicePtr, Plain};
use super::dense::{DeviceDense, UntypedDense};
use super::device::Device;
use super::error::GpuError;
use super::fingerprint::Fingerprint;
use super::order::{DeviceOrder, UntypedOrder};
use super::scales::{DeviceScales, UntypedScales};
use super::vector::{DeviceVector, UntypedVector};
use crate::epilogue::{Blocks, Input, InputType, Inputs, Matrix, Numbers, Supplied};
use crate::{Dense, Element};

/// Most parameters of an epilogue.
const MOST: usize = 16;

/// What a kernel is given besides its factors, for every kernel: what an epilogue's parameters are given, by name, as operands
/// on the device and numbers; scales; an order of rows.
///
/// ```no_run
/// # use bsr_runtime::gpu::{Device, DeviceDense, DeviceInputs, DeviceVector, GpuError};
/// # fn inputs(bias: &DeviceVector<f32>, res: &DeviceDense<half::bf16>) {
/// let inputs = DeviceInputs::new().vector("bias", bias).matrix("res", res).scalar("alpha", 0.5);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DeviceInputs<'a, P = DevicePtr> {
    named: ArrayVec<(&'a str, DeviceInput<P>), MOST>,
    pub(crate) scales: Option<UntypedScales<P>>,
    pub(crate) order: Option<UntypedOrder<P>>,
}

impl Default for DeviceInputs<'_> {
    fn default() -> Self {
        Self::none()
    }
}

/// Those of a product that has none.
pub(crate) static NO_INPUTS: DeviceInputs<'static> = DeviceInputs::none();

#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceInput<P = DevicePtr> {
    Vector(UntypedVector<P>),
    Matrix(UntypedDense<P>),
    Blocks {
        dtype: Dtype,
        fingerprint: Fingerprint,
        /// Whether the elements of a block lie row by row, as those of C do.
        by_rows: bool,
        /// First and last byte address (exclusive) of the values.
        values: (P, P),
    },
    Result,
    Scalar(f32),
}

impl<'a> DeviceInputs<'a> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a kernel with `beta = on` is given: C = A * B + beta * C.
    #[must_use]
    pub fn beta(self, beta: f32) -> Self {
        self.result("c").scalar("beta", beta)
    }

    /// The scales of a kernel with a `scale`: C is the scaled sum, made in f32 before it is rounded to C's type.
    #[must_use]
    pub fn scales(mut self, scales: &'a DeviceScales) -> Self {
        self.scales = Some(scales.untyped()).filter(|scales| scales.kind != Scale::Unscaled);
        self
    }

    /// Gives a `Rows` or `Cols` parameter its values.
    #[must_use]
    pub fn vector<T: Element + Plain>(self, name: &'a str, values: &'a DeviceVector<T>) -> Self {
        self.with(name, DeviceInput::Vector(values.untyped()))
    }

    /// Gives a `Dense` parameter its values. It may be C itself, seen through another view of the same memory; any other
    /// overlap with C is refused.
    #[must_use]
    pub fn matrix<T: Element + Plain>(self, name: &'a str, values: &'a DeviceDense<T>) -> Self {
        self.with(name, DeviceInput::Matrix(values.untyped()))
    }

    /// Gives a `Bsr` parameter its values: a matrix with the pattern of the stored result, its blocks row by row.
    #[must_use]
    pub fn blocks<T: Element + Plain>(self, name: &'a str, values: &'a DeviceBsr<T>) -> Self {
        let blocks = values.untyped();
        let (dtype, fingerprint, values) = (blocks.dtype, blocks.fingerprint, blocks.values);
        let by_rows = blocks.layout == Layout::RowMajor;
        self.with(name, DeviceInput::Blocks { dtype, fingerprint, by_rows, values })
    }

    /// Gives a `Dense` parameter what C holds before the launch, or a `Bsr` parameter what its blocks hold.
    #[must_use]
    pub fn result(self, name: &'a str) -> Self {
        self.with(name, DeviceInput::Result)
    }

    /// Gives an `f32` parameter its value.
    #[must_use]
    pub fn scalar(self, name: &'a str, value: f32) -> Self {
        self.with(name, DeviceInput::Scalar(value))
    }

    /// Where each row of C goes, for a kernel with `permute = on`: row r of the product to row `order[r]`.
    #[must_use]
    pub fn order(mut self, order: &'a DeviceOrder) -> Self {
        self.order = Some(order.untyped());
        self
    }
}

impl<'a, P> DeviceInputs<'a, P> {
    pub(crate) const fn none() -> Self {
        Self { named: ArrayVec::new_const(), scales: None, order: None }
    }

    pub(crate) fn with(mut self, name: &'a str, input: DeviceInput<P>) -> Self {
        self.named.retain(|(given, _)| *given != name);
        // No epilogue has so many parameters: one of those that are there is refused by name.
        if !self.named.is_full() {
            self.named.push((name, input));
        }
        self
    }
}

impl<P: Copy> DeviceInputs<'_, P> {
    pub(crate) fn get(&self, name: &str) -> Option<DeviceInput<P>> {
        self.named.iter().find(|(given, _)| *given == name).map(|(_, input)| *input)
    }
}

/// For a result with the blocks of a pattern, or for a dense one.
impl<P> Supplied for (&DeviceInputs<'_, P>, Option<Fingerprint>) {
    fn input(&self, name: &str) -> Option<InputType> {
        let (_, input) = self.0.named.iter().find(|(given, _)| *given == name)?;
        Some(match input {
            DeviceInput::Vector(UntypedVector { dtype, len, .. }) => InputType::Vector { dtype: *dtype, len: *len },
            DeviceInput::Matrix(UntypedDense { dtype, layout, rows, cols, .. }) => {
                InputType::Matrix { dtype: *dtype, layout: *layout, rows: *rows, cols: *cols }
            }
            DeviceInput::Blocks { dtype, fingerprint, by_rows, .. } => {
                InputType::Blocks { dtype: *dtype, fits: *by_rows && self.1 == Some(*fingerprint) }
            }
            DeviceInput::Result => InputType::Result,
            DeviceInput::Scalar(_) => InputType::Scalar,
        })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.named.iter().map(|(name, _)| *name)
    }

    fn scales(&self) -> (Scale, [usize; 2]) {
        let none = (Scale::Unscaled, [0; 2]);
        self.0.scales.as_ref().map_or(none, |scales| (scales.kind, [scales.a.len, scales.b.len]))
    }

    fn order(&self) -> Option<usize> {
        self.0.order.as_ref().map(|order| order.len)
    }
}

/// Host inputs, copied to the device.
#[derive(Debug)]
pub struct UploadedInputs {
    named: Vec<(String, Uploaded)>,
    scales: Option<DeviceScales>,
    order: Option<DeviceOrder>,
}

#[derive(Debug)]
enum Uploaded {
    F64(DeviceVector<f64>),
    F32(DeviceVector<f32>),
    F16(DeviceVector<half::f16>),
    BF16(DeviceVector<half::bf16>),
    MatrixF64(DeviceDense<f64>),
    MatrixF32(DeviceDense<f32>),
    MatrixF16(DeviceDense<half::f16>),
    MatrixBF16(DeviceDense<half::bf16>),
    BlocksF64(DeviceBsr<f64>),
    BlocksF32(DeviceBsr<f32>),
    BlocksF16(DeviceBsr<half::f16>),
    BlocksBF16(DeviceBsr<half::bf16>),
    Result,
    Scalar(f32),
}

impl UploadedInputs {
    /// Copies inputs to the device; done when it returns. What C is to hold before the launch is not copied.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn upload(device: &Device, host: &Inputs) -> Result<Self, GpuError> {
        let upload = |name: &str| -> Result<(String, Uploaded), GpuError> {
            let uploaded = match host.get(name) {
                Some(Input::Vector(Numbers::F64(values))) => Uploaded::F64(DeviceVector::upload(device, values)?),
                Some(Input::Vector(Numbers::F32(values))) => Uploaded::F32(DeviceVector::upload(device, values)?),
                Some(Input::Vector(Numbers::F16(values))) => Uploaded::F16(DeviceVector::upload(device, values)?),
                Some(Input::Vector(Numbers::BF16(values))) => Uploaded::BF16(DeviceVector::upload(device, values)?),
                Some(Input::Matrix(Matrix::F64(dense))) => Uploaded::MatrixF64(DeviceDense::upload(device, dense)?),
                Some(Input::Matrix(Matrix::F32(dense))) => Uploaded::MatrixF32(DeviceDense::upload(device, dense)?),
                Some(Input::Matrix(Matrix::F16(dense))) => Uploaded::MatrixF16(DeviceDense::upload(device, dense)?),
                Some(Input::Matrix(Matrix::BF16(dense))) => Uploaded::MatrixBF16(DeviceDense::upload(device, dense)?),
                Some(Input::Scalar(value)) => Uploaded::Scalar(*value),
                Some(Input::Blocks(Blocks::F64(blocks))) => Uploaded::BlocksF64(DeviceBsr::upload(device, blocks)?),
                Some(Input::Blocks(Blocks::F32(blocks))) => Uploaded::BlocksF32(DeviceBsr::upload(device, blocks)?),
                Some(Input::Blocks(Blocks::F16(blocks))) => Uploaded::BlocksF16(DeviceBsr::upload(device, blocks)?),
                Some(Input::Blocks(Blocks::BF16(blocks))) => Uploaded::BlocksBF16(DeviceBsr::upload(device, blocks)?),
                Some(Input::Result(_) | Input::Held(_)) | None => Uploaded::Result,
            };
            Ok((name.to_owned(), uploaded))
        };
        Ok(Self {
            named: host.names().map(upload).collect::<Result<_, _>>()?,
            scales: match host.scales_given() {
                scales if scales.kind() == Scale::Unscaled => None,
                scales => Some(DeviceScales::upload(device, scales)?),
            },
            order: host.rows_to().map(|order| DeviceOrder::upload(device, order)).transpose()?,
        })
    }

    /// As a launch takes them.
    pub fn inputs(&self) -> DeviceInputs<'_> {
        let new = DeviceInputs {
            scales: self.scales.as_ref().map(DeviceScales::untyped),
            order: self.order.as_ref().map(DeviceOrder::untyped),
            ..DeviceInputs::new()
        };
        self.named.iter().fold(new, |inputs, (name, uploaded)| match uploaded {
            Uploaded::F64(vector) => inputs.vector(name, vector),
            Uploaded::F32(vector) => inputs.vector(name, vector),
            Uploaded::F16(vector) => inputs.vector(name, vector),
            Uploaded::BF16(vector) => inputs.vector(name, vector),
            Uploaded::MatrixF64(matrix) => inputs.matrix(name, matrix),
            Uploaded::MatrixF32(matrix) => inputs.matrix(name, matrix),
            Uploaded::MatrixF16(matrix) => inputs.matrix(name, matrix),
            Uploaded::MatrixBF16(matrix) => inputs.matrix(name, matrix),
            Uploaded::BlocksF64(blocks) => inputs.blocks(name, blocks),
            Uploaded::BlocksF32(blocks) => inputs.blocks(name, blocks),
            Uploaded::BlocksF16(blocks) => inputs.blocks(name, blocks),
            Uploaded::BlocksBF16(blocks) => inputs.blocks(name, blocks),
            Uploaded::Result => inputs.result(name),
            Uploaded::Scalar(value) => inputs.scalar(name, *value),
        })
    }
}

/// What C is to hold before the launch, where inputs say so.
pub(crate) fn initial<C: Element>(host: &Inputs) -> Option<Dense<C>> {
    host.names().find_map(|name| match host.get(name) {
        Some(Input::Result(matrix)) if matrix.dtype() == C::DTYPE => {
            let (rows, cols) = matrix.shape();
            Some(Dense::from_fn(rows, cols, matrix.layout(), |row, col| C::from_f64(matrix.get(row, col))))
        }
        _ => None,
    })
}

/// The values of C's blocks before an SDDMM, where an input gives them.
pub(crate) fn held<C: Element>(host: &Inputs) -> Option<Vec<C>> {
    host.names().find_map(|name| match host.get(name) {
        Some(Input::Held(blocks)) if blocks.dtype() == C::DTYPE => {
            Some((0..blocks.structure().stored()).map(|at| C::from_f64(blocks.get(at))).collect())
        }
        _ => None,
    })
}
