"""PyTorch's own block-sparse products (torch.sparse_bsr; Triton kernels inside)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch

from .case import Case
from .peer import Refused, Variant


class TorchBsr:
    """`torch.mm` on a BSR tensor. It rebuilds nothing, so a transposed or right-hand operand is a view."""

    name = "torch BSR"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The only one of each op."""
        del quick
        if case.row.dtype == "e4m3":
            raise Refused("no FP8 block-sparse product in PyTorch")
        warnings.filterwarnings("ignore", message=".*Sparse BSR tensor support is in beta.*")
        size = case.row.sparse_shape
        bsr = torch.sparse_bsr_tensor(case.row_ptr, case.col_idx, case.values, size)
        match case.row.op:
            case "dsd":
                yield Variant("torch.mm(bsr, b)", lambda: torch.mm(bsr, case.right))
            case "dsd_t":
                yield Variant("torch.mm(bsr.t(), b)", lambda: torch.mm(bsr.t(), case.right))
            case "dds":
                yield Variant("torch.mm(a, bsr)", lambda: torch.mm(case.left, bsr))
            case "sdd":
                from torch.sparse import _triton_ops

                sampled = getattr(_triton_ops, "sampled_addmm", None)
                if sampled is None:
                    raise Refused("this PyTorch has no sampled_addmm for BSR")
                mask = torch.sparse_bsr_tensor(case.row_ptr, case.col_idx, torch.zeros_like(case.values), size)
                out = torch.sparse_bsr_tensor(case.row_ptr, case.col_idx, case.c, size)
                yield Variant(
                    "sampled_addmm, private",
                    lambda: sampled(mask, case.left, case.right, beta=0.0, out=out, skip_checks=True).values(),
                )
