"""The operators of PyTorch: ``torch.ops.bsr_gemm.linear`` and ``torch.ops.bsr_gemm.sddmm``.

A pattern is handed to them by its key, a string, which is the same wherever the pattern is the same: compiled graphs
hold it as a constant and are compiled anew where a pattern changes. Layers within such graphs hand on their tensors
(``_places``), which are read when the operator runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _arrays, _gpu, _launch
from ._arrays import result_kind
from ._cpu import gradient_into, linear_into, sddmm_values
from ._device_patterns import hosted, spread
from ._epilogues import OF_RESULT, check_activation
from ._gradients import (
    activate,
    column_sums,
    derivative,
    ffn_backward,
    keep_ffn,
    keep_linear,
    keep_sddmm,
    linear_backward,
    linear_eager,
    linear_transformed,
    sddmm_backward,
    sddmm_eager,
    sddmm_transformed,
    sums_in,
)
from ._native import Error
from ._operators import PLACES, is_transformed, operator
from ._places import NONE, Places, resolved, shape_of


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    pattern: str,
    transpose: bool = False,
    activation: str = "none",
    places: Places = NONE,
) -> Tensor:
    """``activation(x @ w.T + bias)``, or with ``w`` where it is transposed. ``x`` may have any number of dimensions."""
    known = direct(x, weight, bias, pattern, transpose, activation)
    if known is not None:
        return known
    x, weight, bias = _cast(x.device.type, x, weight, bias)
    how = (pattern, transpose, activation, *places)
    if activation not in OF_RESULT and _wants_gradient(x, weight, bias):
        return activate(linear(x, weight, bias, pattern, transpose, "none", places), activation)
    plain = places[0] is None and not is_dynamo_compiling() and _is_plain(x, weight, bias)
    if plain and x.is_cuda and x.dim() >= 2 and x.stride(-1) == 1:
        # What an operator's way through the dispatcher costs on the host is more than the launch.
        flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        out = _linear_cuda(flat, weight, bias, *how)
        if x.dim() == 2:
            return out
        out = out.view(*x.shape[:-1], out.shape[-1])
        _launch.remember_as(x, flat, out, bias, how[:3])
        return out
    product = _differentiable((torch.ops.bsr_gemm.linear, linear_transformed, linear_eager), x, weight, bias)
    if x.dim() == 2:
        return product(x, weight, bias, *how)
    if x.dim() == 1:
        return product(x[None], weight, bias, *how)[0]
    if x.dim() == 3 and x.shape[-1] > 1 and x.stride(-1) != 1 and x.stride(-2) == 1:
        # A batch of transposed matrices, as in `w @ x`: each is multiplied in place.
        parts = [product(part, weight, bias, *how) for part in x.unbind()]
        return torch.stack([part.mT for part in parts]).mT
    flat = product(x.reshape(-1, x.shape[-1]), weight, bias, *how)
    return flat.view(*x.shape[:-1], flat.shape[-1])


#: Of a layer the weight, the bias, the pattern, and its tensors where these are handed on.
Layer = tuple[Tensor, Tensor | None, str, Places]


def ffn(x: Tensor, up: Layer, down: Layer, activation: str) -> Tensor:
    """``activation(x @ up.T + up_bias) @ down.T + down_bias``."""
    tensors = _cast(x.device.type, x, up[0], up[1], down[0], down[1])
    x, up_weight, up_bias, down_weight, down_bias = tensors
    if is_transformed() or not _wants_gradient(*tensors):
        h = linear(x, up_weight, up_bias, up[2], False, activation, up[3])
        return linear(h, down_weight, down_bias, down[2], False, "none", down[3])
    flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    op, patterns = torch.ops.bsr_gemm.ffn, (up[2], down[2])
    weights = up_weight, up_bias, down_weight, down_bias
    y = op(flat.contiguous(), *weights, *patterns, activation, *up[3], *down[3])[0]
    return y if x.dim() == 2 else y.view(*x.shape[:-1], y.shape[-1])


def _cast(device: str, *tensors: Tensor | None) -> tuple:
    """Under autocast, tensors of its type."""
    dtype = autocast_dtype(device)
    return tensors if dtype is None else tuple(tensor if tensor is None else tensor.to(dtype) for tensor in tensors)


def autocast_dtype(device: str) -> torch.dtype | None:
    """The type of autocast on a device, where that is on."""
    return torch.get_autocast_dtype(device) if device != "meta" and torch.is_autocast_enabled(device) else None


def _wants_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


_PLAIN = (Tensor, torch.nn.Parameter)
is_dynamo_compiling = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = torch.is_autocast_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transforms = torch._C._functorch.peek_interpreter_stack


def _is_plain(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether only the product is requested: no gradient, no dispatch mode, no subclass."""
    if _is_grad_enabled() and (x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)):
        return False
    return _is_eager(x, weight, bias)


def _is_eager(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether nothing but autograd is between the call and the launch: no dispatch mode, no transform, no subclass."""
    if type(x) not in _PLAIN or type(weight) not in _PLAIN or (bias is not None and type(bias) not in _PLAIN):
        return False
    modes = _dispatch_modes() or _function_modes() or _transforms() is not None
    return not modes and forward_ad._current_level < 0


def _differentiable(
    functions: tuple[Callable, Callable, Callable], x: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Callable:
    """Which of an operator, its function for transforms, and its function for plain gradients serves a call."""
    operator, transformed, eager = functions
    if is_transformed():
        return transformed
    plain = not is_dynamo_compiling() and _wants_gradient(x, weight, bias) and _is_eager(x, weight, bias)
    return eager if plain else operator


def direct(x: Any, weight: Any, bias: Any, pattern: str, transpose: bool, activation: str) -> Tensor | None:
    """The product if it is only a known launch; otherwise None."""
    if is_dynamo_compiling() or type(x) is not Tensor or not x.is_cuda or not _is_plain(x, weight, bias):
        return None
    if _is_autocast_enabled("cuda"):
        return None
    return _launch.direct(x, weight, bias, pattern, transpose, activation)


def sddmm(a: Tensor, b: Tensor, pattern: str) -> Tensor:
    """The stored blocks of ``a @ b``."""
    a, b = _cast(a.device.type, a, b)
    product = _differentiable((torch.ops.bsr_gemm.sddmm, sddmm_transformed, sddmm_eager), a, b)
    return product(a, b, pattern, None, None)


def _lies_transposed(x: Tensor) -> bool:
    return x.stride(1) != 1 and x.stride(0) == 1


def _check(x: Tensor, weight: Tensor, bias: Tensor | None, found: Any, transpose: bool, activation: str) -> int:
    """What the operands must be of each other; the number of outputs."""
    (rows, cols), (bm, bk) = found.shape, found.block
    inputs, outputs = (rows, cols) if transpose else (cols, rows)
    if x.dim() != 2 or x.shape[1] != inputs:
        raise Error(
            f"x is {' x '.join(map(str, x.shape))}, and the {rows} x {cols} matrix is multiplied along {inputs} elements"
        )
    if weight.dim() != 3 or tuple(weight.shape) != (found.nnzb, bm, bk):
        raise Error(
            f"the weight's values are {' x '.join(map(str, weight.shape))}, and the pattern has {found.nnzb} blocks of {bm} x {bk}"
        )
    if x.dtype != weight.dtype:
        raise Error(
            f"x is of {x.dtype} and the weight of {weight.dtype}\n  help: convert one of them, or run under `torch.autocast`"
        )
    if x.device != weight.device:
        raise Error(f"x is on {x.device} and the weight on {weight.device}\n  help: `w.to({str(x.device)!r})`")
    if bias is not None:
        check_vector("the bias", bias, outputs, "outputs", x)
    check_activation(activation)
    return outputs


def check_vector(name: str, vector: Tensor, length: int, of: str, x: Tensor) -> None:
    """Refuses what is no vector of so many elements where ``x`` is."""
    if vector.dim() != 1 or vector.shape[0] != length:
        raise Error(f"{name} is {' x '.join(map(str, vector.shape))}, and there are {length} {of}")
    if vector.device != x.device:
        remedy = f"`{name.removeprefix('the ')}.to({str(x.device)!r})`"
        raise Error(f"{name} is on {vector.device} and x on {x.device}\n  help: {remedy}")


def _result(x: Tensor, outputs: int) -> Tensor:
    """The output of a product, with the layout of ``x``."""
    dtype = _arrays.torch_dtype(result_kind(_arrays.kind_of(x)))
    if _lies_transposed(x):
        return x.new_empty((outputs, x.shape[0]), dtype=dtype).t()
    return x.new_empty((x.shape[0], outputs), dtype=dtype)


def _linear_cpu(x, weight, bias, pattern, transpose=False, activation="none", row_ptr=None, col_idx=None):
    found = resolved(pattern, row_ptr, col_idx)
    out = _result(x, _check(x, weight, bias, found, transpose, activation))
    found, weight = hosted(found, weight)
    linear_into(found, weight.contiguous(), x, out, bias, transpose, activation)
    return out


def _sddmm_cpu(a, b, pattern, row_ptr=None, col_idx=None):
    found = _check_sddmm(a, b, resolved(pattern, row_ptr, col_idx))
    return spread(found, sddmm_values(a, b, found.to_pattern() if found.on_device else found))


def _linear_fake(x, weight, bias, pattern, transpose=False, activation="none", row_ptr=None, col_idx=None):
    return _result(x, _check(x, weight, bias, shape_of(pattern, row_ptr, col_idx), transpose, activation))


def _sddmm_fake(a, b, pattern, row_ptr=None, col_idx=None):
    found = _check_sddmm(a, b, shape_of(pattern, row_ptr, col_idx))
    return a.new_empty((found.nnzb, *found.block), dtype=_arrays.torch_dtype(result_kind(_arrays.kind_of(a))))


def _check_sddmm(a: Tensor, b: Tensor, found: Any) -> Any:
    rows, cols = found.shape
    if a.dim() != 2 or b.dim() != 2 or a.shape[0] != rows or b.shape[1] != cols or a.shape[1] != b.shape[0]:
        raise Error(
            f"{' x '.join(map(str, a.shape))} times {' x '.join(map(str, b.shape))} at the blocks of a {rows} x {cols} matrix\n"
            f"  help: a has {rows} rows, b has {cols} columns, and a's columns are b's rows"
        )
    if a.dtype != b.dtype or a.device != b.device:
        raise Error(
            f"a is of {a.dtype} on {a.device}, b of {b.dtype} on {b.device}\n  help: convert one of them, or run under `torch.autocast`"
        )
    return found


def _linear_gradient_cpu(dy, weight, kept, pattern, transpose, activation, row_ptr=None, col_idx=None):
    found = resolved(pattern, row_ptr, col_idx)
    out = dy.new_empty((dy.shape[0], _check(dy, weight, None, found, not transpose, activation)))
    sums = dy.new_empty(out.shape[1], dtype=sums_in(dy))
    found, weight = hosted(found, weight)
    gradient_into(found, weight.contiguous(), dy, kept, out, sums, not transpose, activation)
    return out, sums


def _linear_gradient_fake(dy, weight, kept, pattern, transpose, activation, row_ptr=None, col_idx=None):
    outputs = _check(dy, weight, None, shape_of(pattern, row_ptr, col_idx), not transpose, activation)
    return dy.new_empty((dy.shape[0], outputs)), dy.new_empty(outputs, dtype=sums_in(dy))


def _ffn(x, up, up_bias, down, down_bias, up_pattern, down_pattern, activation, *places):
    """The result, the result of the activation, and what it was given where its derivative needs that."""
    op, (of_up, of_down) = torch.ops.bsr_gemm.linear, (places[:2], places[2:])
    if activation in OF_RESULT:
        h = op(x, up, up_bias, up_pattern, False, activation, *of_up)
        return op(h, down, down_bias, down_pattern, False, "none", *of_down), h, x.new_empty(0)
    z = op(x, up, up_bias, up_pattern, False, "none", *of_up)
    h = activate(z, activation)
    return op(h, down, down_bias, down_pattern, False, "none", *of_down), h, z


def _linear_cuda(x, weight, bias, pattern, transpose=False, activation="none", row_ptr=None, col_idx=None):
    if row_ptr is None:
        known = _launch.direct(x, weight, bias, pattern, transpose, activation)
        if known is not None:
            return known
    _gpu.refuse_fork()
    found = resolved(pattern, row_ptr, col_idx)
    out = _result(x, _check(x, weight, bias, found, transpose, activation))
    return _launch.linear(x, weight, bias, out, found, transpose, activation)


def _linear_gradient_cuda(dy, weight, kept, pattern, transpose, activation, row_ptr=None, col_idx=None):
    _gpu.refuse_fork()
    found = resolved(pattern, row_ptr, col_idx)
    _check(dy, weight, None, found, not transpose, activation)
    fused = _launch.gradient(dy, weight, kept, found, transpose, activation)
    if fused is not None:
        return fused
    dh = _linear_cuda(dy, weight, None, pattern, not transpose, "none", row_ptr, col_idx)
    dz = derivative(dh, kept, activation, kept)
    return dz, column_sums(dz)


def _sddmm_cuda(a, b, pattern, row_ptr=None, col_idx=None):
    _gpu.refuse_fork()
    found = _check_sddmm(a, b, resolved(pattern, row_ptr, col_idx))
    out = a.new_empty((found.nnzb, *found.block), dtype=_arrays.torch_dtype(result_kind(_arrays.kind_of(a))))
    # Places without a block are not written.
    return _launch.sddmm(a, b, out.zero_() if found.on_device else out, found)


operator(
    f"linear(Tensor x, Tensor weight, Tensor? bias, str pattern, bool transpose=False, str activation='none', {PLACES}) -> Tensor",
    _linear_fake,
    _linear_cpu,
    _linear_cuda,
    backward=linear_backward,
    keep=keep_linear,
)
operator(
    "linear_gradient(Tensor dy, Tensor weight, Tensor kept, str pattern, bool transpose, str activation,"
    f" {PLACES}) -> (Tensor, Tensor)",
    _linear_gradient_fake,
    _linear_gradient_cpu,
    _linear_gradient_cuda,
    batched=False,
)
operator(
    "ffn(Tensor x, Tensor up, Tensor? up_bias, Tensor down, Tensor? down_bias, str up_pattern, str down_pattern,"
    " str activation, Tensor? up_row_ptr=None, Tensor? up_col_idx=None, Tensor? down_row_ptr=None,"
    " Tensor? down_col_idx=None) -> (Tensor, Tensor, Tensor)",
    _ffn,
    _ffn,
    backward=ffn_backward,
    keep=keep_ffn,
)
# Programs that earlier versions exported name it `sampled`.
for _name in ("sddmm", "sampled"):
    operator(
        f"{_name}(Tensor a, Tensor b, str pattern, {PLACES}) -> Tensor",
        _sddmm_fake,
        _sddmm_cpu,
        _sddmm_cuda,
        backward=sddmm_backward,
        keep=keep_sddmm,
    )
