"""The rows of science, and what their results must be, on the CPU."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"PyTorch is not installed: {missing}") from missing

from ..sparse import cases, pairs, vectors
from ..sparse.cases import Pairs, Vector
from ..sparse.library import of_blocks
from ..sparse.timed import SUITE


class Small(Vector):
    """Five nodes along an edge."""

    @property
    def side(self) -> int:
        return 5


def by_hand(product: vectors.Product) -> torch.Tensor:
    """A with its zeros."""
    side, block = product.case.block_rows, product.case.block
    whole = torch.zeros(side, side, block, block, dtype=product.values.dtype)
    row = torch.repeat_interleave(torch.arange(side), product.row_ptr.long().diff())
    whole[row, product.col_idx.long()] = product.values
    return whole.transpose(1, 2).reshape(side * block, side * block)


class Sparse(unittest.TestCase):
    def test_small_blocks_are_counted_and_have_single_values(self) -> None:
        for group in ("mesh", "random"):
            for block, size in ((1, 8), (3, 4)):
                with self.subTest(group=group, block=block):
                    product = vectors.Product(Small(group, block, size), "cpu")
                    self.assertEqual(len(product.col_idx), product.case.nnzb)
                    self.assertEqual(product.row_ptr[-1], product.case.nnzb)
                    whole = by_hand(product)
                    self.assertTrue(torch.equal(product.csr.dense(), whole))
                    right = whole @ product.x
                    self.assertLess(product.error(right), product.tolerance)
                    self.assertGreater(product.error(right.roll(1)), 0.5)
                    self.assertEqual(product.error(right.fill_(torch.nan)), torch.inf)

    def test_neighbours_are_near_and_random_blocks_are_not(self) -> None:
        product = vectors.Product(Small("mesh", 1, 8), "cpu")
        corner = product.col_idx[: int(product.row_ptr[1])].tolist()
        self.assertEqual(corner, [0, 1, 5, 6, 25, 26, 30, 31])
        drawn = vectors.Product(Small("random", 1, 8), "cpu").col_idx.view(-1, 27)
        self.assertTrue(bool((drawn.diff(dim=1) > 0).all()))

    def test_pairs_are_counted_and_multiplied(self) -> None:
        case = Pairs(64, 8, 0.5)
        product = pairs.Product(case, "cpu")
        a, b = (x.dense().double() for x in (product.a, product.b))
        for x, dense in ((product.a, a), (product.b, b)):
            self.assertTrue(torch.equal(x.csr().dense().double(), dense))
        marked = [torch.from_numpy(mask).long() for mask in case.masks]
        self.assertEqual(case.flops, 2 * 8**3 * int((marked[0] @ marked[1]).sum()))
        self.assertEqual(int(marked[0].sum()), 32)
        self.assertLess(product.error(a @ b), 1e-12)
        self.assertGreater(product.error((a @ b).roll(1, 0)), 0.5)

    def test_rectangular_blocks_have_single_values(self) -> None:
        row_ptr, col_idx = torch.tensor([0, 2, 2, 3], dtype=torch.int32), torch.tensor([0, 2, 1], dtype=torch.int32)
        values = torch.arange(1.0, 19.0).view(3, 2, 3)
        found = of_blocks((6, 9), row_ptr, col_idx, values).dense()
        expected = torch.zeros(6, 9)
        expected[0:2, 0:3], expected[0:2, 6:9], expected[4:6, 3:6] = values
        self.assertTrue(torch.equal(found, expected))

    def test_matrices_are_large_enough_and_named_apart(self) -> None:
        rows = SUITE.choose([], False)
        self.assertEqual(len({row.name for row in rows}), len(rows))
        for row in rows:
            if isinstance(row, Vector):
                self.assertGreater(row.bytes, 3e8)
        self.assertEqual({row.group for row in rows}, set(cases.GROUPS))
