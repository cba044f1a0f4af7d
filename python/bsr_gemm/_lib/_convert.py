"""Block-sparse matrices of scipy and PyTorch: their memory is shared if it has the required layout."""

from __future__ import annotations

import sys
from typing import Any

from . import _arrays
from ._native import Error
from ._patterns import Pattern


def is_scipy(matrix: Any) -> bool:
    """Whether this is a sparse matrix of scipy, without importing it."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(matrix)


def from_scipy(matrix: Any) -> tuple[Any, Pattern]:
    """Values and pattern of ``BsrMatrix.from_scipy``."""
    if not is_scipy(matrix) or matrix.format != "bsr":
        found = f"a {matrix.format} matrix of scipy" if is_scipy(matrix) else f"a {type(matrix).__name__}"
        help_ = "`w.tobsr(blocksize=(64, 64))`" if is_scipy(matrix) else "`bsr_gemm.from_dense(w, block=(64, 64))`"
        raise Error(f"the matrix is {found}, not one of blocks\n  help: {help_}")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.sort_indices()
    # There may be more places than blocks.
    stored = int(matrix.indptr[-1])
    pattern = Pattern(matrix.shape, matrix.blocksize, matrix.indptr, matrix.indices[:stored])
    return matrix.data[:stored], pattern


def to_scipy(w: Any) -> Any:
    """See ``BsrMatrix.to_scipy``."""
    from scipy import sparse

    if w.pattern.on_device:
        return to_scipy(w.to_host())
    kind = _arrays.kind_of(w.values)
    if kind in ("bf16", "e4m3", "e5m2"):
        raise Error(f"scipy has no {kind}\n  help: `w.float().to_scipy()`")
    values = w.values.detach().cpu().numpy() if _arrays.is_tensor(w.values) else w.values
    return sparse.bsr_array((values, w.pattern.col_idx, w.pattern.row_ptr), shape=_whole(w))


def from_torch(tensor: Any, on_device: bool = False) -> tuple[Any, Any]:
    """Values and pattern of ``BsrMatrix.from_torch``."""
    import torch

    if not _arrays.is_tensor(tensor) or tensor.layout is not torch.sparse_bsr or tensor.dim() != 2:
        found = f"a {type(tensor).__name__}"
        help_ = "`bsr_gemm.from_dense(w, block=(64, 64))`"
        if _arrays.is_tensor(tensor):
            found = f"a tensor of layout {tensor.layout} with {tensor.dim()} dimensions"
            help_ = f"`w.to_sparse_bsr((64, 64))`, or {help_}" if tensor.dim() == 2 else "take one matrix at a time"
        raise Error(f"{found} is no block-sparse matrix\n  help: {help_}")
    if on_device:
        from ._device_patterns import DevicePattern

        return tensor.values(), DevicePattern.from_torch(tensor)
    values = tensor.values()
    pattern = Pattern(tuple(tensor.shape), tuple(values.shape[1:]), tensor.crow_indices(), tensor.col_indices())
    return values, pattern


def to_torch(w: Any) -> Any:
    """See ``BsrMatrix.to_torch``."""
    import torch

    if w.pattern.on_device:
        return to_torch(w.to_host())
    values = w.values if _arrays.is_tensor(w.values) else _arrays.as_tensor(w.values)
    row_ptr, col_idx = (_arrays.index(index, values) for index in (w.pattern.row_ptr, w.pattern.col_idx))
    return torch.sparse_bsr_tensor(row_ptr, col_idx, values, size=_whole(w), check_invariants=False)


def _whole(w: Any) -> tuple[int, int]:
    """Rows and columns of a matrix of whole blocks."""
    grid, (bm, bk) = w.pattern.grid, w.block
    return grid[0] * bm, grid[1] * bk
