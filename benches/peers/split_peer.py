"""A Triton kernel for few columns as a peer: a block row's blocks are shared out among several programs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

import torch

from . import triton_kernels as kernels
from .case import Case
from .peer import Refused, Variant
from .tiles import FEW_COLUMNS, Tile, dsd_tiles, stages
from .triton_peer import describe, variant

PARTS = (1, 2, 4, 8, 16)
PROGRAMS = 4 * 132
"""As many as Hopper likes to have: four on each of its multiprocessors."""
SUMMED = 512
"""Elements of C that one program adds the parts of."""


class TritonSplitK:
    """`split_kernel`, and `sum_kernel` where there are several parts: two launches, which are timed together."""

    name = "Triton, split K"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """Every number of parts with every tile; the three likeliest if quick."""
        row = case.row
        if row.op != "dsd" or row.n > FEW_COLUMNS:
            raise Refused(f"for DSD with up to {FEW_COLUMNS} columns")
        tiles = dsd_tiles(*row.block, row.n, case.dtype.itemsize, transposed=False)
        if not tiles:
            raise Refused(f"no tile of powers of two divides blocks of {row.block[0]} x {row.block[1]}")
        sums = torch.full((max(PARTS), row.m, row.n), torch.nan, dtype=torch.float32, device=case.device)
        found = itertools.product(tiles, likely_parts(row.m // tiles[0].m))
        for tile, parts in itertools.islice(found, 3 if quick else None):
            yield variant(f"{parts} parts, {tile.brief()}", launches(case, tile, parts, sums), case)


def launches(case: Case, tile: Tile, parts: int, sums: torch.Tensor) -> Callable[[], object]:
    """The product with this tile in so many parts; `sums` has room for them."""
    row = case.row
    multiply = partial(
        kernels.split_kernel[(row.m // tile.m * parts,)],
        describe(case.values.view(-1, row.block[1]), (tile.m, tile.k)), case.right, case.c if parts == 1 else sums,
        case.row_ptr, case.col_idx, case.longest_first(), row.m, row.n, *strides(case.right), parts,
        BR=row.block[0], BK=row.block[1], TM=tile.m, TN=tile.n, TK=tile.k,
        STAGES=stages(tile.buffers), num_warps=tile.warps,
    )  # fmt: skip
    if parts == 1:
        return multiply
    elements = case.c.numel()
    add = partial(
        kernels.sum_kernel[(-(-elements // SUMMED),)],
        sums, case.c, elements, PARTS=parts, SIZE=SUMMED, num_warps=4,
    )  # fmt: skip

    def both() -> None:
        multiply()
        add()

    return both


def strides(b: torch.Tensor) -> tuple[int, int]:
    """Of rows and of columns. One column is told to lie column-major, as it may: vectors of it can then be loaded at once,
    since the columns that masks leave out seem to be aligned as well."""
    rows, columns = b.shape
    return (1, rows) if columns == 1 else (b.stride(0), b.stride(1))


def likely_parts(tiles: int) -> list[int]:
    """Numbers of parts; first the one that comes nearest to PROGRAMS programs."""
    return sorted(PARTS, key=lambda parts: abs(math.log2(tiles * parts / PROGRAMS)))
