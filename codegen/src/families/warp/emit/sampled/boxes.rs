//! The boxes that one thread loads by TMA into a stage.

use super::super::super::plan::groups::Groups;
use super::super::super::plan::{Operand, WarpPlan};
use super::super::boxes::{Boxes, Coordinate, Load, boxes as lines_of, panels};

/// The left factor's, then those of each group of columns of the right one.
pub(super) fn boxes(plan: &WarpPlan, groups: Groups) -> Boxes {
    let left = loads(plan, ("a", &plan.a), ("%r_a_first".to_owned(), 0, plan.tiling.cta_m), 0);
    let right = (0..groups.count).flat_map(|group| {
        let from = (format!("%r_column{group}"), group * groups.columns, groups.columns);
        loads(plan, ("b", &plan.b), from, plan.memory.b_offset)
    });
    Boxes::of_stage(left.into_iter().chain(right))
}

/// Those of `extent` rows or columns of a tile from number `first` on, which begin at a register in the factor.
fn loads(
    plan: &WarpPlan,
    (map, operand): (&'static str, &Operand),
    (register, first, extent): (String, u32, u32),
    offset: u32,
) -> Vec<(u32, Load)> {
    let span = operand.span() / plan.spec.a.bytes();
    let k_step = plan.kloop.k_step;
    let (along, across) = if operand.along_k { (k_step, extent) } else { (extent, k_step) };
    let lines = operand.box_lines(across, &plan.arch);
    let of_panel = |(panel, x): (u32, u32)| {
        let register = register.clone();
        lines_of(across, lines).map(move |line| {
            let (to, x, y) = match operand.along_k {
                true => {
                    let to = panel * operand.panel_bytes() + (first + line) * operand.pitch;
                    (to, Coordinate::new("%r_k", x), Coordinate::new(register.clone(), line))
                }
                false => {
                    let to = (first / span + panel) * operand.panel_bytes() + line * operand.pitch;
                    (to, Coordinate::new(register.clone(), x), Coordinate::new("%r_k", line))
                }
            };
            (lines * operand.pitch, Load { map, to: offset + to, x, y })
        })
    };
    panels(along, span).flat_map(of_panel).collect()
}
