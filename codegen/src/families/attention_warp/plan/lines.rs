//! Step 3: rows of heads in shared memory, and which thread copies which of their 16-byte vectors.
//!
//! Rows follow each other without padding. So many neighbouring vectors of a row change places by its number that the eight
//! rows of a matrix of `ldmatrix` lie in different banks.

/// Bytes that a thread copies at a time.
pub(crate) const VECTOR_BYTES: u32 = 16;
/// Rows after which places repeat, and vectors of all banks.
const PERIOD: u32 = 8;

/// Rows of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) rows: u32,
    /// Vectors of a row.
    pub(crate) vectors: u32,
    /// Neighbouring vectors that change places; as many threads copy a row.
    pub(crate) group: u32,
    /// Rows that all threads copy at once.
    pub(crate) rows_a_pass: u32,
}

/// One row of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Rows below the thread's first.
    pub(crate) row: u32,
    /// Address bits in which its place differs from that of the first.
    pub(crate) flip: u32,
}

impl Lines {
    /// Rows of `bytes` bytes, a multiple of 32.
    pub(super) fn new(rows: u32, bytes: u32, threads: u32) -> Self {
        let vectors = bytes / VECTOR_BYTES;
        let group = 1 << vectors.trailing_zeros().min(PERIOD.ilog2());
        Self { rows, vectors, group, rows_a_pass: threads / group }
    }

    /// Bytes from one row to the next.
    pub(crate) fn pitch(&self) -> u32 {
        self.vectors * VECTOR_BYTES
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.rows * self.pitch()
    }

    /// Vector `v` of row `r` is at the place of `v ^ ((r >> shift) & (group - 1))`.
    pub(crate) fn shift(&self) -> u32 {
        (PERIOD / self.group).ilog2()
    }

    /// The rows of a thread.
    pub(crate) fn passes(&self) -> impl Iterator<Item = Pass> + '_ {
        let pass = |row: u32| Pass { row, flip: ((row >> self.shift()) & (self.group - 1)) * VECTOR_BYTES };
        (0..self.rows).step_by(self.rows_a_pass as usize).map(pass)
    }

    /// Rows that the last pass has, where they are fewer than those of the others.
    pub(crate) fn rest(&self) -> Option<u32> {
        Some(self.rows % self.rows_a_pass).filter(|rest| *rest > 0)
    }

    /// Bytes from the first vector of a group of a row to those of the other groups, which a thread copies too.
    pub(crate) fn groups(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.vectors / self.group).map(|number| number * self.group * VECTOR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The banks of the eight rows of a matrix, at every vector, are all different, whatever the head's columns are.
    #[test]
    fn matrices_lie_in_all_banks() {
        for columns in (16..=128).step_by(16) {
            let lines = Lines::new(64, 2 * columns, 128);
            for (first, vector) in
                (0..64).step_by(8).flat_map(|row| (0..lines.vectors).map(move |vector| (row, vector)))
            {
                let place = |row: u32| row * lines.vectors + (vector ^ ((row >> lines.shift()) & (lines.group - 1)));
                let banks: u32 = (first..first + 8).map(|row| 1 << (place(row) % 8)).sum();
                assert_eq!(banks, 0xFF, "{columns} columns, vector {vector}");
            }
        }
    }

    /// Threads and passes together copy every vector once.
    #[test]
    fn every_vector_is_copied_once() {
        for (rows, columns, threads) in [(64, 128, 128), (48, 96, 256), (16, 16, 32), (16, 80, 32), (32, 112, 256)] {
            let lines = Lines::new(rows, 2 * columns, threads);
            let mut copied = vec![0; (lines.bytes() / VECTOR_BYTES) as usize];
            for (thread, pass) in (0..threads).flat_map(|thread| lines.passes().map(move |pass| (thread, pass))) {
                let (own, vector) = (thread / lines.group, thread % lines.group);
                let at = own * lines.pitch() + (vector ^ ((own >> lines.shift()) & (lines.group - 1))) * VECTOR_BYTES;
                let row = own + pass.row;
                if row >= rows {
                    assert!(lines.rest().is_some());
                    continue;
                }
                let place = row * lines.vectors + (vector ^ ((row >> lines.shift()) & (lines.group - 1)));
                assert_eq!((at ^ pass.flip) + pass.row * lines.pitch(), place * VECTOR_BYTES);
                lines.groups().for_each(|group| copied[(place + group / VECTOR_BYTES) as usize] += 1);
            }
            assert!(copied.iter().all(|times| *times == 1), "{rows} x {columns}");
        }
    }
}
