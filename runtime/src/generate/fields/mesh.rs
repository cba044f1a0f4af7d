//! Structured grids of points, and what is assembled on them.

use bsr_codegen::Refusal;
use rayon::prelude::*;

use crate::{Bsr, Structure};

/// A block, row by row.
pub(super) type Block<const B: usize> = [[f64; B]; B];

/// A position on a grid, or a distance between two.
pub(super) type Place = [usize; 3];
pub(super) type Offset = [isize; 3];

/// Which points around a point its row has blocks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stencil {
    /// The point and its neighbours along the axes: 7.
    Star,
    /// All at most one step away along every axis: 27.
    Box,
}

/// Points, numbered with x the fastest.
#[derive(Clone, Copy)]
pub(super) struct Grid(pub(super) Place);

impl Grid {
    pub(super) fn len(self) -> usize {
        self.0.iter().product()
    }

    pub(super) fn place(self, point: usize) -> Place {
        let [x, y, _] = self.0;
        [point % x, point / x % y, point / x / y]
    }

    pub(super) fn number(self, [x, y, z]: Place) -> usize {
        x + self.0[0] * (y + self.0[1] * z)
    }

    /// The point at this distance, if the grid has it.
    pub(super) fn beside(self, place: Place, offset: Offset) -> Option<Place> {
        let mut beside = [0; 3];
        for axis in 0..3 {
            beside[axis] = place[axis].checked_add_signed(offset[axis]).filter(|at| *at < self.0[axis])?;
        }
        Some(beside)
    }

    /// The offsets of the stencil that stay on the grid, by the numbers of their points.
    fn offsets(self, stencil: Stencil, place: Place) -> impl Iterator<Item = (usize, Offset)> {
        let all = (0..27).map(|at: isize| [at % 3 - 1, at / 3 % 3 - 1, at / 9 - 1]);
        let within =
            move |offset: &Offset| stencil == Stencil::Box || offset.iter().filter(|step| **step != 0).count() < 2;
        all.filter(within).filter_map(move |offset| Some((self.number(self.beside(place, offset)?), offset)))
    }

    /// The matrix with the blocks of the stencil, which `fill` adds to, row by row.
    pub(super) fn assemble<const B: usize>(
        self,
        stencil: Stencil,
        fill: impl Fn(Place, &mut Row<'_, B>) + Sync,
    ) -> Result<Bsr<f64>, Refusal> {
        let (mut row_ptr, mut col_idx) = (Vec::with_capacity(self.len() + 1), Vec::new());
        row_ptr.push(0);
        for point in 0..self.len() {
            col_idx.extend(self.offsets(stencil, self.place(point)).map(|(column, _)| column as i32));
            row_ptr.push(col_idx.len() as i64);
        }
        let structure = Structure::new(self.len() * B, self.len() * B, (B, B), row_ptr, col_idx)?;
        let mut values = vec![[[0.0; B]; B]; structure.nnzb()];
        let mut rows = Vec::with_capacity(self.len());
        let mut rest = values.as_mut_slice();
        for length in structure.row_lengths() {
            let (row, behind) = rest.split_at_mut(length);
            rows.push(row);
            rest = behind;
        }
        rows.into_par_iter().enumerate().for_each(|(point, blocks)| {
            let place = self.place(point);
            let mut slots = [None; 27];
            for (slot, (_, offset)) in self.offsets(stencil, place).enumerate() {
                slots[Row::<B>::index(offset)] = Some(slot);
            }
            fill(place, &mut Row { slots, blocks });
        });
        Bsr::from_structure(structure, values.into_flattened().into_flattened())
    }
}

/// The blocks of a row.
pub(super) struct Row<'v, const B: usize> {
    slots: [Option<usize>; 27],
    blocks: &'v mut [Block<B>],
}

impl<const B: usize> Row<'_, B> {
    fn index([x, y, z]: Offset) -> usize {
        (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize
    }

    /// Adds `factor * block` to the block at this distance; what is not on the grid is dropped.
    pub(super) fn add(&mut self, offset: Offset, factor: f64, block: &Block<B>) {
        let Some(slot) = self.slots[Self::index(offset)] else { return };
        for (sums, terms) in self.blocks[slot].iter_mut().zip(block) {
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += factor * term);
        }
    }
}

/// An element's matrix: a block for every two of its C corners. Corner c is at the bits of c: x the lowest.
pub(super) type Element<const B: usize, const C: usize> = [[Block<B>; C]; C];

/// Corner `c` of a cell.
pub(super) fn corner(c: usize) -> Place {
    [c & 1, c >> 1 & 1, c >> 2 & 1]
}

/// The sum of the elements of all cells, for the nodes with `x >= first`.
///
/// The cells are hexahedra with 8 corners, or quadrilaterals with 4 where `cells[2]` is 1.
pub(super) fn assemble_elements<'e, const B: usize, const C: usize>(
    cells: Place,
    first: usize,
    element: impl Fn(Place) -> &'e Element<B, C> + Sync,
) -> Result<Bsr<f64>, Refusal> {
    let depth = if C == 8 { cells[2] + 1 } else { 1 };
    let unknowns = Grid([cells[0] + 1 - first, cells[1] + 1, depth]);
    unknowns.assemble(Stencil::Box, |[x, y, z], row| {
        for a in 0..C {
            let own = corner(a).map(usize::cast_signed);
            let Some(cell) = Grid(cells).beside([x + first, y, z], own.map(|step| -step)) else { continue };
            for (b, block) in element(cell)[a].iter().enumerate() {
                let other = corner(b).map(usize::cast_signed);
                row.add([other[0] - own[0], other[1] - own[1], other[2] - own[2]], 1.0, block);
            }
        }
    })
}
