//! How long an attention, or a part of its gradient, takes: the work list of its launch, each tile by what it computes and loads.
//!
//! The list is the one that the runtime makes: tiles of heads or of packed heads, their steps, and the parts of divided ones,
//! for every CTA. A step takes what the tensor cores need, and the exponentials of one consumer run under the products of
//! the other: of the two the longer counts. Where consumers compute different steps of a tile they do not take turns, and
//! a part of the shorter counts, too. What is different in a [gradient] is in a file of its own.
//!
//! Of kernels of `mma = mma_sync` the products take what they take in products of warps, on the data sheet's SMs of other cards;
//! all else is as in those of `wgmma`, to whose times alone the constants were fitted.

mod gradient;
#[cfg(test)]
mod tests;

use bsr_codegen::{AttentionTiles, GradientTiles, KernelKind, Plan};
use bsr_runtime::attention::{AttentionWork, GradientWork, Mask, Shape as Sizes};
use bsr_runtime::features::GROUP;
use bsr_runtime::roofs::Traffic;

use super::card::Card;
use super::prediction::{Prediction, Term, What, both};
use super::shape::Shape;
use crate::TuningProblem;
use crate::operation::elements_of_gradient;
use crate::problem::Heads;

/// Constants, fitted to the rows of the tests but for the first, which the hardware has, and the last.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Exponentials of one SM in a microsecond: 16 a clock at 1.49 GHz under load of tensor cores.
    exponentials: f64,
    /// Instructions beside each exponential, in its own time: the maximum, the difference, the sum, the conversion.
    beside: f64,
    /// What consumers without turns do not hide of the shorter of products and exponentials.
    exposed: f64,
    /// The dense library's rate in those of attention's products, whose operands stay in shared memory and registers.
    faster: f64,
    /// Microseconds of a step's barriers, and of a tile's first load, last product and store.
    step_us: f64,
    tile_us: f64,
    /// Microseconds that a part of a tile takes beside its steps, and for each other part that it passes on or adds.
    part_us: f64,
    exchange_us: f64,
    /// Microseconds of the merge of the slices of a tile, of a kernel in clusters, by two rows of entry 94 of `benches/LOG.md`.
    merge_us: f64,
    /// How sharply the slowest of these alone decides.
    sharpness: f64,
}

const COSTS: Costs = Costs {
    exponentials: 23_840.0,
    beside: 0.198,
    exposed: 0.286,
    faster: 1.353,
    step_us: 0.172,
    tile_us: 1.21,
    part_us: 0.913,
    exchange_us: 1.74,
    merge_us: 1.8,
    sharpness: 6.0,
};

/// A kernel of an attention, or of a part of its gradient.
struct Kernel<'p> {
    plan: &'p Plan,
    /// A gradient's are of its own side and the other one.
    tiles: AttentionTiles,
    gradient: Option<GradientTiles>,
}

impl<'p> Kernel<'p> {
    fn of(plan: &'p Plan) -> Option<Self> {
        let gradient = plan.gradient_tiles();
        let tiles = plan.attention_tiles().or(gradient.map(|form| form.tiles))?;
        Some(Self { plan, tiles, gradient })
    }

    /// Columns of the operands of S and, in an attention, of V.
    fn columns(&self) -> f64 {
        f64::from(self.plan.spec().score_depth() + self.tiles.columns)
    }

    /// Columns of all products of a query and a key.
    fn multiplied(&self) -> f64 {
        self.gradient.as_ref().map_or(self.columns(), gradient::multiplied)
    }

    fn costs(&self) -> &'static Costs {
        if self.gradient.is_some() { &gradient::COSTS } else { &COSTS }
    }

    /// The first tile of every CTA and that of none, the words of all tiles, and the places of the workspace.
    fn work(&self, sizes: &Sizes, mask: &Mask, ctas: u32) -> Option<(Vec<u32>, Vec<u32>, u32)> {
        match &self.gradient {
            Some(form) => {
                let work = GradientWork::new(form, sizes, mask, ctas).ok()?;
                Some((work.heads, work.tiles, 0))
            }
            None => {
                let work = AttentionWork::new(&self.tiles, sizes, mask, ctas).ok()?;
                Some((work.heads, work.tiles, work.places))
            }
        }
    }
}

/// What a kernel computes and loads.
struct Amounts {
    /// Pairs of a query and a key in stored blocks, of all heads.
    pairs: f64,
    /// Rows of K and of V that tiles load, or of what passes by in a gradient.
    loads: f64,
    /// Elements that are read and written at least.
    read: f64,
    written: f64,
}

impl Amounts {
    fn new(kernel: &Kernel<'_>, problem: &TuningProblem) -> Self {
        let (features, workload, tiles) = (&problem.features, &problem.workload, &kernel.tiles);
        let Heads { batch, heads, key_heads } = workload.source.heads();
        let ((own, other), rows) = (tiles.block, f64::from(tiles.rows));
        let (own, other) = (f64::from(own), f64::from(other));
        let pairs = features.nnzb as f64 * own * other * (batch * heads) as f64;
        // Neighbouring rows of blocks that share a tile load the keys once that both need. Of columns the features say nothing.
        let of_two = 1.0 + (features.reuse - 1.0) / (GROUP - 1) as f64;
        let is_known = !tiles.uniform && !kernel.gradient.as_ref().is_some_and(gradient::is_of_keys);
        let together = if is_known { of_two.clamp(1.0, (rows / own).max(1.0)) } else { 1.0 };
        let [queries, keys] = [batch * heads * workload.m, batch * key_heads * workload.n].map(|rows| rows as f64);
        let [read, written] = match kernel.gradient {
            Some(_) => elements_of_gradient(workload).map(|elements| elements as f64),
            None => {
                let depth = kernel.columns() - f64::from(tiles.columns);
                [queries * depth + keys * kernel.columns(), queries * f64::from(tiles.columns)]
            }
        };
        let loads = pairs / (own.min(rows) * together * f64::from(tiles.heads()));
        Self { pairs, loads, read, written }
    }
}

/// The traffic of an attention or of its gradient; none of another kernel.
pub(super) fn traffic(plan: &Plan, problem: &TuningProblem) -> Option<Traffic> {
    let kernel = Kernel::of(plan)?;
    let Amounts { pairs, loads, read, written } = Amounts::new(&kernel, problem);
    let (spec, bytes) = (plan.spec(), f64::from(plan.spec().a.bytes()));
    let of_result = f64::from(spec.out.bytes());
    Some(Traffic {
        dtype: spec.a,
        tf32: false,
        flops: problem.executed_flops() as f64,
        issued_flops: 2.0 * pairs * kernel.multiplied(),
        l2_bytes: loads * kernel.columns() * bytes,
        stages: loads / f64::from(kernel.tiles.step),
        hbm_least: read * bytes + written * of_result,
        hbm_read: read * bytes,
        hbm_written: written * of_result,
    })
}

/// Work tiles that are listed at most: of more heads as many are left out.
const MOST_TILES: usize = 1 << 16;

/// Of an attention or of its gradient; none of another kernel. Infinite where the kernel cannot compute the problem: `pack_heads` does not divide
/// its heads.
pub(super) fn predict(plan: &Plan, problem: &TuningProblem, card: &Card) -> Option<Prediction> {
    let kernel = Kernel::of(plan)?;
    let impossible = || Prediction { us: f64::INFINITY, terms: vec![] };
    let listed = Listed::new(&kernel, problem, card);
    Some(listed.map_or_else(impossible, |listed| listed.prediction(kernel.costs(), card)))
}

/// The work list of a launch: what does not depend on how fast anything is.
struct Listed {
    /// Of every CTA, or of every cluster.
    ctas: Vec<Vec<Tile>>,
    /// Places of the workspace.
    places: usize,
    step: Step,
    /// How many heads the problem has for each that is listed.
    heads: f64,
    consumers: f64,
    /// CTAs with work for each SM that has any.
    sharing: f64,
    /// CTAs of a cluster, each of which has a slice of every tile's steps.
    cluster: f64,
    hbm_bytes: f64,
}

impl Listed {
    fn new(kernel: &Kernel<'_>, problem: &TuningProblem, card: &Card) -> Option<Self> {
        let (plan, tiles) = (kernel.plan, &kernel.tiles);
        let (shape, heads) = sizes(kernel, problem);
        let mask = Mask::of_structure(Shape::of(problem).structure()?, |_, _| false).ok()?;
        let (resident, cluster) = (plan.profile().resident, plan.cluster());
        let (first, words, places) = kernel.work(&shape, &mask, (card.sms as u32 * resident / cluster).max(1))?;
        let of_cta = |cta: &[u32]| (cta[0]..cta[1]).map(|at| Tile::read(tiles, &words, at as usize)).collect();
        let Amounts { read, written, .. } = Amounts::new(kernel, problem);
        let cluster = f64::from(cluster);
        let busy = first.windows(2).filter(|cta| cta[0] < cta[1]).count() as f64 * cluster;
        Some(Self {
            cluster,
            sharing: (busy / card.sms as f64).clamp(1.0, f64::from(resident)),
            ctas: first.windows(2).map(of_cta).collect(),
            places: places as usize,
            step: Step::new(kernel),
            heads,
            consumers: f64::from(tiles.consumers),
            hbm_bytes: read * f64::from(plan.spec().a.bytes()) + written * f64::from(plan.spec().out.bytes()),
        })
    }

    fn prediction(&self, costs: &Costs, card: &Card) -> Prediction {
        let step = self.step.us(costs, card, (self.ctas.len() as f64 * self.cluster, self.sharing));
        let mut passed_on = vec![0.0; self.places];
        let (mut last, mut all) = (0.0_f64, TileTime::default());
        for cta in &self.ctas {
            let mut now = 0.0;
            for tile in cta {
                let time = tile.slice(self.cluster).time(costs, &step, (self.consumers, self.sharing));
                now += time.us;
                all.add(&time);
                // A CTA waits for parts of CTAs of lower numbers, or for earlier ones of its own.
                now = passed_on[tile.collects.clone()].iter().copied().fold(now, f64::max);
                if let Some(place) = tile.to {
                    passed_on[place] = now;
                }
            }
            last = last.max(now);
        }
        let sms = card.sms as f64;
        let on_average = |us: f64| us / sms * self.heads * self.cluster;
        let (even, busiest) = (on_average(all.us) / self.sharing, last * self.heads);
        let hbm = self.hbm_bytes / (card.hbm_tbs * 1e6);
        let terms = [
            (What::Tensor, on_average(all.tensor)),
            (What::Exponentials, on_average(all.exponentials)),
            (What::L2, on_average(all.l2)),
            (What::Hbm, hbm),
            (What::Barriers, on_average(all.barriers)),
            (What::Stores, on_average(all.ends)),
            (What::Imbalance, busiest - even),
            (What::Launch, card.launch_us),
        ];
        let us = both(busiest, hbm, costs.sharpness) + card.launch_us;
        Prediction { us, terms: terms.map(|(what, us)| Term { what, us }).to_vec() }
    }
}

/// The sizes that are listed, and how many heads the problem has for each of theirs.
fn sizes(kernel: &Kernel<'_>, problem: &TuningProblem) -> (Sizes, f64) {
    let (workload, tiles) = (&problem.workload, &kernel.tiles);
    let Heads { batch, heads, key_heads } = workload.source.heads();
    let columns = tiles.columns as usize;
    let mut shape = Sizes { batch, heads, key_heads, queries: workload.m, keys: workload.n, columns };
    let rows = if kernel.gradient.as_ref().is_some_and(gradient::is_of_keys) { workload.n } else { workload.m };
    let of_head = rows.div_ceil(tiles.rows as usize).max(1);
    let most = (MOST_TILES / of_head).max(1);
    let of_group = heads.checked_div(key_heads).unwrap_or(1).max(1);
    // Whole problems, and of one problem whole groups.
    shape.batch = batch.min((most / heads.max(1)).max(1));
    if heads > most {
        shape.key_heads = key_heads.min((most / of_group).max(1));
        shape.heads = shape.key_heads * of_group;
    }
    let listed = (shape.batch * shape.heads).max(1) as f64;
    (shape, batch as f64 * heads as f64 / listed)
}

/// What one step computes for one consumer, and loads.
struct Step {
    /// In the time that they take of 16-bit operands: of 8-bit ones, half of it.
    flops: f64,
    exponentials: f64,
    bytes: f64,
    /// How often warps read these from shared memory, where they multiply.
    reads: Option<f64>,
}

impl Step {
    fn new(kernel: &Kernel<'_>) -> Self {
        let tiles = &kernel.tiles;
        let keys = f64::from(tiles.step);
        let pairs = keys * f64::from(tiles.rows * tiles.heads()) / f64::from(tiles.consumers);
        let element = f64::from(kernel.plan.spec().a.bytes());
        let bytes = keys * kernel.columns() * element;
        let profile = kernel.plan.profile();
        let reads = (profile.kind == KernelKind::AttentionWarps).then_some(f64::from(profile.consumers));
        Self { flops: 2.0 * pairs * kernel.multiplied() * element / 2.0, exponentials: pairs, bytes, reads }
    }

    fn us(&self, costs: &Costs, card: &Card, (ctas, sharing): (f64, f64)) -> StepTime {
        let sms = card.sms as f64;
        // An SM takes no more than its port lets through, however few others there are.
        let l2 = (card.l2_tbs * 1e6 / ctas.max(1.0)).min(card.rates.port / sharing);
        StepTime {
            tensor: match self.reads {
                Some(reads) => card.rates.by_warps(self.flops / 2.0, [reads * self.bytes, self.bytes], card),
                None => self.flops / (costs.faster * card.dense_tflops * 1e6 / sms),
            },
            exponentials: self.exponentials * (1.0 + costs.beside)
                / (costs.exponentials * card.clock_mhz[0] / Card::h200().clock_mhz[0]),
            l2: self.bytes / l2,
        }
    }
}

/// What one step takes of one consumer, and its keys' way from L2, in microseconds.
struct StepTime {
    tensor: f64,
    exponentials: f64,
    l2: f64,
}

/// What a tile takes of its SM, in microseconds.
#[derive(Default)]
struct TileTime {
    us: f64,
    tensor: f64,
    exponentials: f64,
    l2: f64,
    barriers: f64,
    ends: f64,
}

impl TileTime {
    fn add(&mut self, other: &Self) {
        let Self { us, tensor, exponentials, l2, barriers, ends } = other;
        self.us += us;
        self.tensor += tensor;
        self.exponentials += exponentials;
        self.l2 += l2;
        self.barriers += barriers;
        self.ends += ends;
    }
}

/// A work tile of the list.
struct Tile {
    steps: f64,
    /// Steps of all consumers.
    computed: f64,
    /// Places of the workspace that it adds, and the one that it writes.
    collects: std::ops::Range<usize>,
    to: Option<usize>,
    /// It is a slice, which is merged with others.
    is_slice: bool,
}

impl Tile {
    /// The longest of so many slices.
    fn slice(&self, cluster: f64) -> Self {
        let [steps, computed] = [self.steps, self.computed].map(|steps| (steps / cluster).ceil());
        Self { steps, computed, collects: self.collects.clone(), to: self.to, is_slice: cluster > 1.0 }
    }

    fn read(tiles: &AttentionTiles, words: &[u32], at: usize) -> Self {
        let size = tiles.tile_words as usize;
        let words = &words[at * size..][..size];
        let computed = words[6..][..tiles.consumers as usize].iter().sum::<u32>();
        let (mut collects, mut to) = (0..0, None);
        if tiles.split.is_some() {
            let (count, first) = (words[size - 4] as usize, words[size - 3] as usize);
            collects = if count > 0 { first..first + count } else { 0..0 };
            to = Some(words[size - 2]).filter(|place| *place != AttentionTiles::WHOLE).map(|place| place as usize);
        }
        Self { steps: f64::from(words[5]), computed: f64::from(computed), collects, to, is_slice: false }
    }

    fn time(&self, costs: &Costs, step: &StepTime, (consumers, sharing): (f64, f64)) -> TileTime {
        let (tensor, exponentials) = (self.computed * step.tensor, self.computed * step.exponentials);
        let l2 = self.steps * step.l2;
        // Of the steps, those that all consumers compute; a lone one takes turns with nobody.
        let others = (consumers - 1.0).max(1.0);
        let shared = ((self.computed / self.steps.max(1.0) - 1.0) / others).clamp(0.0, 1.0);
        let serialized = both(tensor, exponentials, costs.sharpness);
        let alone = tensor.max(exponentials) + costs.exposed * tensor.min(exponentials);
        let core = shared * serialized + (1.0 - shared) * alone;
        let exchanges = self.collects.len() + usize::from(self.to.is_some());
        let part = if exchanges > 0 { costs.part_us + costs.exchange_us * exchanges as f64 } else { 0.0 };
        let merge = if self.is_slice { costs.merge_us } else { 0.0 };
        let (barriers, ends) = (self.steps * costs.step_us, costs.tile_us + part + merge);
        // CTAs that share an SM wait at their barriers at the same time, and for the SM one after the other.
        let work = match sharing > 1.0 {
            true => both(both(core + barriers, l2, costs.sharpness), sharing * serialized, costs.sharpness),
            false => both(core, l2, costs.sharpness) + barriers,
        };
        let us = work + ends;
        TileTime { us, tensor, exponentials, l2, barriers, ends }
    }
}
