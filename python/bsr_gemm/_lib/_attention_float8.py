"""Attention of float8: Q, K and V of e4m3 with factors, forward only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from . import _arrays, _attention_torch, _float8_blocks, _gpu, _sinks
from ._calls import Call, spec_of
from ._float8_blocks import QuantisedAttention
from ._float8_values import KIND, ValuesByColumn, by_column
from ._native import Error
from ._results import Results


def quantise_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    per: Literal["tensor", "head", "both", "block"] = "head",
    block: tuple[int, int] = (128, 128),
) -> QuantisedAttention:
    """Rounds ``q``, ``k`` and ``v``, problems x heads x rows x columns, to ``torch.float8_e4m3fn``: each divided by the largest
    magnitude of its tensor, of a head of ``k``, with ``per="both"`` of a head of ``k`` of each problem, or with ``per="block"`` of
    ``block[0]`` rows of a head of ``q`` and ``block[1]`` rows of a head of ``k`` and ``v``, times 448.

    ``bsr.attention(*found[:3], scales=found.scales)`` is then the attention of what was rounded; with scales of blocks it is given
    ``block``, too.
    """
    if per not in ("tensor", "head", "both", "block"):
        raise Error(f"per = {per!r}\n  help: 'tensor', 'head', 'both' or 'block'")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        _arrays.check_dimensions(name, tensor, "bhsd")
    heads = k.shape[1]
    if heads == 0 or q.shape[1] % heads:
        raise Error(f"{heads} heads of k do not divide the {q.shape[1]} of q")
    if per == "block":
        return _float8_blocks.quantise(q, k, v, block)
    largest, rounded, scales = torch.finfo(KIND).max, [], []
    for tensor in (q, k, v):
        wide = tensor.detach().float().unflatten(1, (heads, -1))
        over = {"tensor": (0, 1, 2, 3, 4), "head": (0, 2, 3, 4), "both": (2, 3, 4)}[per]
        most = wide.abs().amax(over, keepdim=True) if wide.numel() else wide.new_zeros(_one(wide.shape, over))
        factor = torch.where(most > 0, (most / largest).clamp_min(torch.finfo(torch.float32).tiny), 1.0)
        rounded.append((wide / factor).clamp(-largest, largest).to(KIND).flatten(1, 2))
        shape = {"tensor": (), "head": (heads,), "both": (k.shape[0], heads)}[per]
        scales.append(factor.reshape(shape))
    return QuantisedAttention(*rounded, tuple(scales))


def _one(shape: Any, over: tuple[int, ...]) -> list[int]:
    return [1 if at in over else size for at, size in enumerate(shape)]


def attention(
    call: Call,
    results: Results,
    spec_keys: str | None,
    sinks: Any,
    scales: Any,
    values: ValuesByColumn | None = None,
    keep: Callable[[Any, Any], None] | None = None,
) -> Any:
    """The result of a call, in bfloat16, and the logarithms of sums where they are wanted.

    ``values`` are V where it is by columns: the call has a stand-in of its sizes. ``keep`` is given the launch and how many factors
    Q, K and V have each, where further calls with such tensors may take it.
    """
    q, k, v = call.q, call.k, call.v
    _attention_torch._check(q, k, v)
    if q.dtype is not KIND:
        raise Error(
            f"scales are given, and q, k and v are of {q.dtype}\n"
            "  help: float8_e4m3fn, which `quantise_attention` makes, or no scales"
        )
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *call.vectors)):
        raise Error(
            "an attention of float8 has no gradient\n"
            "  help: `detach()` what requires one, or attention of bfloat16 for training"
        )
    if results.workspace is not None:
        raise Error("an attention of float8 has a workspace of its own\n  help: leave out `workspace`")
    # O has the sizes of Q, and another type.
    results.check(q.new_empty(1, dtype=torch.bfloat16).expand(q.shape), v, is_plain=True)
    factors, sinks = factors_of(scales, q, k), _sinks.read(sinks, q)
    if sinks is not None and torch.is_grad_enabled() and sinks.requires_grad:
        raise Error("an attention of float8 has no gradient\n  help: `detach()` the sinks")
    with torch.no_grad():
        if is_on_gpu(q):
            out, sums = _on_gpu(call, factors, results, sinks, spec_keys, values, keep)
        else:
            call.v = v if values is None else values.to_rows()
            out, sums = _on_cpu(call, factors, results.wants_sums, sinks, spec_keys)
        out, sums = results.written(out, sums, True)
    out = call.as_given(out)
    return (out, sums) if results.wants_sums else out


def is_on_gpu(q: Tensor) -> bool:
    """Whether kernels compute it."""
    return q.is_cuda


def factors_of(scales: Any, q: Tensor, k: Tensor) -> list[Tensor] | None:
    """The factors of Q, K and V: all of one shape, of nothing, of heads of ``k``, or of problems x heads; or those of blocks, problems x
    heads x blocks of each."""
    if scales is None:
        return None
    if not isinstance(scales, tuple | list) or len(scales) != 3:
        raise Error("scales are no three\n  help: (of q, of k, of v): numbers, or tensors by head of k")
    if are_of_blocks(scales):
        return _float8_blocks.factors_of(scales, q, k)
    shapes = ((), (k.shape[1],), (q.shape[0], k.shape[1]))
    found = []
    for name, scale in zip("qkv", scales):
        factor = torch.as_tensor(scale, dtype=torch.float32, device=q.device)
        if factor.numel() == 1:
            factor = factor.reshape(())
        if tuple(factor.shape) not in shapes:
            raise Error(
                f"the scale of {name} is {list(factor.shape)}\n"
                f"  help: one number, one for each of the {k.shape[1]} heads of k, or {q.shape[0]} problems x {k.shape[1]} heads"
            )
        found.append(factor)
    return [factor.contiguous() for factor in torch.broadcast_tensors(*found)]


def are_of_blocks(scales: Any) -> bool:
    """Whether three scales are those of blocks: the others have at most two dimensions."""
    return isinstance(scales, (list, tuple)) and any(getattr(scale, "ndim", 0) > 2 for scale in scales)


def dequantised(tensor: Tensor, factor: Tensor | None, heads: int, block: int = 1) -> Tensor:
    """A tensor in float32, times its factor by head of ``k``, or by ``block`` rows of its own heads."""
    wide = tensor.float()
    if factor is None:
        return wide
    if factor.ndim > 2:
        return wide * factor.repeat_interleave(block, 2)[:, :, : wide.shape[2], None]
    return (wide.unflatten(1, (heads, -1)) * factor.expand(wide.shape[0], heads)[:, :, None, None, None]).flatten(1, 2)


def _on_cpu(
    call: Call, factors: list[Tensor] | None, lse: bool, sinks: Any, spec_keys: str | None
) -> tuple[Tensor, Tensor]:
    heads = call.k.shape[1]
    block = _attention_torch._found(call.q, call.k, call.key).block
    _check_factors(call, factors, block)
    rows = (block[0], block[1], block[1])
    wide = [dequantised(x, f, heads, b) for x, f, b in zip((call.q, call.k, call.v), factors or (None,) * 3, rows)]
    how = (call.key, call.closure, call.scale, list(call.numbers), lse)
    out, sums = torch.ops.bsr_gemm.attention(*wide, sinks, *how, call.vectors, spec_keys)
    return out.to(torch.bfloat16), sums


def _check_factors(call: Call, factors: list[Tensor] | None, block: tuple[int, int]) -> None:
    """Refuses factors of blocks that are not as many as those of the mask."""
    if are_of_blocks(factors):
        _float8_blocks.check(factors, call.q, call.k, block)


def scale_word(scales: Any) -> str | None:
    """What a spec says of scales."""
    if scales is None:
        return None
    return "block" if are_of_blocks(scales) else "tensor"


def spec_of_float8(
    call: Call, block: tuple[int, int], spec_keys: str | None, has_sinks: bool, factors: str | None
) -> str:
    """The spec of a kernel; ``factors`` is the word of their key."""
    columns = call.q.shape[3], call.v.shape[3]
    return in_float8(spec_of(block, columns, "bf16", call.closure, spec_keys, has_sinks=has_sinks), factors)


def in_float8(of_bf16: str, factors: str | None) -> str:
    """The spec of Q, K and V in float8 and O in bfloat16, of that of an attention in bfloat16."""
    scale = "" if factors is None else f", scale = {factors}"
    return of_bf16.replace("dtype = bf16", f"dtype = e4m3, out = bf16{scale}", 1)


def _on_gpu(
    call: Call,
    factors: list[Tensor] | None,
    results: Results,
    sinks: Any,
    spec_keys: str | None,
    values: ValuesByColumn | None,
    keep: Callable[[Any, Any], None] | None,
) -> tuple[Tensor, Tensor]:
    from . import _attention_launch as launches
    from . import _native
    from ._launch import _stream
    from ._operands import vector_of

    q, k, v = call.q, call.k, call.v
    _gpu.refuse_fork()
    mask = _attention_torch._found(q, k, call.key)
    _check_factors(call, factors, mask.block)
    shape = (*q.shape[:3], v.shape[3])
    lse = results.wants_sums
    out = q.new_empty(shape, dtype=torch.bfloat16) if results.out is None else results.out
    sums = results.sums
    # The kernel writes LSE row by row without gaps; any other tensor gets a copy.
    if sums is None or not sums.is_contiguous():
        sums = q.new_empty(shape[:3] if lse else (0,), dtype=torch.float32)
    if math.prod(shape) == 0:
        return out, sums
    if k.shape[2] == 0:
        return out.zero_(), _attention_torch._without_keys(sums, sinks)
    index = q.device.index
    with _gpu.OnDevice(index):
        spec = spec_of_float8(call, mask.block, spec_keys, sinks is not None, scale_word(factors))
        loaded = launches._kernel(index, [spec])
        work = launches._work_of(index, loaded, mask, tuple(q.shape), tuple(v.shape))
        of_v = by_column(v) if values is None else values.data
        operands = [launches._addressable(q), launches._addressable(k), of_v]
        read = [vector_of(vector) for vector in call.vectors]
        extents = [launches._extent(vector) for vector in read]
        read += [] if sinks is None else [vector_of(sinks)]
        read += [vector_of(factor.reshape(-1)) for factor in factors or ()]
        counts = None if factors is None else [factor.numel() for factor in factors]
        result = launches._addressable(out)
        layouts = launches._layouts([*operands, result])
        ready = _native.ReadyAttention(loaded, work, layouts, call.scale, list(call.numbers), extents, counts)
        launch = mask.launching(ready.launch) if mask.on_device else ready.launch
        places = [tensor.data_ptr() for tensor in (*operands, result)]
        launch(*places, sums.data_ptr() if lse else 0, _stream(index), *(x.data_ptr() for x in read))
        if keep is not None and operands[0] is q and operands[1] is k:
            keep(launch, counts)
        if result is not out:
            out.copy_(result)
    return out, sums
