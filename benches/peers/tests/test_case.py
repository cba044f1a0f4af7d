"""References, samples and errors, on the CPU."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"PyTorch is not installed: {missing}") from missing

from ..case import Case, wide
from ..dense import DenseFull
from ..rows import OPS, Row


def row(op: str, block: tuple[int, int] = (16, 32), dtype: str = "f16", pattern: str = "random:0.3") -> Row:
    """A small product."""
    return Row("small", op, 128, 96, 160 if op == "sdd" else 64 * 2, block, pattern, (), dtype)


def masked(case: Case) -> torch.Tensor:
    """What the sparse matrix is, element by element."""
    (rows, cols), (br, bc) = case.row.sparse_shape, case.row.block
    dense = torch.zeros(rows, cols, dtype=torch.float64)
    for block, (r, c) in enumerate(zip(case.pattern.row_of, case.pattern.col_idx, strict=True)):
        dense[r * br : (r + 1) * br, c * bc : (c + 1) * bc] = case.values[block].float().double()
    return dense


def product(case: Case) -> torch.Tensor:
    """C in f64; for sdd all of it."""
    match case.row.op:
        case "dsd":
            return masked(case) @ wide(case.right)
        case "dsd_t":
            return masked(case).t() @ wide(case.right)
        case "dds":
            return wide(case.left) @ masked(case)
        case _:
            return wide(case.left) @ wide(case.right)


class CaseTest(unittest.TestCase):
    """Against products that are written out."""

    def test_the_sparse_matrix_with_its_zeros(self) -> None:
        """Both makings of it agree, in 8 bits too."""
        for dtype in ("f16", "e4m3"):
            case = Case(row("dsd", dtype=dtype), "cpu")
            self.assertTrue(torch.equal(case.to_dense().float().double(), masked(case)))

    def test_the_sample_is_of_the_product(self) -> None:
        """For every op; the right result has the error of its rounding."""
        for op in OPS:
            for dtype in ("f16", "e4m3"):
                case = Case(row(op, (32, 16), dtype), "cpu")
                want = product(case)
                self.assertTrue(torch.allclose(case.observed(want), case.expected, rtol=1e-12, atol=1e-12), op)
                error = case.error_of(want.to(case.out_dtype))
                self.assertTrue(error > 0 and case.is_right(error), (op, dtype, error))

    def test_blocks_of_a_sampled_product(self) -> None:
        """A result in blocks and one with everything are sampled alike."""
        case = Case(row("sdd"), "cpu")
        full, (br, bc) = product(case), case.row.block
        blocks = torch.stack([
            full[r * br : (r + 1) * br, c * bc : (c + 1) * bc]
            for r, c in zip(case.pattern.row_of, case.pattern.col_idx, strict=True)
        ])  # fmt: skip
        self.assertTrue(torch.equal(case.observed(blocks), case.observed(full)))

    def test_a_missing_block_is_seen(self) -> None:
        """And a NaN anywhere, and an unwritten C."""
        for op in OPS:
            case = Case(row(op, (16, 16)), "cpu")
            want = product(case)
            wrong = want.clone()
            wrong[: case.row.m // 2] *= 0.9
            self.assertFalse(case.is_right(case.error_of(wrong.half())), op)
            hole = want.half()
            hole[-1, -1] = torch.nan
            self.assertFalse(case.is_right(case.error_of(hole)), op)
            case.poison()
            self.assertFalse(case.is_right(case.error_of(case.c)), op)

    def test_the_full_dense_product_is_the_product(self) -> None:
        """Through the library, on the CPU."""
        for op in OPS:
            case = Case(row(op), "cpu")
            (variant,) = DenseFull().variants(case, quick=False)
            self.assertTrue(case.is_right(case.error_of(variant.run())), op)


if __name__ == "__main__":
    unittest.main()
