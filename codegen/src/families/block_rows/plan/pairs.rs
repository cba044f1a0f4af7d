//! Products of two block-sparse matrices. A tile is a slice of a block of C, and what it multiplies is a list of pairs of
//! stored blocks. So B is dense to the kernel: its blocks one below another, `bn` wide, with a second index for A's blocks. With
//! `b_layout = col` each block is stored column by column, and what is one below another are lines of `bk`.

use super::tiling::{FULL, Share, Tiling};
use crate::epilogue::InputKind;
use crate::plan::{KLoop, PlanError, PlanErrors};
use crate::{KernelSpec, Layout};

/// Refuses what is not planned for pairs of blocks.
pub(super) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if !spec.op.is_of_pairs() {
        return;
    }
    let mut refuse = |key: &'static str, fact: String, why: &str, help: &str| {
        errors.push(PlanError::new(key, fact, why.to_owned(), help.to_owned()));
    };
    let not = |what: &str| format!("{what} is not supported with op = {}", spec.op);
    if spec.transpose.is_on() {
        let why = "pairs are listed of block rows of A and block columns of B as they are stored";
        refuse("transpose", not("transpose = on"), why, "transpose = off, with A stored transposed");
    }
    if spec.swap.is_some_and(|swap| swap.is_on()) {
        let why = "swap-AB kernels read lists of block rows that share columns, and none of pairs";
        refuse("swap", not("swap = on"), why, "swap = off");
    }
    if spec.pack.is_some() && spec.split.is_on() {
        let why = "the records of a tile's pairs are not divided among clusters";
        refuse(
            "split",
            format!("split = {} is not supported with `pack` and op = {}", spec.split, spec.op),
            why,
            "split = off",
        );
    }
    if spec.batch.is_on() {
        let why = "the lists of a batch have one index for each problem, and pairs have two";
        refuse("batch", not("batch = on"), why, "batch = off");
    }
    let blocks_of_c = spec.op.stores_blocks().then_some(("c_layout", spec.c_layout));
    for (key, layout) in [("a_layout", spec.a_layout)].into_iter().chain(blocks_of_c) {
        if layout != Layout::RowMajor {
            let why = "values are stored block after block, row by row within a block";
            refuse(key, not(&format!("{key} = {layout}")), why, &format!("drop `{key}`"));
        }
    }
    if spec.op.stores_blocks() {
        check_epilogue(spec, errors);
    }
}

/// The tile of a kernel that stores blocks is a block, and says nothing of rows and columns of C.
fn check_epilogue(spec: &KernelSpec, errors: &mut PlanErrors) {
    let Some(program) = spec.epilogue.map(|epilogue| epilogue.program()) else { return };
    let is_vector = |kind| matches!(kind, InputKind::Rows(_) | InputKind::Cols(_));
    let vector = program.inputs().iter().find(|input| is_vector(input.kind));
    let what = vector.map(|input| format!("`{}: {}`", input.name, input.kind.words()));
    if let Some(what) = what.or_else(|| program.reduction().map(|of| format!("a `{}`", of.as_str()))) {
        errors.push(PlanError::new(
            spec.epilogue_key(),
            format!("an epilogue with {what} is not supported with op = sss"),
            "a work tile has the place of a block among C's values, and not its row and column",
            "op = dss, or an epilogue of scalars and a `Bsr`",
        ));
    }
}

/// Refuses CTAs that share the blocks of A.
pub(super) fn check_cluster(spec: &KernelSpec, tiling: &Tiling, errors: &mut PlanErrors) {
    if spec.op.is_of_pairs() && tiling.share == Share::A {
        errors.push(PlanError::new(
            "cluster",
            format!("{} CTAs have no block in common", tiling.cluster),
            format!(
                "a cluster shares B over row slices of a block, of which {} rows / {} rows of a tile = {}; blocks of C beside one another have different pairs",
                spec.bm,
                tiling.cta_m,
                spec.bm / tiling.cta_m
            ),
            "cluster = 1",
        ));
    }
}

/// Refuses stages of two depths for a consumer whose registers its blocks of C fill: ptxas 13.0 would spill.
pub(super) fn check_stages(spec: &KernelSpec, tiling: &Tiling, kloop: &KLoop, errors: &mut PlanErrors) {
    let accumulators = tiling.accumulators(spec.acc);
    if !spec.op.is_of_pairs() || accumulators < FULL || kloop.uniform() {
        return;
    }
    let depths = format!("stages are {} and {} deep", kloop.k_step, kloop.last);
    if tiling.pack > 1 {
        errors.push(PlanError::new(
            "pack",
            format!("{} block rows cannot share a tile whose {depths}", tiling.pack),
            format!("a consumer multiplies each of its blocks of C or not, in code for either depth: beside {accumulators} accumulators too few registers are left"),
            "pack = 2, or drop `pack`",
        ));
    } else if tiling.partials > 0 {
        errors.push(PlanError::new(
            "accumulate",
            format!("sums of pairs cannot be promoted where {depths}"),
            format!("beside {accumulators} accumulators and {} sums before promotion too few registers are left for code of either depth", tiling.partials),
            format!("accumulate = fast, or bn = {}", (spec.bn / 2).max(16)),
        ));
    }
}
