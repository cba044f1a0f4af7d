//! Which values of keys no row of a table draws: what is never drawn is never run.

use std::collections::BTreeSet;

use bsr_codegen::spec::{Key, Takes};
use bsr_codegen::{KernelSpec, Plan, TileScheduler};

/// The values that some kernel of the kinds of `bases` takes and no kernel of the same kind in `specs` is asked for, one a
/// line. Sizes, depths and closures have too many values, which tables draw otherwise.
pub(crate) fn missing(bases: &[&str], specs: impl IntoIterator<Item = KernelSpec>) -> Vec<String> {
    let mut drawn = BTreeSet::new();
    for spec in specs.into_iter().collect::<BTreeSet<_>>() {
        let kind = kind(&Plan::new(&spec).unwrap_or_else(|errors| panic!("{spec}\n{errors}")));
        drawn.extend(keys().map(|key| (kind.clone(), key, spec.value(key))));
    }
    let mut missing = BTreeSet::new();
    for base in bases {
        let of_base = kind(&Plan::new(&parse(base).unwrap_or_else(|| panic!("{base} is no spec"))).unwrap());
        for key in keys() {
            for value in values(key) {
                let Some(spec) = parse(&format!("{base}, {key} = {value}")) else { continue };
                let takes = spec.value(key) == value && Plan::new(&spec).is_ok_and(|plan| kind(&plan) == of_base);
                if takes && !drawn.contains(&(of_base.clone(), key, value.clone())) {
                    missing.insert(format!("{of_base}: {key} = {value}"));
                }
            }
        }
    }
    missing.into_iter().collect()
}

/// Operation, instruction, and what of the family the schedule says.
fn kind(plan: &Plan) -> String {
    let family = match plan.tile_scheduler() {
        TileScheduler::StageMetadata(_) => ", swap-AB",
        TileScheduler::SharedColumns(_) => ", packed rows",
        TileScheduler::CtaPerBlock => ", atomic",
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
        Key::Pack => &[1, 2, 3, 4, 8, 16, 32, 64],
        Key::Vector => &[1, 4, 8],
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
