//! Every value of every key that kernels of some kind take, and which of them no row of a table draws: what is never drawn is
//! never run.
#![allow(dead_code, reason = "a test of one operation draws its own values")]

use std::collections::BTreeSet;
use std::fmt;

use bsr_codegen::spec::{Key, Takes};
use bsr_codegen::{KernelSpec, Plan, TileScheduler};

/// Specs of every kind of product, beside which values are tried: small ones first.
pub(crate) const PRODUCTS: [&str; 31] = [
    "bm = 64, bn = 32, bk = 32",
    "bm = 128, bn = 128, bk = 64",
    "bm = 192, bn = 192, bk = 64",
    "bm = 512, bn = 512, bk = 64",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3",
    "bm = 128, bn = 128, bk = 128, dtype = i8",
    "bm = 32, bn = 192, bk = 32",
    "bm = 16, bn = 128, bk = 32",
    "bm = 64, bn = 32, bk = 32, swap = off, pack = 2",
    "bm = 64, bn = 128, bk = 64, swap = off, pack = 2",
    "bm = 64, bn = 32, bk = 64, op = dds",
    "bm = 64, bn = 128, bk = 128, op = dds",
    "bm = 128, bn = 128, bk = 128, op = dds, transpose = on, dtype = e4m3",
    "bm = 32, bn = 128, bk = 32, op = dds",
    "bm = 128, bn = 128, bk = 64, op = sdd",
    "bm = 8, bn = 128, bk = 32, op = sdd",
    "bm = 64, bn = 64, bk = 64, op = sdd, mma = mma_sync",
    "bm = 64, bn = 64, bk = 64, op = sdd, mma = wmma",
    "bm = 64, bn = 32, bk = 32, op = dss",
    "bm = 64, bn = 32, bk = 32, op = sss",
    "bm = 64, bn = 32, bk = 64, op = dss, dtype = e4m3",
    "bm = 64, bn = 32, bk = 64, op = sss, dtype = e4m3",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3",
    "bm = 64, bn = 64, bk = 64, mma = wmma",
    "bm = 64, bn = 64, bk = 32, mma = scalar",
    "bm = 64, bn = 64, bk = 32, mma = scalar, dtype = f32",
    "bm = 64, bn = 64, bk = 32, mma = scalar, out = f32, accumulate = atomic",
    "bm = 3, bn = 4, bk = 3, mma = scalar, dtype = f64",
    "bm = 3, bn = 4, bk = 3, mma = scalar, dtype = f32",
    "bm = 3, bn = 4, bk = 3, mma = scalar, a = f16, b = f32",
];

/// The same of attention.
pub(crate) const ATTENTIONS: [&str; 4] = [
    "op = attention, bm = 64, bn = 16, bk = 32",
    "op = attention, bm = 64, bn = 64, bk = 64",
    "op = attention, bm = 192, bn = 128, bk = 128, dtype = bf16",
    "op = attention, bm = 64, bn = 64, bk = 64, dtype = e4m3",
];

/// The same by `mma_sync`.
pub(crate) const ATTENTIONS_OF_WARPS: [&str; 2] = [
    "op = attention, bm = 64, bn = 16, bk = 32, mma = mma_sync",
    "op = attention, bm = 128, bn = 64, bk = 64, mma = mma_sync, dtype = bf16",
];

/// A value of a key that kernels of a kind take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value {
    kind: String,
    key: Key,
    value: String,
}

/// The values that some kernel of the kinds of `bases` takes and no kernel of the same kind in `specs` is asked for, one a
/// line. Sizes, depths and closures have too many values, which tables draw otherwise.
pub(crate) fn missing(bases: &[&str], specs: impl IntoIterator<Item = KernelSpec>) -> Vec<String> {
    let specs: BTreeSet<KernelSpec> = specs.into_iter().collect();
    let drawn: BTreeSet<Value> = specs.iter().flat_map(Value::all).collect();
    let taken: BTreeSet<Value> = bases.iter().flat_map(|base| Value::taken(base)).collect();
    taken.difference(&drawn).map(ToString::to_string).collect()
}

/// A few kernels that take all values together that kernels of the kinds of `bases` take.
pub(crate) fn covering(bases: &[&str]) -> Vec<KernelSpec> {
    let (mut drawn, mut specs) = (BTreeSet::new(), vec![]);
    for base in bases {
        let taken = Value::taken(base);
        loop {
            let mut text = (*base).to_owned();
            let mut chosen: Vec<&Value> = vec![];
            for value in taken.iter().filter(|value| !drawn.contains(*value)) {
                let longer = format!("{text}, {} = {}", value.key, value.value);
                if value.spec(&longer).is_some_and(|spec| chosen.iter().all(|other| other.is_of(&spec))) {
                    text = longer;
                    chosen.push(value);
                }
            }
            let Some(spec) = chosen.first().and_then(|value| value.spec(&text)) else { break };
            drawn.extend(Value::all(&spec));
            specs.push(spec);
        }
    }
    specs
}

impl Value {
    /// Those of a kernel.
    fn all(spec: &KernelSpec) -> Vec<Self> {
        let kind = kind(&Plan::new(spec).unwrap_or_else(|errors| panic!("{spec}\n{errors}")));
        keys().map(|key| Self { kind: kind.clone(), key, value: spec.value(key) }).collect()
    }

    /// Those that kernels of the kind of `base` take beside what it says.
    fn taken(base: &str) -> Vec<Self> {
        let own = parse(base).unwrap_or_else(|| panic!("{base} is no spec"));
        let kind = kind(&Plan::new(&own).unwrap_or_else(|errors| panic!("{base}\n{errors}")));
        let of_key = |key| values(key).into_iter().map(move |value| (key, value));
        let all = keys().flat_map(of_key).map(|(key, value)| Self { kind: kind.clone(), key, value });
        all.filter(|value| value.spec(&format!("{base}, {} = {}", value.key, value.value)).is_some()).collect()
    }

    /// The spec of a text, if it takes this value and is planned as one of this kind.
    fn spec(&self, text: &str) -> Option<KernelSpec> {
        let spec = parse(text).filter(|spec| self.is_of(spec))?;
        Plan::new(&spec).is_ok_and(|plan| kind(&plan) == self.kind).then_some(spec)
    }

    /// Whether a spec has this value.
    fn is_of(&self, spec: &KernelSpec) -> bool {
        spec.value(self.key) == self.value
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} = {}", self.kind, self.key, self.value)
    }
}

/// Operation, instruction, and what of the family the schedule says.
fn kind(plan: &Plan) -> String {
    let family = match plan.tile_scheduler() {
        TileScheduler::StageMetadata(_) => ", swap-AB",
        TileScheduler::SharedColumns(_) => ", packed rows",
        TileScheduler::CtaPerBlock => ", atomic",
        TileScheduler::BlockRows { .. } => ", small blocks",
        _ => "",
    };
    format!("op = {}, mma = {}{family}", plan.spec().op, plan.spec().mma)
}

fn keys() -> impl Iterator<Item = Key> {
    Key::ALL.into_iter().filter(|key| !matches!(key, Key::Op | Key::Mma) && !values(*key).is_empty())
}

fn values(key: Key) -> Vec<String> {
    let numbers: &[u32] = match key {
        Key::Consumers => &[1, 2, 3],
        Key::Cluster => &[1, 2, 4, 8],
        Key::Swizzle => &[32, 64, 128],
        Key::Pack | Key::PackHeads => &[1, 2, 3, 4, 8, 16, 32, 64],
        Key::Vector => &[1, 4, 8],
        Key::Lanes => &[4, 8, 16, 32],
        Key::Page => &[16, 32, 64, 128, 256],
        Key::WorkList => &[2048, 8192, 30_720],
        _ => &[],
    };
    match key.takes() {
        Takes::Words(words) => words.iter().filter(|word| !word.is_alias).map(|word| word.text.to_owned()).collect(),
        _ => numbers.iter().map(u32::to_string).collect(),
    }
}

fn parse(text: &str) -> Option<KernelSpec> {
    text.parse().ok()
}
