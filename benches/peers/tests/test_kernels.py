"""The Triton kernels on Triton's interpreter, every tile that is tried on a GPU."""

# ruff: noqa: E402
import unittest
from collections.abc import Iterator
from dataclasses import replace

from .testing import interpret

interpret()

import torch

from ..case import Case
from ..peer import Peer, Refused, Variant
from ..rows import ROWS, Row
from ..split_peer import PARTS, TritonSplitK, likely_parts, strides
from ..stk_peer import StkLike
from ..tiles import SHARED, dsd_tiles, power_of_two
from ..triton_peer import TritonGather, TritonTma


def small(op: str, block: tuple[int, int], dtype: str = "f16") -> Row:
    """Ragged row lengths, an empty block row or two, N of one tile and a half."""
    m = max(256, 2 * block[0 if op != "dsd_t" else 1])
    k = max(4 * block[1 if op == "dsd" else 0], 256) if op != "sdd" else 256
    n = 512 if op in ("dds", "sdd") else 384
    return Row("small", op, m, n, k, block, "random:0.3", (), dtype)


class Crossed(TritonSplitK):
    """Of its variants every number of parts, and every tile: not each with each."""

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The first tile's, and one of each other tile."""
        every = list(super().variants(case, quick))
        yield from every[: len(PARTS)]
        yield from every[len(PARTS) :: len(PARTS) + 1]


class Interpreted(unittest.TestCase):
    """Every variant against the f64 reference."""

    def right(self, peer: Peer, row: Row) -> None:
        """All of the peer's variants."""
        case = Case(row, "cpu")
        variants = list(peer.variants(case, quick=False))
        self.assertTrue(variants)
        for variant in variants:
            with self.subTest(row=row.words(), variant=variant.words):
                case.poison()
                error = case.error_of(variant.run())
                self.assertTrue(case.is_right(error), error)

    def test_dsd(self) -> None:
        """Tall, narrow and small blocks."""
        for block in ((128, 128), (256, 112), (128, 32), (64, 64), (32, 32), (16, 16)):
            self.right(TritonTma(), small("dsd", block))

    def test_dsd_of_the_transpose(self) -> None:
        """Through the transposed index."""
        self.right(TritonTma(), small("dsd_t", (128, 128)))
        self.right(TritonTma(), small("dsd_t", (64, 128)))

    def test_fp8(self) -> None:
        """B column-major, results in bf16."""
        self.right(TritonTma(), small("dsd", (128, 128), "e4m3"))
        self.right(TritonTma(), small("dsd", (32, 32), "e4m3"))

    def test_dds(self) -> None:
        """Through the transposed index."""
        self.right(TritonTma(), small("dds", (128, 128)))
        self.right(TritonTma(), small("dds", (32, 64)))

    def test_sdd(self) -> None:
        """The stored blocks."""
        self.right(TritonTma(), small("sdd", (128, 128)))
        self.right(TritonTma(), small("sdd", (64, 32)))

    def test_gathered(self) -> None:
        """Several blocks a step, of which the last are beyond the row's end."""
        for block in ((16, 16), (32, 32), (64, 16)):
            self.right(TritonGather(), small("dsd", block))

    def test_few_columns(self) -> None:
        """One tile of columns, of which the matrix may have fewer; the dense side of DDS is its rows."""
        for columns in (8, 64):
            self.right(TritonTma(), replace(small("dsd", (128, 128)), n=columns))
        self.right(TritonTma(), replace(small("dsd", (64, 64), "e4m3"), n=16))
        self.right(TritonTma(), replace(small("dsd_t", (128, 64)), n=16))
        self.right(TritonTma(), replace(small("dds", (64, 128)), m=16))

    def test_split_k(self) -> None:
        """More parts than a row has steps, rows without blocks, columns that fill no tile, B in either order."""
        for block, columns in (((128, 128), 16), ((64, 64), 64), ((32, 32), 1), ((256, 112), 24)):
            self.right(Crossed(), replace(small("dsd", block), n=columns))
        self.right(Crossed(), replace(small("dsd", (128, 128), "e4m3"), n=16))
        sparse = replace(small("dsd", (64, 64)), m=1024, n=16, pattern="random:0.05")
        self.assertEqual(Case(sparse, "cpu").pattern.lengths.min(), 0)
        self.right(Crossed(), sparse)

    def test_strides_of_b(self) -> None:
        """As they are, but for one column, whose neighbours are never read."""
        self.assertEqual(strides(torch.empty(64, 16)), (16, 1))
        self.assertEqual(strides(torch.empty(16, 64).t()), (1, 64))
        self.assertEqual(strides(torch.empty(64, 1)), (1, 64))

    def test_sums_are_added_in_one_order(self) -> None:
        """Two runs of a product in parts agree to the bit, and C is overwritten."""
        case = Case(replace(small("dsd", (64, 64)), n=16), "cpu")
        variant = next(one for one in TritonSplitK().variants(case, quick=False) if one.words.startswith("4 parts"))
        first = variant.run().clone()
        case.poison()
        self.assertTrue(first.equal(variant.run()))

    def test_stk_like(self) -> None:
        """The stand-in."""
        for op in ("dsd", "sdd"):
            self.right(StkLike(), small(op, (128, 128)))

    def test_what_is_refused(self) -> None:
        """With a reason, before anything runs."""
        refusals: tuple[tuple[Peer, Row], ...] = (
            (TritonGather(), small("dsd", (128, 128))),
            (StkLike(), small("dsd", (64, 64))),
            (StkLike(), replace(small("dsd", (128, 128)), n=64)),
            (TritonTma(), replace(small("dsd", (128, 128)), n=1)),
            (TritonSplitK(), replace(small("dsd", (128, 128)), n=65)),
            (TritonSplitK(), replace(small("dsd_t", (128, 128)), n=16)),
        )
        for peer, row in refusals:
            with self.assertRaises(Refused):
                list(peer.variants(Case(row, "cpu"), quick=False))


class Tiles(unittest.TestCase):
    """The tiles of the rows of the table."""

    def test_every_row_has_tiles_that_fit(self) -> None:
        """Sides of powers of two that divide the block, operands that fit shared memory."""
        for row in ROWS:
            if row.op == "sdd":
                continue
            element = 1 if row.dtype == "e4m3" else 2
            height, bk = row.block if row.op == "dsd" else row.block[::-1]
            tiles = dsd_tiles(height, bk, row.dense_side, element, row.op != "dsd")
            self.assertGreaterEqual(len(tiles), 3, row.name)
            self.assertEqual(len(tiles), len(set(tiles)))
            for tile in tiles:
                self.assertEqual((height % tile.m, bk % tile.k), (0, 0), (row.name, tile))
                self.assertLessEqual(tile.bytes(element), SHARED)

    def test_few_columns_are_one_tile(self) -> None:
        """Of at least 16 columns, and not much wider than the matrix."""
        for columns, wide in ((1, 16), (16, 16), (17, 32), (64, 64)):
            self.assertEqual({tile.n for tile in dsd_tiles(128, 128, columns, 2, False)}, {wide})
        self.assertNotIn(64, {tile.n for tile in dsd_tiles(128, 128, 65, 2, False)})

    def test_parts_fill_the_gpu(self) -> None:
        """Few block rows are cut first into many parts, many into none; all numbers are tried in the end."""
        self.assertEqual([likely_parts(tiles)[0] for tiles in (4, 32, 172, 224, 4096)], [16, 16, 4, 2, 1])
        self.assertEqual(sorted(likely_parts(32)), list(PARTS))

    def test_powers_of_two(self) -> None:
        """112 = 16 * 7."""
        self.assertEqual([power_of_two(side, 128) for side in (112, 128, 512, 96, 1)], [16, 128, 128, 32, 1])


if __name__ == "__main__":
    unittest.main()
