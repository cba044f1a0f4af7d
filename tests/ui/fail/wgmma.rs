use bsr::{Bsr, Dense, bf16, bsr_kernel, e4m3, e5m2};

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = e4m3, b_layout = row)]
struct RowMajorFp8;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, b_layout = row)]
fn typed_fp8(a: Bsr<e4m3>, b: Dense<e5m2>) -> Dense<bf16>;

#[bsr_kernel(bm = 128, bn = 128, bk = 128, dtype = e4m3, k_step = 48)]
struct HalfAnInstruction;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, scale = tensor)]
struct ScaledHalf;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = i8, scale = tensor)]
struct ScaledInteger;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = i8, out = f32, scale = block)]
struct IntegerBlocks;

#[bsr_kernel(bm = 128, bn = 96, bk = 64, dtype = e4m3, scale = block)]
struct OddGroups;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, accumulate = promoted)]
struct PromotedHalf;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, accumulate = atomic)]
struct AtomicTensorCore;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = e4m3, scale = block, accumulate = fast)]
struct FastBlocks;

#[bsr_kernel(bm = 128, bn = 128, bk = 24, dtype = e4m3)]
struct NarrowBlocks;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = f32)]
struct Single;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, arch = sm_80)]
struct Ampere;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, warps = (8, 1), shape = m16n16k16, vector = 8)]
struct KeysOfOthers;

fn main() {
    println!("{} {} {}", RowMajorFp8::SPEC, typed_fp8::SPEC, Ampere::SPEC);
}
