//! The instructions of an SDDMM.

mod boxes;
mod sides;
mod store;

use serde::Serialize;

use super::super::plan::groups::Groups;
use super::super::plan::sampled::SampledPlan;
use super::context::Context;
use super::division::Division;
use super::roles::Roles;
use crate::emit::templates;
use crate::plan::{SddmmTiles, TileScheduler};

use sides::Side;
use store::Store;

/// The word of a work tile that says how much of K it is.
const ROLE: u32 = 6;
/// That with the number of its problem in a list.
const PROBLEM: u32 = 5;

/// The instructions of a kernel.
pub(in super::super) fn body(plan: &SampledPlan) -> String {
    let groups = plan.groups();
    let warp = Context::new(&plan.0, (groups.words(), ROLE)).with_problem(PROBLEM);
    let sampled = Sampled::new(plan, groups);
    match plan.0.spec.load.has_roles() {
        false => templates::render("warp/sampled/body.ptx", &Named { warp, sampled }),
        true => {
            let warp = Roles::new(&plan.0, warp, |plan| boxes::boxes(plan, groups));
            templates::render("warp/sampled/roles.ptx", &Named { warp, sampled })
        }
    }
}

/// Everything that templates name.
#[derive(Serialize)]
struct Named<W> {
    #[serde(flatten)]
    warp: W,
    sampled: Sampled,
}

/// What templates name of an SDDMM alone.
#[derive(Serialize)]
struct Sampled {
    /// Where K is when there is none.
    outside: u32,
    /// The first word with a column of the right factor, and the numbers of all.
    columns: u32,
    numbers: Vec<u32>,
    /// Groups of columns, and how a column of the tile leads to one; none where a tile has one group.
    groups: Groups,
    group: Option<Division>,
    sides: Vec<Side>,
    store: Store,
}

impl Sampled {
    fn new(plan: &SampledPlan, groups: Groups) -> Self {
        Self {
            outside: TileScheduler::OUTSIDE,
            columns: SddmmTiles::HEADER,
            numbers: (0..groups.count).collect(),
            groups,
            group: (groups.count > 1).then(|| Division::by(groups.columns)),
            sides: sides::sides(&plan.0),
            store: Store::new(plan, groups),
        }
    }
}
