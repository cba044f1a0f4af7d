use bsr::bsr_kernel;

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
enum Spmm {
    Dsd,
}

fn main() {
    let _ = Spmm::Dsd;
}
