//! From the dtypes of a spec to Rust types: for commands and tests, which read specs that no compiler has seen.

use bsr_codegen::{Dtype, KernelSpec, Op, Refusal};
use half::{bf16, f16};

use crate::gpu::Plain;
use crate::{Element, e4m3, e5m2};

/// An element of a matrix that may be in device memory.
pub trait Number: Element + Plain {}

impl<T: Element + Plain> Number for T {}

/// Work that needs the element types of a kernel: of its sparse factor, of the dense one, and of C; these are A, B and C of
/// `dsd` and of SDDMM. It is compiled for every combination that plans have, about forty: what needs one or two of the types
/// only belongs into functions of these.
pub trait Typed {
    /// What comes of it.
    type Output;
    /// How it fails, beside types that no plan has.
    type Error: From<Refusal>;

    /// Does the work.
    ///
    /// # Errors
    /// Those of the work.
    fn run<A: Number, B: Number, C: Number>(self) -> Result<Self::Output, Self::Error>;
}

/// Does the work with the element types of `spec`, which has been planned.
///
/// # Errors
/// Those of the work; a refusal of types that no plan multiplies or writes.
pub fn with_types<W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, W::Error> {
    let (sparse, dense) = if spec.op == Op::Dds { (spec.b, spec.a) } else { (spec.a, spec.b) };
    match (sparse, dense) {
        // Of small blocks: the dense factor is f64 or f32, and C has its type, or that of f64 sums.
        (_, Dtype::F64) if spec.out == Dtype::F64 => match sparse {
            Dtype::F64 => return work.run::<f64, f64, f64>(),
            Dtype::F32 => return work.run::<f32, f64, f64>(),
            Dtype::F16 => return work.run::<f16, f64, f64>(),
            Dtype::BF16 => return work.run::<bf16, f64, f64>(),
            _ => {}
        },
        (Dtype::F64, Dtype::F32) if spec.out == Dtype::F32 => return work.run::<f64, f32, f32>(),
        (Dtype::F64, Dtype::F32) if spec.out == Dtype::F64 => return work.run::<f64, f32, f64>(),
        (Dtype::F16, Dtype::F32) if spec.out == Dtype::F32 => return work.run::<f16, f32, f32>(),
        (Dtype::BF16, Dtype::F32) if spec.out == Dtype::F32 => return work.run::<bf16, f32, f32>(),
        _ => {}
    }
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
        (a, b) => {
            Err(Refusal::new(format!("A is {a} and B is {b}: operands are of one type, e4m3 and e5m2 in any mix, or floats with an f32 or f64 B and C"))
                .help(format!("b = {a}, or dtype = f16"))
                .into())
        }
    }
}

/// The result of factors A and B, which is no integer.
fn with_float<A: Number, B: Number, W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, W::Error> {
    let KernelSpec { a, out, .. } = spec;
    match out {
        Dtype::F16 => work.run::<A, B, f16>(),
        Dtype::BF16 => work.run::<A, B, bf16>(),
        Dtype::F32 => work.run::<A, B, f32>(),
        Dtype::E4M3 => work.run::<A, B, e4m3>(),
        _ => Err(Refusal::new(format!("C is {out}: products of {a} are written as f16, bf16, f32 or e4m3"))
            .help(format!("out = {}", a.default_out()))
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;

    impl Typed for Names {
        type Output = [Dtype; 3];
        type Error = Refusal;

        fn run<A: Number, B: Number, C: Number>(self) -> Result<[Dtype; 3], Refusal> {
            Ok([A::DTYPE, B::DTYPE, C::DTYPE])
        }
    }

    #[test]
    fn every_product_has_its_types_and_others_are_refused() {
        use Dtype::{BF16, E4M3, E5M2, F16, F32, F64, I8, I32};
        let spec = |a, b, out| KernelSpec::new(64, 64, 64).a(a).b(b).out(out);
        let all = [F16, BF16, F32, F64, E4M3, E5M2, I8, I32];
        for (a, b, out) in all.iter().flat_map(|a| all.iter().flat_map(move |b| all.map(move |out| (*a, *b, out)))) {
            let factors = a != I32 && a != F64 && (a == b || (a.is_fp8() && b.is_fp8()));
            let written = [F16, BF16, F32, E4M3].contains(&out) || (out == I32 && a == I8);
            let is_small = (b == F64 && [F64, F32, F16, BF16].contains(&a)) || (b == F32 && [F16, BF16].contains(&a));
            let is_mixed = a == F64 && b == F32 && [F32, F64].contains(&out);
            let has_types = factors && written || is_small && out == b || is_mixed;
            let found = with_types(&spec(a, b, out), Names).ok();
            assert_eq!(found, has_types.then_some([a, b, out]), "{a} x {b} -> {out}");
        }
    }
}
