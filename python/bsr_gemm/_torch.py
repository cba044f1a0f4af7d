"""The operators of PyTorch: ``torch.ops.bsr_gemm.linear`` and ``torch.ops.bsr_gemm.sampled``.

A pattern is handed to them by its key, a string, which is the same wherever the pattern is the same: compiled graphs
hold it as a constant and are compiled anew where a pattern changes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _arrays
from ._native import Error
from ._patterns import find
from ._products import ACTIVATIONS, linear_into, result_kind, sampled_values

#: Activations whose derivative is a function of their result.
OF_RESULT = ("none", "relu", "tanh", "sigmoid")

_library = torch.library.Library("bsr_gemm", "DEF")
_library.define(
    "linear(Tensor x, Tensor weight, Tensor? bias, str pattern, bool transpose=False, str activation='none') -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define("sampled(Tensor a, Tensor b, str pattern) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, transpose: bool = False, activation: str = "none"
) -> Tensor:
    """``activation(x @ w.T + bias)``, or with ``w`` where it is transposed. ``x`` may have any number of dimensions."""
    device = x.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        x, weight = x.to(dtype), weight.to(dtype)
        bias = bias if bias is None else bias.to(dtype)
    later = activation not in OF_RESULT and torch.is_grad_enabled()
    if later and (x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)):
        return activate(linear(x, weight, bias, pattern, transpose), activation)
    if not torch.compiler.is_compiling() and x.is_cuda and x.stride(-1) == 1 and _is_plain(x, weight, bias):
        # What an operator's way through the dispatcher costs on the host is more than the launch.
        flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        out = _linear_cuda(flat, weight, bias, pattern, transpose, activation)
        return out if x.dim() == 2 else out.view(*x.shape[:-1], out.shape[-1])
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


def _is_plain(*tensors: Tensor | None) -> bool:
    """Whether nothing but the product itself is asked for: no gradient, no mode that looks at operators, no subclass."""
    wanted = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    modes = torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack()
    if wanted or modes or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    plain = (Tensor, torch.nn.Parameter)
    return forward_ad._current_level < 0 and all(tensor is None or type(tensor) in plain for tensor in tensors)


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


def _derivative(dy: Tensor, y: Tensor, activation: str, z: Any) -> Tensor:
    """The gradient of what an activation was given; ``z`` makes that once more where it is needed."""
    aten = torch.ops.aten
    match activation:
        case "none":
            return dy
        case "relu":
            return torch.where(y > 0, dy, torch.zeros((), dtype=dy.dtype, device=dy.device))
        case "gelu":
            return aten.gelu_backward(dy, z(), approximate="tanh")
        case "gelu_erf":
            return aten.gelu_backward(dy, z(), approximate="none")
        case "silu":
            before = z()
            sigmoid = torch.sigmoid(before)
            return dy * (sigmoid * (1 + before * (1 - sigmoid)))
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
    linear_into(find(pattern), weight.contiguous(), x, out, bias, transpose, activation)
    return out


@torch.library.impl(_library, "sampled", "CPU")
def _sampled_cpu(a, b, pattern):
    _check_sampled(a, b, pattern)
    return sampled_values(a, b, find(pattern))


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

    def z() -> Tensor:
        return op.linear(x, weight, bias, ctx.pattern, ctx.transpose, "none")

    dz = _derivative(dy, y, ctx.activation, z)
    dx = dw = db = None
    if ctx.needs_input_grad[0]:
        dx = op.linear(dz, weight, None, ctx.pattern, not ctx.transpose, "none")
    if ctx.needs_input_grad[1]:
        dw = op.sampled(x.t(), dz, ctx.pattern) if ctx.transpose else op.sampled(dz.t(), x, ctx.pattern)
    if ctx.has_bias and ctx.needs_input_grad[2]:
        db = dz.sum(0, dtype=None if dz.dtype == torch.float64 else torch.float32).to(bias.dtype)
    return dx, dw, db, None, None, None


def _keep_sampled(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, pattern = inputs
    ctx.pattern, ctx.held = pattern, find(pattern)
    ctx.save_for_backward(a, b)


def _sampled_backward(ctx: Any, ds: Tensor) -> tuple:
    a, b = ctx.saved_tensors
    op = torch.ops.bsr_gemm
    da = op.linear(b, ds, None, ctx.pattern, False, "none").t() if ctx.needs_input_grad[0] else None
    db = op.linear(a.t(), ds, None, ctx.pattern, True, "none") if ctx.needs_input_grad[1] else None
    return da, db, None


torch.library.register_autograd("bsr_gemm::linear", _linear_backward, setup_context=_keep_linear, lib=_library)
torch.library.register_autograd("bsr_gemm::sampled", _sampled_backward, setup_context=_keep_sampled, lib=_library)


@torch.library.impl(_library, "linear", "CUDA")
def _linear_cuda(x, weight, bias, pattern, transpose=False, activation="none"):
    from . import _gpu

    _gpu.refuse_fork()
    out = _result(x, _check(x, weight, bias, pattern, transpose, activation))
    return _gpu.linear(x, weight, bias, out, find(pattern), transpose, activation)


@torch.library.impl(_library, "sampled", "CUDA")
def _sampled_cuda(a, b, pattern):
    from . import _gpu

    _gpu.refuse_fork()
    found = _check_sampled(a, b, pattern)
    out = a.new_empty((found.nnzb, *found.block), dtype=_arrays.torch_dtype(result_kind(_arrays.kind_of(a))))
    return _gpu.sampled(a, b, out, found)
