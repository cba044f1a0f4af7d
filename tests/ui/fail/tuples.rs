use bsr::bsr_kernel;

#[bsr_kernel(bm = 128, bn = (128), bk = 64, mma = mma_sync, warps = 4, stages = (2, 3))]
struct Number;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (2, 4, 1))]
struct Three;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (0, auto))]
struct Elements;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (2 4))]
struct Comma;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (2, (4)), k_step = { 32 })]
struct Nested;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = [2, 4])]
struct List;

fn main() {
    println!("{} {} {}", Number::SPEC, Three::SPEC, Elements::SPEC);
    println!("{} {} {}", Comma::SPEC, Nested::SPEC, List::MEMBERS.len());
}
