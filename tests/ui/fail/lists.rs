use bsr::bsr_kernel;

#[bsr_kernel(bm = 128, bn = [], bk = [64, [32]], stages = 5..=3, cluster = 2..2, k_step = auto..64, swizzle = 32..)]
struct Shapes;

#[bsr_kernel(bm = 128, bn = [128, 0x80], bk = 64, stages = [3, auto, 3], dtype = [auto, bf16, f16])]
struct Twice;

#[bsr_kernel(bm = 128, bn = [64, wide, 0, "128"], bk = 64, dtype = [f16, fp16], schedule = [strided, dealt])]
struct Elements;

#[bsr_kernel(bm = 128, bn = [64 128], bk = 64, stages = [2 * 2, 3], cluster = ..4, stage = 2..=3)]
struct Commas;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, stages = 1..=1_000)]
struct Long;

fn main() {
    println!("{} {}", Shapes::MEMBERS.len(), Twice::MEMBERS.len());
    println!("{} {} {}", Elements::MEMBERS.len(), Commas::MEMBERS.len(), Long::MEMBERS.len());
}
