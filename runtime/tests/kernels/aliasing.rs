//! What overlaps, in every operation and in lists of problems: refused by name, and nothing is written.

use bsr_runtime::gpu::{Device, DeviceBsr, DeviceBuffer, DeviceDense, Stream};
use bsr_runtime::{Bsr, KernelError, Layout, Pattern};
use half::f16;

use crate::case::parse;
use crate::device;
use crate::run::load;

const ROW: Layout = Layout::RowMajor;

/// Stored as 192 x 256 in blocks of 64 x 128.
fn stored(device: &Device) -> DeviceBsr<f16> {
    let matrix = Bsr::<f16>::generate(Pattern::Random(1.0), 192, 256, (64, 128), 1).unwrap();
    DeviceBsr::upload(device, &matrix).unwrap()
}

/// Rows of 256 elements, each a matrix's line.
struct Memory(DeviceBuffer<f16>);

impl Memory {
    fn new(device: &Device, lines: usize) -> Self {
        Self(DeviceBuffer::zeroed(device, lines * 256).unwrap())
    }

    /// `rows` lines from `line` on, `cols` elements of each from `column` on.
    fn view(&self, (line, column): (usize, usize), (rows, cols): (usize, usize)) -> DeviceDense<f16> {
        let ptr = self.0.ptr() + ((line * 256 + column) * 2) as u64;
        // SAFETY: the lines lie within the memory, which outlives the view.
        unsafe { DeviceDense::from_raw(ptr, rows, cols, ROW, 256) }.unwrap()
    }

    fn is_untouched(&self) -> bool {
        self.0.to_vec().unwrap().iter().all(|x| x.to_bits() == 0)
    }
}

#[test]
fn c_may_not_overlap_the_dense_factor_of_any_operation() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let (matrix, stream) = (stored(&device), Stream::new(&device).unwrap());
    // A^T B, A B and A B^T: rows of the dense factor, of C, and their columns.
    for (text, dense, c) in [
        ("bm = 64, bn = 64, bk = 128, transpose = on", (192, 64), (256, 64)),
        ("bm = 64, bn = 64, bk = 128, op = dds", (96, 192), (96, 256)),
        ("bm = 64, bn = 64, bk = 128, op = dds, transpose = on", (96, 256), (96, 192)),
    ] {
        let (launcher, memory) = (load(&device, &parse(text)).unwrap(), Memory::new(&device, 1024));
        let launch = |dense_line: usize, c_line: usize| {
            let (dense, mut c) = (memory.view((dense_line, 0), dense), memory.view((c_line, 0), c));
            match text.contains("dds") {
                true => launcher.launch(stream.handle(), (&dense, &matrix), &mut c),
                false => launcher.launch(stream.handle(), (&matrix, &dense), &mut c),
            }
        };
        let name = if text.contains("dds") { "A" } else { "B" };
        for (dense_line, c_line) in [(0, 0), (0, dense.0 - 1), (c.0 - 1, 0)] {
            let outcome = launch(dense_line, c_line);
            assert!(
                matches!(outcome, Err(KernelError::Overlap { operand, .. }) if operand == name),
                "{text}, lines {dense_line} and {c_line}: {outcome:?}"
            );
        }
        assert!(memory.is_untouched(), "{text}");
        // Right behind it there is room.
        launch(0, dense.0).unwrap();
        stream.synchronize().unwrap();
    }
    // C within the sparse factor's values.
    let values = matrix.values().to_vec().unwrap();
    let launcher = load(&device, &parse("bm = 64, bn = 64, bk = 128, op = dds")).unwrap();
    let memory = Memory::new(&device, 96);
    let a = memory.view((0, 0), (96, 192));
    // SAFETY: 96 lines of 256 elements are fewer than the matrix has values, and it outlives the view.
    let mut c = unsafe { DeviceDense::<f16>::from_raw(matrix.values().ptr(), 96, 256, ROW, 256) }.unwrap();
    let outcome = launcher.launch(stream.handle(), (&a, &matrix), &mut c);
    assert!(matches!(outcome, Err(KernelError::Overlap { operand: "B", .. })), "{outcome:?}");
    assert_eq!(matrix.values().to_vec().unwrap(), values);
}

/// Windows side by side in one matrix do not overlap, though their addresses do.
#[test]
fn problems_of_a_batch_may_lie_side_by_side_and_not_on_top_of_each_other() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let (matrix, stream, memory) = (stored(&device), Stream::new(&device).unwrap(), Memory::new(&device, 1024));
    let launcher = load(&device, &parse("bm = 64, bn = 64, bk = 128, batch = on")).unwrap();
    let dense = memory.view((0, 0), (256, 64));
    let prepared = |second: (usize, usize)| {
        let (mut first, mut second) = (memory.view((512, 0), (192, 64)), memory.view(second, (192, 64)));
        let mut batch = launcher.batch();
        batch.push((&matrix, &dense), &mut first)?;
        batch.push((&matrix, &dense), &mut second)?;
        let batch = batch.prepare()?;
        batch.launch(&stream)?;
        Ok::<(), KernelError>(stream.synchronize()?)
    };
    for second in [(512, 0), (512, 56), (600, 0), (703, 0)] {
        let outcome = prepared(second);
        assert!(matches!(outcome, Err(KernelError::BatchOverlap { operand: "C", .. })), "at {second:?}: {outcome:?}");
    }
    for second in [(0, 0), (200, 32)] {
        let outcome = prepared(second);
        let named = matches!(outcome, Err(KernelError::Problem { index: 1, .. } | KernelError::BatchOverlap { .. }));
        assert!(named, "at {second:?}: {outcome:?}");
    }
    assert!(memory.is_untouched());
    for second in [(512, 64), (512, 192), (704, 0), (600, 128)] {
        prepared(second).unwrap();
    }

    // A stack: three results one below another, of three dense factors.
    let (factors, mut results) = (memory.view((0, 0), (512, 64)), memory.view((512, 64), (384, 64)));
    let mut batch = launcher.batch();
    let uneven = batch.stacked((&matrix, &factors), &mut results, 3);
    assert!(matches!(uneven, Err(KernelError::Stack { operand: "B", rows: 512, count: 3, .. })), "{uneven:?}");
    assert!(batch.is_empty());
    let mut results = memory.view((512, 64), (384, 64));
    let mut batch = launcher.batch();
    batch.stacked((&matrix, &factors), &mut results, 2).unwrap();
    assert_eq!(batch.len(), 2);
    let batch = batch.prepare().unwrap();
    batch.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}
