//! The rendering matrix: thousands of legal specs of every family and every operation, drawn with strides.

use bsr_codegen::{KernelSpec, Plan};

/// One family of kernels: what all its specs say, and the axes that they are drawn from.
struct Group {
    base: &'static str,
    bm: &'static [u32],
    bn: &'static [u32],
    bk: &'static [u32],
    /// Settings of other keys, one of every axis; an empty text leaves the keys at their defaults.
    axes: &'static [&'static [&'static str]],
    /// How many specs are drawn. Those that cannot be planned are left out.
    draws: usize,
}

const TYPES: &[&str] = &[
    "",
    "dtype = bf16",
    "out = f32",
    "dtype = e4m3",
    "dtype = bf16, out = f32",
    "dtype = i8",
    "dtype = e4m3, accumulate = promoted",
    "a = e4m3, b = e5m2, out = f16",
    "out = bf16",
    "dtype = e5m2, scale = tensor, out = e4m3",
    "out = e4m3",
    "dtype = i8, scale = row_col, out = f16",
    "dtype = e4m3, scale = block",
    "dtype = e4m3, scale = row_col",
    "dtype = bf16, out = f16",
    "a = e5m2, b = e4m3, accumulate = promoted, scale = row_col, out = e4m3",
    "dtype = i8, out = f16",
];
const LAYOUTS: &[&str] = &["", "b_layout = col", "c_layout = col", "b_layout = col, c_layout = col"];
const OPERATIONS: &[&str] = &[
    "",
    "transpose = on",
    "op = dds",
    "op = dds, transpose = on",
    "batch = on",
    "permute = on",
    "op = dds, a_layout = col",
    "transpose = on, batch = on",
    "op = dds, batch = on",
];
const EPILOGUES: &[&str] = &[
    "",
    "",
    "beta = on",
    "",
    "epilogue = \"|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)\"",
    "",
    "epilogue = \"|bias: Cols<bf16>| (silu(acc + bias), row_max(acc))\"",
    "epilogue = \"|| (acc, row_sum(acc * acc))\"",
    "epilogue = \"|bias: Rows<f16>, gate: Cols<f32>| relu(acc + bias) * gate\"",
];

/// Of products of pairs of blocks.
const PAIRED_TYPES: &[&str] = &["", "dtype = bf16", "out = f32", "dtype = bf16, out = f16"];
const PAIRED: &[&str] =
    &["", "cluster = 2", "split = auto", "pdl = early", "", "stages = 3, schedule = strided", "k_step = 32"];

const GROUPS: &[Group] = &[
    Group {
        base: "",
        bm: &[64, 128, 192, 256, 320, 448, 512],
        bn: &[128, 256, 64, 32, 192, 16, 384, 512, 96],
        bk: &[64, 112, 128, 32, 16, 48, 8, 240, 80, 24, 512, 40],
        axes: &[
            TYPES,
            LAYOUTS,
            OPERATIONS,
            EPILOGUES,
            &[
                "",
                "cluster = 2",
                "stages = 2",
                "consumers = 1",
                "",
                "cluster = 4",
                "swizzle = 64",
                "stages = 3, schedule = strided",
                "consumers = 3",
                "k_step = 32",
                "consumers = 1, cluster = 2",
                "swizzle = 32",
                "k_step = 64",
            ],
        ],
        draws: 9_000,
    },
    Group {
        base: "swap = on",
        bm: &[32, 16, 64, 8, 24, 40, 96, 200, 128, 512, 48],
        bn: &[256, 128, 64, 192],
        bk: &[32, 16, 64, 24, 8, 112, 40, 200, 128, 512, 80],
        axes: &[
            &[
                "",
                "dtype = bf16",
                "out = f32",
                "dtype = e4m3",
                "dtype = i8",
                "a = e5m2, b = e4m3, out = f32",
                "out = bf16",
            ],
            LAYOUTS,
            OPERATIONS,
            EPILOGUES,
            &["", "pack = 1", "stages = 2", "consumers = 1", "", "pack = 2", "k_step = 64", "stages = 3"],
        ],
        draws: 1_800,
    },
    Group {
        base: "swap = on",
        bm: &[32, 16, 8, 24, 40, 96, 200, 512],
        bn: &[256, 128, 64, 192],
        bk: &[32, 16, 64, 24, 112, 40, 128],
        axes: &[
            &["split = auto", "split = 2", "split = 5"],
            &["", "dtype = bf16", "out = f32", "dtype = e4m3", "dtype = i8"],
            LAYOUTS,
            OPERATIONS,
            EPILOGUES,
        ],
        draws: 300,
    },
    Group {
        base: "",
        bm: &[64, 128, 256, 512],
        bn: &[128, 256, 64, 16],
        bk: &[64, 112, 128, 32, 16, 40],
        axes: &[
            &["split = auto", "split = 2", "split = 5"],
            TYPES,
            LAYOUTS,
            OPERATIONS,
            EPILOGUES,
            &["", "cluster = 2", "consumers = 1", "", "pdl = on"],
        ],
        draws: 500,
    },
    Group {
        base: "mma = scalar",
        bm: &[3, 4, 8, 1, 5, 2, 6, 7],
        bn: &[1, 4, 16, 2, 3, 7],
        bk: &[3, 4, 8, 1, 5, 2, 6, 7],
        axes: &[
            &["dtype = f64", "dtype = f32", "a = f32, b = f64", "a = f16, b = f32", "a = bf16, b = f64"],
            LAYOUTS,
            &["", "arch = sm_90a", "arch = sm_80", "lanes = 8", "lanes = 16, arch = sm_90a"],
        ],
        draws: 400,
    },
    Group {
        base: "mma = scalar, lanes = 1",
        bm: &[3, 4, 8, 1, 5, 2, 6, 7],
        bn: &[1, 2],
        bk: &[3, 4, 8, 1, 5, 2, 6, 7],
        axes: &[
            &["dtype = f64", "dtype = f32", "a = f32, b = f64", "a = f16, b = f32", "a = bf16, b = f64"],
            LAYOUTS,
            &["", "arch = sm_90a", "arch = sm_80"],
        ],
        draws: 120,
    },
    Group {
        base: "op = sdd",
        bm: &[128, 64, 32, 16, 96, 8, 512, 24, 192, 40],
        bn: &[256, 128, 192, 64, 8],
        bk: &[128, 64, 32, 16, 80, 264, 8, 136, 24, 112],
        axes: &[
            &[
                "",
                "dtype = bf16",
                "out = f32",
                "dtype = e4m3",
                "dtype = i8",
                "a = e5m2, b = e4m3, out = f32",
                "dtype = i8, out = f16",
            ],
            &["", "a_layout = col", "b_layout = col", "a_layout = col, b_layout = col", "transpose = on"],
            EPILOGUES,
            &["", "batch = on", "schedule = balanced", "consumers = 1", "", "stages = 3", "consumers = 2"],
        ],
        draws: 1_400,
    },
    Group {
        base: "op = dss",
        bm: &[64, 128, 256, 512, 192],
        bn: &[128, 64, 256, 32, 96, 16],
        bk: &[64, 128, 112, 32, 16, 40],
        axes: &[PAIRED_TYPES, &["", "c_layout = col"], EPILOGUES, PAIRED],
        draws: 200,
    },
    Group {
        base: "op = sss",
        bm: &[64, 128, 256, 512, 192],
        bn: &[128, 64, 256, 32, 96, 16],
        bk: &[64, 128, 112, 32, 16, 40],
        axes: &[
            PAIRED_TYPES,
            &["", "beta = on", "epilogue = \"|alpha: f32| relu(alpha * acc)\"", "epilogue = \"|x: Bsr<f16>| acc * x\""],
            PAIRED,
        ],
        draws: 150,
    },
    Group {
        base: "op = attention",
        bm: &[128, 64, 192, 256],
        bn: &[128, 64, 256, 80, 192, 16, 96, 32],
        bk: &[128, 64, 256, 96, 16],
        axes: &[
            &["", "dtype = bf16"],
            &[
                "",
                "score = \"|| if i >= j { s * scale } else { -inf }\"",
                "score = \"|cap: f32| cap * tanh(s * scale / cap)\"",
            ],
            &["", "stages = 2", "", "k_step = 64", "k_step = 32, stages = 3"],
        ],
        draws: 160,
    },
    Group {
        base: "",
        bm: &[128, 64, 32, 16, 96, 512, 48, 8],
        bn: &[128, 256, 64, 32, 112, 400],
        bk: &[64, 112, 32, 16, 48, 128, 80, 24],
        axes: &[
            &[
                "mma = mma_sync",
                "mma = wmma",
                "mma = mma_sync, arch = sm_90a",
                "mma = wmma, arch = sm_70",
                "mma = wmma, arch = sm_90a",
                "mma = wmma, arch = sm_75",
                "mma = wmma, shape = m32n8k16",
                "mma = wmma, shape = m8n32k16",
            ],
            &[
                "",
                "dtype = bf16",
                "dtype = e4m3",
                "out = f32",
                "dtype = i8",
                "dtype = e4m3, out = e4m3",
                "dtype = i8, out = f16",
            ],
            LAYOUTS,
            &["", "stages = 2", "k_step = 32", "warps = (2, 2)", "warps = (1, 4)", "schedule = strided", "k_step = 64"],
        ],
        draws: 1_600,
    },
    Group {
        base: "mma = scalar",
        bm: &[64, 16, 32, 96, 512, 40, 8],
        bn: &[64, 32, 128, 16, 256, 496],
        bk: &[32, 16, 64, 112, 80, 24, 8],
        axes: &[
            &["", "vector = 8", "accumulate = atomic, out = f32", "vector = 4, dtype = f32", "vector = 2"],
            &["", "dtype = bf16", "dtype = f32", "out = f32", "arch = sm_90a"],
            &["", "schedule = strided"],
        ],
        draws: 500,
    },
    Group {
        base: "op = attention, sinks = on",
        bm: &[128, 64],
        bn: &[128, 64, 80],
        bk: &[128, 64],
        axes: &[
            &["", "dtype = bf16"],
            &["", "score = \"|slopes: Heads<f32>| s * scale - slopes * abs(i - j)\""],
            &["", "split = auto", "pack_heads = 4"],
        ],
        draws: 12,
    },
    Group {
        base: "op = attention, dtype = e4m3",
        bm: &[128, 64, 192],
        bn: &[128, 64, 256, 96],
        bk: &[128, 64, 32],
        axes: &[
            &["scale = tensor", ""],
            &["", "score = \"|| if i >= j { s * scale } else { -inf }\"", "out = f16, sinks = on"],
            &["", "pack_heads = 4", "k_step = 32, stages = 3", "consumers = 1", "d = 192"],
        ],
        draws: 30,
    },
    Group {
        base: "op = attention, page = 64",
        bm: &[64, 128],
        bn: &[128, 64, 80, 256],
        bk: &[128, 64, 48],
        axes: &[
            &["", "dtype = bf16"],
            &["", "score = \"|last: Rows<f32>| if j <= last { s * scale } else { -inf }\""],
            &["split = auto", "pack_heads = 4", "", "sinks = on"],
        ],
        draws: 16,
    },
    Group {
        base: "op = attention, work_list = 8192",
        bm: &[64, 128],
        bn: &[128, 64],
        bk: &[64, 32],
        axes: &[&["", "dtype = bf16"], &["", "cluster = 2, pdl = on", "consumers = 1", "split = auto, pack_heads = 4"]],
        draws: 6,
    },
    Group {
        base: "op = attention, page = 16, pack_heads = 4, split = auto",
        bm: &[64],
        bn: &[128, 64],
        bk: &[128, 64],
        axes: &[&["", "dtype = bf16"], &["", "d = 192", "stages = 2"]],
        draws: 6,
    },
    Group {
        base: "acc = f16",
        bm: &[64, 128, 192, 256, 512],
        bn: &[128, 256, 64, 192, 16, 512],
        bk: &[64, 112, 32, 24],
        axes: &[
            LAYOUTS,
            OPERATIONS,
            EPILOGUES,
            &["", "cluster = 2", "consumers = 1", "consumers = 3", "split = auto", "swap = off, pack = 2"],
        ],
        draws: 80,
    },
    Group {
        base: "acc = f16, swap = on",
        bm: &[32, 8, 96, 200],
        bn: &[128, 64, 256],
        bk: &[32, 16, 64],
        axes: &[LAYOUTS, OPERATIONS, EPILOGUES, &["", "split = auto", "consumers = 1"]],
        draws: 30,
    },
    Group {
        base: "acc = f16",
        bm: &[64, 16, 256],
        bn: &[128, 64, 256],
        bk: &[64, 16, 112],
        axes: &[
            &["mma = mma_sync", "mma = wmma", "mma = wmma, arch = sm_70", "mma = wmma, shape = m8n32k16"],
            LAYOUTS,
            &["", "warps = (2, 2)", "stages = 2"],
        ],
        draws: 30,
    },
    Group {
        base: "",
        bm: &[128, 64, 16, 48, 512],
        bn: &[256, 128, 64, 32, 48],
        bk: &[128, 64, 16, 32, 48, 112],
        axes: &[
            &[
                "mma = mma_sync, load = tma",
                "mma = mma_sync, load = producer",
                "mma = wmma, load = producer",
                "mma = mma_sync, load = producer, arch = sm_90a",
                "mma = mma_sync, load = tma, dtype = i8",
            ],
            LAYOUTS,
            &["", "stages = 2", "k_step = 32", "warps = (2, 2)", "out = f32", "beta = on", "schedule = strided"],
        ],
        draws: 120,
    },
    Group {
        base: "",
        bm: &[128, 64, 16, 48],
        bn: &[128, 64, 32, 48],
        bk: &[64, 16, 32, 48],
        axes: &[
            &["mma = mma_sync", "mma = wmma", "mma = mma_sync, dtype = e4m3", "mma = mma_sync, dtype = i8, out = f32"],
            &["", "c_layout = col"],
            &[
                "beta = on",
                "epilogue = \"|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)\"",
                "epilogue = \"|bias: Cols<bf16>| silu(acc + bias)\"",
                "epilogue = \"|bias: Rows<f16>, gate: Cols<f32>| relu(acc + bias) * gate\"",
                "scale = row_col",
                "scale = tensor",
            ],
        ],
        draws: 80,
    },
    Group {
        base: "mma = mma_sync, dtype = f64",
        bm: &[64, 128, 16, 8, 48, 512],
        bn: &[64, 128, 32, 16, 48],
        bk: &[64, 16, 32, 48, 112],
        axes: &[
            &[
                "",
                "arch = sm_90a",
                "shape = m16n8k16",
                "arch = sm_86",
                "shape = m16n8k4",
                "arch = sm_90a, shape = m8n8k4",
            ],
            LAYOUTS,
            &["", "stages = 2", "k_step = 32", "warps = (2, 2)", "warps = (1, 4)", "schedule = strided"],
        ],
        draws: 120,
    },
    Group {
        base: "op = sdd",
        bm: &[128, 64, 32, 16, 96, 512, 48],
        bn: &[256, 128, 64, 192],
        bk: &[128, 64, 32, 16, 80, 256, 112],
        axes: &[
            &["mma = mma_sync", "mma = mma_sync, arch = sm_90a", "mma = wmma", "mma = mma_sync, arch = sm_120"],
            &["", "load = producer", "load = tma", "stages = 3", "warps = (2, 2)", "k_step = 32", "cta_m = 32"],
            &[
                "",
                "dtype = bf16",
                "out = f32",
                "dtype = e4m3",
                "dtype = i8, out = f16",
                "acc = f16",
                "dtype = bf16, out = f16",
            ],
            &["", "a_layout = col", "b_layout = col", "a_layout = col, b_layout = col", "transpose = on"],
            EPILOGUES,
            &["", "batch = on", "schedule = balanced", "schedule = strided"],
        ],
        draws: 300,
    },
    Group {
        base: "dtype = f32, tf32 = on, b_layout = col",
        bm: &[128, 64, 32, 256, 512, 8, 96],
        bn: &[128, 256, 64, 512],
        bk: &[128, 32, 16, 4, 112, 12],
        axes: &[
            &["", "c_layout = col", "out = f16", "op = sdd", "out = bf16, c_layout = col"],
            &[
                "",
                "cluster = 2",
                "split = auto",
                "batch = on",
                "beta = on",
                "stages = 3",
                "k_step = 16",
                "consumers = 1",
            ],
        ],
        draws: 80,
    },
    Group {
        base: "op = attention, dtype = e4m3",
        bm: &[128, 64],
        bn: &[128, 64, 256],
        bk: &[128, 64],
        axes: &[
            &["scale = block", "page = 64", "page = 32, scale = tensor", "scale = block, k_step = 32"],
            &["", "score = \"|| if i >= j { s * scale } else { -inf }\"", "sinks = on"],
            &["", "pack_heads = 4, split = auto", "consumers = 1"],
        ],
        draws: 30,
    },
    Group {
        base: "op = attention, dtype = bf16",
        bm: &[16, 32],
        bn: &[64, 128],
        bk: &[16, 32],
        axes: &[
            &["pack_heads = 8, consumers = 2", "pack_heads = 16, consumers = 1"],
            &["k_step = 96", "k_step = 128", "k_step = 160"],
            &["", "score = \"|| if i >= j { s * scale } else { -inf }\"", "sinks = on"],
        ],
        draws: 16,
    },
    Group {
        base: "mma = mma_sync, dtype = f32, tf32 = on",
        bm: &[64, 128, 16, 48, 512],
        bn: &[64, 128, 32, 256, 48],
        bk: &[64, 16, 32, 48, 112],
        axes: &[
            &["", "arch = sm_90a", "out = f16", "arch = sm_86", "out = bf16"],
            LAYOUTS,
            &["", "stages = 2", "k_step = 32", "warps = (2, 2)", "warps = (1, 4)", "k_step = 64"],
        ],
        draws: 80,
    },
    Group {
        base: "op = attention, mma = mma_sync",
        bm: &[128, 64, 192, 256],
        bn: &[128, 64, 96, 80, 16],
        bk: &[128, 64, 256, 96, 16],
        axes: &[
            &["", "dtype = bf16"],
            &["", "arch = sm_86", "arch = sm_89", "arch = sm_90a", "arch = sm_120"],
            &["", "score = \"|| if i >= j { s * scale } else { -inf }\"", "sinks = on", "d = 64"],
            &["", "stages = 2", "k_step = 32", "cta_m = 64"],
        ],
        draws: 80,
    },
];

/// The plans of the matrix, each once, in the order of their specs.
pub(crate) fn plans() -> Vec<Plan> {
    let mut specs: Vec<KernelSpec> = GROUPS.iter().flat_map(Group::specs).collect();
    specs.sort();
    specs.dedup();
    specs.iter().filter_map(|spec| Plan::new(spec).ok()).collect()
}

impl Group {
    fn specs(&self) -> impl Iterator<Item = KernelSpec> {
        (0..self.draws).filter_map(|draw| {
            // A multiplicative hash of the draw and the axis: neighbours differ in everything.
            let pick = |axis: u64, count: usize| {
                let mixed = (draw as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(axis << 32);
                let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                ((mixed ^ (mixed >> 32)) % count as u64) as usize
            };
            let size = |axis: u64, values: &[u32]| values[pick(axis, values.len())];
            let mut parts = vec![
                format!("bm = {}", size(1, self.bm)),
                format!("bn = {}", size(2, self.bn)),
                format!("bk = {}", size(3, self.bk)),
                self.base.to_owned(),
            ];
            let settings = (4..).zip(self.axes).map(|(axis, values)| values[pick(axis, values.len())].to_owned());
            parts.extend(settings);
            parts.retain(|part| !part.is_empty());
            // Two axes may set the same key to different values, which the grammar refuses.
            parts.join(", ").parse().ok()
        })
    }
}
