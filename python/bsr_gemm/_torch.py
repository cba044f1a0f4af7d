"""The operators of PyTorch: ``torch.ops.bsr_gemm.linear`` and ``torch.ops.bsr_gemm.sampled``.

A pattern is handed to them by its key, a string, which is the same wherever the pattern is the same: compiled graphs
hold it as a constant and are compiled anew where a pattern changes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _arrays, _gpu, _launch, _products
from ._device_patterns import hosted, spread
from ._native import Error
from ._patterns import find
from ._products import ACTIVATIONS, OF_RESULT, gradient_into, linear_into, result_kind, sampled_values

_library = torch.library.Library("bsr_gemm", "DEF")
_library.define(
    "linear(Tensor x, Tensor weight, Tensor? bias, str pattern, bool transpose=False, str activation='none') -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    "linear_gradient(Tensor dy, Tensor weight, Tensor kept, str pattern, bool transpose, str activation)"
    " -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    "ffn(Tensor x, Tensor up, Tensor? up_bias, Tensor down, Tensor? down_bias, str up_pattern, str down_pattern,"
    " str activation) -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define("sampled(Tensor a, Tensor b, str pattern) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, transpose: bool = False, activation: str = "none"
) -> Tensor:
    """``activation(x @ w.T + bias)``, or with ``w`` where it is transposed. ``x`` may have any number of dimensions."""
    known = direct(x, weight, bias, pattern, transpose, activation)
    if known is not None:
        return known
    x, weight, bias = _cast(x.device.type, x, weight, bias)
    if activation not in OF_RESULT and _wants_gradient(x, weight, bias):
        return activate(linear(x, weight, bias, pattern, transpose), activation)
    if not is_dynamo_compiling() and x.is_cuda and x.dim() >= 2 and x.stride(-1) == 1 and _is_plain(x, weight, bias):
        # What an operator's way through the dispatcher costs on the host is more than the launch.
        flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        out = _linear_cuda(flat, weight, bias, pattern, transpose, activation)
        if x.dim() == 2:
            return out
        out = out.view(*x.shape[:-1], out.shape[-1])
        _launch.remember_as(x, flat, out, bias, (pattern, transpose, activation))
        return out
    if x.dim() == 2:
        return torch.ops.bsr_gemm.linear(x, weight, bias, pattern, transpose, activation)
    if x.dim() == 1:
        return torch.ops.bsr_gemm.linear(x[None], weight, bias, pattern, transpose, activation)[0]
    if x.dim() == 3 and x.shape[-1] > 1 and x.stride(-1) != 1 and x.stride(-2) == 1:
        # A batch of transposed matrices, as `w @ x` has: each of them is multiplied where it lies.
        parts = [torch.ops.bsr_gemm.linear(part, weight, bias, pattern, transpose, activation) for part in x.unbind()]
        return torch.stack([part.mT for part in parts]).mT
    flat = torch.ops.bsr_gemm.linear(x.reshape(-1, x.shape[-1]), weight, bias, pattern, transpose, activation)
    return flat.view(*x.shape[:-1], flat.shape[-1])


def ffn(
    x: Tensor,
    up: tuple[Tensor, Tensor | None, str],
    down: tuple[Tensor, Tensor | None, str],
    activation: str,
) -> Tensor:
    """``activation(x @ up.T + up_bias) @ down.T + down_bias``; of each layer the weight, the bias and the pattern."""
    tensors = _cast(x.device.type, x, up[0], up[1], down[0], down[1])
    x, up_weight, up_bias, down_weight, down_bias = tensors
    if not _wants_gradient(*tensors):
        h = linear(x, up_weight, up_bias, up[2], False, activation)
        return linear(h, down_weight, down_bias, down[2])
    flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    op = torch.ops.bsr_gemm.ffn
    y = op(flat.contiguous(), up_weight, up_bias, down_weight, down_bias, up[2], down[2], activation)[0]
    return y if x.dim() == 2 else y.view(*x.shape[:-1], y.shape[-1])


def _cast(device: str, *tensors: Tensor | None) -> tuple:
    """Under autocast, tensors of its type."""
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(tensor if tensor is None else tensor.to(dtype) for tensor in tensors)


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
    """Whether nothing but the product itself is asked for: no gradient, no mode that looks at operators, no subclass."""
    if type(x) not in _PLAIN or type(weight) not in _PLAIN or (bias is not None and type(bias) not in _PLAIN):
        return False
    if _is_grad_enabled() and (x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)):
        return False
    modes = _dispatch_modes() or _function_modes() or _transforms() is not None
    return not modes and forward_ad._current_level < 0


def direct(x: Any, weight: Any, bias: Any, pattern: str, transpose: bool, activation: str) -> Tensor | None:
    """The product where nothing but a launch that is known is asked for; None where something else is."""
    if is_dynamo_compiling() or type(x) is not Tensor or not x.is_cuda or not _is_plain(x, weight, bias):
        return None
    if _is_autocast_enabled("cuda"):
        return None
    return _launch.direct(x, weight, bias, pattern, transpose, activation)


_products._direct = direct


def sampled(a: Tensor, b: Tensor, pattern: str) -> Tensor:
    """The stored blocks of ``a @ b``."""
    device = a.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        a, b = a.to(dtype), b.to(dtype)
    return torch.ops.bsr_gemm.sampled(a, b, pattern)


def activate(z: Tensor, activation: str) -> Tensor:
    """The activation as a step of its own."""
    functional = torch.nn.functional
    match activation:
        case "none":
            return z
        case "relu":
            return torch.relu(z)
        case "gelu":
            return functional.gelu(z, approximate="tanh")
        case "gelu_erf":
            return functional.gelu(z)
        case "silu":
            return functional.silu(z)
        case "tanh":
            return torch.tanh(z)
        case "sigmoid":
            return torch.sigmoid(z)
    raise Error(f"`{activation}` is no activation\n  help: use one of {', '.join(ACTIVATIONS)}")


def _derivative(dy: Tensor, y: Any, activation: str, z: Any) -> Tensor:
    """The gradient of what an activation was given, ``z``; of some, of its result alone."""
    aten = torch.ops.aten
    match activation:
        case "none":
            return dy
        case "relu":
            return torch.where(y > 0, dy, torch.zeros((), dtype=dy.dtype, device=dy.device))
        case "gelu":
            return aten.gelu_backward(dy, z, approximate="tanh")
        case "gelu_erf":
            return aten.gelu_backward(dy, z, approximate="none")
        case "silu":
            return aten.silu_backward(dy, z)
        case "tanh":
            return aten.tanh_backward(dy, y)
        case "sigmoid":
            return aten.sigmoid_backward(dy, y)
    raise Error(f"`{activation}` is no activation\n  help: use one of {', '.join(ACTIVATIONS)}")


def _lies_transposed(x: Tensor) -> bool:
    return x.stride(1) != 1 and x.stride(0) == 1


def _check(x: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, transpose: bool, activation: str) -> int:
    """What the operands must be of each other; the number of outputs."""
    found = find(pattern)
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
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != outputs):
        raise Error(f"the bias is {' x '.join(map(str, bias.shape))}, and there are {outputs} outputs")
    if bias is not None and bias.device != x.device:
        raise Error(f"the bias is on {bias.device} and x on {x.device}\n  help: `bias.to({str(x.device)!r})`")
    if activation not in ACTIVATIONS:
        raise Error(f"`{activation}` is no activation\n  help: use one of {', '.join(ACTIVATIONS)}")
    return outputs


def _result(x: Tensor, outputs: int) -> Tensor:
    """Where a product goes: it lies as ``x`` does."""
    dtype = _arrays.torch_dtype(result_kind(_arrays.kind_of(x)))
    if _lies_transposed(x):
        return x.new_empty((outputs, x.shape[0]), dtype=dtype).t()
    return x.new_empty((x.shape[0], outputs), dtype=dtype)


@torch.library.impl(_library, "linear", "CPU")
def _linear_cpu(x, weight, bias, pattern, transpose=False, activation="none"):
    out = _result(x, _check(x, weight, bias, pattern, transpose, activation))
    found, weight = hosted(find(pattern), weight)
    linear_into(found, weight.contiguous(), x, out, bias, transpose, activation)
    return out


@torch.library.impl(_library, "sampled", "CPU")
def _sampled_cpu(a, b, pattern):
    found = _check_sampled(a, b, pattern)
    return spread(found, sampled_values(a, b, found.to_pattern() if found.on_device else found))


@torch.library.register_fake("bsr_gemm::linear", lib=_library)
def _linear_fake(x, weight, bias, pattern, transpose=False, activation="none"):
    return _result(x, _check(x, weight, bias, pattern, transpose, activation))


@torch.library.register_fake("bsr_gemm::sampled", lib=_library)
def _sampled_fake(a, b, pattern):
    found = _check_sampled(a, b, pattern)
    return a.new_empty((found.nnzb, *found.block), dtype=_arrays.torch_dtype(result_kind(_arrays.kind_of(a))))


def _check_sampled(a: Tensor, b: Tensor, pattern: str) -> Any:
    found = find(pattern)
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


@torch.library.impl(_library, "linear_gradient", "CPU")
def _linear_gradient_cpu(dy, weight, kept, pattern, transpose, activation):
    found, outputs = find(pattern), _check(dy, weight, None, pattern, not transpose, activation)
    out = dy.new_empty((dy.shape[0], outputs))
    sums = dy.new_empty(outputs, dtype=_sums_in(dy))
    found, weight = hosted(found, weight)
    gradient_into(found, weight.contiguous(), dy, kept, out, sums, not transpose, activation)
    return out, sums


@torch.library.register_fake("bsr_gemm::linear_gradient", lib=_library)
def _linear_gradient_fake(dy, weight, kept, pattern, transpose, activation):
    outputs = _check(dy, weight, None, pattern, not transpose, activation)
    return dy.new_empty((dy.shape[0], outputs)), dy.new_empty(outputs, dtype=_sums_in(dy))


def _sums_in(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _ffn(x, up, up_bias, down, down_bias, up_pattern, down_pattern, activation):
    """The result, the result of the activation, and what it was given where its derivative needs that."""
    op = torch.ops.bsr_gemm.linear
    if activation in OF_RESULT:
        h = op(x, up, up_bias, up_pattern, False, activation)
        return op(h, down, down_bias, down_pattern), h, x.new_empty(0)
    z = op(x, up, up_bias, up_pattern)
    h = activate(z, activation)
    return op(h, down, down_bias, down_pattern), h, z


for _device_key in ("CPU", "CUDA"):
    torch.library.impl(_library, "ffn", _device_key)(_ffn)
torch.library.register_fake("bsr_gemm::ffn", _ffn, lib=_library)


class _Once(torch.autograd.Function):
    """Gradients that have none themselves."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple:
        # Those after the first are what the gradients were computed of.
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise Error(
            "the second derivative of a block-sparse product is not computed\n"
            "  help: leave out `create_graph=True`, or take the gradient of `w.to_dense()` times x"
        )


def _once(gradients: tuple, *of: Tensor | None) -> tuple:
    """Gradients, with the refusal of theirs where a graph of them is recorded."""
    if not torch.is_grad_enabled():
        return gradients
    return _Once.apply(len(gradients), *gradients, *of)


def _keep_linear(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, weight, bias, pattern, transpose, activation = inputs
    ctx.pattern, ctx.transpose, ctx.activation = pattern, transpose, activation
    ctx.held = find(pattern)  # The matrix may get another pattern before the gradients are asked for.
    ctx.has_bias = bias is not None
    # What an activation was given is made once more where its derivative needs it.
    ctx.save_for_backward(x, weight, bias, output if activation not in ("none",) else None)


def _linear_backward(ctx: Any, dy: Tensor) -> tuple:
    x, weight, bias, y = ctx.saved_tensors
    op = torch.ops.bsr_gemm
    with torch.no_grad():
        z = None
        if ctx.activation not in OF_RESULT:
            z = op.linear(x, weight, bias, ctx.pattern, ctx.transpose, "none")
        dz = _derivative(dy, y, ctx.activation, z)
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = op.linear(dz, weight, None, ctx.pattern, not ctx.transpose, "none")
        if ctx.needs_input_grad[1]:
            dw = _weight_gradient(dz, x, ctx.pattern, ctx.transpose)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            db = _column_sums(dz).to(bias.dtype)
    return *_once((dx, dw, db), dy, x, weight, bias), None, None, None


def _weight_gradient(dz: Tensor, x: Tensor, pattern: str, transpose: bool = False) -> Tensor:
    op = torch.ops.bsr_gemm.sampled
    return op(x.t(), dz, pattern) if transpose else op(dz.t(), x, pattern)


def _column_sums(dz: Tensor) -> Tensor:
    return dz.sum(0, dtype=_sums_in(dz))


def _keep_ffn(ctx: Any, inputs: tuple, output: tuple) -> None:
    x, up, up_bias, down, down_bias, up_pattern, down_pattern, activation = inputs
    _, h, z = output
    ctx.patterns, ctx.activation = (up_pattern, down_pattern), activation
    ctx.held = (find(up_pattern), find(down_pattern))
    ctx.mark_non_differentiable(h, z)
    # h and z have no gradients: zeros of their size would be two passes over the hidden features.
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, up, up_bias, down, down_bias, h, z)


def _ffn_backward(ctx: Any, dy: Tensor | None, *_: Any) -> tuple:
    x, up, up_bias, down, down_bias, h, z = ctx.saved_tensors
    (up_pattern, down_pattern), needs = ctx.patterns, ctx.needs_input_grad
    if dy is None:
        return (None,) * len(needs)
    op = torch.ops.bsr_gemm
    with torch.no_grad():
        kept = h if ctx.activation in OF_RESULT else z
        dy = dy.contiguous()
        # The activation's derivative and the sums for the bias are the epilogue of the product.
        dz, sums = op.linear_gradient(dy, down, kept, down_pattern, False, ctx.activation)
        gradients = (
            op.linear(dz, up, None, up_pattern, True) if needs[0] else None,
            _weight_gradient(dz, x, up_pattern) if needs[1] else None,
            sums.to(up_bias.dtype) if up_bias is not None and needs[2] else None,
            _weight_gradient(dy, h, down_pattern) if needs[3] else None,
            _column_sums(dy).to(down_bias.dtype) if down_bias is not None and needs[4] else None,
        )
    return *_once(gradients, dy, x, up, up_bias, down, down_bias), None, None, None


def _keep_sampled(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, pattern = inputs
    ctx.pattern, ctx.held = pattern, find(pattern)
    ctx.save_for_backward(a, b)


def _sampled_backward(ctx: Any, ds: Tensor) -> tuple:
    a, b = ctx.saved_tensors
    op = torch.ops.bsr_gemm
    with torch.no_grad():
        da = op.linear(b, ds, None, ctx.pattern, False, "none").t() if ctx.needs_input_grad[0] else None
        db = op.linear(a.t(), ds, None, ctx.pattern, True, "none") if ctx.needs_input_grad[1] else None
    return *_once((da, db), ds, a, b), None


torch.library.register_autograd("bsr_gemm::linear", _linear_backward, setup_context=_keep_linear, lib=_library)
torch.library.register_autograd("bsr_gemm::ffn", _ffn_backward, setup_context=_keep_ffn, lib=_library)
torch.library.register_autograd("bsr_gemm::sampled", _sampled_backward, setup_context=_keep_sampled, lib=_library)


@torch.library.impl(_library, "linear", "CUDA")
def _linear_cuda(x, weight, bias, pattern, transpose=False, activation="none"):
    known = _launch.direct(x, weight, bias, pattern, transpose, activation)
    if known is not None:
        return known
    _gpu.refuse_fork()
    out = _result(x, _check(x, weight, bias, pattern, transpose, activation))
    return _launch.linear(x, weight, bias, out, find(pattern), transpose, activation)


@torch.library.impl(_library, "linear_gradient", "CUDA")
def _linear_gradient_cuda(dy, weight, kept, pattern, transpose, activation):
    _gpu.refuse_fork()
    found = find(pattern)
    _check(dy, weight, None, pattern, not transpose, activation)
    fused = _launch.gradient(dy, weight, kept, found, transpose, activation)
    if fused is not None:
        return fused
    dh = _linear_cuda(dy, weight, None, pattern, not transpose)
    dz = _derivative(dh, kept, activation, kept)
    return dz, _column_sums(dz)


@torch.library.impl(_library, "sampled", "CUDA")
def _sampled_cuda(a, b, pattern):
    _gpu.refuse_fork()
    found = _check_sampled(a, b, pattern)
    out = a.new_empty((found.nnzb, *found.block), dtype=_arrays.torch_dtype(result_kind(_arrays.kind_of(a))))
    # Places without a block are not written.
    return _launch.sampled(a, b, out.zero_() if found.on_device else out, found)
