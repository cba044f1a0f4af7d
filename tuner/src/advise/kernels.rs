//! Which kernels take a block.

use bsr_codegen::{Dtype, KernelSpec, Plan};

/// Widths of the dense tile that are tried, the widest first: it reads the sparse matrix least often.
const WIDTHS: [usize; 6] = [512, 256, 128, 64, 32, 16];
/// The same of kernels for small blocks.
const NARROW: [usize; 5] = [16, 8, 4, 2, 1];

/// What is tried, and how many widths of it: kernels beside each other, and others where those take nothing.
type Ways = &'static [&'static [(&'static str, usize)]];

/// The fast family with A shared by two CTAs and alone, and then warps on fragments.
const HALF: Ways = &[&[(", cluster = 2", 2), ("", 1)], &[(", mma = mma_sync", 2)]];
/// Warps on fragments of f64, and then the CUDA cores.
const DOUBLE: Ways = &[&[(", mma = mma_sync", 2)], &[(", mma = scalar", 2)]];
/// The CUDA cores.
const SINGLE: Ways = &[&[(", mma = scalar", 2)]];
/// A whole warp for each block row, or half of one; of one or two columns also all rows of a CTA together.
const SMALL: Ways = &[&[(", mma = scalar", 1), (", mma = scalar, lanes = 16", 1)]];
const SMALL_FEW: Ways =
    &[&[(", mma = scalar", 1), (", mma = scalar, lanes = 16", 1), (", mma = scalar, lanes = 1", 1)]];

/// Plans of kernels in `dtype` for blocks of this size and products of `n` columns: a few that may be the fastest, the
/// likeliest first. A single column is column-major, of B and of C.
///
/// # Errors
/// Why none takes the block, in a line.
pub fn kernels((bm, bk): (usize, usize), n: usize, dtype: Dtype) -> Result<Vec<Plan>, String> {
    let is_small = bm.max(bk) <= KernelSpec::SMALL_BLOCK as usize;
    let (ways, widths) = match dtype {
        Dtype::F32 | Dtype::F64 if is_small => (if n <= 2 { SMALL_FEW } else { SMALL }, &NARROW[..]),
        Dtype::F64 => (DOUBLE, &WIDTHS[..]),
        Dtype::F32 => (SINGLE, &WIDTHS[..]),
        _ => (HALF, &WIDTHS[..]),
    };
    let narrowest = widths.last().copied().unwrap_or(1);
    let widths: Vec<usize> = widths.iter().copied().filter(|&bn| bn <= n.next_power_of_two().max(narrowest)).collect();
    let layouts = if n == 1 { ", b_layout = col, c_layout = col" } else { "" };
    let mut refused = None;
    for group in ways {
        let mut plans = Vec::new();
        for (more, most) in *group {
            let planned = |bn: &usize| {
                let words = format!("bm = {bm}, bn = {bn}, bk = {bk}, dtype = {dtype}{more}{layouts}");
                // Sides beyond what a spec can say are refused by its grammar.
                let spec: KernelSpec = words.parse().ok()?;
                match Plan::new(&spec) {
                    Ok(plan) => Some(plan),
                    Err(errors) => {
                        refused = errors.iter().next().map(|error| error.to_string().replace("\n  ", ": "));
                        None
                    }
                }
            };
            plans.extend(widths.iter().filter_map(planned).take(*most));
        }
        if !plans.is_empty() {
            return Ok(plans);
        }
    }
    Err(refused.unwrap_or_else(|| format!("a spec cannot say {bm} x {bk}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::Mma;

    use super::*;

    #[test]
    fn high_blocks_have_fast_kernels_and_tiles_that_n_fills() {
        let plans = kernels((128, 64), 8192, Dtype::F16).unwrap();
        assert!(plans.iter().all(|plan| plan.spec().mma == Mma::Wgmma), "{plans:?}");
        assert!(plans.len() > 1 && plans[0].spec().bn >= 256);
        let narrow = kernels((128, 64), 40, Dtype::F16).unwrap();
        assert!(narrow.iter().all(|plan| plan.spec().bn <= 64));
    }

    #[test]
    fn what_no_kernel_takes_says_why() {
        // No family takes rows in steps of less than 8.
        assert!(!kernels((4, 64), 4096, Dtype::F16).unwrap_err().is_empty());
        assert!(!kernels((1 << 20, 64), 4096, Dtype::F16).unwrap_err().is_empty());
    }

    #[test]
    fn f32_and_f64_have_kernels_for_blocks_of_any_size() {
        for dtype in [Dtype::F32, Dtype::F64] {
            for side in 1..=8 {
                let plans = kernels((side, side), 1, dtype).unwrap();
                assert!(plans.iter().all(|plan| plan.spec().bn == 1 && plan.spec().a == dtype), "{plans:?}");
                assert!(kernels((side, side), 100, dtype).unwrap().iter().all(|plan| plan.spec().bn == 16));
            }
        }
        let of = |dtype| kernels((64, 64), 4096, dtype).unwrap().into_iter().map(|plan| plan.spec().mma);
        assert!(of(Dtype::F64).all(|mma| mma == Mma::MmaSync) && of(Dtype::F32).all(|mma| mma == Mma::Scalar));
    }
}
