"""The operations of ``stk.ops``: products named by what is sparse (s) or dense (d), first the result, then the operands."""

from __future__ import annotations

import torch
from torch import Tensor

from .._lib import _torch
from .._lib._native import Error
from .matrix import Matrix


def dsd(a: Matrix, b: Tensor) -> Tensor:
    """``a @ b``."""
    pattern = a.pattern()
    return _torch.linear(b.t(), a.data, None, pattern.key, not a.is_contiguous()).t()


def dds(a: Tensor, b: Matrix) -> Tensor:
    """``a @ b``."""
    pattern = b.pattern()
    return _torch.linear(a, b.data, None, pattern.key, b.is_contiguous())


def sdd(a: Tensor, b: Tensor, topo: Matrix) -> Matrix:
    """The blocks of ``a @ b`` that ``topo`` stores, whose values are not read."""
    if not topo.is_contiguous():
        raise Error("the places are those of a transposed matrix\n  help: `topo.contiguous()`, which copies them")
    pattern = topo.pattern()
    return topo.with_data(_torch.sddmm(a, b, pattern.key))


def mul(a: Matrix, b: Matrix) -> Matrix:
    """The product of each element with the other matrix's, which has the same places: that is not looked at."""
    if a.size() != b.size() or a.data.shape != b.data.shape or a.is_contiguous() != b.is_contiguous():
        raise Error(f"{a} and {b} have other places\n  help: `sdd` of one `topo` makes matrices with the same ones")
    return a.with_data(a.data * b.data)


def sum(x: Matrix) -> Tensor:  # noqa: A001
    """The sum of all elements."""
    return x.data.sum()


@torch.no_grad()
def ones_like(x: Matrix) -> Matrix:
    """The same places with ones."""
    return x.with_data(torch.ones_like(x.data))


@torch.no_grad()
def row_indices(shape: tuple[int, ...], data: Tensor, offsets: Tensor, column_indices: Tensor) -> Tensor:
    """The block row of each block."""
    rows = torch.arange(len(offsets) - 1, dtype=column_indices.dtype, device=offsets.device)
    return rows.repeat_interleave(offsets.diff(), output_size=len(column_indices))


@torch.no_grad()
def to_dense(x: Matrix) -> Tensor:
    """The whole matrix, with zeros where no block is stored."""
    side, (rows, columns) = x.blocking, x._stored_size()
    blocks = x.data.new_zeros((rows // side, columns // side, side, side))
    blocks[x.row_indices.long(), x.column_indices.long()] = x.data
    dense = blocks.transpose(1, 2).reshape(rows, columns)
    return (dense if x.is_contiguous() else dense.t()).reshape(x.size())


@torch.no_grad()
def to_sparse(x: Tensor, blocking: int = 1) -> Matrix:
    """The blocks of a matrix that have an element other than zero. On a GPU their number is waited for."""
    if x.dim() != 2 or x.shape[0] % blocking or x.shape[1] % blocking:
        raise Error(
            f"a tensor of {' x '.join(map(str, x.shape))} in blocks of {blocking}\n  help: a matrix with sides that blocks divide"
        )
    blocks = x.reshape(x.shape[0] // blocking, blocking, x.shape[1] // blocking, blocking).transpose(1, 2)
    stored = (blocks != 0).flatten(2).any(dim=2)
    rows, columns = stored.nonzero(as_tuple=True)
    offsets = torch.zeros(len(stored) + 1, dtype=torch.int32, device=x.device)
    offsets[1:] = stored.sum(dim=1).cumsum(0)
    index = torch.int16 if max(stored.shape) <= torch.iinfo(torch.int16).max else torch.int32
    return Matrix(x.shape, blocks[rows, columns], rows.to(index), columns.to(index), offsets)
