"""A row's operands on the GPU, what its product must be, and whether a result is that."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch

from . import pattern as patterns
from .rows import Row

# Greatest relative Frobenius error: rounding f32 sums to f16 costs 2e-4, to bf16 1.7e-3, and FP8 tensor cores keep few
# bits of long sums (2e-3 over 8192 products). What a wrong index or a missing block costs is above 1e-2.
TOLERANCE = {"f16": 1e-3, "e4m3": 8e-3}


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In f64, which 8-bit types reach through f32 alone."""
    return tensor.float().double()


TYPES = {"f16": (torch.float16, torch.float16), "e4m3": (torch.float8_e4m3fn, torch.bfloat16)}


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """8-bit types as bytes: not every operation of PyTorch takes them, and moving numbers needs no arithmetic."""
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor


class Case:
    """Operands, drawn from the row's seed; `a` is none where A is sparse, `b` where B is.

    An 8-bit `b` is a view of a column-major one, which is what tensor cores take.
    """

    def __init__(self, row: Row, device: str = "cuda") -> None:
        self.row = row
        self.device = device
        self.dtype, self.out_dtype = TYPES[row.dtype]
        self.pattern = patterns.draw(*row.sparse_shape, row.block, row.pattern, row.seed)
        self.flops = row.executed_flops(self.pattern.nnzb)
        host = torch.from_numpy(self.pattern.values(row.seed))
        self.values = host.to(device).to(self.dtype)
        self.row_ptr = self._indices(self.pattern.row_ptr)
        self.col_idx = self._indices(self.pattern.col_idx)
        torch.manual_seed(row.seed)
        self.a = None if row.op in ("dsd", "dsd_t") else self.normal(row.m, row.k)
        self.b = None if row.op == "dds" else self.normal_b(row.k, row.n)
        shape = (self.pattern.nnzb, *row.block) if row.op == "sdd" else (row.m, row.n)
        self.c = torch.empty(shape, dtype=self.out_dtype, device=device)

    def _indices(self, host: patterns.Indices) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(host)).to(self.device)

    def normal(self, rows: int, cols: int) -> torch.Tensor:
        """A row-major matrix of N(0, 1)."""
        return torch.randn(rows, cols, device=self.device, dtype=torch.float32).to(self.dtype)

    def normal_b(self, rows: int, cols: int) -> torch.Tensor:
        """A right operand of N(0, 1): row-major, in 8 bits column-major."""
        return self.normal(cols, rows).t() if self.row.dtype == "e4m3" else self.normal(rows, cols)

    @cached_property
    def transposed(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`Pattern.transposed` on the GPU."""
        ptr, idx, where = self.pattern.transposed()
        return self._indices(ptr), self._indices(idx), self._indices(where)

    @cached_property
    def block_rows_of(self) -> torch.Tensor:
        """The block row of each block."""
        return self._indices(self.pattern.row_of)

    @property
    def left(self) -> torch.Tensor:
        """`a` where it is dense."""
        assert self.a is not None
        return self.a

    @property
    def right(self) -> torch.Tensor:
        """`b` where it is dense."""
        assert self.b is not None
        return self.b

    def longest_first(self, by_columns: bool = False) -> torch.Tensor:
        """Block rows (or columns) by their number of blocks, so that the long ones do not come last."""
        pattern = self.pattern
        lengths = np.bincount(pattern.col_idx, minlength=pattern.block_cols) if by_columns else pattern.lengths
        return self._indices(np.argsort(-lengths, kind="stable").astype(np.int32))

    def to_dense(self) -> torch.Tensor:
        """The sparse matrix with all its zeros."""
        (rows, cols), (br, bc) = self.row.sparse_shape, self.row.block
        values = raw(self.values)
        dense = torch.zeros(rows // br, cols // bc, br, bc, dtype=values.dtype, device=self.device)
        dense[self.block_rows_of.long(), self.col_idx.long()] = values
        return dense.permute(0, 2, 1, 3).reshape(rows, cols).view(self.dtype)

    @cached_property
    def sample(self) -> torch.Tensor:
        """Rows of C (columns for dds, blocks for sdd) that are compared: first and last of blocks, and others."""
        row, block = self.row, self.row.block
        rng = np.random.default_rng([row.seed, 2])
        if row.op == "sdd":
            some = rng.choice(self.pattern.nnzb, min(32, self.pattern.nnzb), replace=False)
            chosen = np.concatenate([[0, self.pattern.nnzb - 1], some]) if self.pattern.nnzb else some
        else:
            side, step = {"dsd": (row.m, block[0]), "dsd_t": (row.m, block[1]), "dds": (row.n, block[1])}[row.op]
            edges = rng.choice(side // step, min(16, side // step), replace=False) * step
            chosen = np.concatenate([[0, side - 1], edges, edges + step - 1, rng.choice(side, min(32, side))])
        return torch.from_numpy(np.unique(chosen)).to(self.device)

    @cached_property
    def expected(self) -> torch.Tensor:
        """The sample of C, in f64."""
        row, (br, bc) = self.row, self.row.block
        if row.op == "sdd":
            at_rows = self.block_rows_of[self.sample].long()[:, None] * br + torch.arange(br, device=self.device)
            at_cols = self.col_idx[self.sample].long()[:, None] * bc + torch.arange(bc, device=self.device)
            right = torch.stack([wide(self.right[:, cols]) for cols in at_cols])
            return torch.bmm(wide(self.left[at_rows]), right)
        if row.op == "dsd":
            return self._lines(self.row_ptr, self.col_idx, None, br, bc, row.k) @ wide(self.right)
        ptr, idx, where = self.transposed
        lines = self._lines(ptr, idx, where, bc, br, row.k)
        if row.op == "dsd_t":
            return lines @ wide(self.right)
        return wide(self.left) @ lines.t()

    def _lines(
        self, ptr: torch.Tensor, idx: torch.Tensor, where: torch.Tensor | None, height: int, width: int, k: int
    ) -> torch.Tensor:
        """The sampled rows of the sparse matrix (columns with `where`, the transposed index), with their zeros."""
        offsets, lines = ptr.tolist(), torch.zeros(len(self.sample), k, dtype=torch.float64, device=self.device)
        for out, at in zip(lines, self.sample.tolist(), strict=True):
            blocks = torch.arange(offsets[at // height], offsets[at // height + 1], device=self.device)
            stored = raw(self.values)[blocks if where is None else where[blocks].long()].view(self.dtype)
            line = stored[:, at % height, :] if where is None else stored[:, :, at % height]
            out.view(-1, width)[idx[blocks].long()] = wide(line)
        return lines

    def observed(self, c: torch.Tensor) -> torch.Tensor:
        """The sample of a result: C, or for sdd its stored blocks."""
        row, (br, bc) = self.row, self.row.block
        if row.op == "dds":
            return c[:, self.sample]
        if row.op == "sdd" and c.dim() == 2:
            return c.reshape(row.m // br, br, row.n // bc, bc).permute(0, 2, 1, 3)[
                self.block_rows_of[self.sample].long(), self.col_idx[self.sample].long()
            ]
        return c[self.sample]

    def poison(self) -> None:
        """Fills `c` with NaN."""
        self.c.fill_(math.nan)

    def error_of(self, c: torch.Tensor) -> float:
        """Relative Frobenius error on the sample; infinite where C is not finite, sampled or not."""
        return self.error_against(self.expected, c)

    def error_against(self, expected: torch.Tensor, c: torch.Tensor) -> float:
        """The same where another sample of C is expected."""
        if not bool(torch.isfinite(c).all()):
            return math.inf
        return float(torch.linalg.norm(self.observed(c).double() - expected) / torch.linalg.norm(expected))

    def is_right(self, error: float) -> bool:
        """Whether an error is what rounding costs."""
        return error <= TOLERANCE[self.row.dtype]
