"""The products of tensor parallelism, with the sums over the ranks."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from . import _gpu, _gradients, _torch
from ._epilogues import OF_RESULT
from ._patterns import find

#: Multiprocessors that products leave to a sum beside them: NCCL's all-reduce over NVLink takes as many on two H200s, and waits
#: for the product where it finds fewer.
BESIDE_A_SUM = 32


@dataclass(frozen=True)
class How:
    """What a network is computed with."""

    activation: str
    group: dist.ProcessGroup
    chunks: int
    free: int


def sum_over_ranks(tensor: Tensor, group: dist.ProcessGroup) -> Any:
    """Begins to sum a tensor over the ranks, in place; what is returned waits for it."""
    return dist.all_reduce(tensor, group=group, async_op=True)


@contextlib.contextmanager
def leaving_free(device: torch.device, multiprocessors: int) -> Iterator[None]:
    """Launches leave so many multiprocessors of a GPU free."""
    if device.type != "cuda" or multiprocessors == 0:
        yield
        return
    gpu = _gpu.gpu_of(torch.cuda.current_device() if device.index is None else device.index)
    gpu.leave_free(multiprocessors)
    try:
        yield
    finally:
        gpu.leave_free(0)


@contextlib.contextmanager
def _summed(dx: Tensor | None, group: dist.ProcessGroup, free: int) -> Iterator[None]:
    """Sums a gradient over the ranks, if there is one, while others are computed."""
    if dx is None:
        yield
        return
    work = sum_over_ranks(dx, group)
    with leaving_free(dx.device, free):
        yield
    work.wait()


def column(
    x: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, activation: str, group: dist.ProcessGroup
) -> Tensor:
    """``activation(x @ w.T + bias)``; the gradient of ``x`` is summed over the ranks."""
    x, weight, bias = _torch._cast(x.device.type, x, weight, bias)
    return _shaped(_Column.apply(_flat(x), weight, bias, pattern, activation, group), x)


def row(x: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, group: dist.ProcessGroup) -> Tensor:
    """``x @ w.T`` summed over the ranks, and the bias."""
    x, weight, bias = _torch._cast(x.device.type, x, weight, bias)
    return _shaped(_Row.apply(_flat(x), weight, bias, pattern, group), x)


def ffn(x: Tensor, up: tuple[Tensor, Tensor | None, str], down: tuple[Tensor, Tensor | None, str], how: How) -> Tensor:
    """``activation(x @ up.T + up_bias) @ down.T`` summed over the ranks, and the bias."""
    x, *tensors = _torch._cast(x.device.type, x, up[0], up[1], down[0], down[1])
    return _shaped(_Ffn.apply(_flat(x), *tensors, (up[2], down[2]), how), x)


def _flat(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1]).contiguous()


def _shaped(y: Tensor, x: Tensor) -> Tensor:
    return y.view(*x.shape[:-1], y.shape[-1])


def _bias_of(bias: Tensor | None, group: dist.ProcessGroup) -> Tensor | None:
    """The bias on the rank that adds it."""
    return bias if dist.get_rank(group) == 0 else None


def _summed_product(h: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, how: How) -> Tensor:
    """A product summed over the ranks; of several parts of the rows one is summed while the next is computed."""
    linear = torch.ops.bsr_gemm.linear
    parts, sums = [], []
    for at, part in enumerate(h.chunk(how.chunks)):
        with leaving_free(h.device, how.free if at else 0):
            parts.append(linear(part, weight, bias, pattern))
        sums.append(sum_over_ranks(parts[-1], how.group))
    for work in sums:
        work.wait()
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _activated(x: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, activation: str) -> tuple[Tensor, Tensor]:
    """The result of a layer, and what the derivative of its activation is a function of."""
    op = torch.ops.bsr_gemm.linear
    if activation in OF_RESULT:
        y = op(x, weight, bias, pattern, False, activation)
        return y, y
    kept = op(x, weight, bias, pattern)
    return _gradients.activate(kept, activation), kept


class _Column(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x, weight, bias, pattern, activation, group):
        y, kept = _activated(x, weight, bias, pattern, activation)
        ctx.pattern, ctx.activation, ctx.group, ctx.held = pattern, activation, group, find(pattern)
        ctx.bias_type = None if bias is None else bias.dtype
        ctx.save_for_backward(x, weight, kept)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy):
        x, weight, kept = ctx.saved_tensors
        dz = _gradients.derivative(dy.contiguous(), kept, ctx.activation, kept)
        summed = functools.partial(_summed, group=ctx.group, free=BESIDE_A_SUM)
        gradients = _gradients.layer_gradients(
            ctx.needs_input_grad, dz, x, weight, ctx.bias_type, ctx.pattern, during=summed
        )
        return *gradients, None, None, None


class _Row(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x, weight, bias, pattern, group):
        y = _summed_product(x, weight, _bias_of(bias, group), pattern, How("none", group, 1, 0))
        ctx.pattern, ctx.held = pattern, find(pattern)
        ctx.bias_type = None if bias is None else bias.dtype
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy):
        x, weight = ctx.saved_tensors
        dy, needs, bias_type = dy.contiguous(), ctx.needs_input_grad, ctx.bias_type
        return *_gradients.layer_gradients(needs, dy, x, weight, bias_type, ctx.pattern), None, None


class _Ffn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x, up, up_bias, down, down_bias, patterns, how):
        up_pattern, down_pattern = patterns
        h, kept = _activated(x, up, up_bias, up_pattern, how.activation)
        y = _summed_product(h, down, _bias_of(down_bias, how.group), down_pattern, how)
        ctx.patterns, ctx.how = patterns, how
        ctx.held = (find(up_pattern), find(down_pattern))
        ctx.bias_types = tuple(None if bias is None else bias.dtype for bias in (up_bias, down_bias))
        ctx.save_for_backward(x, up, down, h, kept)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy):
        x, up, down, h, kept = ctx.saved_tensors
        (up_pattern, down_pattern), how, needs = ctx.patterns, ctx.how, ctx.needs_input_grad
        op, dy = torch.ops.bsr_gemm, dy.contiguous()
        dz, sums = op.linear_gradient(dy, down, kept, down_pattern, False, how.activation)
        dx, work = None, None
        if needs[0]:
            dx = op.linear(dz, up, None, up_pattern, True)
            work = sum_over_ranks(dx, how.group)
        # What follows needs nothing of the other ranks.
        with leaving_free(dz.device, how.free if work is not None else 0):
            d_up = _gradients.weight_gradient(dz, x, up_pattern) if needs[1] else None
        d_down = _gradients.weight_gradient(dy, h, down_pattern) if needs[3] else None
        up_type, down_type = ctx.bias_types
        d_up_bias = sums.to(up_type) if up_type is not None and needs[2] else None
        d_down_bias = _gradients.column_sums(dy).to(down_type) if down_type is not None and needs[4] else None
        if work is not None:
            work.wait()
        return dx, d_up, d_up_bias, d_down, d_down_bias, None, None
