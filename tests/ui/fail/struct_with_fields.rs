use bsr::bsr_kernel;

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
struct Spmm {
    tile: u32,
}

fn main() {
    println!("{}", Spmm::SPEC);
}
