"""Gradients of the operators: those of reverse mode, of forward mode, and under the transforms of torch.func."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ._epilogues import OF_RESULT, check_activation
from ._operators import once
from ._patterns import find


def activate(z: Tensor, activation: str) -> Tensor:
    """The activation as a separate step."""
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
    return check_activation(activation)  # type: ignore[return-value]


def derivative(dy: Tensor, y: Any, activation: str, z: Any) -> Tensor:
    """The gradient of an activation's input ``z``; some need only the activation's result."""
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


def keep_linear(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, weight, bias, pattern, transpose, activation, *places = inputs
    ctx.pattern, ctx.transpose, ctx.activation = pattern, transpose, activation
    # The matrix may get another pattern before the gradients are computed.
    ctx.held = find(pattern) if places[0] is None else None
    # What an activation was given is made once more where its derivative needs it.
    ctx.save_for_backward(x, weight, bias, None if activation == "none" else output, *places)


def linear_backward(ctx: Any, dy: Tensor) -> tuple:
    x, weight, bias, y, *places = ctx.saved_tensors
    op, key = torch.ops.bsr_gemm, ctx.pattern
    with torch.no_grad():
        z = None
        if ctx.activation not in OF_RESULT:
            z = op.linear(x, weight, bias, key, ctx.transpose, "none", *places)
        dz = derivative(dy, y, ctx.activation, z)
        gradients = layer_gradients(ctx.needs_input_grad, dz, x, weight, bias, key, ctx.transpose, places)
    return *once(gradients, dy, x, weight, bias), *(None,) * 5


def layer_gradients(
    needs: Sequence[bool],
    dz: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | torch.dtype | None,
    pattern: str,
    transpose: bool = False,
    places: Sequence[Tensor | None] = (None, None),
    during: Callable[[Tensor | None], AbstractContextManager] = nullcontext,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Those of a layer's input, weight and bias (or of a bias of this type) which are needed, from that of its product.

    ``during`` is given the first one, and is the context in which the others are computed.
    """
    dx = torch.ops.bsr_gemm.linear(dz, weight, None, pattern, not transpose, "none", *places) if needs[0] else None
    with during(dx):
        dw = weight_gradient(dz, x, pattern, transpose, places) if needs[1] else None
        dtype = bias.dtype if isinstance(bias, Tensor) else bias
        db = column_sums(dz).to(dtype) if dtype is not None and needs[2] else None
    return dx, dw, db


def weight_gradient(
    dz: Tensor, x: Tensor, pattern: str, transpose: bool = False, places: Sequence[Tensor | None] = (None, None)
) -> Tensor:
    a, b = (x.t(), dz) if transpose else (dz.t(), x)
    return torch.ops.bsr_gemm.sddmm(a, b, pattern, *places)


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


def keep_sddmm(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, pattern, *places = inputs
    ctx.pattern, ctx.held = pattern, find(pattern) if places[0] is None else None
    ctx.save_for_backward(a, b, *places)


def sddmm_backward(ctx: Any, ds: Tensor) -> tuple:
    a, b, *places = ctx.saved_tensors
    op, key = torch.ops.bsr_gemm, ctx.pattern
    with torch.no_grad():
        da = op.linear(b, ds, None, key, False, "none", *places).t() if ctx.needs_input_grad[0] else None
        db = op.linear(a.t(), ds, None, key, True, "none", *places) if ctx.needs_input_grad[1] else None
    return *once((da, db), ds, a, b), *(None,) * 3


def functions_of(name: str, keep: Callable, backward: Callable, jvp: Callable) -> tuple[Callable, Callable]:
    """The operator ``name`` for transforms of torch.func and for forward mode, which plain operators do not support, and for a
    plain gradient: that of an operator takes the host longer, and so does a function with ``setup_context``.

    ``jvp(ctx, product, operands, tangents)`` is given the operator and what both had saved: its tensors and its result.
    """

    def tensors(values: tuple) -> tuple:
        return tuple(value for value in values if value is None or isinstance(value, Tensor))

    class Transformable(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs: Any) -> Tensor:
            return getattr(torch.ops.bsr_gemm, name)(*inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
            keep(ctx, inputs, output)
            ctx.save_for_forward(*tensors(inputs), output)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple:
            return backward(ctx, gradient)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Tensor:
            return jvp(ctx, Transformable.apply, ctx.saved_tensors, tangents)

    class Eager(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Tensor:
            output = getattr(torch.ops.bsr_gemm, name)(*inputs)
            keep(ctx, inputs, output)
            return output

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple:
            return backward(ctx, gradient)

    return Transformable.apply, Eager.apply


def _product_rule(product: Callable, a: Tensor, b: Tensor, da: Tensor | None, db: Tensor | None) -> list[Tensor]:
    """The parts of the tangent of what is linear in each of two operands."""
    first = [] if da is None else [product(da, b)]
    return first if db is None else [*first, product(a, db)]


def _linear_jvp(ctx: Any, apply: Callable, saved: tuple, tangents: tuple) -> Tensor:
    x, weight, bias, *places, y = saved

    def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return apply(x, weight, bias, ctx.pattern, ctx.transpose, "none", *places)

    dx, dw, db, *_ = tangents
    parts = _product_rule(product, x, weight, dx, dw)
    parts += [] if db is None else [db.to(y.dtype).expand_as(y)]
    z = None if ctx.activation in OF_RESULT else product(x, weight, bias)
    return derivative(sum(parts[1:], parts[0]), y, ctx.activation, z)


def _sddmm_jvp(ctx: Any, apply: Callable, saved: tuple, tangents: tuple) -> Tensor:
    a, b, *places, _ = saved
    parts = _product_rule(lambda a, b: apply(a, b, ctx.pattern, *places), a, b, *tangents[:2])
    return sum(parts[1:], parts[0])


linear_transformed, linear_eager = functions_of("linear", keep_linear, linear_backward, _linear_jvp)
sddmm_transformed, sddmm_eager = functions_of("sddmm", keep_sddmm, sddmm_backward, _sddmm_jvp)
