"""A matrix of small blocks times a vector: the tensors, and who is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import torch

from ..suite import Entry
from .cases import NEIGHBOURS, Vector
from .library import SPMV_ALGORITHMS, Bsrmv, Csr, Library, Spmv, of_blocks

ROWS = 512
"""Of how many block rows the result is computed in f64; of a matrix in f64 the same sums in another order."""


class Product:
    """A in blocks, and x, from N(0, 1)."""

    def __init__(self, case: Vector, device: str = "cuda") -> None:
        torch.manual_seed(0)
        self.case, self.device = case, device
        kind = torch.float64 if case.size == 8 else torch.float32
        self.tolerance = 1e-13 if case.size == 8 else 2e-6
        self.row_ptr, self.col_idx = (mesh if case.group == "mesh" else spread)(case, device)
        self.values = torch.randn(case.nnzb, case.block, case.block, dtype=kind, device=device)
        self.x = torch.randn(case.block_rows * case.block, dtype=kind, device=device)
        rows = [0, case.block_rows - 1, *torch.randint(case.block_rows, (ROWS,)).tolist()]
        self.rows = torch.tensor(sorted(set(rows)), device=device)
        self.expected = torch.stack([self._expected(row) for row in self.rows.tolist()])

    @cached_property
    def csr(self) -> Csr:
        """A by single values."""
        side = self.case.block_rows * self.case.block
        return of_blocks((side, side), self.row_ptr, self.col_idx, self.values)

    def error(self, found: torch.Tensor) -> float:
        """The relative error of y; infinite where y has a number that is none."""
        if not bool(found.isfinite().all()):
            return torch.inf
        chosen = found.view(-1, self.case.block)[self.rows].double()
        return ((chosen - self.expected).norm() / self.expected.norm()).item()

    def _expected(self, row: int) -> torch.Tensor:
        first, end = self.row_ptr[row : row + 2].tolist()
        columns = self.x.view(-1, self.case.block)[self.col_idx[first:end].long()].double()
        return torch.einsum("bij,bj->i", self.values[first:end].double(), columns)


def spread(case: Vector, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Pointers of block rows and the block columns: one at random in each 27th part of a row."""
    part = torch.arange(NEIGHBOURS, device=device) * case.block_rows // NEIGHBOURS
    width = torch.diff(part, append=part.new_tensor([case.block_rows]))
    within = (torch.rand(case.block_rows, NEIGHBOURS, device=device, dtype=torch.float64) * width).long()
    pointers = torch.arange(case.block_rows + 1, device=device, dtype=torch.int32) * NEIGHBOURS
    return pointers, (part + within).flatten().int()


def mesh(case: Vector, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of nodes of a cube: each has itself and its neighbours, diagonal ones among them."""
    at = torch.arange(case.side, device=device)
    nodes = torch.stack(torch.meshgrid(at, at, at, indexing="ij"), -1).view(-1, 1, 3)
    step = torch.arange(-1, 2, device=device)
    around = torch.stack(torch.meshgrid(step, step, step, indexing="ij"), -1).view(1, -1, 3)
    there = nodes + around
    inside = ((there >= 0) & (there < case.side)).all(-1)
    number = (there * torch.tensor([case.side**2, case.side, 1], device=device)).sum(-1)
    pointers = torch.zeros(case.block_rows + 1, dtype=torch.int32, device=device)
    pointers[1:] = inside.sum(1).cumsum(0)
    return pointers, number[inside].int()


def ours(product: Product) -> Iterator[Entry]:
    """`bsr_gemm` with the kernel that it chooses."""
    import bsr_gemm as bsr

    side = product.case.block_rows * product.case.block
    block = (product.case.block,) * 2
    pattern = bsr.Pattern((side, side), block, product.row_ptr.cpu(), product.col_idx.cpu())
    matrix = bsr.BsrMatrix(product.values, pattern)
    yield Entry("bsr", lambda: bsr.bsr_gemm(matrix, product.x))


def cusparse(product: Product) -> Iterator[Entry]:
    """cuSPARSE's block product, and its products by single values."""
    library = Library()
    yield Entry("cuSPARSE BSR", Bsrmv(library, product.row_ptr, product.col_idx, product.values, product.x))
    for words, algorithm in SPMV_ALGORITHMS.items():
        run: Callable[[], torch.Tensor] = Spmv(library, product.csr, product.x, algorithm)
        yield Entry(f"cuSPARSE CSR{words}", run)


PEERS = (ours, cusparse)
