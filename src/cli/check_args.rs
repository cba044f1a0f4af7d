//! The flags that say how a result is verified.

use bsr_trial::verify::{RowChoice, Verification};

/// The options of a check.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Check")]
pub(super) struct CheckArgs {
    /// Largest relative Frobenius error against the reference. [default: what the types and the length of the sums
    /// explain: about 5e-4 for an f16 result, 4e-3 for bf16, 1e-5 for f32, 6e-2 for e4m3, some 1e-3 more for FP8
    /// operands, and 0 for i32]
    #[arg(long, value_parser = positive, value_name = "ERROR")]
    tolerance: Option<f64>,
    /// Rows to compare with the reference: all, a number, or auto: all rows of a small product, otherwise at least 64, among
    /// them first and last rows of block rows. Elements that are not compared must still be finite.
    #[arg(long = "check", default_value = "auto", value_name = "ROWS")]
    rows: RowChoice,
}

impl CheckArgs {
    /// How a result is verified.
    pub(super) fn verification(self) -> Verification {
        Verification { tolerance: self.tolerance, rows: self.rows }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("write a number above 0, for instance 2e-3".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::positive;

    #[test]
    fn tolerances_are_read_strictly() {
        assert!(positive("2e-3").is_ok() && positive("0").is_err() && positive("nan").is_err());
    }
}
