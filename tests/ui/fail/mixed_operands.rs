use bsr::bsr_kernel;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, a = bf16)]
struct Spmm;

fn main() {
    println!("{}", Spmm::SPEC);
}
