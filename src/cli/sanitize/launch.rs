//! A launch as its file describes it.

use std::collections::BTreeMap;

use bsr_trial::sanitize::{Allow, Element, TensorMap};
use serde::Deserialize;

/// A launch file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchFile {
    /// The kernel; may be left out where the text has one.
    pub(super) entry: Option<String>,
    /// Blocks.
    pub(super) grid: Extent,
    /// Blocks of a cluster.
    #[serde(default)]
    pub(super) cluster: Extent,
    /// Threads of a block.
    pub(super) block: Extent,
    /// Bytes of dynamic shared memory.
    #[serde(default)]
    pub(super) shared: u32,
    /// Whether the kernel starts while an earlier one of the stream may still run.
    #[serde(default)]
    pub(super) dependent: bool,
    /// Global memory, by names.
    #[serde(default)]
    pub(super) buffers: BTreeMap<String, Buffer>,
    /// The kernel's parameters, in order.
    #[serde(default)]
    pub(super) params: Vec<Param>,
    /// Findings that are known and accepted.
    #[serde(default)]
    pub(super) allow: Vec<Allow>,
}

/// One to three sizes; those that are left out are 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Extent {
    One(u32),
    Two([u32; 2]),
    Three([u32; 3]),
}

impl Default for Extent {
    fn default() -> Self {
        Self::One(1)
    }
}

impl Extent {
    pub(super) fn sizes(self) -> [u32; 3] {
        match self {
            Self::One(x) => [x, 1, 1],
            Self::Two([x, y]) => [x, y, 1],
            Self::Three(all) => all,
        }
    }
}

/// A buffer of global memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Buffer {
    /// The type of an element.
    #[serde(rename = "type")]
    pub(super) element: Element,
    /// Elements in each dimension, the last one innermost. Of a file it may be left out.
    #[serde(default)]
    pub(super) shape: Vec<u64>,
    /// Elements from one row to the next, where that is more than the last dimension; what is between must not be written.
    pub(super) pitch: Option<u64>,
    /// What it holds before the launch.
    #[serde(default)]
    pub(super) values: Values,
    /// What lies at places within it, for instance addresses and tensor maps that a kernel reads there.
    #[serde(default)]
    pub(super) fields: Vec<Param>,
    /// What values are drawn from.
    #[serde(default)]
    pub(super) seed: u64,
    /// The least and the largest drawn value, of `values = "uniform"`.
    pub(super) range: Option<[f64; 2]>,
    /// Its address is a multiple of this, and of no larger power of two.
    #[serde(default = "sixteen")]
    pub(super) align: u64,
    /// What it must hold after the launch.
    #[serde(default)]
    pub(super) after: After,
    /// How far an element may be from what it must be, relative to it and to the mean magnitude of its row.
    pub(super) tolerance: Option<f64>,
}

fn sixteen() -> u64 {
    16
}

/// What a buffer holds before the launch.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Values {
    /// Every element.
    Constant(f64),
    /// Each element.
    List(Vec<f64>),
    /// Addresses of buffers.
    Names(Vec<String>),
    /// `normal`, `uniform`, `index`, `poison`, or a `.npy` file.
    Word(String),
}

impl Default for Values {
    fn default() -> Self {
        Self::Word("normal".into())
    }
}

/// What a buffer must hold after the launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(super) enum After {
    /// The same under every schedule.
    #[default]
    Equal,
    /// What it held before.
    Unchanged,
    /// Anything.
    Any,
    /// What a `.npy` file holds.
    File(String),
}

impl From<String> for After {
    fn from(word: String) -> Self {
        match word.as_str() {
            "equal" => Self::Equal,
            "unchanged" => Self::Unchanged,
            "any" => Self::Any,
            _ => Self::File(word),
        }
    }
}

/// A parameter, or a field: a buffer's address, a value, a tensor map, or a structure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Param {
    /// Of a field: bytes from the start of the structure or the buffer.
    pub(super) at: Option<u32>,
    /// The buffer whose address is passed.
    pub(super) buffer: Option<String>,
    /// Bytes that are added to the address.
    #[serde(default)]
    pub(super) offset: u64,
    /// A number, or the numbers of a structure or array.
    pub(super) value: Option<Number>,
    /// The type of the value.
    #[serde(rename = "type")]
    pub(super) element: Option<Element>,
    /// A tensor map.
    pub(super) tensor_map: Option<TensorMap>,
    /// A structure; bytes in no field are 0.
    pub(super) fields: Option<Vec<Param>>,
}

impl Param {
    /// Whether no address, value or tensor map is passed.
    pub(super) fn is_plain(&self) -> bool {
        self.buffer.is_none() && self.value.is_none() && self.tensor_map.is_none()
    }
}

/// One value or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    Whole(i64),
    One(f64),
    Many(Vec<f64>),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_trial::sanitize::Line;

    use super::*;

    #[test]
    fn a_file_says_what_it_must_and_no_more() {
        let text = r#"
            grid = [4, 2]
            block = 128
            [buffers.x]
            type = "f16"
            shape = [64, 64]
            after = "unchanged"
            [[params]]
            buffer = "x"
            [[params]]
            value = 3
            [[params]]
            tensor_map = { buffer = "x", box = [64, 8], swizzle = 128 }
            [[allow]]
            line = "kernels.py:12"
            reason = "a lock"
        "#;
        let launch: LaunchFile = toml::from_str(text).unwrap();
        assert_eq!((launch.grid.sizes(), launch.cluster.sizes()), ([4, 2, 1], [1; 3]));
        assert_eq!((&launch.buffers["x"].after, launch.params.len()), (&After::Unchanged, 3));
        assert_eq!(launch.allow[0].line, Line::Source("kernels.py:12".into()));
        assert!(toml::from_str::<LaunchFile>(&text.replace("reason", "because")).is_err());
    }
}
