"""2:4 on the CPU: what is pruned, what is asked of the library, and what is held to be right."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"PyTorch is not installed: {missing}") from missing

from .. import semi_peer
from ..case import Case
from ..peer import Refused, Variant
from ..rows import Row

ROW = Row("small", "dsd", 128, 24, 256, (32, 32), "random:0.25", ())


class FakeLibrary:
    """cuSPARSELt with matrices that stay as they are."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self.asked: list[tuple[Any, ...]] = []

    def multiply(
        self, packed: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype | None, transpose_result: bool
    ) -> torch.Tensor:
        """In f32, rounded at the end."""
        self.asked.append((tuple(b.shape), b.is_contiguous(), transpose_result))
        c = (self.factor * (packed.float() @ b.float())).to(out_dtype or b.dtype)
        return c.t().contiguous() if transpose_result else c

    def variants(self, case: Case) -> list[Variant]:
        """The peer's, with this library."""
        for patch in (
            mock.patch.object(torch.backends.cusparselt, "is_available", lambda: True),
            mock.patch.object(torch.sparse, "to_sparse_semi_structured", lambda weights: mock.Mock(packed=weights)),
            mock.patch.object(torch, "_cslt_sparse_mm", self.multiply),
            # Only a GPU captures graphs.
            mock.patch.object(semi_peer, "captured", semi_peer.called),
        ):
            patch.start()
        return list(semi_peer.Semi().variants(case, quick=True))


class PruneTest(unittest.TestCase):
    """Two of four."""

    def test_the_greatest_two_of_each_four_are_kept(self) -> None:
        """Of equal ones any two, in 8 bits too; what is not kept is a zero of zero bits."""
        four = torch.tensor([[3.0, -4.0, 1.0, -2.0, 0.5, 0.5, -0.5, 0.5]])
        for dtype in (torch.float16, torch.float8_e4m3fn):
            pruned = semi_peer.prune(four.to(dtype))
            self.assertEqual(pruned.float()[0, :4].tolist(), [3.0, -4.0, 0.0, 0.0])
            self.assertEqual(pruned.float()[0, 4:].abs().sum(), 1.0)
            self.assertEqual(int(pruned.view(torch.uint8).count_nonzero()), 4)

    def test_half_of_all_weights_is_kept(self) -> None:
        """In every four of every row."""
        pruned = semi_peer.prune(torch.randn(64, 128, dtype=torch.float16))
        self.assertTrue(bool(((pruned.view(-1, 4) != 0).sum(1) == 2).all()))


class SemiTest(unittest.TestCase):
    """The product that is asked for."""

    def setUp(self) -> None:
        """Undoes what variants of a fake library replaced."""
        self.addCleanup(mock.patch.stopall)

    def test_every_order_in_a_graph_and_called(self) -> None:
        """All of them right by the peer's own reference, and none by that of the sparse product."""
        for dtype, orders in (("f16", 2), ("e4m3", 1)):
            library, case = FakeLibrary(), Case(replace(ROW, n=32, dtype=dtype), "cpu")
            variants = library.variants(case)
            self.assertEqual(len(variants), 2 * orders)
            for variant in variants:
                assert variant.error is not None
                c = variant.run()
                self.assertEqual((c.shape, c.dtype), ((128, 32), case.out_dtype))
                self.assertTrue(case.is_right(variant.error(c)), variant.words)
                self.assertFalse(case.is_right(case.error_of(c)))
            columns, rows = ((256, 32), False, True), ((256, 32), True, False)
            self.assertEqual(library.asked, 2 * list((columns, rows)[:orders]))
            mock.patch.stopall()

    def test_a_wrong_result_is_seen(self) -> None:
        """By every variant."""
        case = Case(ROW, "cpu")
        for variant in FakeLibrary(1.01).variants(case):
            assert variant.error is not None
            self.assertFalse(case.is_right(variant.error(variant.run())))

    def test_few_columns_are_padded_before_they_are_multiplied(self) -> None:
        """To 16 bytes, and C has the columns of the row."""
        for columns, dtype, wide in ((1, "f16", 8), (20, "f16", 24), (24, "f16", 24), (1, "e4m3", 16)):
            library, case = FakeLibrary(), Case(replace(ROW, n=columns, dtype=dtype), "cpu")
            for variant in library.variants(case):
                assert variant.error is not None
                c = variant.run()
                self.assertEqual(c.shape, (128, columns))
                self.assertTrue(case.is_right(variant.error(c)), variant.words)
            self.assertEqual({shape for shape, *_ in library.asked}, {(256, wide)})
            mock.patch.stopall()

    def test_what_is_refused(self) -> None:
        """Another op, and a PyTorch without the library."""
        with self.assertRaisesRegex(Refused, "left"):
            FakeLibrary().variants(Case(replace(ROW, n=64, op="dds"), "cpu"))
        with (
            mock.patch.object(torch.backends.cusparselt, "is_available", lambda: False),
            self.assertRaisesRegex(Refused, "no cuSPARSELt"),
        ):
            list(semi_peer.Semi().variants(Case(ROW, "cpu"), quick=True))


if __name__ == "__main__":
    unittest.main()
