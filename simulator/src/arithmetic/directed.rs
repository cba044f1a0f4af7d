//! Arithmetic of single precision that is rounded in a direction.

use crate::program::op::{FloatFn, Round};

/// The result of `f`, which is a sum, a product, a quotient or a root, rounded as `round` says.
pub(super) fn directed(f: FloatFn, round: Round, x: f32, y: f32, z: f32) -> f32 {
    match f {
        FloatFn::Div => return quotient(round, x, y),
        FloatFn::Rcp => return quotient(round, 1.0, x),
        FloatFn::Sqrt => return root(round, x),
        _ => {}
    }
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

/// The neighbour of `near`, the nearest to a result that is larger by a number of this sign.
fn step(round: Round, near: f32, beyond: f64) -> f32 {
    let toward_zero = if near.is_sign_negative() { Round::Rp } else { Round::Rm };
    match if round == Round::Rz { toward_zero } else { round } {
        Round::Rm if beyond < 0.0 => near.next_down(),
        Round::Rp if beyond > 0.0 => near.next_up(),
        _ => near,
    }
}

fn quotient(round: Round, x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    let near = (x / y) as f32;
    if !(x.is_finite() && y.is_finite()) || y == 0.0 {
        return near;
    }
    if near.is_infinite() {
        return step(round, near, -x.signum() * y.signum());
    }
    // The product of two single-precision numbers is exact, and so is what is left beside it.
    step(round, near, (x - f64::from(near) * y) * y.signum())
}

fn root(round: Round, x: f32) -> f32 {
    let near = x.sqrt();
    if !near.is_finite() { near } else { step(round, near, f64::from(x) - f64::from(near) * f64::from(near)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_roots_enclose_the_exact_result() {
        for (x, y) in [(1.0f32, 3.0f32), (-1.0, 3.0), (7.0, -0.3), (1e-38, 3.0), (2.0, 0.5), (0.0, 5.0)] {
            let exact = f64::from(x) / f64::from(y);
            let [down, up, cut] = [Round::Rm, Round::Rp, Round::Rz].map(|r| directed(FloatFn::Div, r, x, y, 0.0));
            assert!(f64::from(down) <= exact && exact <= f64::from(up), "{x} / {y}: {down}, {up}");
            assert!(down == up || down.next_up() == up, "{x} / {y}: {down}, {up}");
            assert_eq!(cut, if exact < 0.0 { up } else { down }, "{x} / {y}");
            if x == 1.0 {
                assert_eq!(directed(FloatFn::Rcp, Round::Rp, y, 0.0, 0.0), up);
            }
        }
        assert_eq!(directed(FloatFn::Div, Round::Rz, f32::MAX, 0.5, 0.0), f32::MAX);
        assert_eq!(directed(FloatFn::Div, Round::Rm, 1.0, 0.0, 0.0), f32::INFINITY);
        let [down, up] = [Round::Rm, Round::Rp].map(|r| directed(FloatFn::Sqrt, r, 2.0, 0.0, 0.0));
        assert!(down.next_up() == up && f64::from(down) < 2f64.sqrt() && 2f64.sqrt() < f64::from(up));
        assert_eq!(directed(FloatFn::Sqrt, Round::Rp, 9.0, 0.0, 0.0), 3.0);
    }

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
