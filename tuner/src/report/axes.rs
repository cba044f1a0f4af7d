//! The keys in which the kernels of a group differ, and their values in order.

use bsr_codegen::KernelSpec;
use bsr_codegen::spec::Key;
use serde::Serialize;

/// One key that varies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Axis {
    #[serde(skip)]
    pub(super) key: Key,
    #[serde(rename = "key")]
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    /// Every value that occurs: what the plan chooses first, then numbers by size, then words.
    pub(super) values: Vec<String>,
}

impl Axis {
    /// Where a spec stands on it.
    pub(super) fn place(&self, spec: &KernelSpec) -> Option<usize> {
        let value = spec.value(self.key);
        self.values.iter().position(|known| *known == value)
    }
}

/// The keys in which these specs differ, in the order of the canonical text.
pub(super) fn axes<'s>(specs: impl Iterator<Item = &'s KernelSpec>) -> Vec<Axis> {
    let specs: Vec<&KernelSpec> = specs.collect();
    // `dtype` stands for `a`, and `beta` for an epilogue.
    let keys = Key::ALL.into_iter().filter(|key| !key.is_alias());
    keys.filter_map(|key| {
        let mut values: Vec<String> = specs.iter().map(|spec| spec.value(key)).collect();
        values.sort_by_cached_key(|value| order(value));
        values.dedup();
        (values.len() > 1).then(|| Axis { key, name: key.as_str(), meaning: key.meaning(), values })
    })
    .collect()
}

/// `auto`, then numbers, then tuples and words.
fn order(value: &str) -> (u8, u64, String) {
    match (value, value.parse()) {
        ("auto", _) => (0, 0, String::new()),
        (_, Ok(number)) => (1, number, String::new()),
        _ => (2, 0, value.to_owned()),
    }
}

/// A spec by what tells it from the others: `bn = 256, stages = 4`.
pub(super) fn differences(spec: &KernelSpec, axes: &[Axis]) -> String {
    axes.iter().map(|axis| format!("{} = {}", axis.name, spec.value(axis.key))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_the_keys_that_vary_with_values_by_size() {
        let specs: Vec<KernelSpec> = [
            "bm = 128, bn = 256, bk = 64",
            "bm = 128, bn = 64, bk = 64, stages = 10",
            "bm = 128, bn = 128, bk = 64, stages = 4, schedule = strided",
        ]
        .map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
        .to_vec();
        let axes = axes(specs.iter());
        let found: Vec<(&str, Vec<&str>)> =
            axes.iter().map(|axis| (axis.name, axis.values.iter().map(String::as_str).collect())).collect();
        assert_eq!(
            found,
            [
                ("bn", vec!["64", "128", "256"]),
                ("stages", vec!["auto", "4", "10"]),
                ("schedule", vec!["auto", "strided"])
            ]
        );
        assert_eq!(differences(&specs[1], &axes), "bn = 64, stages = 10, schedule = auto");
        assert_eq!(axes[1].place(&specs[2]), Some(1));
    }
}
