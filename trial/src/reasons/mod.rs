//! Why the problems of a check execute some instructions never.

mod attention;
mod reason;
mod sddmm;

use bsr_codegen::{Plan, SplitK, StagePacking, TileScheduler, Unit};
use bsr_runtime::simulated::Statement;
use reason::{Reason, goes_to, in_section, target};

/// The statements that were not executed, each with the reason, if one is known: that of the statement itself, or of those
/// that every way to it leads over.
pub fn missed<'s>(statements: &'s [(Statement, bool)], plan: &Plan) -> Vec<(&'s Statement, Option<&'static str>)> {
    let own: Vec<Option<&'static str>> = (0..statements.len())
        .map(|at| {
            let before = at.checked_sub(1).map(|before| &statements[before].0);
            reason(&statements[at].0, before, plan).filter(|_| !statements[at].1)
        })
        .collect();
    let unknown = unknown(statements, &own);
    let inherited = inherited(statements, &own);
    let missed = (0..statements.len()).filter(|at| !statements[*at].1);
    missed.map(|at| (&statements[at].0, inherited[at].filter(|_| !unknown[at]))).collect()
}

/// What can be reached over statements that were executed, or have no reason.
fn unknown(statements: &[(Statement, bool)], own: &[Option<&str>]) -> Vec<bool> {
    let mut unknown = vec![false; statements.len()];
    loop {
        let leads = |from: &usize| statements[*from].1 || unknown[*from];
        let of = |at: &usize| {
            let (Statement { after, .. }, executed) = &statements[*at];
            !executed && own[*at].is_none() && !unknown[*at] && (after.is_empty() || after.iter().any(leads))
        };
        let more: Vec<usize> = (0..statements.len()).filter(of).collect();
        if more.is_empty() {
            return unknown;
        }
        more.into_iter().for_each(|at| unknown[at] = true);
    }
}

/// The reasons of statements, passed on to those that they lead to.
fn inherited(statements: &[(Statement, bool)], own: &[Option<&'static str>]) -> Vec<Option<&'static str>> {
    let mut reasons = own.to_vec();
    loop {
        let of = |at: usize| {
            let (Statement { after, .. }, executed) = &statements[at];
            let without = !executed && reasons[at].is_none();
            without.then(|| after.iter().find_map(|from| reasons[*from])).flatten().map(|reason| (at, reason))
        };
        let more: Vec<_> = (0..statements.len()).filter_map(of).collect();
        if more.is_empty() {
            return reasons;
        }
        more.into_iter().for_each(|(at, reason)| reasons[at] = Some(reason));
    }
}

/// Those of kernels of any operation.
const REASONS: &[Reason] = &[
    (
        |at, _, plan| at.text.starts_with("@%p_t xor.b32") && ring_ends_at_some(plan),
        "the ring of stages never ends at this place: there is code for several stages in turn, whose number and the ring's have a \
         common divisor",
    ),
    (
        |at, before, _| at.text.contains(" bra ") && before.is_some_and(|before| before.text.contains("try_wait")),
        "the wait before it never has to be repeated: what it waits for has come by then",
    ),
    (
        |at, _, _| ["$exit", "$leave", "$waits"].iter().any(|to| goes_to(at, to)),
        "every CTA of a launch has work, and C has columns",
    ),
    (
        |at, _, _| at.text.contains(" bra ") && at.text.ends_with("_first_0;"),
        "a CTA that has work has a first record, and it is the first of its item",
    ),
    (
        |at, _, plan| goes_to(at, "$fetched_") && at.text.ends_with("_first_1;") && takes_stages(plan),
        "a CTA that has work has two records: the K slices of a block are more than a stage holds",
    ),
    (
        |at, _, plan| goes_to(at, "$b_panel_") && packing(plan).is_some_and(|packing| packing.b_panels == 1),
        "a stage has one B panel",
    ),
    (
        |at, _, plan| goes_to(at, "$block_") && packing(plan).is_some_and(|packing| packing.blocks == 1),
        "a stage has one block",
    ),
    (
        |at, _, plan| store_tail(at).is_some_and(|stages| !stages.is_multiple_of(plan.profile().stages_per_block.0)),
        "a tile has whole blocks, and the stages before this are no multiple of a block's",
    ),
    (|at, _, _| at.text.starts_with("@%p_t") && goes_to(at, "$stage"), "a block is one stage"),
    (
        |at, _, _| goes_to(at, "$index_batch_whole") || goes_to(at, "$block_whole"),
        "the ring is filled from one batch of indices, and by whole blocks",
    ),
    (
        |at, _, plan| {
            (goes_to(at, "$fill") || goes_to(at, "$words_first")) && by_warps(plan) && plan.profile().stages == 2
        },
        "of two stages one is filled before the first is multiplied",
    ),
    (
        |at, before, plan| {
            let steps = |at: &Statement| goes_to(at, "$step_");
            by_warps(plan) && plan.profile().stages_per_block.0 > 1 && (steps(at) || before.is_some_and(steps))
        },
        "which stage of a block is filled under another is always the same: the ring is ahead by a fixed number of them",
    ),
    (
        |at, _, plan| {
            let collects = goes_to(at, "$collect_") || target(at) == Some("$collect;");
            collects && plan.spec().split == SplitK::Parts(2)
        },
        "of a tile in two parts one is collected",
    ),
    (
        |at, _, plan| {
            let come_first = plan.spec().split != SplitK::Long || plan.spec().batch.is_on();
            let waits = at.text.starts_with("@%p_store cp.async.bulk.wait_group.read");
            come_first && waits && in_section(at, &["There is nothing to store during the next tile"])
        },
        "parts come first in a CTA's list but with split = long, before there is anything to store",
    ),
    (
        |at, _, _| at.text.starts_with("mov.b32 %r_held"),
        "no launch takes this path: the write keeps ptxas from giving registers that WGMMA reads to other values",
    ),
];

fn packing(plan: &Plan) -> Option<StagePacking> {
    match plan.tile_scheduler() {
        TileScheduler::StageMetadata(packing) => Some(packing),
        _ => None,
    }
}

/// Whether there is code for several stages in turn, of which some never end the ring.
fn ring_ends_at_some(plan: &Plan) -> bool {
    let profile = plan.profile();
    // Stages that metadata describes are handled in pairs, others block by block.
    let in_turn = if packing(plan).is_some() { 2 } else { profile.stages_per_block.0 };
    (2..=in_turn).any(|divisor| in_turn.is_multiple_of(divisor) && profile.stages.is_multiple_of(divisor))
}

/// The stages of a tile that goes to what is left of the store before it.
fn store_tail(statement: &Statement) -> Option<u32> {
    let number = statement.text.strip_suffix(';')?.rsplit_once('_')?.1;
    number.parse().ok().filter(|_| goes_to(statement, "$store_tail"))
}

/// Whether a block takes more than one stage of those that metadata describes.
fn takes_stages(plan: &Plan) -> bool {
    packing(plan).is_some_and(|packing| packing.k_slices > packing.b_panels)
}

fn by_warps(plan: &Plan) -> bool {
    plan.profile().kind.unit() == Unit::Warps
}

/// Why no problem can execute a statement, by what it is.
fn reason(statement: &Statement, before: Option<&Statement>, plan: &Plan) -> Option<&'static str> {
    let all = [attention::REASONS, REASONS, sddmm::REASONS];
    all.into_iter().flatten().find(|(applies, _)| applies(statement, before, plan)).map(|(_, why)| *why)
}
