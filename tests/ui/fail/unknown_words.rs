use bsr::bsr_kernel;

#[bsr_kernel(
    bm = 128,
    bn = 128,
    bk = 64,
    mma = tensor_core,
    dtype = fp8,
    out = i8,
    acc = b16,
    scale = rowcol,
    accumulate = atmic,
    arch = sm_90,
    shape = m16n8k16,
    vector = "4",
)]
struct Spmm;

fn main() {
    println!("{}", Spmm::SPEC);
}
