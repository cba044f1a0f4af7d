//! Attention on a GPU.

use std::sync::Arc;

use bsr_codegen::{Dtype, Plan, TensorStrides};

use super::listed;
use super::vector::{self, ScoreVector, packed_strides};
use super::{AttentionError, AttentionWork, DeviceMask, HeadOrder, Mask, Shape, Tensor};
use crate::Element;
use crate::gpu::{Device, DeviceBuffer, DevicePtr, Function, Plain, StreamRef};
use crate::launcher::{Listed, OnGpu, Workspaces};
use crate::machine::Lists;
use crate::operation::{Attention, launch_bound};

/// A tensor of heads in device memory: contiguous, or a view of foreign memory.
#[derive(Debug)]
pub struct DeviceTensor<T: Plain> {
    sizes: [usize; 4],
    strides: TensorStrides,
    data: DeviceBuffer<T>,
}

impl<T: Element + Plain> DeviceTensor<T> {
    /// Copies a tensor to a device.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`].
    pub fn upload(device: &Device, tensor: &Tensor<T>) -> Result<Self, AttentionError> {
        let data = DeviceBuffer::from_slice(device, tensor.data())?;
        Ok(Self { sizes: tensor.sizes(), strides: tensor.strides(), data })
    }

    /// Views `[batch, heads, rows, columns]` elements of foreign device memory, which lie as `strides` say. They are neither
    /// copied nor freed.
    ///
    /// # Safety
    /// For as long as the value lives, `data` must be that of such a tensor on this device.
    pub unsafe fn from_raw(device: &Device, data: DevicePtr, sizes: [usize; 4], strides: TensorStrides) -> Self {
        let last = |size: usize, stride: u64| size.saturating_sub(1) * stride as usize;
        let [batch, heads, rows, columns] = sizes;
        let extent = last(batch, strides.batch) + last(heads, strides.head) + last(rows, strides.row) + columns;
        // SAFETY: as the caller vouches.
        let data = unsafe { DeviceBuffer::foreign(device, data, if sizes.contains(&0) { 0 } else { extent }) };
        Self { sizes, strides, data }
    }

    /// A tensor of `[batch, heads, rows, columns]` whose elements are not set.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`].
    pub fn uninit(device: &Device, sizes: [usize; 4], order: HeadOrder) -> Result<Self, AttentionError> {
        let [_, heads, rows, columns] = sizes;
        let data = DeviceBuffer::uninit(device, sizes.iter().product())?;
        Ok(Self { sizes, strides: order.strides(heads, rows, columns), data })
    }

    /// Copies it to the host, after everything on the device is done.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`]; [`AttentionError::Size`] for a view of foreign memory that is not contiguous.
    pub fn download(&self) -> Result<Tensor<T>, AttentionError> {
        self.data.device().synchronize()?;
        let [_, heads, rows, columns] = self.sizes;
        let mut orders = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst].into_iter();
        let order = orders.find(|order| order.strides(heads, rows, columns) == self.strides).ok_or_else(|| {
            AttentionError::size(
                "the tensor is a view whose heads are not contiguous",
                format!("{:?} between its elements, and its sizes are {:?}", self.strides, self.sizes),
                "copy it into a contiguous one",
            )
        })?;
        Tensor::from_vec(self.sizes, order, self.data.to_vec()?)
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`].
    pub fn fill_bytes(&mut self, byte: u8) -> Result<(), AttentionError> {
        Ok(self.data.fill_bytes(byte)?)
    }

    /// Problems, heads, rows, columns.
    pub fn sizes(&self) -> [usize; 4] {
        self.sizes
    }

    fn strides(&self) -> TensorStrides {
        self.strides
    }
}

/// What an attention reads: `(&q, &k, &v, scale).into()`, and the numbers and vectors of its score.
#[derive(Debug)]
pub struct Inputs<'i, T: Plain> {
    tensors: [&'i DeviceTensor<T>; 3],
    scale: f32,
    scalars: &'i [f32],
    vectors: &'i [ScoreVector<'i>],
}

impl<'i, T: Plain> Inputs<'i, T> {
    /// The same with numbers for the parameters of the score that are `f32`, in their order.
    #[must_use]
    pub fn scalars(self, scalars: &'i [f32]) -> Self {
        Self { scalars, ..self }
    }

    /// The same with vectors for the parameters of the score that are `Rows`, `Cols` and `Heads`, in their order.
    #[must_use]
    pub fn vectors(self, vectors: &'i [ScoreVector<'i>]) -> Self {
        Self { vectors, ..self }
    }
}

impl<'i, T: Plain> From<(&'i DeviceTensor<T>, &'i DeviceTensor<T>, &'i DeviceTensor<T>, f32)> for Inputs<'i, T> {
    fn from((q, k, v, scale): (&'i DeviceTensor<T>, &'i DeviceTensor<T>, &'i DeviceTensor<T>, f32)) -> Self {
        Self { tensors: [q, k, v], scale, scalars: &[], vectors: &[] }
    }
}

/// A mask in the form in which one kernel reads it, for tensors of one shape.
#[derive(Debug)]
pub struct DevicePattern {
    shape: Shape,
    ctas: u32,
    lists: Work,
}

/// Heads, tiles and steps.
#[derive(Debug)]
enum Work {
    /// Of a mask on the host.
    Host([DeviceBuffer<u32>; 3], Workspaces),
    /// Of a mask on the GPU, made by kernels.
    Device(Arc<DeviceMask>, Box<Listed>),
}

impl DevicePattern {
    /// Enqueues what checks a mask on the GPU and lists its work on `stream`, unless that was done there since the mask last
    /// [changed](DeviceMask::changed). A launch does it by itself; this is for programs that want it earlier, or timed alone.
    ///
    /// # Errors
    /// What a launch answers.
    pub fn make_lists<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<(), AttentionError> {
        self.lists(stream.into()).map(drop)
    }

    /// Where heads, tiles and steps are, which are listed on `stream` first where that is to be done.
    fn lists(&self, stream: StreamRef<'_>) -> Result<Lists<DevicePtr>, AttentionError> {
        match &self.lists {
            Work::Host(lists, workspaces) => {
                let [heads, tiles, columns] = lists.each_ref().map(|list| Some(list.ptr()));
                let workspace = Some(workspaces.of(lists[0].device(), stream)?);
                Ok(Lists { heads, tiles, columns, workspace, ..Lists::default() })
            }
            Work::Device(mask, listed) => Ok(listed.enqueue(stream, mask.pattern(), false, mask.flags().1)?.1),
        }
    }
}

/// A kernel of attention on a device.
#[derive(Debug)]
pub struct Launcher {
    kernel: OnGpu,
}

impl Launcher {
    /// Loads the kernel of a plan, whose text the driver compiles.
    ///
    /// # Errors
    /// [`AttentionError::Operation`] for a plan of another operation; what loading a kernel answers.
    pub fn load(device: &Device, plan: &Plan) -> Result<Self, AttentionError> {
        let ptx = plan.ptx();
        Self::load_text(device, plan, ptx.text(), ptx.entry())
    }

    /// Loads a kernel by its text, which must be that of `plan`.
    ///
    /// # Errors
    /// As [`Launcher::load`].
    pub fn load_text(device: &Device, plan: &Plan, text: &str, entry: &str) -> Result<Self, AttentionError> {
        check_operation(plan)?;
        Ok(Self { kernel: OnGpu::text(device, plan, text, entry)? })
    }

    /// Loads machine code that ptxas made of the text of `plan`, as [`Launcher::load_cubin`](crate::Launcher::load_cubin).
    ///
    /// # Errors
    /// As [`Launcher::load`]; [`AttentionError::Gpu`] for bytes that are no whole cubin, or of another architecture.
    pub fn load_cubin(device: &Device, plan: &Plan, cubin: &[u8], entry: &str) -> Result<Self, AttentionError> {
        check_operation(plan)?;
        Ok(Self { kernel: OnGpu::cubin(device, plan, cubin, entry)? })
    }

    /// The plan it was loaded by.
    pub fn plan(&self) -> &Plan {
        &self.kernel.plan
    }

    /// The loaded function.
    pub fn function(&self) -> &Function {
        &self.kernel.function
    }

    /// CTAs that run at the same time.
    pub fn ctas(&self) -> u32 {
        self.kernel.clusters
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded; as [`Launcher::records`](crate::Launcher::records).
    ///
    /// # Errors
    /// [`AttentionError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn records(&self) -> Result<Option<Vec<u32>>, AttentionError> {
        Ok(self.kernel.records()?)
    }

    /// Makes the work of a mask for tensors of one shape.
    ///
    /// # Errors
    /// A mask that does not fit the kernel or the shape.
    pub fn pattern(&self, mask: &Mask, shape: Shape) -> Result<DevicePattern, AttentionError> {
        let tiles = self.plan().attention_tiles().ok_or(AttentionError::Operation(self.plan().spec().op))?;
        let work = AttentionWork::new(&tiles, &shape, mask, self.ctas())?;
        Ok(DevicePattern {
            shape,
            ctas: work.ctas(),
            lists: Work::Host(
                [
                    DeviceBuffer::from_slice(&self.kernel.device, &work.heads)?,
                    DeviceBuffer::from_slice(&self.kernel.device, &work.tiles)?,
                    // A mask without blocks has no steps, and an address all the same.
                    DeviceBuffer::from_slice(
                        &self.kernel.device,
                        if work.steps.is_empty() { &[0] } else { &work.steps },
                    )?,
                ],
                Workspaces::new(&self.kernel.device, work.workspace_bytes(&tiles))?,
            ),
        })
    }

    /// Allocates what launches with a mask that lives on the GPU need, for tensors of one shape. They check it and list the
    /// work on the GPU, whenever it has [changed](DeviceMask::changed). No tile's keys are divided.
    ///
    /// # Errors
    /// A mask that does not fit the kernel or the shape, and sizes beyond what the kernels that list count.
    pub fn device_pattern(&self, mask: &Arc<DeviceMask>, shape: Shape) -> Result<DevicePattern, AttentionError> {
        let tiles = self.plan().attention_tiles().ok_or(AttentionError::Operation(self.plan().spec().op))?;
        mask.check_shape(&shape, tiles.block)?;
        let request = (mask.shape().sharing, mask.shape().capacity);
        let table = listed::table(&tiles, &shape, request, mask.flags().0, self.ctas())?;
        let listed = Listed::new(&self.kernel.device, table)?;
        Ok(DevicePattern { shape, ctas: listed.clusters(), lists: Work::Device(Arc::clone(mask), Box::new(listed)) })
    }

    /// Enqueues an attention on `stream` and returns at once. `lse`, if there, gets each query's LSE, the natural logarithm of
    /// its sum of exponentials: `[batch, heads, queries]`. Keep tensors and pattern alive until the stream has been synchronized.
    ///
    /// # Errors
    /// Tensors that do not fit the kernel or the pattern. Nothing is launched in these cases.
    pub fn launch<'s, 'i, T: Element + Plain>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Into<Inputs<'i, T>>,
        pattern: &DevicePattern,
        output: &mut DeviceTensor<T>,
        lse: Option<&mut DeviceBuffer<f32>>,
    ) -> Result<(), AttentionError> {
        let stream = stream.into();
        let Inputs { tensors: [q, k, v], scale, scalars, vectors } = inputs.into();
        let shape = shape_of(self.plan(), [q, k, v].map(DeviceTensor::sizes), T::DTYPE)?;
        check_numbers(self.plan(), scale, scalars)?;
        let strides = packed_strides(self.plan(), &shape, vectors.iter().map(ScoreVector::extent))?;
        if shape != pattern.shape {
            return Err(AttentionError::size(
                "the pattern was made for tensors of other sizes",
                format!("{:?}, not {shape:?}", pattern.shape),
                "`Launcher::pattern` with this shape",
            ));
        }
        let sizes = [shape.batch, shape.heads, shape.queries, shape.columns];
        if output.sizes != sizes {
            return Err(AttentionError::size(
                format!("O is {:?}", output.sizes),
                format!("{sizes:?}: problems, heads and queries of Q, columns of V"),
                "an O of these sizes",
            ));
        }
        let lse = match lse {
            Some(lse) if lse.len() != shape.rows() => {
                return Err(AttentionError::size(
                    format!("LSE has {} elements", lse.len()),
                    format!("problems x heads x queries = {}", shape.rows()),
                    "one for each query of each head",
                ));
            }
            lse => lse.map(|lse| lse.ptr()),
        };
        if pattern.ctas == 0 {
            return Ok(());
        }
        let problem = shape.problem([q.strides(), k.strides(), v.strides(), output.strides()]);
        let launch = self.plan().attention_launch(&problem, pattern.ctas);
        let launch = launch.ok_or(AttentionError::Operation(self.plan().spec().op))?;
        // Without keys nothing is read: any valid address serves.
        let [k, v] = if shape.keys == 0 { [q, q] } else { [k, v] }.map(|tensor| tensor.data.ptr());
        let (q, o, strides) = (q.data.ptr(), output.data.ptr(), &strides);
        let operands = Attention { q, k, v, o, lse, scale, scalars, strides };
        let slots = operands.slots(self.plan(), vectors.iter().map(ScoreVector::ptr));
        let lists = Lists { probes: self.kernel.rings(), ..pattern.lists(stream)? };
        // SAFETY: the kernel is the plan's, whose parameters these are; the maps are of the tensors, whose sizes the checks
        // above have found to be those of the problem; the pattern was made for this kernel and these sizes, or is checked
        // and listed on this stream ahead of the launch, so that no step is beyond the keys. O and LSE are borrowed
        // mutably, and the workspace is this stream's.
        unsafe { launch_bound(&mut self.kernel.machine(stream), &launch, &slots, &lists)? };
        Ok(())
    }
}

fn check_operation(plan: &Plan) -> Result<(), AttentionError> {
    plan.attention_tiles().map(drop).ok_or(AttentionError::Operation(plan.spec().op))
}

/// The shape of the tensors Q, K and V, whose sizes are problems, heads, rows and columns.
///
/// # Errors
/// [`AttentionError::Size`] and [`AttentionError::Dtype`] where they do not belong together or to the kernel.
pub(super) fn shape_of(plan: &Plan, [q, k, v]: [[usize; 4]; 3], dtype: Dtype) -> Result<Shape, AttentionError> {
    let spec = plan.spec();
    if dtype != spec.a {
        return Err(AttentionError::Dtype { operand: "Q", found: dtype, expected: spec.a });
    }
    if k[..3] != v[..3] || k[0] != q[0] || k[3] != q[3] {
        return Err(AttentionError::size(
            "Q, K and V do not belong together",
            format!("Q is {q:?}, K is {k:?}, V is {v:?}: problems, heads, rows, columns"),
            "K and V of the same problems, heads and rows, with the problems of Q and K of its columns",
        ));
    }
    let depth = spec.score_depth() as usize;
    if spec.d.is_some() && q[3] != depth {
        return Err(AttentionError::size(
            format!("Q and K have {} columns, and the kernel was compiled for {depth}", q[3]),
            "the columns of Q and K are d of the spec, those of V bn",
            format!("a kernel with d = {}", q[3]),
        ));
    }
    if spec.d.is_none() && q[3] != v[3] {
        return Err(AttentionError::size(
            format!("Q and K have {} columns, and V has {}", q[3], v[3]),
            "a kernel without d has one head dimension, bn",
            format!("a kernel with d = {}", q[3]),
        ));
    }
    let ([batch, heads, queries, _], columns) = (q, v[3]);
    let shape = Shape { batch, heads, key_heads: k[1], queries, keys: k[2], columns };
    match plan.attention_tiles() {
        Some(tiles) => shape.check_tiles(&tiles).map(|()| shape),
        None => Err(AttentionError::Operation(spec.op)),
    }
}

/// Whether the scale is one, and there is a number for each parameter of the score.
///
/// # Errors
/// [`AttentionError::Scale`] and [`AttentionError::Scalars`].
pub(super) fn check_numbers(plan: &Plan, scale: f32, scalars: &[f32]) -> Result<(), AttentionError> {
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(AttentionError::Scale(scale));
    }
    let inputs = vector::inputs(plan).iter().filter(|input| !input.kind.is_vector());
    let names: Vec<&str> = inputs.map(|input| input.name.as_str()).collect();
    if names.len() != scalars.len() {
        return Err(AttentionError::Scalars { expected: names.len(), found: scalars.len(), names: names.join(", ") });
    }
    Ok(())
}
