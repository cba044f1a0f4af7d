//! What a terminal says: the best kernels as rows, the winner as a line to paste.

use bsr_codegen::spec::Key;
use bsr_codegen::{KernelSpec, Plan};

use super::axes::{axes, differences};
use super::words;
use crate::groups::{Group, groups};
use crate::{DeviceId, Facts, Record, TuningProblem};

/// The best kernels of one product on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Top {
    /// The product.
    pub problem: TuningProblem,
    /// The product in words: shape, block, pattern, types.
    pub product: String,
    /// What it ran on: a GPU, or a model, whose times are no measurements.
    pub device: DeviceId,
    /// The device in words, with its driver.
    pub device_words: String,
    /// What a reader must be told where the times are none of a GPU's.
    pub warning: Option<&'static str>,
    /// The heads of the columns.
    pub head: [&'static str; 6],
    /// Best first; as many cells as heads. Numbers as they are to be printed, `-` where there is none.
    pub rows: Vec<[String; 6]>,
    /// How the GPU ran while the best was timed, and its cycles; none where the driver did not tell.
    pub power: Option<String>,
    /// The best as an attribute; none if nothing was right and timed.
    pub attribute: Option<String>,
}

/// The best `n` timed kernels of every product and device in `records`, GPUs first. Other libraries' kernels are left out,
/// and of a kernel's records the last is taken.
pub fn top(records: &[Record], n: usize) -> Vec<Top> {
    groups(records, &[]).iter().map(|group| best(group, n)).collect()
}

fn best(group: &Group<'_>, n: usize) -> Top {
    let axes = axes(group.specs());
    let timed = group.kernels.iter().filter(|point| point.record.timing.is_some() && point.record.verdict.has_time());
    let rows = timed.take(n).enumerate().map(|(place, point)| {
        let record = point.record;
        let timing = record.timing.as_ref();
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        [
            (place + 1).to_string(),
            cell(record.dense.as_ref().map(|dense| words::ratio(dense.ratio))),
            cell(record.tflops().map(words::number)),
            cell(timing.map(|timing| words::number(timing.median_us))),
            cell(timing.and_then(|timing| timing.relative_ci).map(|ci| format!("{:.1} %", 100.0 * ci))),
            match &point.spec {
                Some(spec) if !axes.is_empty() => differences(spec, &axes),
                _ => record.subject.clone(),
            },
        ]
    });
    Top {
        problem: group.problem.clone(),
        product: words::product_in_full(group.problem),
        device: group.device.clone(),
        device_words: words::device(group.device),
        warning: words::warning(group.device.kind),
        head: ["", "ratio", "TFLOP/s", words::microseconds(group.device.kind), "+-", "kernel"],
        rows: rows.collect(),
        power: group.winner().and_then(|point| words::power(point.record)),
        attribute: group.winner().and_then(|point| point.spec.as_ref()).map(attribute_line),
    }
}

/// A spec as it is pasted above a function: `#[bsr_kernel(bm = 512, bn = 128, bk = 112, stages = 3)]`. Choices that the plan
/// makes by itself are left out.
pub fn attribute_line(spec: &KernelSpec) -> String {
    attribute_of(&simplest(spec).to_string())
}

/// The same kernel, with no more choices than it takes.
fn simplest(spec: &KernelSpec) -> KernelSpec {
    let Ok(plan) = Plan::new(spec) else { return *spec };
    let (digest, open, mut simple) = (plan.digest(), Facts::of(spec).spec(spec.bn), *spec);
    for key in Key::ALL.into_iter().filter(|key| !key.is_fact() && !key.is_alias()) {
        let mut fewer = simple;
        fewer.copy_key(key, &open);
        if fewer != simple && Plan::new(&fewer).is_ok_and(|plan| plan.digest() == digest) {
            simple = fewer;
        }
    }
    simple
}

/// The same of a canonical text.
pub(super) fn attribute_of(text: &str) -> String {
    format!("#[bsr_kernel({text})]")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_the_plan_chooses_by_itself_is_not_pasted() {
        for (spec, pasted) in [
            ("bm = 128, bn = 128, bk = 64, swizzle = 128, swap = off", "bm = 128, bn = 128, bk = 64"),
            ("bm = 128, bn = 128, bk = 64, swizzle = 64", "bm = 128, bn = 128, bk = 64, swizzle = 64"),
        ] {
            let spec: KernelSpec = spec.parse().unwrap();
            assert_eq!(attribute_line(&spec), format!("#[bsr_kernel({pasted})]"));
            let [plan, simple] = [spec, simplest(&spec)].map(|spec| Plan::new(&spec).unwrap().digest());
            assert_eq!(plan, simple);
        }
    }
}
