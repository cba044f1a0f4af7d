use bsr::bsr_kernel;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = fp16, out = f128, b_layout = column)]
struct Spmm;

fn main() {
    println!("{}", Spmm::SPEC);
}
