"""The Triton kernels on Triton's interpreter, every tile that is tried on a GPU; and compiled for Hopper."""

# ruff: noqa: E402
import unittest

from .testing import interpret

interpret()

from .case import Case
from .peer import Refused
from .rows import ROWS, Row
from .stk_peer import StkLike
from .triton_peer import SHARED, TritonGather, TritonTma, dsd_tiles, power_of_two


def small(op: str, block: tuple[int, int], dtype: str = "f16") -> Row:
    """Ragged row lengths, an empty block row or two, N of one tile and a half."""
    m = max(256, 2 * block[0 if op != "dsd_t" else 1])
    k = max(4 * block[1 if op == "dsd" else 0], 256) if op != "sdd" else 256
    n = 512 if op in ("dds", "sdd") else 384
    return Row("small", op, m, n, k, block, "random:0.3", (), dtype)


class Interpreted(unittest.TestCase):
    """Every variant against the f64 reference."""

    def right(self, peer: TritonTma | TritonGather | StkLike, row: Row) -> None:
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

    def test_stk_like(self) -> None:
        """The stand-in."""
        for op in ("dsd", "sdd"):
            self.right(StkLike(), small(op, (128, 128)))

    def test_what_is_refused(self) -> None:
        """With a reason, before anything runs."""
        for peer, row in ((TritonGather(), small("dsd", (128, 128))), (StkLike(), small("dsd", (64, 64)))):
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
            tiles = dsd_tiles(height, bk, element, row.op != "dsd")
            self.assertGreaterEqual(len(tiles), 3, row.name)
            self.assertEqual(len(tiles), len(set(tiles)))
            for tile in tiles:
                self.assertEqual((height % tile.m, bk % tile.k), (0, 0), (row.name, tile))
                self.assertLessEqual(tile.bytes(element), SHARED)

    def test_powers_of_two(self) -> None:
        """112 = 16 * 7."""
        self.assertEqual([power_of_two(side, 128) for side in (112, 128, 512, 96, 1)], [16, 128, 128, 32, 1])


if __name__ == "__main__":
    unittest.main()
