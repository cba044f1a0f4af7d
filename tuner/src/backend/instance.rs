//! What is simulated in place of a workload: one with the same facts and pattern, as much smaller as it takes.

use bsr_runtime::{Extents, Pattern};
use bsr_trial::Failure;

use crate::{Source, TuningProblem, Workload, operation};

/// Operations on stored blocks in an instance of a problem: about a second of simulation.
pub(super) const MOST_FLOPS: u64 = 1 << 29;
/// Columns of the dense factor that an instance keeps.
const LEAST_EXTENT: usize = 256;
/// Blocks along a side that an instance keeps.
const LEAST_BLOCKS: usize = 4;

/// A file's matrix is cut along the dense factor alone.
pub(super) fn of(workload: &Workload) -> Result<Workload, Failure> {
    if let Some(small) = operation::of(workload.facts.op()).fewer_heads(workload) {
        return Ok(small);
    }
    let mut small = workload.clone();
    let block = workload.facts.block();
    let (spec, mut stored) = (workload.spec(), workload.stored_shape());
    loop {
        let problem = TuningProblem::new(small.clone(), &small.structure()?);
        if problem.executed_flops() <= MOST_FLOPS {
            return Ok(small);
        }
        let dense_extent = problem.dense_extent();
        let units = [stored.0.div_ceil(block.0), stored.1.div_ceil(block.1)];
        let whole = matches!(small.source, Source::Pattern(_));
        let longer = usize::from(units[1] > units[0]);
        if dense_extent > LEAST_EXTENT
            && (!whole || dense_extent.div_ceil(LEAST_EXTENT) >= units[longer] / LEAST_BLOCKS)
        {
            let dense_extent = (dense_extent / 2).max(LEAST_EXTENT);
            set(&mut small, Extents::of_stored(&spec, stored, dense_extent));
        } else if whole && units[longer] > LEAST_BLOCKS {
            let blocks = (units[longer] / 2).max(LEAST_BLOCKS);
            if longer == 0 {
                stored.0 = blocks * block.0;
            } else {
                stored.1 = blocks * block.1;
                small.source = fewer(&small.source, blocks, units[1])?;
            }
            set(&mut small, Extents::of_stored(&spec, stored, dense_extent));
        } else {
            return Ok(small);
        }
    }
}

fn set(workload: &mut Workload, Extents { m, n, k }: Extents) {
    (workload.m, workload.n, workload.k) = (m, n, k);
}

/// A pattern of so many of `of` block columns that is as dense.
fn fewer(source: &Source, blocks: usize, of: usize) -> Result<Source, Failure> {
    let Source::Pattern(words) = source else { return Ok(source.clone()) };
    Ok(match words.parse().map_err(Failure::bad_input)? {
        Pattern::TopK(count) => {
            let count = (count * blocks).div_ceil(of).clamp(1, blocks);
            Source::Pattern(Pattern::TopK(count).to_string())
        }
        _ => source.clone(),
    })
}
