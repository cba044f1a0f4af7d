"""Values of blocks and their places: the dense matrix, the transposed one, and what lies beyond the edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays
from ._patterns import Pattern


def dense_of(values: Any, pattern: Pattern) -> Any:
    """The whole matrix, with zeros where no block is stored."""
    (rows, cols), (bm, bk), grid = pattern.shape, pattern.block, pattern.grid
    # The blocks in their places, and a copy of them line by line.
    _arrays.ask_for("the dense matrix", (2, grid[0] * bm, grid[1] * bk), values)
    row_idx, col_idx = _indices(values, pattern)
    if _arrays.is_tensor(values):
        if values.element_size() == 1 and values.is_floating_point():
            import torch

            # PyTorch moves elements of 8 bits as bytes alone, and zero is one without bits.
            return dense_of(values.view(torch.int8), pattern).view(values.dtype)
        blocks = values.new_zeros((grid[0], grid[1], bm, bk)).index_put((row_idx, col_idx), values)
        return blocks.permute(0, 2, 1, 3).reshape(grid[0] * bm, grid[1] * bk)[:rows, :cols].contiguous()
    blocks = np.zeros((grid[0], grid[1], bm, bk), dtype=values.dtype)
    blocks[row_idx, col_idx] = values
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3).reshape(grid[0] * bm, grid[1] * bk)[:rows, :cols])


def transposed(values: Any, pattern: Pattern) -> tuple[Any, Pattern]:
    """The values of the transposed matrix, a copy, and its pattern."""
    turned, order = pattern.transposed()
    values = values[_arrays.index(order, values)]
    values = values.transpose(1, 2) if _arrays.is_tensor(values) else values.transpose(0, 2, 1)
    return _arrays.contiguous(values), turned


def gather(dense: Any, pattern: Pattern) -> Any:
    """The values that a dense matrix has in the blocks of a pattern."""
    row_idx, col_idx = _indices(dense, pattern)
    values = blocked(dense, pattern)[row_idx, col_idx]
    return _arrays.contiguous(values)


def blocked(dense: Any, pattern: Pattern) -> Any:
    """Block rows x block columns x rows x columns: padded with zeros, and a view where nothing had to be padded."""
    (rows, cols), (bm, bk), grid = pattern.shape, pattern.block, pattern.grid
    below, beside = grid[0] * bm - rows, grid[1] * bk - cols
    if _arrays.is_tensor(dense):
        import torch

        if below or beside:
            dense = torch.nn.functional.pad(dense, (0, beside, 0, below))
        return dense.reshape(grid[0], bm, grid[1], bk).permute(0, 2, 1, 3)
    if below or beside:
        dense = np.pad(dense, ((0, below), (0, beside)))
    return dense.reshape(grid[0], bm, grid[1], bk).transpose(0, 2, 1, 3)


def _indices(like: Any, pattern: Pattern) -> tuple[Any, Any]:
    """Block row and block column of every block, to index an array with."""
    return _arrays.index(pattern.row_idx, like), _arrays.index(pattern.col_idx, like)


def padding_mask(pattern: Pattern) -> np.ndarray | None:
    """Blocks x rows x columns: true beyond the edge of the matrix. None where no block extends beyond it."""
    (rows, cols), (bm, bk) = pattern.shape, pattern.block
    if rows % bm == 0 and cols % bk == 0:
        return None
    row = pattern.row_idx[:, None] * bm + np.arange(bm)
    col = pattern.col_idx[:, None] * bk + np.arange(bk)
    return (row >= rows)[:, :, None] | (col >= cols)[:, None, :]
