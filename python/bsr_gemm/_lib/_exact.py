"""Integers that a score reads as floating-point numbers: ``torch.ops.bsr_gemm.exact``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ._native import Error
from ._operators import is_transformed, operator
from ._places import version_of

#: Tensors of integers that were looked at, and how often they had been written to.
_looked_at = WeakTensorKeyDictionary()


def exact(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers in a floating-point type, which holds each of them if they are integers: others would be equal that are not.

    Integers on a GPU are waited for once after every change of them.
    """
    if numbers.dtype == torch.bool or numbers.dtype.is_floating_point:
        return numbers.to(dtype)
    if torch.compiler.is_dynamo_compiling() or is_transformed():
        return torch.ops.bsr_gemm.exact(numbers, dtype)
    return _exact(numbers, dtype)


def _exact(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    limit = round(2 / torch.finfo(dtype).eps)
    state = version_of(numbers), dtype
    if torch.iinfo(numbers.dtype).max > limit and (state[0] is None or _looked_at.get(numbers) != state):
        if numbers.is_cuda and torch.cuda.is_current_stream_capturing():
            raise Error(
                f"integers were not checked before a CUDA graph is captured: {dtype} represents them exactly up to {limit}\n"
                "  help: call the attention once before, or convert them with `.to(torch.float32)`"
            )
        if numbers.numel() and bool(((numbers > limit) | (numbers < -limit)).any()):
            wrong = int(numbers[(numbers > limit) | (numbers < -limit)].flatten()[0])
            raise Error(
                f"{wrong} is converted to {dtype}, which represents integers exactly up to {limit}: different numbers would become equal\n"
                "  help: number them from 0, `torch.unique(ids, return_inverse=True)[1]` for instance"
            )
        _looked_at[numbers] = state
    return numbers.to(dtype)


def _exact_fake(numbers, dtype):
    return torch.empty_like(numbers, dtype=dtype)


def _no_second(ctx: Any, *_: Any) -> Any:
    raise Error("the second derivative of an attention is not computed, nor one by what its score reads")


operator("exact(Tensor numbers, ScalarType dtype) -> Tensor", _exact_fake, _exact, backward=_no_second)
