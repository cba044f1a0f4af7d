//! Dense matrices in device memory between walls of poison.

use bsr_runtime::gpu::{Device, DeviceBuffer, DeviceDense, Stream, StreamRef};
use bsr_runtime::typed::Number;
use bsr_runtime::{Dense, DenseView, Layout};

use crate::case::Failure;

/// Bytes of the walls before and after the matrix.
const WALL: usize = 4096;
/// Bytes between the padding of a line and the next line.
const GAP: usize = 48;

/// A matrix with memory before, after and between its lines, all of it poisoned.
#[derive(Debug)]
pub(crate) struct Walled<T: Number> {
    memory: DeviceBuffer<u8>,
    matrix: DeviceDense<T>,
    /// Bytes of a line that a kernel may write.
    own: usize,
}

impl<T: Number> Walled<T> {
    /// A place for a result, poisoned inside as well.
    ///
    /// By TMA, which writes 16 bytes at a time, the padding of a line is written up to the next boundary: such lines
    /// have nothing else behind them. All others have a gap.
    pub(crate) fn poisoned(
        device: &Device,
        shape: (usize, usize),
        layout: Layout,
        by_tma: bool,
    ) -> Result<Self, Failure> {
        let (_, line) = lines_of(shape.0, shape.1, layout);
        let padded = Dense::<T>::padded_ld(line);
        let gap = if by_tma && padded != line { 0 } else { GAP };
        Self::with_gap(device, shape, layout, gap, if by_tma { padded } else { line })
    }

    /// An operand: `host` inside, a gap behind every line.
    pub(crate) fn upload(device: &Device, host: &Dense<T>) -> Result<Self, Failure> {
        let shape = (host.rows(), host.cols());
        let (_, line) = lines_of(shape.0, shape.1, host.layout());
        let mut walled = Self::with_gap(device, shape, host.layout(), GAP, line)?;
        walled.write(host)?;
        Ok(walled)
    }

    fn with_gap(
        device: &Device,
        (rows, cols): (usize, usize),
        layout: Layout,
        gap: usize,
        own: usize,
    ) -> Result<Self, Failure> {
        let (lines, line) = lines_of(rows, cols, layout);
        let ld = Dense::<T>::padded_ld(line) + gap / size_of::<T>();
        let mut memory = DeviceBuffer::uninit(device, WALL + lines * ld * size_of::<T>() + WALL)?;
        memory.fill_bytes(T::POISON_BYTE)?;
        let first = memory.ptr() + WALL as u64;
        // SAFETY: the memory has `lines * ld` elements from `first` on and lives as long as the matrix.
        let matrix = unsafe { DeviceDense::from_raw(first, rows, cols, layout, ld) }?;
        Ok(Self { memory, matrix, own: own * size_of::<T>() })
    }

    /// Another content of the same shape and layout, after all work on the device.
    pub(crate) fn write(&mut self, host: &Dense<T>) -> Result<(), Failure> {
        let mut all = self.memory.to_vec()?;
        let (view, pitch) = (host.view(), self.pitch());
        for index in 0..view.lines() {
            let line = T::to_bytes(view.line(index));
            all[WALL + index * pitch..][..line.len()].copy_from_slice(&line);
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

    /// Bytes from line to line.
    fn pitch(&self) -> usize {
        self.matrix.ld() * size_of::<T>()
    }

    /// Poisons everything again.
    pub(crate) fn poison_on(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        Ok(self.memory.fill_bytes_on(T::POISON_BYTE, stream)?)
    }

    /// The content after all work on the device; an error if anything outside of the matrix was written.
    pub(crate) fn read(&self) -> Result<Dense<T>, Failure> {
        let all = self.memory.to_vec()?;
        let (rows, cols) = (self.matrix.rows(), self.matrix.cols());
        let (layout, pitch) = (self.matrix.layout(), self.pitch());
        let (lines, _) = lines_of(rows, cols, layout);
        let inside = |at: usize| {
            let from_first = at.checked_sub(WALL);
            from_first.is_some_and(|at| at / pitch < lines && at % pitch < self.own)
        };
        let spilt = |at: &usize| !inside(*at) && all[*at] != T::POISON_BYTE;
        let mut outside = (0..all.len()).filter(spilt);
        if let Some(first) = outside.next() {
            let at = first as i64 - WALL as i64;
            return Err(format!(
                "{} bytes outside of the matrix were written, the first {at} B from its start \
                 (line {} of {lines}, {} of {} B, {pitch} B apart)",
                outside.count() + 1,
                at.div_euclid(pitch as i64),
                at.rem_euclid(pitch as i64),
                self.own
            )
            .into());
        }
        let content = T::from_bytes(&all[WALL..all.len() - WALL]);
        Ok(Dense::from_vec(rows, cols, layout, self.matrix.ld(), content)?)
    }

    /// An error unless every byte is still poisoned, inside and outside.
    pub(crate) fn untouched(&self) -> Result<(), Failure> {
        match self.memory.to_vec()?.iter().filter(|byte| **byte != T::POISON_BYTE).count() {
            0 => Ok(()),
            count => Err(format!("{count} bytes were written").into()),
        }
    }
}

/// The bits of every element, line by line: equal only for results that agree to the last bit.
pub(crate) fn bits<T: Number>(dense: &Dense<T>) -> Vec<u64> {
    let view: DenseView<'_, T> = dense.view();
    (0..view.lines()).flat_map(|index| view.line(index).iter().map(|element| element.to_f64().to_bits())).collect()
}

fn lines_of(rows: usize, cols: usize, layout: Layout) -> (usize, usize) {
    match layout {
        Layout::RowMajor => (rows, cols),
        Layout::ColMajor => (cols, rows),
    }
}
