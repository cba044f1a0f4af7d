//! Loads by TMA: which box of a tensor map lands where in a stage.

use serde::Serialize;

/// One TMA load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Load {
    /// Additions that make its addresses and coordinates.
    pub(crate) offsets: Vec<Offset>,
    /// The predicate of the thread that issues it.
    pub(crate) predicate: &'static str,
    pub(crate) destination: String,
    pub(crate) map: String,
    /// Dimensions of the map.
    pub(crate) rank: u32,
    pub(crate) coordinates: String,
    /// The CTAs of a cluster that it goes to, as bits; none where it is this CTA's own.
    pub(crate) mask: Option<String>,
    /// It is read again: L2 should let go of it last.
    pub(crate) is_reused: bool,
}

/// A register that becomes `base` + `by`, or `by` where there is no base.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Offset {
    target: &'static str,
    base: Option<String>,
    by: String,
}

impl Offset {
    pub(crate) fn new(target: &'static str, base: &str, by: impl ToString) -> Self {
        Self { target, base: Some(base.to_owned()), by: by.to_string() }
    }
}

/// The register that holds `base` + `by`, and the addition that makes it.
pub(crate) fn offset(base: &str, by: u32, target: &'static str, offsets: &mut Vec<Offset>) -> String {
    if by == 0 {
        return base.to_owned();
    }
    offsets.push(Offset::new(target, base, by));
    target.to_owned()
}

/// The register that holds a constant.
pub(crate) fn constant(value: u32, target: &'static str, offsets: &mut Vec<Offset>) -> String {
    offsets.push(Offset { target, base: None, by: value.to_string() });
    target.to_owned()
}
