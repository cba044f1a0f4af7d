//! From the dtypes of a spec to Rust types, for every command.

use bsr::gpu::Plain;
use bsr::{Dtype, Element, KernelSpec, Op, bf16, e4m3, e5m2, f16};

use super::exit::{Exit, Failure};

/// An element of a matrix that may lie in device memory.
pub(super) trait Number: Element + Plain {}

impl<T: Element + Plain> Number for T {}

/// Work that needs the element types of a kernel: of its sparse factor, of the dense one, and of C. These are A, B and
/// C of `dsd`. It is compiled for every combination that plans have, over thirty:
/// what needs one or two of the types only belongs into functions of these.
pub(super) trait Typed {
    /// What comes of it.
    type Output;

    /// Does the work.
    fn run<A: Number, B: Number, C: Number>(self) -> Result<Self::Output, Failure>;
}

/// Does the work with the element types of `spec`, which has been planned.
///
/// # Errors
/// Those of the work; bad input for types that no plan multiplies or writes.
pub(super) fn with_types<W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, Failure> {
    let (sparse, dense) = if spec.op == Op::Dds { (spec.b, spec.a) } else { (spec.a, spec.b) };
    match (sparse, dense) {
        (Dtype::F16, Dtype::F16) => with_float::<f16, f16, W>(spec, work),
        (Dtype::BF16, Dtype::BF16) => with_float::<bf16, bf16, W>(spec, work),
        (Dtype::F32, Dtype::F32) => with_float::<f32, f32, W>(spec, work),
        (Dtype::E4M3, Dtype::E4M3) => with_float::<e4m3, e4m3, W>(spec, work),
        (Dtype::E4M3, Dtype::E5M2) => with_float::<e4m3, e5m2, W>(spec, work),
        (Dtype::E5M2, Dtype::E4M3) => with_float::<e5m2, e4m3, W>(spec, work),
        (Dtype::E5M2, Dtype::E5M2) => with_float::<e5m2, e5m2, W>(spec, work),
        (Dtype::I8, Dtype::I8) if spec.out == Dtype::I32 => work.run::<i8, i8, i32>(),
        (Dtype::I8, Dtype::I8) => with_float::<i8, i8, W>(spec, work),
        (a, b) => Err(Failure::new(
            Exit::BadInput,
            format!(
                "A is {a} and B is {b}: operands are of one type, or e4m3 and e5m2 in any mix\n  help: b = {a}, or \
                 dtype = f16"
            ),
        )),
    }
}

/// The result of factors A and B, which is no integer.
fn with_float<A: Number, B: Number, W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, Failure> {
    match spec.out {
        Dtype::F16 => work.run::<A, B, f16>(),
        Dtype::BF16 => work.run::<A, B, bf16>(),
        Dtype::F32 => work.run::<A, B, f32>(),
        Dtype::E4M3 => work.run::<A, B, e4m3>(),
        out => Err(Failure::new(
            Exit::BadInput,
            format!(
                "C is {out}: products of {} are written as f16, bf16, f32 or e4m3\n  help: out = {}",
                spec.a,
                spec.a.default_out()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    struct Names;

    impl Typed for Names {
        type Output = [Dtype; 3];

        fn run<A: Number, B: Number, C: Number>(self) -> Result<[Dtype; 3], Failure> {
            Ok([A::DTYPE, B::DTYPE, C::DTYPE])
        }
    }

    #[test]
    fn every_product_has_its_types_and_others_are_refused() {
        use Dtype::{BF16, E4M3, E5M2, F16, F32, I8, I32};
        let spec = |a, b, out| KernelSpec::new(64, 64, 64).a(a).b(b).out(out);
        let all = [F16, BF16, F32, E4M3, E5M2, I8, I32];
        let mut done = 0;
        for (a, b, out) in all.iter().flat_map(|a| all.iter().flat_map(move |b| all.map(move |out| (*a, *b, out)))) {
            let factors = a != I32 && (a == b || (a.is_fp8() && b.is_fp8()));
            let written = [F16, BF16, F32, E4M3].contains(&out) || (out == I32 && a == I8);
            match with_types(&spec(a, b, out), Names) {
                Ok(types) => {
                    assert!(factors && written, "{a} x {b} -> {out}");
                    assert_eq!(types, [a, b, out]);
                    done += 1;
                }
                Err(failure) => {
                    assert!(!(factors && written), "{a} x {b} -> {out}");
                    assert_eq!(failure.exit(), Exit::BadInput);
                }
            }
        }
        assert_eq!(done, 8 * 4 + 1);
    }
}
