"""Gradients of the operators: those of reverse mode, of forward mode, and under the transforms of torch.func."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._library import autograd as of_operators
from torch.autograd import forward_ad

from ._native import Error
from ._patterns import find
from ._products import OF_RESULT, check_activation

transforms = torch._C._functorch.peek_interpreter_stack


def derivative(dy: Tensor, y: Any, activation: str, z: Any) -> Tensor:
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
    return check_activation(activation)  # type: ignore[return-value]


def sums_in(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


class _Once(torch.autograd.Function):
    """Gradients that have none themselves."""

    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *tensors: Tensor | None) -> tuple:
        # Those after the first are what the gradients were computed of.
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise Error(
            "the second derivative of a block-sparse product is not computed\n"
            "  help: leave out `create_graph=True`, or take the gradient of `w.to_dense()` times x"
        )


def once(gradients: tuple, *of: Tensor | None) -> tuple:
    """Gradients, with the refusal of theirs where a graph of them is recorded."""
    if not torch.is_grad_enabled():
        return gradients
    return _Once.apply(len(gradients), *gradients, *of)


def keep_linear(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, weight, bias, pattern, transpose, activation, *places = inputs
    ctx.pattern, ctx.transpose, ctx.activation = pattern, transpose, activation
    # The matrix may get another pattern before the gradients are asked for.
    ctx.held = find(pattern) if places[0] is None else None
    ctx.has_bias = bias is not None
    # What an activation was given is made once more where its derivative needs it.
    ctx.save_for_backward(x, weight, bias, output if activation not in ("none",) else None, *places)


def linear_backward(ctx: Any, dy: Tensor) -> tuple:
    x, weight, bias, y, *places = ctx.saved_tensors
    op, key = torch.ops.bsr_gemm, ctx.pattern
    with torch.no_grad():
        z = None
        if ctx.activation not in OF_RESULT:
            z = op.linear(x, weight, bias, key, ctx.transpose, "none", *places)
        dz = derivative(dy, y, ctx.activation, z)
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = op.linear(dz, weight, None, key, not ctx.transpose, "none", *places)
        if ctx.needs_input_grad[1]:
            dw = weight_gradient(dz, x, key, ctx.transpose, places)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            db = column_sums(dz).to(bias.dtype)
    return *once((dx, dw, db), dy, x, weight, bias), *(None,) * 5


def weight_gradient(
    dz: Tensor, x: Tensor, pattern: str, transpose: bool = False, places: Sequence[Tensor | None] = (None, None)
) -> Tensor:
    a, b = (x.t(), dz) if transpose else (dz.t(), x)
    return torch.ops.bsr_gemm.sampled(a, b, pattern, *places)


def column_sums(dz: Tensor) -> Tensor:
    return dz.sum(0, dtype=sums_in(dz))


def keep_ffn(ctx: Any, inputs: tuple, output: tuple) -> None:
    x, up, up_bias, down, down_bias, up_pattern, down_pattern, activation, *places = inputs
    _, h, z = output
    ctx.patterns, ctx.activation = (up_pattern, down_pattern), activation
    ctx.held = [find(key) for key, place in zip(ctx.patterns, places[::2]) if place is None]
    ctx.mark_non_differentiable(h, z)
    # h and z have no gradients: zeros of their size would be two passes over the hidden features.
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, up, up_bias, down, down_bias, h, z, *places)


def ffn_backward(ctx: Any, dy: Tensor | None, *_: Any) -> tuple:
    x, up, up_bias, down, down_bias, h, z, *places = ctx.saved_tensors
    (up_pattern, down_pattern), needs = ctx.patterns, ctx.needs_input_grad
    of_up, of_down = places[:2], places[2:]
    if dy is None:
        return (None,) * len(needs)
    op = torch.ops.bsr_gemm
    with torch.no_grad():
        kept = h if ctx.activation in OF_RESULT else z
        dy = dy.contiguous()
        # The activation's derivative and the sums for the bias are the epilogue of the product.
        dz, sums = op.linear_gradient(dy, down, kept, down_pattern, False, ctx.activation, *of_down)
        gradients = (
            op.linear(dz, up, None, up_pattern, True, "none", *of_up) if needs[0] else None,
            weight_gradient(dz, x, up_pattern, False, of_up) if needs[1] else None,
            sums.to(up_bias.dtype) if up_bias is not None and needs[2] else None,
            weight_gradient(dy, h, down_pattern, False, of_down) if needs[3] else None,
            column_sums(dy).to(down_bias.dtype) if down_bias is not None and needs[4] else None,
        )
    return *once(gradients, dy, x, up, up_bias, down, down_bias), *(None,) * 7


def keep_sampled(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, pattern, *places = inputs
    ctx.pattern, ctx.held = pattern, find(pattern) if places[0] is None else None
    ctx.save_for_backward(a, b, *places)


def sampled_backward(ctx: Any, ds: Tensor) -> tuple:
    a, b, *places = ctx.saved_tensors
    op, key = torch.ops.bsr_gemm, ctx.pattern
    with torch.no_grad():
        da = op.linear(b, ds, None, key, False, "none", *places).t() if ctx.needs_input_grad[0] else None
        db = op.linear(a.t(), ds, None, key, True, "none", *places) if ctx.needs_input_grad[1] else None
    return *once((da, db), ds, a, b), *(None,) * 3


class Linear(torch.autograd.Function):
    """The operator ``linear`` where transforms of torch.func or forward mode ask for it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return torch.ops.bsr_gemm.linear(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        keep_linear(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:3], output, *inputs[6:])

    backward = staticmethod(linear_backward)

    @staticmethod
    def jvp(ctx: Any, dx: Tensor | None, dw: Tensor | None, db: Tensor | None, *_: Any) -> Tensor:
        x, weight, bias, y, *places = ctx.saved_tensors

        def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            return Linear.apply(x, weight, bias, ctx.pattern, ctx.transpose, "none", *places)

        parts = [] if dx is None else [product(dx, weight, None)]
        parts += [] if dw is None else [product(x, dw, None)]
        parts += [] if db is None else [db.to(y.dtype).expand_as(y)]
        z = None if ctx.activation in OF_RESULT else product(x, weight, bias)
        return derivative(sum(parts[1:], parts[0]), y, ctx.activation, z)


class Sampled(torch.autograd.Function):
    """The operator ``sampled`` where transforms of torch.func or forward mode ask for it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return torch.ops.bsr_gemm.sampled(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        keep_sampled(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2], *inputs[3:])

    backward = staticmethod(sampled_backward)

    @staticmethod
    def jvp(ctx: Any, da: Tensor | None, db: Tensor | None, *_: Any) -> Tensor:
        a, b, *places = ctx.saved_tensors
        parts = [] if da is None else [Sampled.apply(da, b, ctx.pattern, *places)]
        parts += [] if db is None else [Sampled.apply(a, db, ctx.pattern, *places)]
        return sum(parts[1:], parts[0])


def is_transformed() -> bool:
    """Whether a transform of torch.func or forward mode asks for a product, which operators alone do not serve."""
    return not torch.compiler.is_dynamo_compiling() and (transforms() is not None or forward_ad._current_level >= 0)


def register(library: torch.library.Library, name: str, backward: Callable, keep: Callable | None = None) -> None:
    """Gives an operator its gradient, a refusal of derivatives that it does not have, and a rule for ``vmap``.

    What runs below computes no gradients of its own.
    """
    op = getattr(torch.ops.bsr_gemm, name).default
    differentiated = of_operators.make_autograd_impl(op, of_operators.Info(backward, keep))

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_forward(name, args)
        if transforms() is not None and torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
            raise Error(
                f"`torch.ops.bsr_gemm.{name}` has no gradient under a transform of torch.func\n"
                "  help: `bsr_gemm.linear`, `sampled`, `attention` and the layers have one"
            )
        return differentiated(keyset, *args, **kwargs)

    library.impl(name, kernel, "Autograd", with_keyset=True)
    register_vmap(library, name)


def register_vmap(library: torch.library.Library, name: str) -> None:
    """Gives an operator a rule for ``vmap``: one call for each element of a batch, and one for all where only ``x`` has it."""
    op = getattr(torch.ops.bsr_gemm, name).default

    def mapped(info: Any, in_dims: tuple, *args: Any, **kwargs: Any) -> Any:
        if name == "linear" and in_dims[0] is not None and not any(dim is not None for dim in in_dims[1:]):
            x = args[0].movedim(in_dims[0], 0)
            y = op(x.reshape(-1, x.shape[-1]), *args[1:], **kwargs)
            return y.view(*x.shape[:-1], y.shape[-1]), 0
        results = [
            op(*(_at(arg, dim, index) for arg, dim in zip(args, in_dims)), **kwargs) for index in range(info.batch_size)
        ]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        return tuple(torch.stack(parts) for parts in zip(*results)), (0,) * len(results[0])

    torch.library.register_vmap(f"bsr_gemm::{name}", mapped, lib=library)


def refuse_forward(name: str, args: Sequence[Any]) -> None:
    """Refuses tensors with a tangent, which an operator would drop."""
    if forward_ad._current_level >= 0 and any(_has_tangent(arg) for arg in args):
        raise Error(
            f"`torch.ops.bsr_gemm.{name}` has no derivative in forward mode\n  help: `bsr_gemm.linear` and `sampled`, "
            "and the layers, have a first one; of all else there is the gradient (`torch.func.vjp`, `jacrev`)"
        )


def _has_tangent(arg: Any) -> bool:
    if isinstance(arg, (list, tuple)):
        return any(_has_tangent(part) for part in arg)
    return isinstance(arg, Tensor) and forward_ad.unpack_dual(arg, level=0).tangent is not None


def _at(arg: Any, dim: Any, index: int) -> Any:
    """One element of a batch; all of what is not batched."""
    if isinstance(arg, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_at(part, of, index) for part, of in zip(arg, dim)]
    return arg if dim is None else arg.select(dim, index)
