//! The second factor of a product of two sparse ones: what of it a choice of kernel depends on.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bsr_codegen::Refusal;
use bsr_runtime::features::Features;
use bsr_runtime::{Structure, bsr};
use bsr_trial::workload::{Workload, second_factor};
use serde::{Deserialize, Serialize};

/// Beside the pattern of A: that of B, and what they multiply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// What of B's pattern a choice depends on.
    pub features: Features,
    /// Pairs of stored blocks that are multiplied.
    pub pairs: u64,
    /// Blocks of C that are written.
    pub written: usize,
    #[serde(skip)]
    factors: AtHand,
}

/// Where the blocks of both factors are, and those of C that a sparse one stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Factors {
    pub(crate) a: Structure,
    pub(crate) b: Structure,
    pub(crate) c: Option<Structure>,
}

impl Factors {
    /// The pairs that they multiply; none where these are too many to be counted.
    pub(crate) fn pairs(&self) -> Option<bsr::Pairs> {
        bsr::Pairs::new(&self.a, &self.b, self.c.as_ref()).ok()
    }
}

/// Patterns that a program or this process holds. Two are equal where they are the same ones.
#[derive(Clone, Debug, Default)]
struct AtHand(Option<Arc<Factors>>);

impl PartialEq for AtHand {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(x), Some(y)) => Arc::ptr_eq(x, y),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Second {
    /// Of factors that are at hand, and the pattern of a sparse C.
    ///
    /// # Errors
    /// Factors whose shapes or blocks do not multiply; more pairs than are counted.
    pub(crate) fn new(a: &Structure, b: &Structure, c: Option<&Structure>) -> Result<Self, Refusal> {
        let pairs = a.pairs(b, c)?;
        let written = c.map_or(a.block_rows() * b.block_cols(), Structure::nnzb);
        let factors = AtHand(Some(Arc::new(Factors { a: a.clone(), b: b.clone(), c: c.cloned() })));
        Ok(Self { features: Features::of(b), pairs, written, factors })
    }

    /// That of a workload which can be drawn: B has as large a part of its blocks as A, at random, and a sparse C all blocks of
    /// the product. Of an A that is read from a file pairs and blocks of C are those that are expected. Made once for as long as
    /// nothing else is asked for; none where no B has the sizes.
    pub(crate) fn drawn(workload: &Workload, of_a: &Features) -> Option<Self> {
        let is_known = |(known, features, _): &&Drawn| known == workload && features == of_a;
        let all = |known: &[Drawn]| known.iter().find(is_known).map(|(.., second)| second.clone());
        if let Some(known) = all(&KNOWN.lock().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let second = draw(workload, of_a);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.remove(0);
        }
        known.push((workload.clone(), *of_a, second.clone()));
        second
    }

    /// The patterns, where they are at hand.
    pub(crate) fn factors(&self) -> Option<&Arc<Factors>> {
        self.factors.0.as_ref()
    }
}

/// A workload with the features of A, and what was made of it.
type Drawn = (Workload, Features, Option<Second>);

/// How many are remembered.
const REMEMBERED: usize = 4;

static KNOWN: LazyLock<Mutex<Vec<Drawn>>> = LazyLock::new(Mutex::default);

fn draw(workload: &Workload, of_a: &Features) -> Option<Second> {
    let spec = workload.spec();
    let b = |a: &Structure| second_factor(&spec, a, (workload.n, of_a.density()), workload.seed).ok();
    let a = workload.pattern().and_then(Result::ok).filter(|a| a.nnzb() == of_a.nnzb);
    if let Some(a) = a {
        let b = b(&a)?;
        let c = if spec.op.stores_blocks() { Some(a.product(&b).ok()?) } else { None };
        return Second::new(&a, &b, c.as_ref()).ok();
    }
    let b = b(&Structure::empty(workload.m, workload.k, workload.facts.block()).ok()?)?;
    let features = Features::of(&b);
    let (depth, density) = (of_a.block_cols, of_a.density());
    let filled = 1.0 - (1.0 - density * features.density()).powf(depth as f64);
    let blocks = of_a.block_rows * b.block_cols();
    let written = if spec.op.stores_blocks() { (filled * blocks as f64).round() as usize } else { blocks };
    let pairs = of_a.nnzb as f64 * features.density() * b.block_cols() as f64;
    Some(Second { features, pairs: pairs.round() as u64, written, factors: AtHand::default() })
}
