//! A gradient on a GPU.

use bsr_codegen::Plan;

use super::operands::{problem, shape};
use super::work::{GradientForm, GradientWork};
use super::{RowTerms, ScoreSums};
use crate::Element;
use crate::attention::operands::check_numbers;
use crate::attention::vector::packed_strides;
use crate::attention::{AttentionError, DeviceTensor, Mask, ScoreVector, Shape};
use crate::gpu::{Device, DeviceBuffer, DevicePtr, Function, Plain, StreamRef};
use crate::launcher::UploadedWork;
use crate::machine::Lists;
use crate::operation::{self, Gradient};

/// What a gradient is computed from, on a device.
#[derive(Debug)]
pub struct GradientInputs<'i, T: Plain> {
    /// Q, K and V.
    pub tensors: [&'i DeviceTensor<T>; 3],
    /// O, and LSE of each query: what a forward launch gave.
    pub output: &'i DeviceTensor<T>,
    /// LSE of each query.
    pub lse: &'i DeviceBuffer<f32>,
    /// dO.
    pub output_gradient: &'i DeviceTensor<T>,
    /// The gradient of LSE, where something depends on it.
    pub lse_gradient: Option<&'i DeviceBuffer<f32>>,
    /// What products are multiplied by.
    pub scale: f32,
    /// The numbers of the score, in the order of its parameters.
    pub scalars: &'i [f32],
    /// Its vectors, in the same order.
    pub vectors: &'i [ScoreVector<'i>],
}

/// Where dQ, dK and dV go, and the workspace.
#[derive(Debug)]
pub struct GradientOutputs<'o, T: Plain> {
    /// dQ, of Q's sizes.
    pub dq: &'o mut DeviceTensor<T>,
    /// dK, of K's sizes.
    pub dk: &'o mut DeviceTensor<T>,
    /// dV, of V's sizes.
    pub dv: &'o mut DeviceTensor<T>,
    /// What the kernel of dQ passes on to that of dK and dV: [`GradientPattern::workspace_len`] elements.
    pub workspace: &'o mut DeviceBuffer<f32>,
    /// The gradients of the score's parameters, of the kernels that sum some: [`GradientPattern::score_sums_len`] elements each, laid
    /// out as [`ScoreSums`] says.
    pub score_sums: [Option<&'o mut DeviceBuffer<f32>>; 2],
}

/// A mask in the form in which both kernels read it, for tensors of one shape.
#[derive(Debug)]
pub struct GradientPattern {
    shape: Shape,
    works: [Work; 2],
    workspace: usize,
    score_sums: [usize; 2],
}

impl GradientPattern {
    /// Elements of [`GradientOutputs::workspace`]: two for each query of each head, to the end of the last block.
    pub fn workspace_len(&self) -> usize {
        self.workspace
    }

    /// Elements of [`GradientOutputs::score_sums`] of each kernel: 0 of one that sums nothing.
    pub fn score_sums_len(&self) -> [usize; 2] {
        self.score_sums
    }
}

#[derive(Debug)]
struct Work {
    /// Heads and tiles.
    uploaded: UploadedWork,
    steps: DeviceBuffer<u32>,
}

/// Work that a program lists itself, in device memory: addresses and lengths in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedWork {
    /// CTAs, each of which has a tile.
    pub ctas: u32,
    /// The number of each CTA's first tile, then that of all tiles.
    pub heads: (DevicePtr, usize),
    /// Work tiles.
    pub tiles: (DevicePtr, usize),
    /// Steps.
    pub steps: (DevicePtr, usize),
}

/// The two kernels of a gradient on a device.
#[derive(Debug)]
pub struct GradientLauncher {
    kernels: [crate::Launcher; 2],
}

impl GradientLauncher {
    /// Loads the kernels of the plans of dQ and of dK and dV, whose text the driver compiles.
    ///
    /// # Errors
    /// [`AttentionError::Operation`] for plans of other operations; what loading a kernel answers.
    pub fn load(device: &Device, plans: [&Plan; 2]) -> Result<Self, AttentionError> {
        let [dq, dkv] = plans.map(|plan| {
            plan.gradient_tiles().ok_or(AttentionError::Operation(plan.spec().op))?;
            let ptx = plan.ptx();
            Ok::<_, AttentionError>(crate::Launcher::load(device, plan, ptx.text(), ptx.entry())?)
        });
        Ok(Self { kernels: [dq?, dkv?] })
    }

    /// The same with another text of one of the kernels, 0 or 1, or machine code that ptxas made of it.
    ///
    /// # Errors
    /// As [`GradientLauncher::load`]; [`AttentionError::Gpu`] for bytes that are no whole cubin, or of another architecture.
    pub fn with_text(mut self, number: usize, text: &str, cubin: Option<&[u8]>) -> Result<Self, AttentionError> {
        let (plan, device) = (self.kernels[number].plan(), self.kernels[number].device());
        self.kernels[number] = match cubin {
            Some(cubin) => crate::Launcher::load_cubin(device, plan, cubin, &plan.entry())?,
            None => crate::Launcher::load(device, plan, text, &plan.entry())?,
        };
        Ok(self)
    }

    /// The plan of the kernel of dQ, and that of the kernel of dK and dV.
    pub fn plans(&self) -> [&Plan; 2] {
        self.kernels.each_ref().map(crate::Launcher::plan)
    }

    /// The loaded functions.
    pub fn functions(&self) -> [&Function; 2] {
        self.kernels.each_ref().map(crate::Launcher::function)
    }

    /// What the last launch of each kernel recorded, where it is [probed](Plan::probed); as
    /// [`Launcher::records`](crate::Launcher::records).
    ///
    /// # Errors
    /// [`AttentionError::Gpu`] with the error of an earlier launch, if one failed.
    #[doc(hidden)]
    pub fn records(&self) -> Result<[Option<Vec<u32>>; 2], AttentionError> {
        let [dq, dkv] = self.kernels.each_ref().map(crate::Launcher::records);
        Ok([dq?, dkv?])
    }

    /// Makes the work of a mask for tensors of one shape, for both kernels.
    ///
    /// # Errors
    /// A mask that does not fit the kernels or the shape.
    pub fn pattern(&self, mask: &Mask, shape: Shape) -> Result<GradientPattern, AttentionError> {
        let [dq, dkv] = self.kernels.each_ref().map(|kernel| {
            let form = kernel.plan().gradient_tiles().ok_or(AttentionError::Operation(kernel.plan().spec().op))?;
            let work = GradientWork::new(&form, &shape, mask, kernel.clusters())?;
            // A mask without blocks has no steps, and an address all the same.
            let steps = if work.steps.is_empty() { &[0, 0][..] } else { &work.steps };
            let steps = DeviceBuffer::from_slice(kernel.device(), steps)?;
            let lists = [&work.heads[..], &work.tiles, &[]];
            let uploaded = UploadedWork::new(kernel.device(), [work.ctas(), 1], lists, 0)?;
            Ok::<_, AttentionError>(Work { uploaded, steps })
        });
        let form = self.plans()[0].gradient_tiles();
        let workspace = form.map_or(0, |form| RowTerms::len(&form, &shape));
        Ok(GradientPattern { shape, works: [dq?, dkv?], workspace, score_sums: self.score_sums_len(&shape) })
    }

    /// How each kernel takes the work of tensors of one shape.
    ///
    /// # Errors
    /// Tensors of another shape than the kernels compute.
    pub fn forms(&self, shape: &Shape) -> Result<[GradientForm; 2], AttentionError> {
        let [dq, dkv] = self.kernels.each_ref().map(|kernel| {
            let tiles = kernel.plan().gradient_tiles().ok_or(AttentionError::Operation(kernel.plan().spec().op))?;
            GradientForm::new(tiles, shape, kernel.clusters())
        });
        Ok([dq?, dkv?])
    }

    /// Work that lies in device memory, where what makes it may run ahead of each launch. It is neither copied nor freed.
    ///
    /// # Errors
    /// As [`GradientLauncher::forms`].
    ///
    /// # Safety
    /// Whenever a launch with the pattern runs, the memory must be there, and hold for each kernel what
    /// [`GradientTiles`](bsr_codegen::GradientTiles) says: first tiles that ascend, tiles within the shape whose steps are within the list, and steps with
    /// runs within the other side.
    pub unsafe fn listed(&self, shape: Shape, lists: [ListedWork; 2]) -> Result<GradientPattern, AttentionError> {
        let [dq, _] = self.forms(&shape)?;
        let [of_queries, of_keys] = &self.kernels;
        let [first, second] = lists;
        let works = [(of_queries, first), (of_keys, second)].map(|(kernel, listed)| {
            // SAFETY: the caller vouches for the memory.
            let view = |(at, len)| unsafe { DeviceBuffer::<u32>::foreign(kernel.device(), at, len) };
            let lists = [listed.heads, listed.tiles].map(view);
            let uploaded = UploadedWork::of_buffers(kernel.device(), [listed.ctas, 1], lists)?;
            Ok::<_, AttentionError>(Work { uploaded, steps: view(listed.steps) })
        });
        let [first, second] = works;
        let (workspace, score_sums) = (RowTerms::len(&dq.tiles, &shape), self.score_sums_len(&shape));
        Ok(GradientPattern { shape, works: [first?, second?], workspace, score_sums })
    }

    fn score_sums_len(&self, shape: &Shape) -> [usize; 2] {
        self.plans().map(|plan| ScoreSums::len(plan.spec(), shape))
    }

    /// Enqueues both kernels on `stream` and returns at once. Keep tensors and pattern alive until the stream has been
    /// synchronized.
    ///
    /// # Errors
    /// Tensors that do not fit the kernels or the pattern. Nothing is launched in these cases.
    pub fn launch<'s, T: Element + Plain>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: &GradientInputs<'_, T>,
        pattern: &GradientPattern,
        outputs: &mut GradientOutputs<'_, T>,
    ) -> Result<(), AttentionError> {
        let stream = stream.into();
        for number in 0..self.kernels.len() {
            self.launch_one(number, stream, inputs, pattern, outputs)?;
        }
        Ok(())
    }

    /// Enqueues one of the two kernels, so that it can be timed alone: 0 is that of dQ, which writes what 1 reads.
    ///
    /// # Errors
    /// As [`GradientLauncher::launch`].
    ///
    /// # Panics
    /// For another number.
    pub fn launch_one<'s, T: Element + Plain>(
        &self,
        number: usize,
        stream: impl Into<StreamRef<'s>>,
        inputs: &GradientInputs<'_, T>,
        pattern: &GradientPattern,
        outputs: &mut GradientOutputs<'_, T>,
    ) -> Result<(), AttentionError> {
        let (kernel, work, stream) = (&self.kernels[number], &pattern.works[number], stream.into());
        let ([q, k, v], o, dout) = (inputs.tensors, inputs.output, inputs.output_gradient);
        let sizes = [q, k, v, o, dout].map(DeviceTensor::sizes);
        let of_queries = [Some(inputs.lse.len()), inputs.lse_gradient.map(DeviceBuffer::len)];
        check_numbers(kernel.plan(), inputs.scale, inputs.scalars)?;
        let shape = shape(kernel.plan(), sizes, of_queries, T::DTYPE)?;
        if shape != pattern.shape {
            return Err(AttentionError::size(
                "the pattern was made for tensors of other sizes",
                format!("{:?}, not {shape:?}", pattern.shape),
                "`GradientLauncher::pattern` with this shape",
            ));
        }
        let vectors = inputs.vectors.iter().map(|vector| (vector.ptr(), vector.extent()));
        let vectors = packed_strides(kernel.plan(), &shape, vectors)?;
        let GradientOutputs { dq, dk, dv, workspace, score_sums } = outputs;
        let (sums, wanted) = (score_sums[number].as_deref().map_or(0, DeviceBuffer::len), pattern.score_sums[number]);
        if sums != wanted {
            return Err(AttentionError::size(
                format!("the sums of the score's gradients have {sums} elements"),
                format!("problems x heads x parameters x rows = {wanted} of this kernel"),
                "`GradientPattern::score_sums_len` elements",
            ));
        }
        if workspace.len() != pattern.workspace_len() {
            return Err(AttentionError::size(
                format!("the workspace has {} elements", workspace.len()),
                format!(
                    "2 x {} heads x queries in whole blocks = {}",
                    shape.batch * shape.heads,
                    pattern.workspace_len()
                ),
                "`GradientPattern::workspace_len` elements",
            ));
        }
        for (name, of, gradient) in [("dQ", q, &**dq), ("dK", k, &**dk), ("dV", v, &**dv)] {
            if gradient.sizes() != of.sizes() {
                return Err(AttentionError::size(
                    format!("{name} is {:?}", gradient.sizes()),
                    format!("{:?}: what it is the gradient of", of.sizes()),
                    "a gradient of these sizes",
                ));
            }
        }
        let all = [q, k, v, o, dout, &**dq, &**dk, &**dv];
        let problem = problem(&shape, all.map(|tensor| tensor.placed().strides));
        // What has no elements is not read or written: any valid address serves.
        let valid = if shape.queries == 0 { k } else { q }.placed().at;
        let at = |tensor: &DeviceTensor<T>| if tensor.sizes().contains(&0) { valid } else { tensor.placed().at };
        let operands = Gradient {
            tensors: [q, k, v, o, dout].map(at),
            lse: inputs.lse.ptr(),
            lse_gradient: inputs.lse_gradient.map(DeviceBuffer::ptr),
            row_terms: workspace.ptr(),
            first: at(if number == 0 { dq } else { dk }),
            second: (number == 1).then(|| at(dv)),
            score_sums: score_sums[number].as_deref().filter(|_| wanted > 0).map(DeviceBuffer::ptr),
            scale: inputs.scale,
            scalars: inputs.scalars,
            vectors,
            problem,
        };
        let gpu = kernel.machine();
        // SAFETY: the kernel is the plan's, whose parameters these are; the maps are of the tensors, whose sizes the checks
        // above have found to be those of the problem; the pattern was made for these kernels and sizes, so that no step is
        // beyond the rows. The gradients are borrowed mutably, as is the workspace.
        unsafe {
            operation::launch(&mut gpu.on(stream), kernel.plan(), &operands, |_| {
                let lists = work.uploaded.lists(stream)?;
                Ok((work.uploaded.grid, Lists { columns: Some(work.steps.ptr()), probes: gpu.rings(), ..lists }))
            })
        }
    }
}
