//! Rust snippets of the README and the book, which `cargo test` compiles, and runs unless they need a GPU.

macro_rules! pages {
    ($($name:ident = $path:literal;)*) => {
        $(
            #[doc = include_str!($path)]
            mod $name {}
        )*
    };
}

pages! {
    readme = "../README.md";
    attention = "../docs/src/attention.md";
    device_patterns = "../docs/src/device-patterns.md";
    epilogues = "../docs/src/epilogues.md";
    families = "../docs/src/families.md";
    first_kernel = "../docs/src/first-kernel.md";
    gpu_programs = "../docs/src/gpu-programs.md";
    keys = "../docs/src/keys.md";
    real_data = "../docs/src/real-data.md";
    several_gpus = "../docs/src/several-gpus.md";
    simulator = "../docs/src/simulator.md";
    small_blocks = "../docs/src/small-blocks.md";
    solver = "../docs/src/solver.md";
    sparse_times_sparse = "../docs/src/sparse-times-sparse.md";
}
