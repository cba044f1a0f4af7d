use bsr::prelude::*;

struct Layer;

impl Layer {
    #[bsr_kernel(bm = 128, bn = 128, bk = 64)]
    fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
}

fn main() {
    let _ = Layer;
}
