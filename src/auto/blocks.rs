//! The blocks of an attention's mask, where the mask is a rule that any blocks have.

use bsr_codegen::KernelSpec;
use bsr_runtime::attention::{AttentionError, Mask, Shape};
use bsr_tuner::pick::{Choice, Tuner, Why};

use super::AutoError;
use super::attention::tune_attention;

/// The most queries for which blocks of 64 are looked at: of long masks they take longer than the model says.
const FEW: usize = 16;
/// Queries and keys of the blocks that are looked at; the first ones where the model sees no difference.
const BLOCKS: [(u32, u32); 4] = [(128, 128), (128, 64), (64, 128), (64, 64)];

/// Other blocks than those of the first candidate are taken where their kernel should take less than this part of its time: the
/// model is not more accurate.
const WORTH: f64 = 0.97;

/// The blocks, the kernel and its mask that the cost model takes for a rule: `mask` makes the mask of blocks of a size.
///
/// Up to 16 queries blocks of 64 queries are looked at, too, in which fewer rows are computed in vain. `spec` says all else; its own blocks are not looked at.
///
/// ```
/// use bsr::attention::{Mask, Shape};
/// use bsr::tuner::pick::{Gpu, Tuner};
///
/// let tuner = Tuner::new(Gpu { name: "NVIDIA H200".into(), driver: String::new(), capability: (9, 0) });
/// let spec = "op = attention, bm = 128, bn = 128, bk = 128, dtype = bf16".parse()?;
/// let shape = Shape { batch: 8, heads: 32, key_heads: 4, queries: 1, keys: 32_768, columns: 128 };
/// let (mask, choice) = bsr::auto::tune_attention_blocks(&tuner, &spec, &shape, |block| Mask::full((1, 32_768), block))?;
/// assert_eq!(mask.block(), (64, 128));
/// assert_eq!((choice.spec.bm, choice.spec.bk), (64, 128));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`AutoError::Pick`] where no kernel can be planned with any of the blocks, and what `mask` answers.
pub fn tune_attention_blocks(
    tuner: &Tuner,
    spec: &KernelSpec,
    shape: &Shape,
    mask: impl Fn((usize, usize)) -> Result<Mask, AttentionError>,
) -> Result<(Mask, Choice), AutoError> {
    let of = |(bm, bk): (u32, u32)| -> Result<_, AutoError> {
        let (mask, mut of_block) = (mask((bm as usize, bk as usize))?, *spec);
        (of_block.bm, of_block.bk) = (bm, bk);
        let choice = tune_attention(tuner, &of_block, &mask, shape)?;
        Ok((mask, choice))
    };
    of_fastest_blocks(shape.queries, of)
}

/// What `of` makes of the blocks whose kernel should be the fastest, of those that are looked at for so many queries.
///
/// # Errors
/// What `of` answers for the first blocks, where it has no kernel of any.
#[doc(hidden)]
pub fn of_fastest_blocks<T, E>(
    queries: usize,
    of: impl FnMut((u32, u32)) -> Result<(T, Choice), E>,
) -> Result<(T, Choice), E> {
    let mut found: Vec<Result<_, E>> =
        BLOCKS.into_iter().filter(|(bm, _)| *bm > 64 || queries <= FEW).map(of).collect();
    let times: Vec<Option<f64>> =
        found.iter().map(|one| one.as_ref().ok().and_then(|(_, choice)| expected_us(choice))).collect();
    found.swap_remove(fastest(&times))
}

/// The candidate whose predicted time is the least, or the first that has one where no other is worth it.
#[doc(hidden)]
pub fn fastest(times: &[Option<f64>]) -> usize {
    let known = || times.iter().enumerate().filter_map(|(at, us)| Some((at, (*us)?)));
    let Some((first, own)) = known().next() else { return 0 };
    match known().min_by(|x, y| x.1.total_cmp(&y.1)) {
        Some((best, us)) if us < WORTH * own => best,
        _ => first,
    }
}

/// Microseconds that a chosen kernel should take, or took where it was tuned.
#[doc(hidden)]
pub fn expected_us(choice: &Choice) -> Option<f64> {
    match &choice.why {
        Why::Predicted { ranked } => {
            ranked.iter().find(|ranked| ranked.spec == choice.spec).map(|ranked| ranked.predicted_us)
        }
        Why::Exact(tuned) => Some(tuned.us),
        Why::Near { us, .. } | Why::Measured { us, .. } => Some(*us),
        Why::Overridden => None,
    }
}
