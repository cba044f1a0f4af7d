"""Sparse times sparse: the tensors, and who is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from ..suite import Entry
from .cases import Pairs
from .library import SPGEMM_ALG2, SPGEMM_ALG3, SPGEMM_DEFAULT, Csr, Library, Spgemm, of_blocks

ROWS = 16
"""Of how many rows the result is computed in f64."""
ALGORITHMS = {
    "": (SPGEMM_DEFAULT, 1.0),
    ", ALG2": (SPGEMM_ALG2, 1.0),
    ", ALG3 by fifths": (SPGEMM_ALG3, 0.2),
    ", ALG3 by hundredths": (SPGEMM_ALG3, 0.01),
}
"""cuSPARSE's algorithms, and the part of all products of single values that is in memory at a time."""


class Blocks:
    """A square matrix in blocks: f16 values from N(0, 1)."""

    def __init__(self, mask: np.ndarray, block: int, device: str) -> None:
        row, column = np.nonzero(mask)
        self.mask, self.side, self.block = mask, len(mask) * block, block
        pointers = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(mask)))])
        self.row_ptr, self.col_idx = (torch.from_numpy(x.astype(np.int32)).to(device) for x in (pointers, column))
        self.values = torch.randn(len(column), block, block, device=device).half()

    def csr(self) -> Csr:
        """The matrix by single values in f32."""
        return of_blocks((self.side, self.side), self.row_ptr, self.col_idx, self.values.float())

    def dense(self) -> torch.Tensor:
        """The matrix with its zeros."""
        across = len(self.mask)
        whole = self.values.new_zeros(across, across, self.block, self.block)
        row = torch.repeat_interleave(torch.arange(across, device=whole.device), self.row_ptr.long().diff())
        whole[row, self.col_idx.long()] = self.values
        return whole.transpose(1, 2).reshape(self.side, self.side)


class Product:
    """A and B, and some rows of C."""

    tolerance = 2e-3

    def __init__(self, case: Pairs, device: str = "cuda") -> None:
        torch.manual_seed(0)
        self.case = case
        self.a, self.b = (Blocks(mask, case.block, device) for mask in case.masks)
        rows = torch.randint(case.rows, (ROWS,)).tolist()
        self.rows = torch.tensor(sorted({0, case.rows - 1, *rows}), device=device)
        self.expected = self.a.dense()[self.rows].double() @ self.b.dense().double()

    def error(self, found: torch.Tensor) -> float:
        """The relative error of C, all of it; infinite where C has a number that is none."""
        if not bool(found.isfinite().all()):
            return torch.inf
        return ((found[self.rows].double() - self.expected).norm() / self.expected.norm()).item()


def ours(product: Product) -> Iterator[Entry]:
    """`bsr_gemm.matmul` with the kernel that it chooses, in f16, and in f32, which tensor cores do not have."""
    import bsr_gemm as bsr

    for who, kind in (("bsr", torch.float16), ("bsr, f32", torch.float32)):
        factors = []
        for x in (product.a, product.b):
            pattern = bsr.Pattern((x.side, x.side), (x.block, x.block), x.row_ptr.cpu(), x.col_idx.cpu())
            factors.append(bsr.BsrMatrix(x.values.to(kind), pattern))
        yield Entry(who, lambda factors=factors: bsr.matmul(*factors), lambda found: found.to_dense())


def dense(product: Product) -> Iterator[Entry]:
    """All of it, zeros too, in f16."""
    a, b = product.a.dense(), product.b.dense()
    yield Entry("dense, all of it", lambda: torch.mm(a, b))


def cusparse(product: Product) -> Iterator[Entry]:
    """cuSPARSE's SpGEMM in f32: whole, by each of its algorithms, and C's values alone."""
    spgemm = Spgemm(Library(), product.a.csr(), product.b.csr())
    for words, (algorithm, part) in ALGORITHMS.items():
        run: Callable[[], Csr] = lambda algorithm=algorithm, part=part: spgemm.whole(algorithm, part)  # noqa: E731
        yield Entry(f"cuSPARSE SpGEMM{words}", run, Csr.dense)
    again = spgemm.again()
    yield Entry("cuSPARSE SpGEMM, values alone", lambda: next(again), Csr.dense)


PEERS = (ours, dense, cusparse)
