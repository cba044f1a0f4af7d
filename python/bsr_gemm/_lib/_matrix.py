"""Block-sparse matrices."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from . import _arrays, _convert
from ._blocks import blocked, dense_of, gather, padding_mask, transposed
from ._like_tensor import LikeTensor
from ._native import Error
from ._patterns import Pattern


class BsrMatrix(LikeTensor):
    """A matrix of which only some blocks are stored.

    ``values`` is an array of NumPy or a tensor of PyTorch, blocks x rows x columns, in the order of the blocks of ``pattern``,
    row by row. Other values of the same shape may be assigned, and are checked as those of a new matrix; the pattern stays.
    ``key`` names the pattern where only text can be handed on.
    """

    __array_ufunc__ = None  # NumPy leaves `x @ w` to `__rmatmul__`.

    #: Rows and columns.
    ndim = 2

    def __init__(self, values: Any, pattern: Any, *, check: bool = True) -> None:
        if not isinstance(pattern, Pattern) and not getattr(pattern, "on_device", False):
            raise Error(
                f"the pattern is a {type(pattern).__name__}, not a Pattern\n"
                "  help: `bsr_gemm.from_dense(x, block=(64, 64))` makes a matrix of a dense array; values of blocks take "
                "`bsr_gemm.Pattern(shape, block, row_ptr, col_idx)`"
            )
        self._pattern, self._key = pattern, pattern.key
        self._values = _checked(values, pattern, check)

    @property
    def values(self) -> Any:
        """The stored values: blocks x rows x columns. What is assigned is checked."""
        return self._values

    @values.setter
    def values(self, values: Any) -> None:
        self._values = _checked(values, self._pattern, True)

    @property
    def pattern(self) -> Any:
        """Where the stored blocks are: a :class:`Pattern`, or a :class:`DevicePattern`."""
        return self._pattern

    @property
    def key(self) -> str:
        """The key of the pattern."""
        return self._key

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self._pattern.shape

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self._pattern.block

    @property
    def dtype(self) -> Any:
        """The element type, of the library that the values are of."""
        return self._values.dtype

    @property
    def device(self) -> Any:
        """Where the values are."""
        return self._values.device

    @property
    def nnzb(self) -> int:
        """Stored blocks."""
        return self.pattern.nnzb

    @property
    def nnz(self) -> int:
        """Stored elements: all of every stored block, zeros and what extends beyond the edge too."""
        return self._values.shape[0] * self._values.shape[1] * self._values.shape[2]

    @property
    def density(self) -> float:
        """Stored blocks as a fraction of all."""
        return self.pattern.density

    def to_dense(self) -> Any:
        """The whole matrix, with zeros where no block is stored."""
        _refuse_graphs(
            self.values, "`to_dense` of a matrix", "`w.to_dense()` outside of it, or a product with the matrix"
        )
        if self.pattern.on_device:
            return self.to_host().to_dense()
        return dense_of(self.values, self.pattern)

    def transpose(self) -> BsrMatrix:
        """The transposed matrix: a copy. Products with the transposed matrix need none: ``bsr_gemm(w, x, transpose=True)``."""
        _refuse_graphs(
            self.values, "the transposed matrix", "`bsr_gemm.bsr_gemm(w, x, transpose=True)`, which copies nothing"
        )
        if self.pattern.on_device:
            return self.to_host().transpose()
        values, pattern = transposed(self.values, self.pattern)
        return BsrMatrix(values, pattern, check=False)

    @property
    def T(self) -> BsrMatrix:  # noqa: N802
        """As :meth:`transpose`."""
        return self.transpose()

    def with_values(self, values: Any) -> BsrMatrix:
        """A matrix with the same pattern and other values, which are checked."""
        return BsrMatrix(values, self._pattern)

    def _with(self, values: Any) -> BsrMatrix:
        """A matrix with the same pattern and values that are zero beyond the edge, as these are."""
        return BsrMatrix(values, self._pattern, check=False)

    def to_host(self) -> BsrMatrix:
        """The same matrix with its pattern on the host, and of the values those that are stored: a copy of what lives on a
        device, and the matrix itself otherwise."""
        if not self.pattern.on_device:
            return self
        from ._device_patterns import hosted

        pattern, values = hosted(self.pattern, self.values)
        return BsrMatrix(values, pattern, check=False)

    def __matmul__(self, other: Any) -> Any:
        from ._products import bsr_gemm, matmul

        return matmul(self, other) if isinstance(other, BsrMatrix) else bsr_gemm(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        from ._products import right_product

        return right_product(other, self)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        import torch

        from ._products import bsr_gemm, linear, right_product

        of_operator = torch.Tensor.matmul, torch.Tensor.__matmul__
        products = (torch.matmul, torch.mm, torch.Tensor.mm, operator.matmul, *of_operator)
        if function in of_operator and torch.compiler.is_dynamo_compiling():
            # PyTorch's compiler hands on the operands of both orders as (tensor, other).
            raise Error(
                "torch.compile cannot distinguish `w @ x` from `x @ w`\n"
                "  help: `bsr_gemm.bsr_gemm(w, x)` or `torch.matmul(w, x)`, or `torch.matmul(x, w)`"
            )
        if function in (*products, torch.Tensor.__rmatmul__) and len(args) == 2:
            a, b = args[::-1] if function is torch.Tensor.__rmatmul__ else args
            if isinstance(a, cls):
                return a @ b if isinstance(b, cls) else bsr_gemm(a, b)
            return right_product(a, b)
        if function is torch.nn.functional.linear and isinstance(args[1], cls):
            return linear(*args, **(kwargs or {}))
        return NotImplemented

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Error(
            "a block-sparse matrix was passed where a dense array is expected\n"
            "  help: `w.to_dense()`; `bsr_gemm.matmul(v, w)` multiplies two block-sparse matrices"
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.dot and len(args) == 2:
            return args[0] @ args[1]
        raise Error(
            f"`numpy.{function.__name__}` does not know block-sparse matrices\n"
            "  help: `w @ x` multiplies, `w.to_dense()` is an array"
        )

    def __reduce__(self) -> tuple:
        return BsrMatrix, (self.values, self.pattern)

    def __repr__(self) -> str:
        (rows, cols), (bm, bk), grid = self.shape, self.block, self.pattern.grid
        where = f", {self.values.device}" if _arrays.is_tensor(self.values) else ""
        if self.pattern.on_device:
            return f"BsrMatrix({rows} x {cols} of {_arrays.kind_of(self.values)}{where}, {self.pattern!r})"
        return (
            f"BsrMatrix({rows} x {cols} of {_arrays.kind_of(self.values)}{where}, {self.nnzb} of {grid[0] * grid[1]} "
            f"blocks of {bm} x {bk}, density {self.density:.3g})\n{self.pattern.picture()}"
        )


def is_sparse(w: Any) -> bool:
    """Whether :func:`as_matrix` takes it."""
    if isinstance(w, BsrMatrix) or _convert.is_scipy(w) or callable(getattr(w, "matrix", None)):
        return True
    return _arrays.is_tensor(w) and w.layout is not sys.modules["torch"].strided


def as_matrix(w: Any, name: str = "the matrix") -> Any:
    """A block-sparse matrix: itself, that of a layer, or one of scipy or PyTorch, whose values are shared."""
    if isinstance(w, BsrMatrix):
        return w
    if _convert.is_scipy(w):
        return BsrMatrix.from_scipy(w)
    if _arrays.is_tensor(w) and w.layout is not sys.modules["torch"].strided:
        return BsrMatrix.from_torch(w)
    made = getattr(w, "matrix", None)
    if callable(made) and isinstance(found := made(), BsrMatrix):
        return found
    help_ = (
        "`bsr_gemm.BsrMatrix(values, pattern)`"
        if isinstance(w, Pattern)
        else "`bsr_gemm.from_dense(w, block=(64, 64))`"
    )
    raise Error(f"{name} is a {type(w).__name__}, not a BsrMatrix\n  help: {help_}")


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
        raise Error("keep, per_row and mask exclude each other\n  help: pass only one of them")
    _arrays.kind_of(dense)
    _refuse_graphs(
        dense, "a matrix of a dense one", "`from_dense` outside of it; `BsrMatrix(values, pattern)` is one within"
    )
    if mask is not None:
        mask = mask.cpu().numpy() if _arrays.is_tensor(mask) else mask
        pattern = Pattern.from_mask(mask, tuple(dense.shape), block)
        return BsrMatrix(gather(dense, pattern), pattern, check=False)
    whole = Pattern.from_mask(np.ones(grid_of(dense.shape, block), dtype=bool), tuple(dense.shape), block)
    kept = choose_blocks(block_norms(dense, whole), keep, per_row)
    pattern = Pattern.from_mask(kept, tuple(dense.shape), block)
    return BsrMatrix(gather(dense, pattern), pattern, check=False)


def _refuse_graphs(array: Any, what: str, instead: str) -> None:
    if _arrays.is_tensor(array) and _arrays.in_graph():
        raise Error(f"{what} is not made within torch.compile\n  help: {instead}")


def block_norms(dense: Any, pattern: Pattern) -> np.ndarray:
    """The squared Frobenius norm of every block, stored or not: block rows x block columns."""
    blocks = blocked(dense, pattern)
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
            "  help: replace it, or choose the blocks with `mask`"
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


def _checked(values: Any, pattern: Any, check: bool) -> Any:
    """Values of the blocks of a pattern, one after the other; with ``check`` those beyond the edge are looked at, too."""
    values = _arrays.as_array(values)
    _arrays.check_stored(values, pattern)
    _arrays.kind_of(values)
    values = values if _arrays.is_contiguous(values) else _arrays.contiguous(values)
    # Where the blocks of a pattern on a device are is not known here.
    if check and not pattern.on_device:
        _check_padding(values, pattern)
    return values


def grid_of(shape: Any, block: Any) -> tuple[int, int]:
    """Block rows and block columns of a matrix."""
    from ._patterns import _pair

    (bm, bk) = _pair(block, "block")
    if bm < 1 or bk < 1:
        raise Error(f"the block is {bm} x {bk}, but both sides must be at least 1\n  help: write block=(64, 64)")
    return -(-int(shape[0]) // bm), -(-int(shape[1]) // bk)


def _check_padding(values: Any, pattern: Pattern) -> None:
    mask = padding_mask(pattern)
    if mask is None or pattern.nnzb == 0:
        return
    outside = (values.detach() if _arrays.is_tensor(values) else values)[_arrays.index(mask, values)]
    wrong = ((outside.float() if _arrays.is_tensor(values) else outside.astype(np.float64)) != 0).any()
    if wrong:
        rows, cols = pattern.shape
        raise Error(
            f"a value beyond the edge of the {rows} x {cols} matrix is not zero\n"
            "  help: the part of a block beyond the edge is multiplied too: set it to zero"
        )
