use bsr::bsr_kernel;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, b_layout = col)]
struct ColumnMajor;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = atomic)]
struct AtomicHalf;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = atomic, out = f32, vector = 8, schedule = strided)]
struct AtomicVector;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = fast)]
struct FastSums;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, vector = 3)]
struct Threes;

#[bsr_kernel(bm = 64, bn = 64, bk = 24, mma = scalar, vector = 8)]
struct HalfAStage;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, dtype = bf16, vector = 8, arch = sm_75)]
struct EarlyPairs;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, dtype = i8)]
struct Integers;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, mma = scalar, stages = 3, k_step = 16)]
struct KeysOfOthers;

fn main() {
    println!("{} {} {}", ColumnMajor::SPEC, Threes::SPEC, Integers::SPEC);
}
