//! Which kernels on tensor cores take a block.

use bsr_codegen::{KernelSpec, Plan};

/// Widths of the dense tile that are tried, the widest first: it reads the sparse matrix least often.
const WIDTHS: [usize; 6] = [512, 256, 128, 64, 32, 16];
/// What is tried, and how many widths of it: the fast family with A shared by two CTAs, alone, and then, where that takes
/// nothing, warps on fragments.
const WAYS: [(&str, usize); 3] = [(", cluster = 2", 2), ("", 1), (", mma = mma_sync", 2)];

/// Plans of f16 kernels for blocks of this size and products of `n` columns: a few that may be the fastest, the likeliest
/// first.
///
/// # Errors
/// Why none takes the block, in a line.
pub fn kernels((bm, bk): (usize, usize), n: usize) -> Result<Vec<Plan>, String> {
    let widths: Vec<usize> = WIDTHS.into_iter().filter(|&bn| bn <= n.next_power_of_two().max(16)).collect();
    let (mut plans, mut refused) = (Vec::new(), None);
    for (more, most) in WAYS {
        if more.contains("mma_sync") && !plans.is_empty() {
            break;
        }
        let planned = |bn: &usize| {
            // Sides beyond what a spec can say are refused by its grammar.
            let spec: KernelSpec = format!("bm = {bm}, bn = {bn}, bk = {bk}{more}").parse().ok()?;
            match Plan::new(&spec) {
                Ok(plan) => Some(plan),
                Err(errors) => {
                    refused = errors.iter().next().map(|error| error.to_string().replace("\n  ", ": "));
                    None
                }
            }
        };
        plans.extend(widths.iter().filter_map(planned).take(most));
    }
    if plans.is_empty() {
        return Err(refused.unwrap_or_else(|| format!("a spec cannot say {bm} x {bk}")));
    }
    Ok(plans)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::Mma;

    use super::*;

    #[test]
    fn high_blocks_have_fast_kernels_and_tiles_that_n_fills() {
        let plans = kernels((128, 64), 8192).unwrap();
        assert!(plans.iter().all(|plan| plan.spec().mma == Mma::Wgmma), "{plans:?}");
        assert!(plans.len() > 1 && plans[0].spec().bn >= 256);
        let narrow = kernels((128, 64), 40).unwrap();
        assert!(narrow.iter().all(|plan| plan.spec().bn <= 64));
    }

    #[test]
    fn what_no_kernel_takes_says_why() {
        // No family takes rows in steps of less than 8.
        assert!(!kernels((4, 64), 4096).unwrap_err().is_empty());
        assert!(!kernels((1 << 20, 64), 4096).unwrap_err().is_empty());
    }
}
