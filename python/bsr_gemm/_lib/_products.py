"""Products of block-sparse matrices with dense ones and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import _arrays
from ._arrays import result_kind
from ._blocks import gather
from ._cpu import linear_into, sddmm_values
from ._epilogues import ACTIVATIONS, Activation, check_activation
from ._matrix import BsrMatrix, as_matrix, is_sparse
from ._native import Error
from ._patterns import Pattern

if TYPE_CHECKING:
    from torch import Tensor

#: ``linear`` of PyTorch for known launches; None before the first call.
_direct: Any = None


@overload
def bsr_gemm(w: Any, x: np.ndarray, *, transpose: bool = ...) -> np.ndarray: ...
@overload
def bsr_gemm(w: Any, x: Tensor, *, transpose: bool = ...) -> Tensor: ...
@overload
def bsr_gemm(w: Any, x: Any, *, transpose: bool = ...) -> Any: ...
def bsr_gemm(w: Any, x: Any, *, transpose: bool = False) -> Any:
    """``w @ x``, or ``w.T @ x`` with ``transpose``, summed in f32 and rounded once.

    ``w`` is a :class:`BsrMatrix`, a tensor of layout ``torch.sparse_bsr``, or a ``bsr_array`` or ``bsr_matrix`` of scipy. Of the
    latter two the values are not copied, and the lists of blocks are read at each call: where one is multiplied again,
    ``BsrMatrix.from_torch`` and ``BsrMatrix.from_scipy`` read them once.

    ``x`` is a matrix, a vector, or a batch of matrices in its first dimensions. The result has the layout of ``x``.
    """
    w = w if isinstance(w, BsrMatrix) else as_matrix(w, "the first operand")
    x = _arrays.as_array(x)
    if len(x.shape) == 1:
        return bsr_gemm(w, x[:, None], transpose=transpose)[:, 0]
    if len(x.shape) < 2:
        raise _of_a_number()
    if _arrays.is_tensor(x):
        return _apply(w, x.mT, transpose).mT
    return np.swapaxes(_apply(w, np.swapaxes(x, -1, -2), transpose), -1, -2)


def right_product(x: Any, w: BsrMatrix) -> Any:
    """``x @ w``."""
    x = _arrays.as_array(x)
    if len(x.shape) == 1:
        return right_product(x[None, :], w)[0]
    return _apply(w, x, True)


@overload
def linear(x: np.ndarray, w: Any, bias: Any = ..., activation: Activation = ...) -> np.ndarray: ...
@overload
def linear(x: Tensor, w: Any, bias: Any = ..., activation: Activation = ...) -> Tensor: ...
@overload
def linear(x: Any, w: Any, bias: Any = ..., activation: Activation = ...) -> Any: ...
def linear(x: Any, w: Any, bias: Any = None, activation: Activation = "none") -> Any:
    """``activation(x @ w.T + bias)``: a layer with ``w`` of outputs x inputs, which is any matrix of :func:`bsr_gemm`.

    Sum, bias and activation are one kernel. While a gradient is recorded an activation other than relu is a step of its
    own, which keeps what it is the gradient of; relu needs none.
    """
    if _direct is not None and type(w) is BsrMatrix:
        known = _direct(x, w._values, bias, w._key, False, activation)
        if known is not None:
            return known
    w = w if isinstance(w, BsrMatrix) else as_matrix(w, "the weight")
    check_activation(activation)
    return _apply(w, _arrays.as_array(x), False, None if bias is None else _arrays.as_array(bias), activation)


def ffn(x: Any, up: Any, down: Any, up_bias: Any = None, down_bias: Any = None, activation: Activation = "gelu") -> Any:
    """``activation(x @ up.T + up_bias) @ down.T + down_bias``: the two layers of a feed-forward network.

    As two calls of :func:`linear`, but with gradients that need fewer passes over what lies between the layers: the
    derivative of the activation and the gradient of the first bias are the epilogue of one product.
    """
    up, down = as_matrix(up, "the first weight"), as_matrix(down, "the second weight")
    if down.shape[1] != up.shape[0]:
        raise Error(
            f"the first layer has {up.shape[0]} outputs, and the second {down.shape[1]} inputs\n"
            "  help: the weights are hidden x inputs and outputs x hidden"
        )
    x = _arrays.as_array(x)
    tensors = _arrays.is_tensor(x) and _arrays.is_tensor(up.values) and _arrays.is_tensor(down.values)
    if not tensors or activation not in ACTIVATIONS or x.shape[-1] != up.shape[1]:
        return linear(linear(x, up, up_bias, activation), down, down_bias)
    from . import _torch

    layers = [(w.values, bias, w.key, (None, None)) for w, bias in ((up, up_bias), (down, down_bias))]
    return _torch.ffn(x, *layers, activation)


def sddmm(a: Any, b: Any, like: Any) -> BsrMatrix:
    """The blocks of ``a @ b`` that are stored in ``like`` (SDDMM), summed in f32 and rounded once.

    ``like`` is a :class:`Pattern`, or any matrix of :func:`bsr_gemm`, whose values are not read.
    """
    pattern = pattern_like(like)
    a, b = _arrays.as_array(a), _arrays.as_array(b)
    if _arrays.is_tensor(a) != _arrays.is_tensor(b):
        raise Error(
            "one operand is an array of NumPy and one a tensor\n  help: `torch.from_numpy` makes a tensor of an array"
        )
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise Error(f"the operands have {len(a.shape)} and {len(b.shape)} dimensions\n  help: both are matrices")
    if _arrays.is_tensor(a):
        from . import _torch

        return BsrMatrix(_torch.sddmm(a, b, pattern.key), pattern, check=False)
    return BsrMatrix(sddmm_values(a, b, pattern), pattern, check=False)


def matmul(a: Any, b: Any, *, pattern: Any = None) -> Any:
    """``a @ b``, of which one or both are block-sparse, summed in f32 and rounded once.

    With a dense matrix, as :func:`bsr_gemm`. The product of two block-sparse matrices is a :class:`BsrMatrix` with the blocks that a
    pair of stored blocks adds to; or with those of ``pattern``, a :class:`Pattern` or a matrix whose values are not read, of which
    blocks without a pair are zeros. A's blocks must be as wide as B's are high.

    Both patterns, and then that of the result, may be a :class:`DevicePattern`. The result has room for every block that the product
    can have, or for the capacity of ``pattern``, as ``product_pattern(a, b, capacity=...)`` makes one; there is no gradient.
    """
    if is_sparse(a) and is_sparse(b):
        return _of_two(as_matrix(a, "the first operand"), as_matrix(b, "the second operand"), pattern)
    if pattern is not None:
        raise Error(
            "`pattern` says which blocks the product of two block-sparse matrices has, and one operand is dense\n"
            "  help: `bsr_gemm.sddmm(a, b, pattern)` is the product of two dense ones at the blocks of a pattern"
        )
    return bsr_gemm(a, b) if is_sparse(a) else right_product(a, as_matrix(b, "the second operand"))


def _of_two(a: BsrMatrix, b: BsrMatrix, like: Any) -> BsrMatrix:
    check_pairs(a, b)
    pattern = pattern_of_product(a, b, like)
    _arrays.ask_for("the result", (pattern.nnzb, *pattern.block), a.values)
    if _arrays.is_tensor(a.values):
        from ._pairs import spgemm

        return BsrMatrix(spgemm(a.values, b.values, a.pattern, b.pattern, pattern), pattern, check=False)
    return BsrMatrix(gather(bsr_gemm(a, b.to_dense()), pattern), pattern, check=False)


def pattern_of_product(a: BsrMatrix, b: BsrMatrix, like: Any) -> Pattern:
    """The pattern of a product: the one that is given, or the one that the product has."""
    if like is None and _arrays.is_tensor(a.values) and _arrays.in_graph():
        raise Error(
            "the pattern of a product is not computed within torch.compile\n"
            "  help: `pattern=bsr_gemm.product_pattern(a, b)`, computed outside of it"
        )
    pattern = a.pattern.product(b.pattern) if like is None else pattern_like(like)
    shape, block = (a.shape[0], b.shape[1]), (a.block[0], b.block[1])
    if pattern.on_device != a.pattern.on_device or (pattern.shape, pattern.block) != (shape, block):
        raise Error(
            f"the product is {shape[0]} x {shape[1]} in blocks of {block[0]} x {block[1]}, and the pattern is {pattern!r}\n"
            "  help: leave `pattern` out for the pattern that the product has"
        )
    return pattern


_NAMES = {"a": "first", "b": "second"}


def check_pairs(a: BsrMatrix, b: BsrMatrix) -> None:
    """Refuses factors that have no pairs of blocks."""
    if a.pattern.on_device != b.pattern.on_device:
        here, there = ("b", "a") if a.pattern.on_device else ("a", "b")
        raise Error(
            "the product of two block-sparse matrices lists their pairs of blocks where the patterns are: that of the "
            f"{_NAMES[there]} operand is a DevicePattern, that of the {_NAMES[here]} is not\n"
            f"  help: `bsr_gemm.DevicePattern.from_pattern({here}.pattern, device)`, or `{there}.to_host()`"
        )
    if a.shape[1] != b.shape[0]:
        raise Error(
            f"the shapes do not fit: {a.shape[0]} x {a.shape[1]} times {b.shape[0]} x {b.shape[1]}\n"
            "  help: the first operand has as many columns as the second has rows"
        )
    if a.block[1] != b.block[0]:
        raise Error(
            f"blocks of {a.block[0]} x {a.block[1]} and {b.block[0]} x {b.block[1]} have no pairs: {a.block[1]} columns and "
            f"{b.block[0]} rows\n  help: `bsr_gemm.from_dense(b.to_dense(), block=({a.block[1]}, {b.block[1]}))`"
        )
    if _arrays.is_tensor(a.values) != _arrays.is_tensor(b.values) or a.dtype != b.dtype:
        raise Error(f"the operands are of {a.dtype} and {b.dtype}\n  help: convert the values of one of them")


def product_pattern(a: Any, b: Any, *, capacity: int | None = None) -> Any:
    """The pattern of ``a @ b``: the blocks that a pair of stored blocks adds to. Operands are patterns, or matrices.

    That of two :class:`DevicePattern` is one, too: it is computed where they are, and again when one of them has changed. Then
    ``capacity`` is the most blocks that it has; a row of blocks beyond it has none, and ``check()`` tells.
    """
    a, b = pattern_like(a), pattern_like(b)
    if a.on_device or b.on_device:
        from ._device_patterns import ProductPattern

        return ProductPattern.of(a, b, capacity)
    if capacity is not None:
        raise Error("`capacity` is the room of a DevicePattern, and these are on the host\n  help: leave it out")
    return a.product(b)


#: The name of :func:`sddmm` in earlier versions.
sampled = sddmm


def pattern_like(like: Any) -> Any:
    """The pattern of what says which blocks are stored."""
    if isinstance(like, Pattern) or getattr(like, "on_device", False):
        return like
    if str(getattr(like, "dtype", "")).endswith("bool"):
        raise Error(
            "`like` is a mask, which has no block size\n"
            "  help: `bsr_gemm.Pattern.from_mask(mask, shape=(rows, columns), block=(64, 64))`"
        )
    return as_matrix(like, "`like`").pattern


def _of_a_number() -> Error:
    return Error("a number is no operand of a product\n  help: `w * 2.0` scales a matrix")


def _apply(w: BsrMatrix, x: Any, transpose: bool, bias: Any = None, activation: str = "none") -> Any:
    inner = w.shape[0] if transpose else w.shape[1]
    if len(x.shape) == 0:
        raise _of_a_number()
    if x.shape[-1] != inner:
        side = "rows" if transpose else "columns"
        raise Error(
            f"the shapes do not fit: {' x '.join(map(str, x.shape))} is multiplied along {x.shape[-1]} elements, and "
            f"the {w.shape[0]} x {w.shape[1]} matrix has {inner} {side}"
        )
    if bias is not None and _arrays.is_tensor(bias) != _arrays.is_tensor(x):
        raise Error(
            f"the bias is a {type(bias).__name__}, and x is a {type(x).__name__}\n"
            "  help: `torch.from_numpy` makes a tensor of an array"
        )
    if _arrays.is_tensor(x):
        if not _arrays.is_tensor(w.values):
            w = w._with(_arrays.as_tensor(w.values))
        from . import _torch

        global _direct
        _direct = _torch.direct
        return _torch.linear(x, w.values, bias, w.key, transpose, activation)
    if _arrays.is_tensor(w.values):
        raise Error(
            "the matrix is of tensors and the other operand is an array of NumPy\n  help: `torch.from_numpy(x)`"
        )
    return _numpy_linear(w, x, bias, transpose, activation)


def _numpy_linear(w: BsrMatrix, x: np.ndarray, bias: Any, transpose: bool, activation: str) -> np.ndarray:
    if x.dtype != w.dtype:
        raise Error(f"the operands are of {w.dtype} and {x.dtype}\n  help: `x.astype({str(w.dtype)!r})`")
    lies_transposed = x.ndim >= 2 and x.strides[-1] != x.itemsize and x.strides[-2] == x.itemsize
    flat = x.reshape(-1, x.shape[-1]) if x.ndim != 2 else x
    outputs = w.shape[1] if transpose else w.shape[0]
    kind = result_kind(_arrays.kind_of(x))
    _arrays.ask_for("the result", (flat.shape[0], outputs), x, kind)
    shape = (outputs, flat.shape[0]) if lies_transposed else (flat.shape[0], outputs)
    out = np.empty(shape, dtype=_arrays.numpy_dtype(kind))
    out = out.T if lies_transposed else out
    linear_into(w.pattern, w.values, flat, out, bias, transpose, activation)
    return out.reshape(*x.shape[:-1], outputs)
