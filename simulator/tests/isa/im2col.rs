//! Copies in im2col mode against a convolution's loops, written from its definition.

use bsr_simulator::{
    FindingKind, GlobalMemory, Im2col, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};

use crate::one_cta;

/// A convolution over N images of `sizes` pixels (W, H, D) with `channels` channels, as far as a copy sees it.
#[derive(Clone)]
struct Convolution {
    images: i64,
    sizes: Vec<i64>,
    channels: i64,
    filter: Vec<i64>,
    padding: Vec<i64>,
    stride: Vec<i64>,
}

impl Convolution {
    /// Elements are numbered from 1 on; channels per pixel and pixels per column of the box.
    fn map(&self, memory: &mut GlobalMemory, boxed: [u32; 2], swizzle: Swizzle) -> TensorMapDesc {
        let dims: Vec<u64> =
            [self.channels].iter().chain(&self.sizes).chain([&self.images]).map(|n| *n as u64).collect();
        let count = dims.iter().product::<u64>() as u32;
        let buffer = memory.upload((1..=count).flat_map(u32::to_le_bytes).collect(), 128);
        let strides = (1..dims.len()).map(|d| 4 * dims[..d].iter().product::<u64>()).collect();
        let corner = |of: &dyn Fn(usize) -> i64| (0..self.sizes.len()).map(|d| of(d) as i32).collect();
        let steps = self.stride.iter().map(|s| *s as u32);
        TensorMapDesc {
            buffer,
            offset: 0,
            element: TensorElement::B32,
            dims,
            strides,
            box_dims: boxed.to_vec(),
            element_strides: [1].into_iter().chain(steps).chain([1]).collect(),
            im2col: Some(Im2col {
                lower: corner(&|d| -self.padding[d]),
                upper: corner(&|d| self.padding[d] - (self.filter[d] - 1)),
            }),
            swizzle,
            fill_nan: false,
        }
    }

    /// Outputs of each dimension: positions of the filter.
    fn outputs(&self, d: usize) -> i64 {
        (self.sizes[d] + 2 * self.padding[d] - self.filter[d]) / self.stride[d] + 1
    }

    /// The row of the im2col matrix that output number `m` needs for one tap of the filter: channels from `c` on.
    fn row(&self, m: i64, tap: &[i64], c: i64, channels: u32) -> Vec<u32> {
        let (mut rest, mut pixel, mut scale, mut inside) = (m, 0, 1, true);
        for (d, tap) in tap.iter().enumerate() {
            let at = rest % self.outputs(d) * self.stride[d] - self.padding[d] + tap;
            rest /= self.outputs(d);
            inside &= at >= 0 && at < self.sizes[d];
            pixel += at * scale;
            scale *= self.sizes[d];
        }
        inside &= rest < self.images;
        pixel += rest * scale;
        let channel = |c: i64| if inside && c < self.channels { (pixel * self.channels + c + 1) as u32 } else { 0 };
        (c..c + i64::from(channels)).map(channel).collect()
    }

    /// The coordinates of output `m`: of the filter's corner.
    fn coords(&self, m: i64, c: i64) -> Vec<i64> {
        let mut rest = m;
        let mut all = vec![c];
        for d in 0..self.sizes.len() {
            all.push(rest % self.outputs(d) * self.stride[d] - self.padding[d]);
            rest /= self.outputs(d);
        }
        all.push(rest);
        all
    }
}

fn list(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n.maxntid 32, 1, 1\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nadd.u32 %r2, %r1, 8192;\nmov.b64 %rd0, map;\ncvta.param.u64 %rd0, %rd0;\n\
         setp.ne.u32 %p1, %r0, 0;\nld.param.u64 %rd1, [out];\nmad.wide.u32 %rd1, %r0, 4, %rd1;\nmad.lo.u32 %r4, %r0, 4, %r1;\n\
         {body}\nret;\n}}\n"
    )
}

fn run(text: &str, map: TensorMapDesc, memory: &mut GlobalMemory) -> Result<(Report, Vec<u32>), String> {
    let module = parse(text).map_err(|e| e.message)?;
    let out = memory.alloc(4096, 128);
    let launch = one_cta(32, 8200, vec![Param::TensorMap(map), Param::Buffer(out)]);
    let report = simulate(&module, "k", &launch, memory, &Options::default()).map_err(|e| e.to_string())?;
    let words = memory.bytes(out).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    Ok((report, words))
}

/// Loads a column and copies `bytes` of shared memory to `out`.
fn load(coords: &[i64], offsets: &[i64], bytes: u64) -> String {
    let (rank, coords, offsets) = (coords.len(), list(coords), list(offsets));
    kernel(&format!(
        "@!%p1 mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.proxy.async;\nbar.sync 0;\n@%p1 bra $wait;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};\n\
         cp.async.bulk.prefetch.tensor.{rank}d.L2.global.im2col [%rd0, {{{coords}}}], {{{offsets}}};\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd0, {{{coords}}}], [%r2], {{{offsets}}};\n\
         $wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra $wait;\nmov.u32 %r3, 0;\n\
         $read:\nld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd1], %r5;\nadd.u64 %rd1, %rd1, 128;\nadd.u32 %r4, %r4, 128;\n\
         add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p0, %r3, {};\n@%p0 bra $read;",
        bytes / 128
    ))
}

const SMALL: fn() -> [Convolution; 5] = || {
    let of = |images, sizes: &[i64], channels, filter: &[i64], padding: &[i64], stride: &[i64]| Convolution {
        images,
        sizes: sizes.to_vec(),
        channels,
        filter: filter.to_vec(),
        padding: padding.to_vec(),
        stride: stride.to_vec(),
    };
    [
        of(3, &[7], 8, &[3], &[1], &[1]),
        of(2, &[6, 5], 8, &[3, 3], &[1, 1], &[1, 1]),
        of(2, &[9, 7], 8, &[3, 2], &[0, 0], &[1, 1]),
        of(2, &[9, 8], 8, &[3, 3], &[1, 1], &[2, 3]),
        of(2, &[4, 3, 5], 8, &[2, 3, 3], &[0, 1, 1], &[1, 1, 2]),
    ]
};

#[test]
fn columns_are_rows_of_the_im2col_matrix() {
    for (number, conv) in SMALL().iter().enumerate() {
        let rank = conv.sizes.len();
        let outputs: i64 = (0..rank).map(|d| conv.outputs(d)).product();
        let taps: i64 = conv.filter.iter().product();
        for (m, tap, c) in [(0, 0, 0), (5, taps - 1, 0), (outputs - 3, taps / 2, 4), (outputs * conv.images - 9, 1, 0)]
        {
            let mut rest = tap;
            let tap: Vec<i64> = conv.filter.iter().map(|n| (rest % n, rest /= n).0).collect();
            let mut memory = GlobalMemory::new();
            let map = conv.map(&mut memory, [8, 16], Swizzle::B32);
            let (report, out) = run(&load(&conv.coords(m, c), &tap, 512), map, &mut memory).unwrap();
            assert!(report.is_clean(), "{}", report.findings[0]);
            for r in 0..16 {
                let want = conv.row(m + r as i64, &tap, c, 8);
                // Units of 16 bytes are swapped in every other four rows of 32 bytes.
                let swap = r / 4 % 2 * 4;
                let got: Vec<u32> = (0..8).map(|i| out[r * 8 + (i ^ swap)]).collect();
                assert_eq!(got, want, "convolution {number}, output {m}, tap {tap:?}, row {r}");
            }
        }
    }
}

/// What a store writes: each pixel of the box where one is in the tensor, and nothing else. With padding it is refused.
#[test]
fn stores_go_to_the_corners_of_the_filter() {
    for (mut conv, padded) in SMALL().into_iter().flat_map(|conv| [(conv.clone(), true), (conv, false)]) {
        if !padded {
            conv.padding.fill(0);
        }
        let rank = conv.sizes.len() + 2;
        for m in [0, 4, conv.outputs(0) * 2, conv.outputs(0) * 2 + 2] {
            let mut memory = GlobalMemory::new();
            let map = conv.map(&mut memory, [8, 16], Swizzle::None);
            let before: Vec<u8> = memory.bytes(map.buffer).to_vec();
            let buffer = map.buffer;
            let text = kernel(&format!(
                "mov.u32 %r3, 0;\nadd.u32 %r5, %r0, 1000;\n$fill:\nst.shared.u32 [%r4], %r5;\nadd.u32 %r4, %r4, 128;\nadd.u32 %r5, %r5, 32;\n\
                 add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p0, %r3, 4;\n@%p0 bra $fill;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@%p1 bra $done;\n\
                 cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group [%rd0, {{{}}}], [%r1];\n\
                 cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n$done:",
                list(&conv.coords(m, 0))
            ));
            let (report, _) = run(&text, map, &mut memory).unwrap();
            if conv.padding.iter().any(|p| *p > 0) {
                assert_eq!(report.findings[0].kind, FindingKind::CopyStart, "output {m}");
                continue;
            }
            assert!(report.is_clean(), "{}", report.findings[0]);
            let mut want = before.clone();
            for r in 0..16 {
                // The element's number is its place, if it is inside.
                for (i, number) in conv.row(m + r, &vec![0; rank - 2], 0, 8).into_iter().enumerate() {
                    if number > 0 {
                        let at = (number as usize - 1) * 4;
                        want[at..at + 4].copy_from_slice(&(1000 + r as u32 * 8 + i as u32).to_le_bytes());
                    }
                }
            }
            assert_eq!(memory.bytes(buffer), want, "output {m}");
        }
    }
}

fn finding(text: &str, map: impl Fn(&mut TensorMapDesc)) -> String {
    let mut memory = GlobalMemory::new();
    let mut desc = SMALL()[1].map(&mut memory, [8, 16], Swizzle::None);
    map(&mut desc);
    match run(text, desc, &mut memory) {
        Ok((report, _)) => {
            assert_eq!(report.findings[0].kind, FindingKind::TensorCopy);
            report.findings[0].message.clone()
        }
        Err(refused) => refused,
    }
}

#[test]
fn what_is_wrong_is_said() {
    let good = load(&[0, -1, -1, 0], &[2, 2], 512);
    for (text, expected) in [
        (load(&[0, 5, 0, 0], &[0, 0], 512), "coordinate 1 is 5, and the pixel box goes from -1 to 4"),
        (load(&[0, 0, -2, 0], &[0, 0], 512), "coordinate 2 is -2"),
        (load(&[0, 0, 0, 0], &[0, 256], 512), "an im2col offset of rank 4 is 0 to 255, not 256"),
        (good.replace(".global.im2col.", ".global.").replace("[%r2], {2, 2}", "[%r2]"), "a copy of a tile through"),
        (good.replace("{2, 2}", "{2, 2, 0}"), "a 4d im2col copy takes 2 offsets; 3 are given"),
        (
            good.replace("global.im2col.", "global.im2col::w."),
            "`.im2col::w` is not modelled: the first target that has it is sm_100",
        ),
        (good.replace("global.im2col.", "global.tile::gather4."), "`.tile::gather4` is not modelled"),
        (load(&[0, 0], &[], 512), "of tensors with 3 to 5 dimensions, not 2"),
    ] {
        let found = finding(&text, |_| ());
        assert!(found.contains(expected), "{found}");
    }
    let refused = |edit: &dyn Fn(&mut TensorMapDesc)| finding(&good, edit);
    let corners = |lower: &[i32], upper: &[i32]| Some(Im2col { lower: lower.to_vec(), upper: upper.to_vec() });
    for (edit, expected) in [
        (
            &(|m: &mut TensorMapDesc| m.box_dims[1] = 1025) as &dyn Fn(&mut TensorMapDesc),
            "box dimension 1 is 1 to 1024, not 1025",
        ),
        (&|m| m.im2col = corners(&[-129, 0], &[0, 0]), "a corner of rank 4 is -128 to 127, not -129"),
        (&|m| m.im2col = corners(&[0, 0], &[0, -5]), "spatial dimension 1 is empty: from 0 to -1"),
        (&|m| m.im2col = corners(&[0], &[0]), "the lower corner has 1 and the upper one 1"),
        (&|m| m.element_strides[3] = 2, "a stride of images other than 1"),
        (&|m| m.im2col = None, "2 box dimensions"),
    ] {
        let found = refused(edit);
        assert!(
            found.contains(expected) || expected == "2 box dimensions" && found.contains("4 box dimensions"),
            "{found}"
        );
    }
    assert!(
        finding(&load(&[0, 0, 0, 0], &[0, 0], 512), |m| {
            m.im2col = None;
            m.box_dims = vec![8, 4, 4, 1];
        })
        .contains("an im2col copy through a tensor map of tiles")
    );
}
