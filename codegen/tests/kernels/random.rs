//! Random specs of every operation, instruction and key, drawn from the table of keys: legal ones, and others.

// Each test uses a part.

use bsr_codegen::spec::{Key, Takes};
use bsr_codegen::{KernelSpec, Op};

/// A generator of numbers that are the same in every run (SplitMix64).
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % count as u64) as usize
    }

    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A spec with a few keys beside its sizes, operation and instruction.
    pub(crate) fn spec(&mut self) -> KernelSpec {
        loop {
            let spec = self.text();
            if let Ok(spec) = spec.parse() {
                return spec;
            }
        }
    }

    fn text(&mut self) -> String {
        let wild = self.below(4) == 0;
        let size = |draws: &mut Self| match wild {
            true => draws.of(&[8, 24, 40, 56, 100, 272, 320, 352, 488, 513, 1024]),
            false => draws.of(&[16, 32, 48, 64, 64, 64, 96, 112, 128, 128, 128, 192, 256, 512]),
        };
        let op = self.of(&["dsd", "dsd", "dds", "sdd", "dss", "sss", "attention", "attention_dq", "attention_dkv"]);
        let mma = match op {
            "dsd" => self.of(&["wgmma", "wgmma", "wgmma", "mma_sync", "wmma", "scalar"]),
            "attention" => self.of(&["wgmma", "wgmma", "wgmma", "mma_sync", "scalar"]),
            _ => self.of(&["wgmma", "wgmma", "wgmma", "wgmma", "wgmma", "wgmma", "wgmma", "scalar"]),
        };
        let mut text = format!("bm = {}, bn = {}, bk = {}, op = {op}, mma = {mma}", size(self), size(self), size(self));
        if self.below(3) == 0 {
            text += &format!(", dtype = {}", self.of(&["f16", "bf16", "e4m3", "e5m2", "i8", "f32"]));
        }
        let given = [Key::Bm, Key::Bn, Key::Bk, Key::Op, Key::Mma, Key::Dtype];
        let keys: Vec<Key> = Key::ALL.into_iter().filter(|key| !given.contains(key)).collect();
        let mut drawn = vec![];
        for _ in 0..self.below(4) {
            let key = self.of(&keys);
            if !drawn.contains(&key) {
                text += &format!(", {key} = {}", self.value(key, op));
                drawn.push(key);
            }
        }
        text
    }

    fn value(&mut self, key: Key, op: &str) -> String {
        match key.takes() {
            Takes::Words(words) => words[self.below(words.len())].text.to_owned(),
            Takes::Pair => self.of(&["(1, 1)", "(2, 2)", "(2, 4)", "(4, 2)", "(8, 1)", "(3, 3)", "(8, 8)"]).to_owned(),
            Takes::Closure if key == Key::Score => format!("\"{}\"", self.of(&SCORES)),
            Takes::Closure => {
                let epilogue = self.of(&EPILOGUES);
                let blocks = Op::ALL.iter().any(|known| known.as_str() == op && known.stores_blocks());
                let full = if blocks { "Bsr" } else { "Dense" };
                format!("\"{}\"", epilogue.replace("Full", full))
            }
            _ => self.of(numbers(key)).to_string(),
        }
    }
}

/// Numbers of a key: all that some kernel has of few, some of many, and some that none has.
pub(crate) fn numbers(key: Key) -> &'static [u32] {
    match key {
        Key::Stages => &[1, 2, 3, 4, 6, 8, 12, 40],
        Key::Consumers => &[1, 2, 3, 4],
        Key::Cluster => &[1, 2, 3, 4, 8, 16],
        Key::Swizzle => &[16, 32, 64, 128],
        Key::Pack | Key::PackHeads => &[1, 2, 3, 4, 6, 8, 16, 32, 64, 128],
        Key::Vector => &[1, 2, 4, 8],
        Key::CtaM => &[8, 32, 48, 64, 100, 128, 192, 256, 512],
        Key::Maxnreg => &[16, 32, 64, 96, 128, 168, 255, 256],
        Key::OptLevel => &[1, 2, 3, 4, 5],
        Key::Lanes => &[2, 4, 8, 16, 32, 64],
        Key::KStep => &[8, 16, 32, 48, 64, 96, 128, 256],
        Key::Page => &[8, 16, 48, 64, 256],
        Key::WorkList => &[100, 256, 4096, 30_720, 32_768],
        Key::D => &[16, 32, 64, 72, 128, 192, 256, 512],
        _ => &[64, 128],
    }
}

const EPILOGUES: [&str; 6] = [
    "|| relu(acc)",
    "|x: Rows<f32>, y: Cols<bf16>, z: f32| acc * x + y * z",
    "|x: Full<f16>| acc + x",
    "|x: Full<f32>, y: Rows<f32>| acc + x * y",
    "|| (acc, row_max(acc))",
    "|x: Rows<f32>, y: Full<f16>| (acc * x + y, row_sum(acc))",
];

const SCORES: [&str; 5] = [
    "|| if i >= j { s * scale } else { -inf }",
    "|slope: f32| s * scale - slope * abs(i - j)",
    "|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } else { -inf }",
    "|slopes: Heads<f32>| s * scale - slopes * abs(i - j)",
    "|cap: f32| cap * tanh(s * scale / cap)",
];

/// How often a search is repeated: `usual`, or as `BSR_SEARCH` says.
pub(crate) fn count(usual: u64) -> u64 {
    std::env::var("BSR_SEARCH").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
