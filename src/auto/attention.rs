//! Attentions whose kernel is chosen when their mask and shape are known.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::{KernelSpec, Op, Plan};
use bsr_runtime::attention::{
    AttentionError, AttentionKernel, BlockList, DevicePattern, DeviceTensor, Inputs, Launcher, Mask, Shape, Sharing,
};
use bsr_runtime::gpu::{Device, DeviceBuffer, Plain, StreamRef};
use bsr_runtime::{Element, KernelError, Structure};
use bsr_tuner::pick::{Choice, Tuner, Why};
use bsr_tuner::{Facts, Heads, TuningProblem, Workload};

use super::{AutoError, tuner};

/// An attention whose kernel is [chosen](Tuner) for each mask and shape: how many heads share a tile and how far its keys are
/// divided - at decode that is a factor of four -, consumers, keys of a step, stages. Kernels are compiled when they are first
/// needed, and kept. Threads may share it.
///
/// ```no_run
/// use bsr::attention::{DeviceTensor, Mask, Shape};
/// use bsr::auto::AutoAttention;
/// use bsr::prelude::*;
///
/// # fn decode(device: &Device, [q, k, v]: [&DeviceTensor<bf16>; 3], o: &mut DeviceTensor<bf16>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let stream = Stream::new(device)?;
/// let spec = "op = attention, bm = 64, bn = 128, bk = 128, dtype = bf16".parse()?;
/// let attention = AutoAttention::<bf16>::new(device, &spec)?;
/// let shape = Shape { batch: 8, heads: 32, key_heads: 4, queries: 1, keys: 32_768, columns: 128 };
/// let ready = attention.pattern(&Mask::full((1, 32_768), (64, 128))?, shape)?;
/// ready.launch(&stream, (q, k, v, 0.088), o)?;
/// println!("{}", ready.choice());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AutoAttention<T> {
    device: Device,
    tuner: Arc<Tuner>,
    facts: Facts,
    launchers: Mutex<HashMap<KernelSpec, Arc<Launcher>>>,
    element: PhantomData<fn() -> T>,
}

/// The work of a mask for tensors of one shape, and the kernel that was chosen for it.
#[derive(Debug)]
pub struct AutoPattern<T> {
    launcher: Arc<Launcher>,
    pattern: DevicePattern,
    choice: Choice,
    element: PhantomData<fn() -> T>,
}

impl<T: Element + Plain> AutoAttention<T> {
    /// The attention that a spec computes, whose choices are left to a tuner of its own: block, columns, types, score and
    /// sinks stay.
    ///
    /// # Errors
    /// As [`AutoAttention::with`].
    pub fn new(device: &Device, spec: &KernelSpec) -> Result<Self, AutoError> {
        Self::with(device, Arc::new(tuner(device)), spec)
    }

    /// The same, with a tuner that others share.
    ///
    /// # Errors
    /// [`AttentionError::Operation`] for a spec of another operation.
    pub fn with(device: &Device, tuner: Arc<Tuner>, spec: &KernelSpec) -> Result<Self, AutoError> {
        if spec.op != Op::Attention {
            return Err(AttentionError::Operation(spec.op).into());
        }
        let (device, facts) = (device.clone(), Facts::of(spec));
        Ok(Self { device, tuner, facts, launchers: Mutex::default(), element: PhantomData })
    }

    /// Chooses a kernel, compiles it if it is new, and makes the work of the mask.
    ///
    /// # Errors
    /// [`AutoError::Pick`] where no kernel can be planned, and what [`Launcher::pattern`] answers.
    pub fn pattern(&self, mask: &Mask, shape: Shape) -> Result<AutoPattern<T>, AutoError> {
        let choice = tune_attention(&self.tuner, &self.facts.spec(0), mask, &shape)?;
        let launcher = self.launcher(&choice.spec)?;
        let pattern = launcher.pattern(mask, shape)?;
        Ok(AutoPattern { launcher, pattern, choice, element: PhantomData })
    }

    /// The same for a mask that is a rule: the blocks are chosen, too, in the place of the spec's. `mask` makes the mask of blocks
    /// of a size, [`Mask::full`] or [`Mask::causal`] for instance.
    ///
    /// # Errors
    /// As [`tune_attention_blocks`](super::tune_attention_blocks), and what [`Launcher::pattern`] answers.
    pub fn pattern_of(
        &self,
        shape: Shape,
        mask: impl Fn((usize, usize)) -> Result<Mask, AttentionError>,
    ) -> Result<AutoPattern<T>, AutoError> {
        let (mask, choice) = super::tune_attention_blocks(&self.tuner, &self.facts.spec(0), &shape, mask)?;
        let launcher = self.launcher(&choice.spec)?;
        let pattern = launcher.pattern(&mask, shape)?;
        Ok(AutoPattern { launcher, pattern, choice, element: PhantomData })
    }

    fn launcher(&self, spec: &KernelSpec) -> Result<Arc<Launcher>, AutoError> {
        let mut launchers = self.launchers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(launcher) = launchers.get(spec) {
            return Ok(Arc::clone(launcher));
        }
        let launcher = Arc::new(Launcher::load(&self.device, &Plan::new(spec)?)?);
        launchers.insert(*spec, Arc::clone(&launcher));
        Ok(launcher)
    }
}

impl<T: Element + Plain> AutoPattern<T> {
    /// Enqueues O = softmax(scale * Q K^T) V on `stream` and returns at once.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn launch<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Into<Inputs<'i, T>>,
        output: &mut DeviceTensor<T>,
    ) -> Result<(), AttentionError> {
        self.launcher.launch(stream, inputs, &self.pattern, output, None)
    }

    /// The same; `lse` gets each query's LSE, the natural logarithm of its sum of exponentials: `[batch, heads, queries]`.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn launch_with_lse<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Into<Inputs<'i, T>>,
        output: &mut DeviceTensor<T>,
        lse: &mut DeviceBuffer<f32>,
    ) -> Result<(), AttentionError> {
        self.launcher.launch(stream, inputs, &self.pattern, output, Some(lse))
    }

    /// The kernel, and how it was chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }
}

/// A kernel of the attribute whose choices are left to a tuner.
pub trait TunableAttention: AttentionKernel {
    /// The attention whose kernel is chosen for each mask and shape.
    ///
    /// # Errors
    /// As [`AutoAttention::new`].
    fn auto(device: &Device) -> Result<AutoAttention<Self::Element>, AutoError> {
        AutoAttention::new(device, Self::plan().spec())
    }
}

impl<K: AttentionKernel> TunableAttention for K {}

/// The kernel that [`AutoAttention`] takes for a mask and a shape. Where heads have patterns of their own, it is one whose
/// tiles are of one head each.
///
/// # Errors
/// [`AutoError::Pick`] where no kernel can be planned.
pub fn tune_attention(tuner: &Tuner, spec: &KernelSpec, mask: &Mask, shape: &Shape) -> Result<Choice, AutoError> {
    let facts = Facts::of(spec);
    let mut choice = tuner.pick(&problem(spec, mask, shape)?, None)?;
    let by_head = matches!(mask.sharing(), Sharing::ByHead | Sharing::ByBoth);
    if by_head && choice.spec.pack_heads.is_some() {
        let ranked = match &choice.why {
            Why::Predicted { ranked } => ranked.as_slice(),
            _ => &[],
        };
        let alone = ranked.iter().map(|ranked| ranked.spec).find(|spec| spec.pack_heads.is_none());
        choice.spec = alone.unwrap_or_else(|| facts.spec(spec.bn));
    }
    Ok(choice)
}

/// The kernel that should be the fastest of some, all of them of one attention; those that are not planned are left out.
///
/// # Errors
/// [`AutoError::Pick`] where none of them is planned.
#[doc(hidden)]
pub fn choose_among(tuner: &Tuner, specs: &[KernelSpec], mask: &Mask, shape: &Shape) -> Result<Choice, AutoError> {
    let (bm, bk) = mask.block();
    let none = KernelSpec::new(bm as u32, 64, bk as u32).op(Op::Attention);
    Ok(tuner.pick_of(&problem(specs.first().unwrap_or(&none), mask, shape)?, specs)?)
}

/// What is computed.
fn problem(spec: &KernelSpec, mask: &Mask, shape: &Shape) -> Result<TuningProblem, AutoError> {
    let heads = Heads { batch: shape.batch, heads: shape.heads, key_heads: shape.key_heads };
    let sizes = [shape.queries, shape.keys, spec.score_depth() as usize];
    Ok(TuningProblem::new(Workload::given_mask(Facts::of(spec), sizes, heads), &typical(mask)?))
}

/// The pattern whose number of blocks is the nearest to the mean of all.
fn typical(mask: &Mask) -> Result<Structure, AutoError> {
    let ((rows, columns), lists) = (mask.sizes(), mask.lists());
    let mean = mask.stored() / lists.len().max(1);
    let BlockList { indptr, indices, .. } =
        lists.iter().min_by_key(|list| list.indices.len().abs_diff(mean)).cloned().unwrap_or_default();
    let signed = |words: Vec<u32>| words.into_iter().map(|word| word.cast_signed()).collect();
    Ok(Structure::new(rows, columns, mask.block(), signed(indptr), signed(indices)).map_err(KernelError::from)?)
}
