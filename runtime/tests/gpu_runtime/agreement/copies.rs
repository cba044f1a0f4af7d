//! Tensor copies: im2col mode, and boxes that are not all inside the tensor.

use bsr_simulator::{Swizzle, TensorElement};

use super::program::{Map, Program, mixed, numbers, to_shared};

/// Bytes of shared memory that a program shows.
const SHOWN: usize = 16384;
const BAR: usize = 16384;

fn words(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// Loads one column, or one tile, into shared memory that holds other bytes, and shows all of it.
pub(super) fn load(name: &str, map: Map, coords: &[i64], offsets: &[i64]) -> Program {
    let bytes = map.box_dims.iter().product::<u32>() * map.element.bytes();
    let (rank, at, offsets) = (coords.len(), words(coords), words(offsets));
    let (mode, behind) =
        if map.corners.is_some() { (".im2col", format!(", {{{offsets}}}")) } else { ("", String::new()) };
    let body = format!(
        "{}setp.ne.u32 %p1, %r0, 0;\nadd.u32 %r6, %r1, {BAR};\n@!%p1 mbarrier.init.shared::cta.b64 [%r6], 1;\nfence.proxy.async;\nbar.sync 0;\n\
         @%p1 bra $wait;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], {bytes};\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%r1], [%map, {{{at}}}], [%r6]{behind};\n\
         $wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0;\n@!%p2 bra $wait;\nmov.u32 %r2, %r0;\n$show:\n\
         mad.lo.u32 %r4, %r2, 4, %r1;\nld.shared.b32 %r3, [%r4];\nmad.wide.u32 %rd20, %r2, 4, %rd2;\nst.global.b32 [%rd20], %r3;\n\
         add.u32 %r2, %r2, 32;\nsetp.lt.u32 %p0, %r2, {};\n@%p0 bra $show;\n",
        to_shared(1, SHOWN / 4, 0, 32),
        SHOWN / 4
    );
    let tensor = (0..map.bytes()).map(|i| mixed(i, 5) as u8 & 0xbf).collect();
    let before = (0..SHOWN).map(|i| mixed(i, 6) as u8).collect();
    Program::new(format!("{name} at {at} + {offsets}"), 32, vec![map], vec![tensor, before, vec![0; SHOWN]], &body)
}

/// An image of `sizes` pixels, its planes as close as their lines allow.
pub(super) fn images(
    element: TensorElement,
    dims: &[u64],
    boxed: [u32; 2],
    corners: (&[i32], &[i32]),
    steps: &[u32],
) -> Map {
    let line = (dims[0] * u64::from(element.bytes())).next_multiple_of(16);
    let strides = (1..dims.len()).map(|d| line * dims[1..d].iter().product::<u64>()).collect();
    Map {
        element,
        dims: dims.to_vec(),
        strides,
        box_dims: boxed.to_vec(),
        steps: [1].into_iter().chain(steps.iter().copied()).chain([1]).collect(),
        corners: Some((corners.0.to_vec(), corners.1.to_vec())),
        swizzle: Swizzle::None,
        fill_nan: false,
    }
}

/// Loads in im2col mode.
pub(crate) fn columns() -> Vec<Program> {
    use TensorElement::{B32, F16, F32};
    let mut all = Vec::new();
    let line = images(B32, &[8, 7, 3], [8, 16], (&[-1], &[-1]), &[1]);
    for (coords, offsets) in
        [([0, -1, 0], [0]), ([0, 3, 1], [2]), ([4, 5, 2], [1]), ([-4, 0, 0], [1]), ([0, -1, -1], [0])]
    {
        all.push(load("a line of pixels", line.clone(), &coords, &offsets));
    }
    let plane = images(F16, &[24, 6, 5, 2], [16, 32], (&[-1, -1], &[-1, -1]), &[1, 1]);
    let narrow = images(F16, &[20, 6, 5, 2], [16, 32], (&[-1, -1], &[-1, -1]), &[1, 1]);
    for (coords, offsets) in [
        ([0, -1, -1, 0], [0, 0]),
        ([8, 2, 1, 0], [2, 1]),
        ([16, 4, 3, 1], [1, 2]),
        ([0, 0, 0, 1], [1, 1]),
        ([-8, 3, -1, 0], [0, 2]),
    ] {
        all.push(load("a plane", plane.clone(), &coords, &offsets));
        all.push(load("a plane whose channels end within 16 bytes", narrow.clone(), &coords, &offsets));
        all.push(load("a plane, swizzled", Map { swizzle: Swizzle::B32, ..plane.clone() }, &coords, &offsets));
        all.push(load("a plane with NaN around it", Map { fill_nan: true, ..narrow.clone() }, &coords, &offsets));
    }
    let strided = images(F32, &[8, 9, 8, 2], [8, 32], (&[-1, -1], &[-1, -1]), &[2, 3]);
    for (coords, offsets) in [
        ([0, -1, -1, 0], [0, 0]),
        ([0, 3, 2, 0], [2, 1]),
        ([0, 7, 5, 1], [1, 2]),
        ([0, 0, 0, 0], [0, 0]),
        ([0, 2, 1, 0], [1, 1]),
    ] {
        all.push(load("a plane in steps of 2 and 3", strided.clone(), &coords, &offsets));
    }
    let even = images(F32, &[8, 10, 7, 2], [8, 32], (&[0, -1], &[-2, 0]), &[2, 2]);
    for (coords, offsets) in [([0, 0, -1, 0], [0, 0]), ([0, 4, 3, 0], [2, 1]), ([0, 3, 2, 1], [1, 0])] {
        all.push(load("a plane in steps of 2", even.clone(), &coords, &offsets));
    }
    let wide = images(F32, &[32, 12, 9, 1], [32, 64], (&[-2, -2], &[-1, 1]), &[1, 1]);
    for (swizzle, coords) in
        [(Swizzle::B128, [0, -2, -2, 0]), (Swizzle::B128, [0, 5, 3, 0]), (Swizzle::None, [0, 9, 8, 0])]
    {
        all.push(load("32 channels", Map { swizzle, ..wide.clone() }, &coords, &[3, 1]));
    }
    let half = images(F32, &[16, 12, 9, 1], [16, 48], (&[-2, -2], &[-1, 1]), &[1, 1]);
    all.push(load("16 channels", Map { swizzle: Swizzle::B64, ..half }, &[0, 4, 2, 0], &[2, 2]));
    let volume = images(F32, &[8, 4, 3, 5, 2], [8, 64], (&[0, -1, -1], &[-1, -1, -1]), &[1, 1, 2]);
    for (coords, offsets) in [
        ([0, 0, -1, -1, 0], [0, 0, 0]),
        ([0, 2, 0, 1, 0], [1, 2, 2]),
        ([4, 1, 1, 3, 1], [0, 1, 2]),
        ([0, 1, 1, 0, 0], [1, 1, 1]),
    ] {
        all.push(load("a volume", volume.clone(), &coords, &offsets));
    }
    all
}

/// A store or a reduction: shared memory holds numbers, and so does the tensor, its padding too.
pub(super) fn write(name: &str, ty: &str, map: Map, coords: &[i64], function: &str) -> Program {
    let (rank, at) = (coords.len(), words(coords));
    let (head, f) = if function.is_empty() { ("cp", String::new()) } else { ("cp.reduce", format!(".{function}")) };
    let mode = if map.corners.is_some() { ".im2col_no_offs" } else { "" };
    let body = format!(
        "{}fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra $done;\n\
         {head}.async.bulk.tensor.{rank}d.global.shared::cta{f}{mode}.bulk_group [%map, {{{at}}}], [%r1];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n$done:\n",
        to_shared(1, SHOWN / 4, 0, 32)
    );
    let opcode = format!("{head}.tensor.{rank}d{f}{mode}.{ty}");
    let buffers = vec![numbers(ty, map.bytes() + 64, 7), numbers(ty, SHOWN, 8)];
    Program::new(format!("{opcode}: {name} at {at}"), 32, vec![map], buffers, &body)
}

/// Boxes of tiles: the tensor's lines end within 16 bytes.
fn tile(element: TensorElement, dims: &[u64], boxed: &[u32]) -> Map {
    let line = (dims[0] * u64::from(element.bytes())).next_multiple_of(16) + 16;
    Map {
        element,
        dims: dims.to_vec(),
        strides: (1..dims.len()).map(|d| line * dims[1..d].iter().product::<u64>()).collect(),
        box_dims: boxed.to_vec(),
        steps: vec![1; dims.len()],
        corners: None,
        swizzle: Swizzle::None,
        fill_nan: false,
    }
}

fn clipped(function: &str) -> Vec<Program> {
    use TensorElement::{B8, Bf16, F16, F32, S32};
    let mut all = Vec::new();
    for (ty, element, per) in [("f16", F16, 8), ("bf16", Bf16, 8), ("f32", F32, 4), ("s32", S32, 4), ("u8", B8, 16)] {
        if !function.is_empty() && ty == "u8" {
            continue;
        }
        let (inner, boxed) = (per + per / 2 + 1, 2 * per as u32);
        // Where a line begins within the box, and where it ends. What begins elsewhere is in `starts`.
        let step = i64::from(16 / element.bytes());
        for (x, y) in [(0, 0), (0, 2), (step, 1), (2 * step, 0)] {
            all.push(write("lines", ty, tile(element, &[inner, 3], &[boxed, 2]), &[x, y], function));
        }
        let swizzled = Map { swizzle: Swizzle::B32, ..tile(element, &[inner, 3], &[boxed, 4]) };
        all.push(write("lines, swizzled", ty, swizzled, &[step, 0], function));
        for x in [0, step] {
            all.push(write("one line", ty, tile(element, &[inner], &[boxed]), &[x], function));
        }
        for at in [[0, 0, 0], [step, 1, 1], [0, 2, 1]] {
            all.push(write("planes", ty, tile(element, &[inner, 3, 2], &[boxed, 2, 2]), &at, function));
        }
        let pixels = images(element, &[inner, 6, 5, 2], [boxed, 16], (&[0, 0], &[0, 0]), &[1, 1]);
        for at in [[0, 0, 0, 0], [step, 4, 3, 0], [0, 3, 4, 1]] {
            all.push(write("pixels", ty, pixels.clone(), &at, function));
        }
    }
    all
}

/// Stores of boxes that the tensor's ends clip.
pub(crate) fn clipped_stores() -> Vec<Program> {
    clipped("")
}

/// Reductions of them.
pub(crate) fn clipped_sums() -> Vec<Program> {
    clipped("add")
}

/// Reductions by other functions.
pub(crate) fn reductions() -> Vec<Program> {
    use TensorElement::{B32, B64, Bf16, F16, S32, S64};
    let types = [
        ("f16", F16, "min max"),
        ("bf16", Bf16, "min max"),
        ("s32", S32, "min max and or xor"),
        ("u32", B32, "add min max and or xor inc dec"),
        ("u32", B64, "add min max and or xor"),
        ("u32", S64, "min max"),
    ];
    let of = |(ty, element, functions): (&'static str, TensorElement, &'static str)| {
        let map = tile(element, &[u64::from(20 / element.bytes()), 3], &[32 / element.bytes(), 4]);
        functions
            .split(' ')
            .map(move |f| write(&format!("{element:?}"), ty, map.clone(), &[0, 0], f))
            .collect::<Vec<_>>()
    };
    types.into_iter().flat_map(of).collect()
}

/// Loads of tiles, with what fills them in front of the tensor and behind it.
pub(crate) fn tiles() -> Vec<Program> {
    use TensorElement::{B8, B32, Bf16, F16, F32, F64, Tf32};
    let mut all = Vec::new();
    for (ty, element, per) in [
        ("f16", F16, 8),
        ("bf16", Bf16, 8),
        ("f32", F32, 4),
        ("tf32", Tf32, 4),
        ("f64", F64, 2),
        ("s32", B32, 4),
        ("u8", B8, 16),
    ] {
        let (inner, boxed) = (2 * per + per / 2 + 1, 2 * per as u32);
        for fill_nan in [false, true] {
            if fill_nan && matches!(element, B8 | B32) {
                continue;
            }
            let step = i64::from(16 / element.bytes());
            for at in [[0, 0], [step, 1], [-step, -1], [2 * step, 1], [3 * step, 2]] {
                let map = Map { fill_nan, ..tile(element, &[inner, 3], &[boxed, 4]) };
                all.push(load(&format!("tiles of {ty}, NaN {fill_nan}"), map, &at, &[]));
            }
        }
    }
    all
}
