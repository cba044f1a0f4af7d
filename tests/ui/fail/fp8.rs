use bsr::bsr_kernel;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, a = e4m3, b = e5m2, out = i8)]
struct Spmm;

fn main() {
    println!("{}", Spmm::SPEC);
}
