"""Products of block-sparse and dense matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import _arrays
from ._arrays import result_kind
from ._cpu import linear_into, sddmm_values
from ._epilogues import ACTIVATIONS, Activation, check_activation
from ._matrix import BsrMatrix, as_matrix
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
