"""cuSPARSE's block formats as peers: BSR (SpMM and SDDMM) and Blocked-ELL."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_void_p
from functools import cache, partial

import torch

from . import cusparse as api
from .case import Case
from .pattern import ell
from .peer import Refused, Run, Variant, lazy

ORDERS = {"row-major": api.ORDER_ROW, "column-major": api.ORDER_COL}


@cache
def library() -> api.Cusparse:
    """Loaded once a process."""
    return api.Cusparse()


def stream() -> int:
    """The stream that PyTorch enqueues on."""
    return torch.cuda.current_stream().cuda_stream


class Spmm:
    """C = op(sparse) * B, with B and C in one order. Owns what the descriptors describe, `keep` among it."""

    def __init__(self, case: Case, sparse: c_void_p, op: int, order: int, algorithm: int, *keep: torch.Tensor) -> None:
        k, n, m = case.row.k, case.row.n, case.row.m
        rows_first = order == api.ORDER_ROW
        self.keep = keep
        self.b = case.right if rows_first else case.right.t().contiguous()
        self.c = case.c if rows_first else torch.full((n, m), torch.nan, dtype=case.c.dtype, device=case.device)
        self.result = self.c if rows_first else self.c.t()
        b = library().dense(k, n, self.b.data_ptr(), order)
        c = library().dense(m, n, self.c.data_ptr(), order)
        self.arguments = (stream(), op, sparse, b, c, algorithm)
        self.buffer = scratch(library().spmm_bytes(*self.arguments), case)

    def __call__(self) -> torch.Tensor:
        """Enqueues the product."""
        library().spmm(*self.arguments, self.buffer.data_ptr())
        return self.result


def scratch(size: int, case: Case) -> torch.Tensor:
    """A buffer of at least a byte."""
    return torch.empty(max(size, 1), dtype=torch.uint8, device=case.device)


class CusparseBsr:
    """cusparseSpMM on BSR; cusparseSDDMM for sdd."""

    name = "cuSPARSE BSR"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """B and C in either order."""
        del quick
        row, pattern = case.row, case.pattern
        if row.dtype != "f16":
            raise Refused("no FP8")
        if row.op == "dds":
            raise Refused("the sparse operand stands on the left; transposed it is refused")
        values = case.c if row.op == "sdd" else case.values
        pointers = (case.row_ptr.data_ptr(), case.col_idx.data_ptr(), values.data_ptr())
        try:
            sparse = library().bsr(pattern.block_rows, pattern.block_cols, pattern.nnzb, row.block, *pointers)
        except api.CusparseError as error:
            square = row.block[0] == row.block[1]
            raise error if square else Refused(f"square blocks only ({error})") from error
        if row.op == "sdd":
            yield Variant("SDDMM", lazy(lambda: self._sddmm(case, sparse)))
            return
        op = api.TRANSPOSE if row.op == "dsd_t" else api.NON_TRANSPOSE
        for words, order in ORDERS.items():
            make = partial(Spmm, case, sparse, op, order, api.SPMM_BSR_ALG1)
            yield Variant(f"B and C {words}", lazy(make))

    def _sddmm(self, case: Case, sparse: c_void_p) -> Run:
        a = library().dense(case.row.m, case.row.k, case.left.data_ptr(), api.ORDER_ROW)
        b = library().dense(case.row.k, case.row.n, case.right.data_ptr(), api.ORDER_ROW)
        buffer = scratch(library().sddmm_bytes(stream(), a, b, sparse), case)

        def run() -> torch.Tensor:
            library().sddmm(stream(), a, b, sparse, buffer.data_ptr())
            return case.c

        return run


class CusparseEll:
    """cusparseSpMM on Blocked-ELL: block rows padded to the longest. Only executed, not padded, operations count."""

    name = "cuSPARSE Blocked-ELL"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """Values by rows of the whole matrix, which is how other sources describe the format, and by blocks, in case
        that they are wrong; B and C in either order."""
        del quick
        row, pattern = case.row, case.pattern
        if row.dtype != "f16":
            raise Refused("no FP8")
        if row.op not in ("dsd", "dsd_t"):
            raise Refused("the sparse operand stands on the left" if row.op == "dds" else "no sampled product")
        if row.block[0] != row.block[1]:
            raise Refused("square blocks only")
        side, padded = row.block[0], ell(pattern)
        columns = torch.from_numpy(padded.columns).to(case.device)
        blocks = torch.zeros(pattern.block_rows * padded.width, side, side, dtype=case.dtype, device=case.device)
        blocks[torch.from_numpy(padded.slots).to(case.device).long()] = case.values
        by_rows = blocks.view(pattern.block_rows, padded.width, side, side).permute(0, 2, 1, 3).contiguous()
        op = api.TRANSPOSE if row.op == "dsd_t" else api.NON_TRANSPOSE
        for layout, values in (("rows", by_rows), ("blocks", blocks)):
            pointers = (columns.data_ptr(), values.data_ptr())
            sparse = library().blocked_ell(pattern.rows, pattern.cols, side, padded.width * side, *pointers)
            for words, order in ORDERS.items():
                make = partial(Spmm, case, sparse, op, order, api.SPMM_BLOCKED_ELL_ALG1, columns, values)
                yield Variant(f"values by {layout}, B and C {words}", lazy(make))
