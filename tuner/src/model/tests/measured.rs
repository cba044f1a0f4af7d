//! What was measured of kernels: the rows that the model meets.

pub(super) const CUBE: [usize; 3] = [8192, 8192, 8192];
pub(super) const FLAGSHIP: [usize; 3] = [8192, 8192, 8288];
pub(super) const SMALL: [usize; 3] = [4096, 4096, 4096];
pub(super) const SAMPLED: [usize; 3] = [8192, 8192, 4096];

/// The rate of the library in the ratios of entry 18 over the one in the run of entry 99.
const SLOWER: f64 = 688.0 / 757.0;

/// TFLOP/s on one H200: spec, M N K, pattern, rate.
pub(super) const MEASURED: &[(&str, [usize; 3], &str, f64)] = &[
    // README.md, the table.
    ("bm = 512, bn = 256, bk = 112", FLAGSHIP, "topk:16", 618.0),
    ("bm = 512, bn = 256, bk = 112", CUBE, "topk:16", 604.0),
    ("bm = 128, bn = 256, bk = 128, cluster = 2", CUBE, "random:0.5", 647.0),
    ("bm = 128, bn = 256, bk = 128, cluster = 2", CUBE, "random:0.25", 657.0),
    ("bm = 128, bn = 256, bk = 128, cluster = 2", CUBE, "random:0.125", 614.0),
    ("bm = 64, bn = 512, bk = 64, cluster = 2", CUBE, "random:0.25", 490.0),
    ("bm = 64, bn = 256, bk = 64, cluster = 2", CUBE, "random:0.05", 430.0),
    ("bm = 32, bn = 256, bk = 32, pack = 4", CUBE, "random:0.05", 246.0),
    ("bm = 128, bn = 256, bk = 128, transpose = on", CUBE, "random:0.25", 667.0),
    ("bm = 128, bn = 256, bk = 128, op = dds", CUBE, "random:0.25", 654.0),
    ("bm = 128, bn = 256, bk = 128, op = sdd", SAMPLED, "random:0.25", 571.0),
    ("bm = 128, bn = 256, bk = 128, op = sdd", SAMPLED, "random:0.05", 475.0),
    ("bm = 128, bn = 256, bk = 32", CUBE, "topk:16", 538.0),
    ("bm = 64, bn = 256, bk = 64, cluster = 2", SMALL, "random:0.125", 392.0),
    ("bm = 512, bn = 128, bk = 112", FLAGSHIP, "topk:16", 596.0),
    ("bm = 128, bn = 256, bk = 128, dtype = bf16, cluster = 2", CUBE, "random:0.25", 660.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3", CUBE, "random:0.5", 1311.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3", CUBE, "random:0.25", 1286.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3, cluster = 2", CUBE, "random:0.125", 1178.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted", CUBE, "random:0.25", 1169.0),
    ("bm = 64, bn = 512, bk = 64, dtype = e4m3, cluster = 2", CUBE, "random:0.125", 938.0),
    ("bm = 128, bn = 256, bk = 128, dtype = i8", CUBE, "random:0.25", 1147.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync", CUBE, "random:0.25", 406.0),
    // benches/LOG.md, 7 and 11: ratios, of a dense library at 640 as in 13.
    ("bm = 512, bn = 256, bk = 112, k_step = 112, stages = 2", FLAGSHIP, "topk:16", 0.90 * 640.0),
    ("bm = 512, bn = 256, bk = 112, stages = 3", FLAGSHIP, "topk:16", 0.92 * 640.0),
    ("bm = 512, bn = 256, bk = 112, k_step = 32", FLAGSHIP, "topk:16", 0.94 * 640.0),
    ("bm = 512, bn = 256, bk = 112, cluster = 2", FLAGSHIP, "topk:16", 0.953 * 640.0),
    ("bm = 512, bn = 128, bk = 112, cluster = 2", FLAGSHIP, "topk:16", 0.900 * 640.0),
    ("bm = 512, bn = 256, bk = 112, cluster = 4", FLAGSHIP, "topk:16", 0.86 * 640.0),
    // 14: FP8, ratios of the library's 1290 at 0.5, 1304 at 0.25 and 1257 at 0.125, as in the README.
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3", CUBE, "random:0.125", 0.932 * 1257.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3, cluster = 4", CUBE, "random:0.125", 0.87 * 1257.0),
    ("bm = 128, bn = 128, bk = 128, dtype = e4m3", CUBE, "random:0.125", 0.89 * 1257.0),
    ("bm = 128, bn = 192, bk = 128, dtype = e4m3", CUBE, "random:0.125", 0.91 * 1257.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3, schedule = strided", CUBE, "random:0.125", 0.89 * 1257.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3, stages = 3", CUBE, "random:0.25", 0.94 * 1304.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3, k_step = 64, stages = 8", CUBE, "random:0.25", 0.92 * 1304.0),
    ("bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted", CUBE, "random:0.5", 0.958 * 1290.0),
    ("bm = 128, bn = 128, bk = 128, dtype = e4m3, accumulate = promoted", CUBE, "random:0.5", 0.945 * 1290.0),
    ("bm = 128, bn = 192, bk = 128, dtype = e4m3, accumulate = promoted", CUBE, "random:0.5", 0.925 * 1290.0),
    // 15: the middles of the ranges; 0.60 and 0.73 are of one library.
    ("bm = 512, bn = 256, bk = 112, dtype = e4m3, cluster = 2", FLAGSHIP, "topk:16", 975.0),
    ("bm = 512, bn = 256, bk = 112, dtype = e4m3", FLAGSHIP, "topk:16", 975.0 * 0.60 / 0.73),
    ("bm = 512, bn = 256, bk = 96, dtype = e4m3", [8192, 8192, 8256], "topk:16", 1152.0),
    ("bm = 512, bn = 256, bk = 128, dtype = e4m3", CUBE, "topk:16", 1315.0),
    // 18: warps and CUDA cores; ratios of 688.
    ("bm = 128, bn = 128, bk = 128, mma = mma_sync", CUBE, "random:0.25", 0.547 * 688.0),
    ("bm = 128, bn = 128, bk = 128, mma = mma_sync, warps = (4, 2)", CUBE, "random:0.25", 0.49 * 688.0),
    ("bm = 128, bn = 128, bk = 128, mma = mma_sync, warps = (2, 4)", CUBE, "random:0.25", 0.49 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = wmma", CUBE, "random:0.25", 0.52 * 688.0),
    ("bm = 128, bn = 128, bk = 128, mma = wmma", CUBE, "random:0.25", 0.45 * 688.0),
    ("bm = 128, bn = 128, bk = 128, mma = wmma, arch = sm_70", CUBE, "random:0.25", 0.19 * 688.0),
    // 89: warps that only load; ratios of the same 688.
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma", CUBE, "random:0.25", 0.652 * 688.0),
    ("bm = 128, bn = 128, bk = 128, mma = mma_sync, load = tma, warps = (2, 2)", CUBE, "random:0.25", 0.628 * 688.0),
    (
        "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = producer, arch = sm_90a",
        CUBE,
        "random:0.25",
        0.579 * 688.0,
    ),
    ("bm = 128, bn = 256, bk = 128, mma = wmma, load = producer, arch = sm_90a", CUBE, "random:0.25", 0.491 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma, stages = 3", CUBE, "random:0.25", 0.650 * 688.0),
    (
        "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma, k_step = 32, stages = 8",
        CUBE,
        "random:0.25",
        0.639 * 688.0,
    ),
    // The ratio of a library that is 2 % faster with this layout.
    (
        "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma, b_layout = col",
        CUBE,
        "random:0.25",
        0.639 * 688.0 * 739.2 / 725.4,
    ),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma, warps = (1, 8)", CUBE, "random:0.25", 0.628 * 688.0),
    ("bm = 128, bn = 192, bk = 128, mma = mma_sync, load = tma, warps = (2, 2)", CUBE, "random:0.25", 0.587 * 688.0),
    (
        "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma, cta_m = 64, warps = (1, 4)",
        CUBE,
        "random:0.25",
        0.573 * 688.0,
    ),
    (
        "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma, schedule = strided",
        CUBE,
        "random:0.25",
        0.563 * 688.0,
    ),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, acc = f16", CUBE, "random:0.25", 0.628 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, acc = f16, load = tma", CUBE, "random:0.25", 0.672 * 688.0),
    // 92: transposed blocks, a sparse B, divided K.
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, transpose = on", CUBE, "random:0.25", 0.571 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, transpose = on, load = tma", CUBE, "random:0.25", 0.655 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, op = dds", CUBE, "random:0.25", 0.535 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, op = dds, load = tma", CUBE, "random:0.25", 0.646 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, split = auto", CUBE, "random:0.25", 0.572 * 688.0),
    // 99: a full operand, and SDDMM beside a library that had 757 at 0.25 and 618 at 0.05.
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, beta = on", CUBE, "random:0.25", 0.535 * 688.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, beta = on, load = tma", CUBE, "random:0.25", 0.602 * 688.0),
    ("bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync", SAMPLED, "random:0.25", 367.0 * SLOWER),
    (
        "bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync, load = producer, arch = sm_90a",
        SAMPLED,
        "random:0.25",
        366.0 * SLOWER,
    ),
    ("bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync, load = tma", SAMPLED, "random:0.25", 425.0 * SLOWER),
    (
        "bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync, load = tma, schedule = balanced",
        SAMPLED,
        "random:0.25",
        437.0 * SLOWER,
    ),
    ("bm = 128, bn = 256, bk = 128, op = sdd, mma = wmma", SAMPLED, "random:0.25", 279.0 * SLOWER),
    ("bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync", SAMPLED, "random:0.05", 343.0 * SLOWER),
    (
        "bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync, load = producer, arch = sm_90a",
        SAMPLED,
        "random:0.05",
        348.0 * SLOWER,
    ),
    ("bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync, load = tma", SAMPLED, "random:0.05", 402.0 * SLOWER),
    (
        "bm = 128, bn = 256, bk = 128, op = sdd, mma = mma_sync, load = tma, schedule = balanced",
        SAMPLED,
        "random:0.05",
        465.0 * SLOWER,
    ),
    ("bm = 128, bn = 256, bk = 128, op = sdd, mma = wmma", SAMPLED, "random:0.05", 313.0 * SLOWER),
    (
        "bm = 128, bn = 128, bk = 128, op = sdd, mma = mma_sync, load = tma, warps = (2, 2)",
        SAMPLED,
        "random:0.25",
        461.0 * SLOWER,
    ),
    ("bm = 64, bn = 256, bk = 64, op = sdd, mma = mma_sync, load = tma", SAMPLED, "random:0.25", 402.0 * SLOWER),
    (
        "bm = 64, bn = 256, bk = 64, op = sdd, mma = mma_sync, load = producer, arch = sm_90a",
        SAMPLED,
        "random:0.25",
        318.0 * SLOWER,
    ),
    ("bm = 32, bn = 256, bk = 32, op = sdd, mma = mma_sync", SAMPLED, "random:0.25", 249.0 * SLOWER),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = i8", CUBE, "random:0.25", 704.0),
    ("bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = e4m3", CUBE, "random:0.25", 299.0),
    ("bm = 64, bn = 128, bk = 64, mma = scalar, vector = 8", SMALL, "random:0.125", 45.2),
    ("bm = 64, bn = 64, bk = 64, mma = scalar", SMALL, "random:0.125", 25.4),
    ("bm = 64, bn = 64, bk = 64, mma = scalar, accumulate = atomic, out = f32", SMALL, "random:0.125", 16.7),
    ("bm = 512, bn = 128, bk = 112, mma = scalar, vector = 8", FLAGSHIP, "topk:16", 49.4),
    ("bm = 512, bn = 64, bk = 112, mma = scalar", FLAGSHIP, "topk:16", 24.1),
    ("bm = 512, bn = 64, bk = 112, mma = scalar, accumulate = atomic, out = f32", FLAGSHIP, "topk:16", 18.8),
    // tuner/tuned/h200.jsonl, the run of 26: small blocks.
    ("bm = 32, bn = 256, bk = 32", CUBE, "random:0.25", 317.0),
    ("bm = 16, bn = 256, bk = 16", CUBE, "random:0.1", 167.0),
    ("bm = 32, bn = 128, bk = 32, pack = 12", CUBE, "random:0.25", 302.0),
    ("bm = 16, bn = 256, bk = 16, pack = 12", CUBE, "random:0.1", 161.0),
    // 19.
    ("bm = 64, bn = 256, bk = 64, swap = on, pack = 3", CUBE, "random:0.25", 478.0),
    ("bm = 64, bn = 128, bk = 64, swap = on, pack = 4", CUBE, "random:0.25", 0.697 * 669.0),
    ("bm = 64, bn = 128, bk = 64, swap = on, pack = 6", CUBE, "random:0.25", 0.649 * 669.0),
    // 20: the other operations.
    ("bm = 32, bn = 256, bk = 32, transpose = on", CUBE, "random:0.25", 286.0),
    ("bm = 32, bn = 256, bk = 32, op = dds", CUBE, "random:0.25", 287.0),
    // What stays out of reach: ratios of 571.
    ("bm = 64, bn = 256, bk = 64, cluster = 4", SMALL, "random:0.125", 0.660 * 571.0),
    ("bm = 64, bn = 512, bk = 64", SMALL, "random:0.125", 0.68 * 571.0),
    ("bm = 64, bn = 256, bk = 64, k_step = 32", SMALL, "random:0.125", 0.68 * 571.0),
];
