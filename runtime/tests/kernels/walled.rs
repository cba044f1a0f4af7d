//! Dense matrices in device memory between walls of NaN.

use bsr_runtime::gpu::{Device, DeviceBuffer, DeviceDense, Plain, Stream, StreamRef};
use bsr_runtime::{Dense, DenseView, Element, Layout};
use half::{bf16, f16};

use crate::case::Failure;

/// Elements of the walls before and after the matrix.
const WALL: usize = 2048;
/// Bytes between the padding of a line and the next line.
const GAP: usize = 48;

/// An element whose bytes are all 0xFF, which is a NaN.
pub(crate) trait Poison: Element + Plain {
    fn is_poison(self) -> bool;
}

macro_rules! poison {
    ($($type:ty),*) => {$(
        impl Poison for $type {
            fn is_poison(self) -> bool {
                self.to_bits() == !0
            }
        }
    )*};
}
poison!(f16, bf16, f32);

/// A matrix with memory before, after and between its lines, all of it poisoned.
#[derive(Debug)]
pub(crate) struct Walled<T: Poison> {
    memory: DeviceBuffer<T>,
    matrix: DeviceDense<T>,
}

impl<T: Poison> Walled<T> {
    /// A place for a result, poisoned inside as well.
    ///
    /// Lines that end on a 16-byte boundary have a gap behind them. Others have only the padding up to the boundary,
    /// which TMA overwrites: it writes 16 bytes at a time.
    pub(crate) fn poisoned(device: &Device, shape: (usize, usize), layout: Layout) -> Result<Self, Failure> {
        let (_, line) = lines_of(shape.0, shape.1, layout);
        let padded = Dense::<T>::padded_ld(line);
        Self::with_gap(device, shape, layout, if padded == line { GAP } else { 0 })
    }

    /// An operand: `host` inside, a gap behind every line.
    pub(crate) fn upload(device: &Device, host: &Dense<T>) -> Result<Self, Failure> {
        let mut walled = Self::with_gap(device, (host.rows(), host.cols()), host.layout(), GAP)?;
        walled.write(host)?;
        Ok(walled)
    }

    fn with_gap(device: &Device, (rows, cols): (usize, usize), layout: Layout, gap: usize) -> Result<Self, Failure> {
        let (lines, line) = lines_of(rows, cols, layout);
        let ld = Dense::<T>::padded_ld(line) + gap / size_of::<T>();
        let mut memory = DeviceBuffer::uninit(device, WALL + lines * ld + WALL)?;
        memory.fill_bytes(0xFF)?;
        let first = memory.ptr() + (WALL * size_of::<T>()) as u64;
        // SAFETY: the memory has `lines * ld` elements from `first` on and lives as long as the matrix.
        let matrix = unsafe { DeviceDense::from_raw(first, rows, cols, layout, ld) }?;
        Ok(Self { memory, matrix })
    }

    /// Another content of the same shape and layout, after all work on the device.
    pub(crate) fn write(&mut self, host: &Dense<T>) -> Result<(), Failure> {
        let mut all = self.memory.to_vec()?;
        let view = host.view();
        for index in 0..view.lines() {
            let line = view.line(index);
            all[WALL + index * self.matrix.ld()..][..line.len()].copy_from_slice(line);
        }
        let stream = Stream::new(&self.memory.device().clone())?;
        self.memory.upload_on(&all, stream.handle())?;
        Ok(())
    }

    pub(crate) fn matrix(&self) -> &DeviceDense<T> {
        &self.matrix
    }

    pub(crate) fn matrix_mut(&mut self) -> &mut DeviceDense<T> {
        &mut self.matrix
    }

    /// Poisons everything again.
    pub(crate) fn poison_on(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        Ok(self.memory.fill_bytes_on(0xFF, stream)?)
    }

    /// The content after all work on the device; an error if anything outside of the matrix was written.
    pub(crate) fn read(&self) -> Result<Dense<T>, Failure> {
        let all = self.memory.to_vec()?;
        let (rows, cols) = (self.matrix.rows(), self.matrix.cols());
        let (layout, ld) = (self.matrix.layout(), self.matrix.ld());
        let (lines, line) = lines_of(rows, cols, layout);
        let padded = Dense::<T>::padded_ld(line);
        let inside = |at: usize| {
            let from_first = at.checked_sub(WALL);
            from_first.is_some_and(|at| at / ld < lines && at % ld < padded)
        };
        let spilt = |at: &usize| !inside(*at) && !all[*at].is_poison();
        let mut outside = (0..all.len()).filter(spilt);
        if let Some(first) = outside.next() {
            let at = first as i64 - WALL as i64;
            return Err(format!(
                "{} elements outside of the matrix were written, the first {at} elements from its start \
                 (line {} of {lines}, {} of {line}, {ld} apart)",
                outside.count() + 1,
                at.div_euclid(ld as i64),
                at.rem_euclid(ld as i64)
            )
            .into());
        }
        let content = all[WALL..all.len() - WALL].to_vec();
        Ok(Dense::from_vec(rows, cols, layout, ld, content)?)
    }

    /// An error unless every element is still poisoned, inside and outside.
    pub(crate) fn untouched(&self) -> Result<(), Failure> {
        let all = self.memory.to_vec()?;
        match all.iter().filter(|element| !element.is_poison()).count() {
            0 => Ok(()),
            count => Err(format!("{count} elements were written").into()),
        }
    }
}

/// The bits of every element, line by line: equal only for results that agree to the last bit.
pub(crate) fn bits<T: Poison>(dense: &Dense<T>) -> Vec<u64> {
    let view: DenseView<'_, T> = dense.view();
    (0..view.lines()).flat_map(|index| view.line(index).iter().map(|element| element.to_f64().to_bits())).collect()
}

fn lines_of(rows: usize, cols: usize, layout: Layout) -> (usize, usize) {
    match layout {
        Layout::RowMajor => (rows, cols),
        Layout::ColMajor => (cols, rows),
    }
}
