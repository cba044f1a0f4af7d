use bsr::bsr_kernel;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = wmma, dtype = e4m3)]
struct Fp8;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = wmma, dtype = bf16, arch = sm_70)]
struct EarlyBf16;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = wmma, out = bf16, arch = sm_75)]
struct EarlyBf16Result;

#[bsr_kernel(bm = 48, bn = 64, bk = 64, mma = wmma, shape = m32n8k16)]
struct TallFragments;

#[bsr_kernel(bm = 64, bn = 80, bk = 64, mma = wmma, shape = m8n32k16)]
struct WideFragments;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = wmma, warps = (3, 1))]
struct Thirds;

#[bsr_kernel(bm = 64, bn = 512, bk = 64, mma = wmma, warps = (1, 1))]
struct OneWarp;

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = wmma, consumers = 2)]
struct KeyOfAnother;

fn main() {
    println!("{} {} {}", Fp8::SPEC, EarlyBf16::SPEC, OneWarp::SPEC);
}
