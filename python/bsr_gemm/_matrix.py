"""Block-sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays
from ._native import Error
from ._patterns import Pattern


class BsrMatrix:
    """A matrix of which only some blocks are stored.

    ``values`` is an array of NumPy or a tensor of PyTorch, blocks x rows x columns; the blocks stand in the order of
    ``pattern``, row by row. ``key`` names the pattern where only text can be handed on.
    """

    __array_ufunc__ = None  # NumPy leaves `x @ w` to `__rmatmul__`.

    def __init__(self, values: Any, pattern: Any, *, check: bool = True) -> None:
        values = _arrays.as_array(values)
        expected = (pattern.nnzb, *pattern.block)
        if tuple(values.shape) != expected:
            raise Error(
                f"the values are {' x '.join(map(str, values.shape))}, but {pattern.nnzb} blocks of "
                f"{pattern.block[0]} x {pattern.block[1]} are {' x '.join(map(str, expected))}\n"
                "  help: store every block whole, blocks that extend beyond the edge of the matrix too"
            )
        _arrays.kind_of(values)
        self.values = values if _is_contiguous(values) else _contiguous(values)
        self.pattern = pattern
        self.key = pattern.key
        self.shape = pattern.shape
        self.block = pattern.block
        # Where the blocks of a pattern on a device are is not known here.
        if check and not pattern.on_device:
            _check_padding(self.values, pattern)

    @property
    def dtype(self) -> Any:
        """The element type, of the library that the values are of."""
        return self.values.dtype

    @property
    def device(self) -> Any:
        """Where the values are."""
        return self.values.device

    @property
    def nnzb(self) -> int:
        """Stored blocks."""
        return self.pattern.nnzb

    @property
    def density(self) -> float:
        """Stored blocks as a fraction of all."""
        return self.pattern.density

    def to_dense(self) -> Any:
        """The whole matrix, with zeros where no block is stored."""
        if self.pattern.on_device:
            return self.to_host().to_dense()
        (rows, cols), (bm, bk), grid = self.shape, self.block, self.pattern.grid
        row_idx, col_idx = _indices(self.values, self.pattern)
        if _arrays.is_tensor(self.values):
            blocks = self.values.new_zeros((grid[0], grid[1], bm, bk)).index_put((row_idx, col_idx), self.values)
            return blocks.permute(0, 2, 1, 3).reshape(grid[0] * bm, grid[1] * bk)[:rows, :cols].contiguous()
        blocks = np.zeros((grid[0], grid[1], bm, bk), dtype=self.values.dtype)
        blocks[row_idx, col_idx] = self.values
        return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3).reshape(grid[0] * bm, grid[1] * bk)[:rows, :cols])

    def transpose(self) -> BsrMatrix:
        """The transposed matrix: a copy. Products with the transposed matrix need none: ``bsr_gemm(w, x, transpose=True)``."""
        if self.pattern.on_device:
            return self.to_host().transpose()
        pattern, order = self.pattern.transposed()
        if _arrays.is_tensor(self.values):
            import torch

            values = self.values[torch.from_numpy(order.astype(np.int64)).to(self.values.device)]
            return BsrMatrix(values.transpose(1, 2).contiguous(), pattern, check=False)
        return BsrMatrix(np.ascontiguousarray(self.values[order].transpose(0, 2, 1)), pattern, check=False)

    @property
    def T(self) -> BsrMatrix:  # noqa: N802
        """As :meth:`transpose`."""
        return self.transpose()

    def to(self, *args: Any, **kwargs: Any) -> BsrMatrix:
        """The same matrix elsewhere or of another type: what ``Tensor.to`` takes, or a dtype of NumPy."""
        if _arrays.is_tensor(self.values):
            return BsrMatrix(self.values.to(*args, **kwargs), self.pattern, check=False)
        return BsrMatrix(self.values.astype(*args, **kwargs), self.pattern, check=False)

    def to_host(self) -> BsrMatrix:
        """The same matrix with its pattern on the host, and of the values those that are stored: a copy of what lives on a
        device, and the matrix itself otherwise."""
        if not self.pattern.on_device:
            return self
        from ._device_patterns import hosted

        pattern, values = hosted(self.pattern, self.values)
        return BsrMatrix(values, pattern, check=False)

    def to_torch(self) -> Any:
        """A tensor of layout ``torch.sparse_bsr`` with the same values, which are not copied.

        torch knows no blocks that extend beyond the edge: such a matrix becomes one of whole blocks.
        """
        if self.pattern.on_device:
            return self.to_host().to_torch()
        import torch

        values = self.values if _arrays.is_tensor(self.values) else torch.from_numpy(self.values)
        grid, (bm, bk) = self.pattern.grid, self.block
        row_ptr, col_idx = (
            torch.from_numpy(index.astype(np.int64)).to(values.device)
            for index in (self.pattern.row_ptr, self.pattern.col_idx)
        )
        return torch.sparse_bsr_tensor(
            row_ptr, col_idx, values, size=(grid[0] * bm, grid[1] * bk), check_invariants=False
        )

    @classmethod
    def from_torch(cls, tensor: Any, *, on_device: bool = False) -> BsrMatrix:
        """The matrix of a tensor of layout ``torch.sparse_bsr``, whose values are not copied.

        With ``on_device`` its places are not either: the pattern is a :class:`DevicePattern`, and nothing waits for a GPU.
        """
        import torch

        if on_device:
            from ._device_patterns import DevicePattern

            return cls(tensor.values(), DevicePattern.from_torch(tensor))

        if tensor.layout is not torch.sparse_bsr or tensor.dim() != 2:
            raise Error(
                f"a tensor of layout {tensor.layout} with {tensor.dim()} dimensions is no block-sparse matrix\n"
                "  help: `tensor.to_sparse_bsr((64, 64))`, or `bsr_gemm.from_dense(tensor, block=(64, 64))`"
            )
        values = tensor.values()
        row_ptr, col_idx = (index.cpu().numpy() for index in (tensor.crow_indices(), tensor.col_indices()))
        return cls(values, Pattern(tuple(tensor.shape), tuple(values.shape[1:]), row_ptr, col_idx))

    def __matmul__(self, other: Any) -> Any:
        from ._products import bsr_gemm

        return bsr_gemm(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        from ._products import right_product

        return right_product(other, self)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        import torch

        from ._products import bsr_gemm, linear, right_product

        products = (torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.__matmul__)
        if function in (*products, torch.Tensor.__rmatmul__) and len(args) == 2:
            a, b = args[::-1] if function is torch.Tensor.__rmatmul__ else args
            return bsr_gemm(a, b) if isinstance(a, cls) else right_product(a, b)
        if function is torch.nn.functional.linear and isinstance(args[1], cls):
            return linear(*args, **(kwargs or {}))
        return NotImplemented

    def __repr__(self) -> str:
        (rows, cols), (bm, bk), grid = self.shape, self.block, self.pattern.grid
        where = f", {self.values.device}" if _arrays.is_tensor(self.values) else ""
        if self.pattern.on_device:
            return f"BsrMatrix({rows} x {cols} of {_arrays.kind_of(self.values)}{where}, {self.pattern!r})"
        return (
            f"BsrMatrix({rows} x {cols} of {_arrays.kind_of(self.values)}{where}, {self.nnzb} of {grid[0] * grid[1]} "
            f"blocks of {bm} x {bk}, density {self.density:.3g})\n{self.pattern.picture()}"
        )


def from_dense(
    dense: Any,
    block: tuple[int, int] = (64, 64),
    keep: float | None = None,
    *,
    per_row: int | None = None,
    mask: Any = None,
) -> BsrMatrix:
    """The blocks of a dense matrix: those of the largest Frobenius norms, or those of a mask.

    ``keep`` is the fraction of all blocks that stays, ``per_row`` the number of blocks that stay in each block row,
    ``mask`` block rows x block columns of what stays; without any of them every block that is not zero stays. Of equal
    norms the first by row and column stays; a block of zeros is kept by a mask only.
    """
    dense = _arrays.as_array(dense)
    if len(dense.shape) != 2:
        raise Error(f"a matrix has 2 dimensions, this array has {len(dense.shape)}\n  help: pass one matrix at a time")
    if sum(choice is not None for choice in (keep, per_row, mask)) > 1:
        raise Error("keep, per_row and mask say different things\n  help: pass one of them")
    _arrays.kind_of(dense)
    if mask is not None:
        mask = mask.cpu().numpy() if _arrays.is_tensor(mask) else mask
        pattern = Pattern.from_mask(mask, tuple(dense.shape), block)
        return BsrMatrix(gather(dense, pattern), pattern, check=False)
    whole = Pattern.from_mask(np.ones(_grid(dense.shape, block), dtype=bool), tuple(dense.shape), block)
    kept = choose_blocks(block_norms(dense, whole), keep, per_row)
    pattern = Pattern.from_mask(kept, tuple(dense.shape), block)
    return BsrMatrix(gather(dense, pattern), pattern, check=False)


def block_norms(dense: Any, pattern: Pattern) -> np.ndarray:
    """The squared Frobenius norm of every block, stored or not: block rows x block columns."""
    blocks = _blocked(dense, pattern)
    if _arrays.is_tensor(dense):
        import torch

        precise = torch.float64 if dense.device.type == "cpu" else torch.float32
        squares = blocks.detach().to(precise).square().sum((2, 3)).cpu().numpy()
    else:
        squares = np.square(blocks.astype(np.float64)).sum(axis=(2, 3))
    if not np.isfinite(squares).all():
        row, col = (int(at[0]) for at in np.nonzero(~np.isfinite(squares)))
        raise Error(
            f"a value of block ({row}, {col}) is NaN or infinite, so that norms have no order\n"
            "  help: replace it, or say which blocks stay with `mask`"
        )
    return squares


def choose_blocks(squares: np.ndarray, keep: float | None, per_row: int | None) -> np.ndarray:
    """A mask of the blocks that stay."""
    if keep is not None and not 0.0 < keep <= 1.0:
        raise Error(f"keep = {keep} of the blocks\n  help: give a number above 0 and at most 1, for instance 0.25")
    if per_row is not None and per_row < 1:
        raise Error(f"per_row = {per_row} blocks in each block row leave nothing\n  help: keep at least 1")
    mask = squares > 0.0
    if keep is not None:
        count = max(1, round(squares.size * keep))
        chosen = np.zeros(squares.size, dtype=bool)
        chosen[np.argsort(-squares.ravel(), kind="stable")[:count]] = True
        mask &= chosen.reshape(squares.shape)
    elif per_row is not None:
        chosen = np.zeros_like(mask)
        order = np.argsort(-squares, axis=1, kind="stable")[:, :per_row]
        np.put_along_axis(chosen, order, True, axis=1)
        mask &= chosen
    return mask


def gather(dense: Any, pattern: Pattern) -> Any:
    """The values that a dense matrix has in the blocks of a pattern."""
    row_idx, col_idx = _indices(dense, pattern)
    values = _blocked(dense, pattern)[row_idx, col_idx]
    return values.contiguous() if _arrays.is_tensor(dense) else np.ascontiguousarray(values)


def _blocked(dense: Any, pattern: Pattern) -> Any:
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
    indices = pattern.row_idx.astype(np.int64), pattern.col_idx.astype(np.int64)
    if _arrays.is_tensor(like):
        import torch

        row_idx, col_idx = (torch.from_numpy(index).to(like.device) for index in indices)
        return row_idx, col_idx
    return indices


def _grid(shape: Any, block: Any) -> tuple[int, int]:
    from ._patterns import _pair

    (bm, bk) = _pair(block, "block")
    if bm < 1 or bk < 1:
        raise Error(f"the block is {bm} x {bk}, but both sides must be at least 1\n  help: write block=(64, 64)")
    return -(-int(shape[0]) // bm), -(-int(shape[1]) // bk)


def _is_contiguous(array: Any) -> bool:
    return array.is_contiguous() if _arrays.is_tensor(array) else array.flags.c_contiguous


def _contiguous(array: Any) -> Any:
    return array.contiguous() if _arrays.is_tensor(array) else np.ascontiguousarray(array)


def padding_mask(pattern: Pattern) -> np.ndarray | None:
    """Blocks x rows x columns: true beyond the edge of the matrix. None where no block extends beyond it."""
    (rows, cols), (bm, bk) = pattern.shape, pattern.block
    if rows % bm == 0 and cols % bk == 0:
        return None
    row = pattern.row_idx[:, None] * bm + np.arange(bm)
    col = pattern.col_idx[:, None] * bk + np.arange(bk)
    return (row >= rows)[:, :, None] | (col >= cols)[:, None, :]


def _check_padding(values: Any, pattern: Pattern) -> None:
    mask = padding_mask(pattern)
    if mask is None or pattern.nnzb == 0:
        return
    if _arrays.is_tensor(values):
        import torch

        outside = values.detach()[torch.from_numpy(mask).to(values.device)].float()
        wrong = bool((outside != 0).any())
    else:
        wrong = bool((values[mask].astype(np.float64) != 0).any())
    if wrong:
        rows, cols = pattern.shape
        raise Error(
            f"a value beyond the edge of the {rows} x {cols} matrix is not zero\n"
            "  help: the part of a block beyond the edge is multiplied too: set it to zero"
        )
