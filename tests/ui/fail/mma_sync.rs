use bsr::bsr_kernel;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, arch = sm_75)]
struct Turing;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32)]
struct Single;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3, arch = sm_80)]
struct EarlyFp8;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, out = e4m3)]
struct EarlyFp8Result;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8, b_layout = row)]
struct RowMajorInteger;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3, scale = block)]
struct Scaled;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, cluster = 2, swizzle = 64)]
struct KeysOfOthers;

#[bsr_kernel(bm = 72, bn = 72, bk = 24, mma = mma_sync)]
struct Pieces;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = mma_sync, warps = (8, 4))]
struct TooManyWarps;

fn main() {
    println!("{} {} {}", Turing::SPEC, Single::SPEC, Scaled::SPEC);
}
