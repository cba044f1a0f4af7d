"""The Triton kernels as peers: which of them does what, with every tile, and the descriptors that they take."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from . import triton_kernels as kernels
from .case import Case
from .peer import Refused, Variant
from .tiles import SHARED, Tile, dsd_tiles, power_of_two, stages


class TritonTma:
    """`dsd_kernel`, `dds_kernel`, `sdd_kernel`."""

    name = "Triton + TMA"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The kernels with every tile; the three likeliest if quick."""
        if row_bytes := case.row.n * case.c.itemsize % 16:
            raise Refused(f"TMA moves rows of whole 16 bytes; one of C ends with {row_bytes} B")
        make = {"dsd": self._dsd, "dsd_t": self._dsd, "dds": self._dds, "sdd": self._sdd}[case.row.op]
        found = list(make(case))
        if not found:
            raise Refused(f"no tile of powers of two divides blocks of {case.row.block[0]} x {case.row.block[1]}")
        yield from found[:3] if quick else found

    def _dsd(self, case: Case) -> Iterator[Variant]:
        row, transposed = case.row, case.row.op == "dsd_t"
        height, bk = (row.block[1], row.block[0]) if transposed else row.block
        ptr, idx, where = case.transposed if transposed else (case.row_ptr, case.col_idx, case.col_idx)
        order = case.longest_first(by_columns=transposed)
        flat = case.values.view(-1, row.block[1])
        by_columns = case.right.stride(0) == 1
        for tile in dsd_tiles(height, bk, row.n, case.dtype.itemsize, transposed):
            a = describe(flat, (tile.k, tile.m) if transposed else (tile.m, tile.k))
            b = describe(case.right.t(), (tile.n, tile.k)) if by_columns else describe(case.right, (tile.k, tile.n))
            c = describe(case.c, (tile.m, tile.n))
            tiles = (row.m // tile.m, -(-row.n // tile.n))

            launch = partial(
                kernels.dsd_kernel[(tiles[0] * tiles[1],)],
                a, b, c, ptr, idx, where, order, case.pattern.nnzb, *tiles,
                BR=height, BK=bk, TM=tile.m, TN=tile.n, TK=tile.k, UNROLL=tile.unroll, GROUP=tile.group,
                STAGES=stages(tile.buffers), TRANSPOSED=transposed, B_COL=by_columns, SWAP=tile.swap,
                num_warps=tile.warps,
            )  # fmt: skip
            yield variant(tile.words(), launch, case)

    def _dds(self, case: Case) -> Iterator[Variant]:
        row, (bk, bc) = case.row, case.row.block
        ptr, idx, where = case.transposed
        order = case.longest_first(by_columns=True)
        flat = case.values.view(-1, bc)
        # The sparse side is C's columns here: the same tiles, with m and n exchanged.
        for turned in dsd_tiles(bc, bk, row.m, case.dtype.itemsize, transposed=True):
            tile = Tile(turned.n, turned.m, turned.k, turned.warps, turned.buffers, group=turned.group)
            if turned.swap:
                continue
            a, s = describe(case.left, (tile.m, tile.k)), describe(flat, (tile.k, tile.n))
            c = describe(case.c, (tile.m, tile.n))
            tiles = (row.n // tile.n, -(-row.m // tile.m))

            launch = partial(
                kernels.dds_kernel[(tiles[0] * tiles[1],)],
                a, s, c, ptr, idx, where, order, *tiles,
                BK=bk, BC=bc, TM=tile.m, TN=tile.n, TK=tile.k, GROUP=tile.group,
                STAGES=stages(tile.buffers), num_warps=tile.warps,
            )  # fmt: skip
            yield variant(tile.words(), launch, case)

    def _sdd(self, case: Case) -> Iterator[Variant]:
        row, (bm, bn) = case.row, case.row.block
        m, n = power_of_two(bm, 128), power_of_two(bn, 256)
        tiles = [Tile(m, n, 64, 4, 4), Tile(m, n, 64, 8, 4), Tile(m, n, 64, 4, 3), Tile(m, n, 128, 8, 3)]
        tiles += [Tile(m, n, 64, 8, 3), Tile(m, n, 64, 4, 5), Tile(m, n, 32, 4, 6), Tile(m, n, 128, 4, 2)]
        flat = case.c.view(-1, bn)
        for tile in tiles:
            if tile.bytes(case.dtype.itemsize) > SHARED:
                continue
            a, b = describe(case.left, (tile.m, tile.k)), describe(case.right, (tile.k, tile.n))
            c = describe(flat, (tile.m, tile.n))

            parts = (bm // tile.m) * (bn // tile.n)
            launch = partial(
                kernels.sdd_kernel[(case.pattern.nnzb * parts,)],
                a, b, c, case.block_rows_of, case.col_idx, row.k,
                BM=bm, BN=bn, TM=tile.m, TN=tile.n, TK=tile.k, STAGES=tile.buffers, num_warps=tile.warps,
            )  # fmt: skip
            yield variant(tile.words(), launch, case)


class TritonGather:
    """`gather_kernel`: several small blocks a step, B's rows through pointers."""

    name = "Triton, gathered"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """For blocks of 16 or 32 columns; the two likeliest if quick."""
        row = case.row
        br, bk = row.block
        if row.op != "dsd" or row.dtype != "f16" or bk > 32 or br > 64 or br & (br - 1) or bk & (bk - 1):
            raise Refused("for f16 DSD with blocks of powers of two up to 64 x 32")
        order = case.longest_first()
        shapes = list(itertools.product((64, 128), ((128, 4), (256, 8)), (True, False)))
        for depth, (n, warps), swap in shapes[:2] if quick else shapes:
            if row.n % n:
                continue
            blocks, tiles = depth // bk, (row.m // br, row.n // n)
            launch = partial(
                kernels.gather_kernel[(tiles[0] * tiles[1],)],
                case.values, case.right, case.c, case.row_ptr, case.col_idx, order, row.n, *tiles,
                BR=br, BK=bk, TN=n, BLOCKS=blocks, GROUP=2, STAGES=stages(3), SWAP=swap, num_warps=warps,
            )  # fmt: skip
            words = f"{br}x{n}, {blocks} blocks a step, {warps} warps{', swapped' if swap else ''}"
            yield variant(words, launch, case)


def variant(words: str, launch: Callable[[], object], case: Case) -> Variant:
    """A kernel that writes to the case's C."""

    def run() -> torch.Tensor:
        launch()
        return case.c

    return Variant(words, run)


def describe(tensor: torch.Tensor, box: tuple[int, int]) -> TensorDescriptor:
    """A tensor map of a row-major matrix, loaded in boxes of `box`."""
    return TensorDescriptor.from_tensor(tensor, list(box))
