//! Sums, products and fused products of single precision that are rounded in a direction.

use crate::program::op::{FloatFn, Round};

/// The result of `f`, which is one of the four, rounded as `round` says.
pub(super) fn directed(f: FloatFn, round: Round, x: f32, y: f32, z: f32) -> f32 {
    let [x, y, z] = [x, y, z].map(f64::from);
    // The product of two single-precision numbers is exact in double precision.
    let (a, b) = match f {
        FloatFn::Add => (x, y),
        FloatFn::Sub => (x, -y),
        FloatFn::Mul => (x * y, 0.0),
        _ => (x * y, z),
    };
    let sum = a + b;
    if !sum.is_finite() {
        return sum as f32;
    }
    // What the sum has lost, exactly (Knuth's two-sum).
    let back = sum - a;
    let lost = (a - (sum - back)) + (b - back);
    let near = sum as f32;
    let off = sum - f64::from(near);
    let beyond = if off == 0.0 { lost } else { off };
    let toward_zero = if sum < 0.0 || (sum == 0.0 && lost < 0.0) { Round::Rp } else { Round::Rm };
    match if round == Round::Rz { toward_zero } else { round } {
        Round::Rm if beyond < 0.0 => near.next_down(),
        Round::Rp if beyond > 0.0 => near.next_up(),
        Round::Rm if sum == 0.0 && f != FloatFn::Mul && a != 0.0 => -0.0,
        _ => near,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_rounded_in_their_direction() {
        let tiny = 2f32.powi(-40);
        for (round, up, down) in
            [(Round::Rm, 1.0, 1f32.next_down()), (Round::Rp, 1f32.next_up(), 1.0), (Round::Rz, 1.0, 1f32.next_down())]
        {
            assert_eq!(directed(FloatFn::Add, round, 1.0, tiny, 0.0), up, "{round:?}");
            assert_eq!(directed(FloatFn::Sub, round, 1.0, tiny, 0.0), down, "{round:?}");
            assert_eq!(directed(FloatFn::Fma, round, tiny, 0.5, 1.0), up, "{round:?}");
            assert_eq!(directed(FloatFn::Mul, round, 0.5, 3.0, 0.0), 1.5, "{round:?}");
        }
        // Far below what double precision keeps beside 1.
        let lost = f32::from_bits(1);
        assert_eq!(directed(FloatFn::Add, Round::Rp, 1.0, lost, 0.0), 1f32.next_up());
        assert_eq!(directed(FloatFn::Add, Round::Rm, 1.0, lost, 0.0), 1.0);
        assert_eq!(directed(FloatFn::Mul, Round::Rz, f32::MAX, 2.0, 0.0), f32::MAX);
        assert_eq!(directed(FloatFn::Mul, Round::Rp, f32::MAX, 2.0, 0.0), f32::INFINITY);
        let cut = directed(FloatFn::Mul, Round::Rz, -0.1, 0.1, 0.0);
        let exact = -0.1f32 as f64 * 0.1f32 as f64;
        assert!(cut.next_down() as f64 <= exact && exact <= cut as f64, "{cut}");
    }
}
