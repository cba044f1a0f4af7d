//! Divisions by numbers that are known when the kernel is made.

use serde::Serialize;

/// Divides numbers below 2^31: by a shift, or by a multiplication with 2^(31 + s) / `by`, where 2^s >= `by`.
#[derive(Serialize)]
pub(super) struct Division {
    factor: Option<u64>,
    shift: u32,
}

impl Division {
    pub(super) fn by(divisor: u32) -> Self {
        if divisor.is_power_of_two() {
            return Self { factor: None, shift: divisor.trailing_zeros() };
        }
        let s = divisor.next_power_of_two().trailing_zeros();
        Self { factor: Some((1u64 << (31 + s)) / u64::from(divisor) + 1), shift: s - 1 }
    }
}
