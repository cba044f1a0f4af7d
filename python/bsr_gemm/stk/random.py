"""Random matrices of ``stk.random``, by the generator of PyTorch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._lib._native import Error
from .matrix import Matrix
from .ops import to_sparse


def dense_mask(rows: int, cols: int, sparsity: float, blocking: int = 1) -> Tensor:
    """Ones in randomly chosen blocks and zeros in the others, of which there is the fraction ``sparsity``."""
    if not 0.0 <= sparsity <= 1.0 or rows % blocking or cols % blocking:
        raise Error(
            f"{rows} x {cols} with blocks of {blocking} and a sparsity of {sparsity}\n"
            "  help: sides that blocks divide, and a fraction from 0 to 1"
        )
    grid = rows // blocking, cols // blocking
    flags = torch.zeros(math.prod(grid))
    flags[torch.randperm(len(flags))[: round(len(flags) * (1.0 - sparsity))]] = 1.0
    return flags.reshape(grid).repeat_interleave(blocking, 0).repeat_interleave(blocking, 1)


def mask(m: int, n: int, sparsity: float, blocking: int = 1) -> Matrix:
    """Ones in randomly chosen blocks, f16."""
    return to_sparse(dense_mask(m, n, sparsity, blocking).half(), blocking)


def randn(shape: tuple[int, ...], sparsity: float, blocking: int = 1) -> Matrix:
    """Normal numbers in randomly chosen blocks, f16; dimensions before the last one are rows."""
    found = mask(math.prod(shape[:-1]), shape[-1], sparsity, blocking)
    return found.with_data(torch.randn(found.data.shape).half()).view(*shape)
