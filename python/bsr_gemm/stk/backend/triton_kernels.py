"""Products into given tensors, with the arguments of the kernels of ``stk.backend.triton_kernels``."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import ops
from ..matrix import Matrix


@torch.no_grad()
def sdd(
    lhs: Tensor,
    rhs: Tensor,
    shape: tuple[int, int],
    out: Tensor,
    offsets: Tensor,
    row_indices: Tensor,
    column_indices: Tensor,
) -> None:
    """Writes the stored blocks of ``lhs @ rhs`` into ``out``."""
    out.copy_(ops.sdd(lhs, rhs, Matrix(shape, out, row_indices, column_indices, offsets)).data)


@torch.no_grad()
def dsd(
    shape: tuple[int, int],
    data: Tensor,
    offsets: Tensor,
    row_indices: Tensor,
    column_indices: Tensor,
    offsets_t: Tensor,
    column_indices_t: Tensor,
    block_offsets_t: Tensor,
    transpose_a: bool,
    rhs: Tensor,
    out: Tensor,
) -> None:
    """Writes the product of a matrix, ``shape`` after its transposition, and ``rhs`` into ``out``."""
    a = Matrix(shape[::-1] if transpose_a else shape, data, row_indices, column_indices, offsets)
    out.copy_(ops.dsd(a.t() if transpose_a else a, rhs))


@torch.no_grad()
def dds(
    lhs: Tensor,
    shape: tuple[int, int],
    data: Tensor,
    offsets: Tensor,
    row_indices: Tensor,
    column_indices: Tensor,
    offsets_t: Tensor,
    column_indices_t: Tensor,
    block_offsets_t: Tensor,
    transpose_b: bool,
    out: Tensor,
) -> None:
    """Writes the product of ``lhs`` and a matrix, ``shape`` after its transposition, into ``out``."""
    b = Matrix(shape[::-1] if transpose_b else shape, data, row_indices, column_indices, offsets)
    out.copy_(ops.dds(lhs, b.t() if transpose_b else b))
