//! Attention on a GPU.

use std::sync::Arc;

use bsr_codegen::lists::LengthLists;
use bsr_codegen::{Plan, TensorStrides};

use super::list::check_in_memory;
use super::operands::{self, Placed};
use super::vector::ScoreVector;
use super::{
    AttentionError, AttentionWork, DeviceFactors, DeviceMask, DevicePages, HeadOrder, Mask, PageShape, Shape, Tensor,
};
use super::{listed, pages};
use crate::Element;
use crate::gpu::{CheckedIndex, Device, DeviceBuffer, DevicePtr, DeviceVector, Function, Plain, StreamRef};
use crate::launcher::{Listed, UploadedWork, Workspaces};
use crate::lists::Table;
use crate::machine::{self, Lists};
use crate::operation::{self, Attention};

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

    pub(super) fn placed(&self) -> Placed<DevicePtr> {
        Placed { at: self.data.ptr(), sizes: self.sizes, strides: self.strides }
    }
}

/// What an attention reads: `(&q, &k, &v, scale).into()`, the numbers and vectors of its score, and sinks.
#[derive(Debug)]
pub struct Inputs<'i, T: Plain> {
    tensors: [&'i DeviceTensor<T>; 3],
    scale: f32,
    scalars: &'i [f32],
    vectors: &'i [ScoreVector<'i>],
    sinks: Option<&'i DeviceVector<f32>>,
    workspace: Option<&'i mut DeviceBuffer<f32>>,
    factors: Option<&'i DeviceFactors>,
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

    /// The same with a sink for each head, for a kernel with `sinks = on`: a logit in the units of a score, finite or minus
    /// infinity, whose exponential is a term of each row's sum and has no value.
    #[must_use]
    pub fn sinks(self, sinks: impl Into<Option<&'i DeviceVector<f32>>>) -> Self {
        Self { sinks: sinks.into(), ..self }
    }

    /// The same with a workspace of the caller's for a kernel with `split`: [`DevicePattern::workspace_len`] elements that were zeros
    /// before the first launch with it. It belongs to one kernel, whose launches follow each other on one stream: between two of
    /// them it is what the first one left.
    #[must_use]
    pub fn workspace(self, workspace: impl Into<Option<&'i mut DeviceBuffer<f32>>>) -> Self {
        Self { workspace: workspace.into(), ..self }
    }

    /// The same with factors of Q, K and V, for a kernel with `scale = tensor` or `block`.
    #[must_use]
    pub fn factors(self, factors: impl Into<Option<&'i DeviceFactors>>) -> Self {
        Self { factors: factors.into(), ..self }
    }
}

impl<'i, T: Plain> From<(&'i DeviceTensor<T>, &'i DeviceTensor<T>, &'i DeviceTensor<T>, f32)> for Inputs<'i, T> {
    fn from((q, k, v, scale): (&'i DeviceTensor<T>, &'i DeviceTensor<T>, &'i DeviceTensor<T>, f32)) -> Self {
        Self { tensors: [q, k, v], scale, scalars: &[], vectors: &[], sinks: None, factors: None, workspace: None }
    }
}

/// A mask in the form in which one kernel reads it, for tensors of one shape.
#[derive(Debug)]
pub struct DevicePattern {
    shape: Shape,
    lists: Work,
}

/// Heads, tiles and steps.
#[derive(Debug)]
enum Work {
    /// Of a mask on the host: heads and tiles, and steps; the whole list, where launches pass it by value.
    Host(Box<UploadedWork>, DeviceBuffer<u32>, Option<Arc<[u32]>>),
    /// Of a mask on the GPU, made by kernels.
    Device(Arc<DeviceMask>, Box<Listed>),
    /// Of a page table on the GPU and the keys of each problem, made by kernels.
    Pages(Arc<DevicePages>, Box<(LengthLists, Listed)>),
}

impl DevicePattern {
    /// Enqueues what checks a mask on the GPU and lists its work on `stream`, unless that was done there since the mask last
    /// [changed](DeviceMask::changed). A launch does it by itself; this is for programs that want it earlier, or timed alone.
    ///
    /// # Errors
    /// What a launch answers.
    pub fn make_lists<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<(), AttentionError> {
        // Any address: nothing is launched that passes sums on.
        self.lists(stream.into(), Some(0)).map(drop)
    }

    /// Elements of a [workspace of the caller's](Inputs::workspace), of 4 bytes: a place for the sums of each part of a tile's keys
    /// that one CTA passes on to another. 0 where no keys are divided.
    pub fn workspace_len(&self) -> usize {
        self.workspaces().bytes() / size_of::<f32>()
    }

    /// The same pattern for launches that bring a [workspace](Inputs::workspace): the one that was allocated with it is freed. A
    /// launch without one allocates it again.
    #[must_use]
    pub fn without_workspace(self) -> Self {
        self.workspaces().free();
        self
    }

    fn workspaces(&self) -> &Workspaces {
        match &self.lists {
            Work::Host(work, ..) => work.workspaces(),
            Work::Device(_, listed) => listed.workspaces(),
            Work::Pages(_, lists) => lists.1.workspaces(),
        }
    }

    /// The list of a launch that passes it by value.
    fn list(&self) -> Option<Arc<[u32]>> {
        match &self.lists {
            Work::Host(.., list) => list.clone(),
            _ => None,
        }
    }

    /// Where the page table is, and its sizes.
    fn pages(&self) -> Option<(DevicePtr, &PageShape)> {
        match &self.lists {
            Work::Pages(pages, _) => Some((pages.table(), pages.shape())),
            _ => None,
        }
    }

    /// CTAs that get work, and where heads, tiles and steps are, which are listed on `stream` first where that is to be done. The
    /// workspace is the stream's unless one is given.
    fn lists(
        &self,
        stream: StreamRef<'_>,
        workspace: Option<DevicePtr>,
    ) -> Result<machine::Work<DevicePtr>, AttentionError> {
        Ok(match &self.lists {
            Work::Host(work, steps, _) => {
                (work.grid, Lists { columns: Some(steps.ptr()), ..work.lists_in(stream, workspace)? })
            }
            Work::Device(mask, listed) => listed.enqueue(stream, mask.pattern(), false, mask.flags().1)?,
            Work::Pages(pages, lists) => {
                let (now, lengths) = pages.enqueue(stream, &lists.0)?;
                let index = CheckedIndex { rows: lengths, columns: lengths, blocks: lengths };
                lists.1.make(stream, &[now], (&[index], None), (pages.kernels(), pages.device()), workspace)?
            }
        })
    }

    /// Where a workspace of the caller's is.
    ///
    /// # Errors
    /// [`AttentionError::Size`] of another length.
    fn given(&self, workspace: Option<&mut DeviceBuffer<f32>>) -> Result<Option<DevicePtr>, AttentionError> {
        let Some(workspace) = workspace else { return Ok(None) };
        let (found, wanted) = (workspace.len(), self.workspace_len());
        match found == wanted {
            true => Ok(Some(workspace.ptr())),
            false => Err(AttentionError::size(
                format!("the workspace has {found} elements of f32"),
                format!(
                    "the launch passes on sums of {} bytes, {wanted} elements of 4 bytes",
                    self.workspaces().bytes()
                ),
                "`DevicePattern::workspace_len` elements, zeros before the first launch",
            )),
        }
    }
}

/// A kernel of attention on a device.
#[derive(Debug)]
pub struct Launcher(crate::Launcher);

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
        operands::check_operation(plan)?;
        Ok(Self(crate::Launcher::load(device, plan, text, entry)?))
    }

    /// Loads machine code that ptxas made of the text of `plan`, as [`Launcher::load_cubin`](crate::Launcher::load_cubin).
    ///
    /// # Errors
    /// As [`Launcher::load`]; [`AttentionError::Gpu`] for bytes that are no whole cubin, or of another architecture.
    pub fn load_cubin(device: &Device, plan: &Plan, cubin: &[u8], entry: &str) -> Result<Self, AttentionError> {
        operands::check_operation(plan)?;
        Ok(Self(crate::Launcher::load_cubin(device, plan, cubin, entry)?))
    }

    /// The plan it was loaded by.
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// The loaded function.
    pub fn function(&self) -> &Function {
        self.0.function()
    }

    /// Clusters that run at the same time, each of which computes tiles; without clusters, CTAs.
    pub fn ctas(&self) -> u32 {
        self.0.clusters()
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded; as [`Launcher::records`](crate::Launcher::records).
    ///
    /// # Errors
    /// [`AttentionError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn records(&self) -> Result<Option<Vec<u32>>, AttentionError> {
        Ok(self.0.records()?)
    }

    /// Makes the work of a mask for tensors of one shape.
    ///
    /// # Errors
    /// A mask that does not fit the kernel or the shape.
    pub fn pattern(&self, mask: &Mask, shape: Shape) -> Result<DevicePattern, AttentionError> {
        let tiles = operands::tiles(self.plan())?;
        let work = AttentionWork::new(&tiles, &shape, mask, self.ctas())?;
        let (device, workspace) = (self.0.device(), work.workspace_bytes(&tiles));
        let list = work.in_parameters(self.plan())?;
        // A mask without blocks has no steps, and an address all the same.
        let steps = if work.steps.is_empty() { &[0] } else { &work.steps[..] };
        let steps = DeviceBuffer::from_slice(device, steps)?;
        let work = UploadedWork::new(device, [work.ctas(), 1], [&work.heads, &work.tiles, &[]], workspace)?;
        Ok(DevicePattern { shape, lists: Work::Host(Box::new(work), steps, list) })
    }

    /// Allocates what launches with a mask that lives on the GPU need, for tensors of one shape. They check it and list the
    /// work on the GPU, whenever it has [changed](DeviceMask::changed). No tile's keys are divided.
    ///
    /// # Errors
    /// A mask that does not fit the kernel or the shape, and sizes beyond what the kernels that list count.
    pub fn device_pattern(&self, mask: &Arc<DeviceMask>, shape: Shape) -> Result<DevicePattern, AttentionError> {
        let tiles = operands::tiles(self.plan())?;
        check_in_memory(self.plan())?;
        mask.check_shape(&shape, tiles.block)?;
        let request = (mask.shape().sharing, mask.shape().capacity);
        let table = listed::table(&tiles, &shape, request, mask.flags().0, self.ctas())?;
        let listed = Listed::new(self.0.device(), table)?;
        Ok(DevicePattern { shape, lists: Work::Device(Arc::clone(mask), Box::new(listed)) })
    }

    /// Allocates what launches with K and V in pages need, for tensors of one shape, whose keys are the most of a problem. They
    /// check table and lengths and divide the work by the lengths on the GPU, whenever these have
    /// [changed](DevicePages::changed). K and V are then `[pages, heads, keys of a page, columns]`, in any order of heads and keys,
    /// and every key of a problem counts, with the score of the kernel, if it has one.
    ///
    /// # Errors
    /// Pages that do not fit the kernel or the shape, and sizes beyond what the kernels that list count.
    pub fn paged(&self, pages: &Arc<DevicePages>, shape: Shape) -> Result<DevicePattern, AttentionError> {
        let tiles = operands::tiles(self.plan())?;
        pages.shape().check(self.plan(), &shape)?;
        let lists = pages::lists(&tiles, &shape, pages.shape(), self.ctas())?;
        let listed = Listed::new(self.0.device(), Table::by_length(&lists))?;
        Ok(DevicePattern { shape, lists: Work::Pages(Arc::clone(pages), Box::new((lists, listed))) })
    }

    /// Enqueues an attention on `stream` and returns at once. O has the type of Q, K and V, or 16 bits where they have 8; V of 8 bits
    /// is [by columns](Tensor::by_column). `lse`, if there, gets each query's LSE, the natural logarithm of
    /// its sum of exponentials, the sink's included: `[batch, heads, queries]`. Keep tensors and pattern alive until the stream has been synchronized.
    ///
    /// # Errors
    /// Tensors that do not fit the kernel or the pattern. Nothing is launched in these cases.
    pub fn launch<'s, 'i, T: Element + Plain, O: Element + Plain>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Into<Inputs<'i, T>>,
        pattern: &DevicePattern,
        output: &mut DeviceTensor<O>,
        lse: Option<&mut DeviceBuffer<f32>>,
    ) -> Result<(), AttentionError> {
        let stream = stream.into();
        let Inputs { tensors, scale, scalars, vectors, sinks, factors, workspace } = inputs.into();
        let workspace = pattern.given(workspace)?;
        let (tensors, o) = ((tensors.map(DeviceTensor::placed), T::DTYPE), output.placed());
        let lse = lse.map(|lse| (lse.ptr(), lse.len()));
        let vectors = vectors.iter().map(|vector| (vector.ptr(), vector.extent()));
        let sinks = sinks.map(|sinks| (sinks.ptr(), sinks.len()));
        let numbers = (scale, scalars);
        let further = (sinks, pattern.pages(), factors.map(DeviceFactors::given));
        let results = (o, lse, O::DTYPE);
        let operands = operands::checked(self.plan(), &pattern.shape, tensors, results, numbers, vectors, further)?;
        let operands = Attention { list: pattern.list(), ..operands };
        if pattern.shape.rows() == 0 {
            return Ok(());
        }
        let gpu = self.0.machine();
        // SAFETY: the kernel is the plan's, whose parameters these are; the maps are of the tensors, whose sizes the checks
        // have found to be those of the problem; the pattern was made for this kernel and these sizes, or is checked and
        // listed on this stream ahead of the launch, so that no step is beyond the keys, and no entry of a page table that is
        // read is beyond its row; what an entry says is a coordinate of TMA, which bounds it. O and LSE are borrowed mutably, and
        // the workspace is this stream's, or borrowed mutably and as large as the pattern asks.
        unsafe {
            operation::launch(&mut gpu.on(stream), self.plan(), &operands, |_| {
                let (grid, lists) = pattern.lists(stream, workspace)?;
                Ok((grid, Lists { probes: gpu.rings(), ..lists }))
            })
        }
    }
}
