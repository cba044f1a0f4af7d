"""Where an attention writes its results: tensors of the caller's, and in which base logarithms are."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from . import _arrays
from ._native import Error

#: Bases of the logarithm of a sum of exponentials.
Base = Literal["e", 2]
LOG2_E = 1 / math.log(2)


class Results:
    """Tensors of the caller's for O and LSE, problems x heads x queries x columns, and for what CTAs pass on to each other; None
    for those that are new."""

    __slots__ = ("is_binary", "out", "sums", "wants_sums", "workspace")

    def __init__(self, out: Any, lse: Any, base: Any, workspace: Any = None) -> None:
        if base != "e" and (base != 2 or isinstance(base, bool)):
            raise Error(f"lse_base = {base!r}\n  help: 'e', or 2")
        if not isinstance(lse, bool) and not _arrays.is_tensor(lse):
            raise Error(f"lse is a {type(lse).__name__}\n  help: True, or a tensor that gets it")
        if out is not None and not _arrays.is_tensor(out):
            raise Error(f"out is a {type(out).__name__}\n  help: a tensor that gets the result")
        if workspace is not None and not _arrays.is_tensor(workspace):
            raise Error(
                f"workspace is a {type(workspace).__name__}\n  help: a tensor of `attention_workspace(..)` zeros"
            )
        self.out, self.sums, self.workspace = out, None if isinstance(lse, bool) else lse, workspace
        self.wants_sums, self.is_binary = self.sums is not None or bool(lse), base == 2

    @property
    def given(self) -> bool:
        """Whether any tensor is the caller's."""
        return self.out is not None or self.sums is not None or self.workspace is not None

    def check(self, q: Tensor, v: Tensor, is_plain: bool) -> None:
        """Refuses tensors that are no results of such an attention; with ``is_plain`` nothing wants a gradient."""
        dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
        wanted = (
            ("out", self.out, (*q.shape[:3], v.shape[3]), q.dtype),
            ("lse", self.sums, tuple(q.shape[:3]), dtype),
        )
        for name, tensor, shape, kind in wanted:
            if tensor is None:
                continue
            if (tuple(tensor.shape), tensor.dtype, tensor.device) != (shape, kind, q.device):
                raise Error(
                    f"{name} is {list(tensor.shape)} of {tensor.dtype} on {tensor.device}\n"
                    f"  the result is {list(shape)} of {kind} on {q.device}: problems, heads, queries\n"
                    f"  help: such a tensor, or none"
                )
            if not is_plain or tensor.requires_grad:
                raise Error(
                    f"{name} is given, and a gradient is wanted\n"
                    f"  a result that is written over has no gradient\n"
                    f"  help: leave {name} out, or `torch.no_grad()`"
                )

        workspace = self.workspace
        if workspace is None:
            return
        fits = workspace.dtype == torch.float32 and workspace.dim() == 1 and workspace.is_contiguous()
        if not fits or workspace.device != q.device:
            raise Error(
                f"workspace is {list(workspace.shape)} of {workspace.dtype} on {workspace.device}\n"
                f"  help: a contiguous vector of float32 on {q.device}, of `attention_workspace(..)` zeros"
            )
        if not is_plain:
            raise Error("workspace is given, and a gradient is wanted\n  help: leave it out, or `torch.no_grad()`")

    def written(self, out: Tensor, sums: Tensor, is_plain: bool) -> tuple[Tensor, Tensor]:
        """The results, in the caller's tensors where there are any; new ones may be changed if they are plain."""
        if self.is_binary and self.wants_sums:
            sums = sums.mul_(LOG2_E) if is_plain else sums * LOG2_E
        if self.out is not None and self.out is not out:
            out = self.out.copy_(out)
        if self.sums is not None and self.sums is not sums:
            sums = self.sums.copy_(sums)
        return out, sums
