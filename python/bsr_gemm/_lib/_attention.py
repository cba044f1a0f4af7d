"""Block-sparse attention for PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from . import _arrays, _native
from ._block_choice import DEFAULT
from ._calls import Call, Layout, capped, described, keys_of, spec_of
from ._kernels import Kernel, Simulation
from ._masks import find

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Unpack


class _How(TypedDict, total=False):
    """How an attention is computed: see :func:`attention`."""

    causal: bool
    mask: str | None
    score: str | None
    softcap: float | None
    numbers: Mapping[str, Any] | Sequence[float]
    scale: float | None
    layout: Layout
    block: tuple[int, int] | None
    split: Literal["auto"] | int | None
    pdl: bool
    sinks: Tensor | None
    scales: Sequence[Any] | None
    out: Tensor | None
    lse_base: Literal["e", 2]
    workspace: Tensor | None


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, pattern: Any = ..., *, lse: Literal[False] = ..., **how: Unpack[_How]
) -> Tensor: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, pattern: Any = ..., *, lse: Literal[True] | Tensor, **how: Unpack[_How]
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, pattern: Any = ..., *, lse: bool | Tensor, **how: Unpack[_How]
) -> Tensor | tuple[Tensor, Tensor]: ...
def attention(
    q: Any,
    k: Any,
    v: Any,
    pattern: Any = None,
    *,
    causal: bool = False,
    mask: str | None = None,
    score: str | None = None,
    softcap: float | None = None,
    numbers: Mapping[str, Any] | Sequence[float] = (),
    scale: float | None = None,
    lse: bool | Tensor = False,
    layout: Layout = "bhsd",
    block: tuple[int, int] | None = None,
    split: Literal["auto"] | int | None = None,
    pdl: bool = False,
    sinks: Tensor | None = None,
    scales: Sequence[Any] | None = None,
    out: Tensor | None = None,
    lse_base: Literal["e", 2] = "e",
    workspace: Tensor | None = None,
) -> Any:
    """``softmax(scale * q k^T) v``, where ``q k^T`` is computed in the blocks of a mask alone.

    ``q`` is problems x heads x queries x columns (``layout="bshd"``: problems x queries x heads x columns); ``k`` and ``v`` have
    as many heads or fewer, each of which serves neighbouring heads of ``q``; ``v`` may have other columns. ``pattern`` is an :class:`AttentionMask`, a
    :class:`DeviceMask` or FlexAttention's ``BlockMask``; without one every block in which a pair may count is computed, of ``block``
    queries and keys, or on a Hopper of those that should be the fastest: windows take smaller ones, and so do few queries.

    ``mask`` is a condition under which a pair counts: ``"i >= j && i - j < 128"``, of the numbers ``i`` and ``j`` of query and key,
    of ``head`` and ``batch``, and of parameters that ``numbers`` give, ``"|a: Rows<f32>, b: Cols<f32>| a == b"``. A pair counts if
    its block is stored, the condition of ``pattern`` holds where that block is partial, and ``mask`` holds. ``causal=True`` is
    ``mask="i >= j"``, and may be given beside another one.

    ``score`` is the score of every such pair, in the language of epilogues: ``"s * scale - 0.1 * (i - j)"``, or a closure with
    parameters, ``"|slope: f32| s * scale - slope * j"``. It may leave pairs out itself: ``"if i >= j { s * scale } else { -inf }"``.
    Parameters may be vectors, too: ``"|slopes: Heads<f32>| .."`` has an element for each head, ``Rows`` for each query, ``Cols`` for
    each key; with dimensions for problems and heads before it where those differ (problems x elements, or problems x heads x
    elements, where 1 stands for all). Tensors among them that require a gradient have one, those of one number, too. ``softcap=50.0`` is the score
    ``50 * tanh(s * scale / 50)``. ``scale`` is 1 / sqrt(columns) unless it is given.

    ``split`` has several CTAs of a GPU share the keys of long tiles, which few queries or heads leave it: ``"auto"``, or 2 to 16.
    Up to 16 queries it is ``"auto"`` unless given, and heads of ``q`` that share a head of ``k`` share tiles.
    On the CPU, and with a mask on a GPU, nothing is divided.

    With ``pdl`` the kernel begins while the one ahead of it in its stream ends (programmatic dependent launch): it prepares itself, and reads
    memory once that one is done. The result is the same.

    ``sinks`` are a logit of each head, in the units of a score, that takes part in the softmax of every query and has no value:
    the result is ``sum(exp(score) * v) / (exp(sink) + sum(exp(score)))``. They have a gradient.

    ``q``, ``k`` and ``v`` may be of ``float8_e4m3fn``: the result is then in bfloat16, and has no gradient. ``scales`` are their three factors,
    by which values are what is stored times them: numbers, or tensors of float32 for each head of ``k``, or for problems x heads of ``k``;
    or all three for problems x heads x blocks of rows, of ``q`` in blocks of ``block[0]``, of ``k`` and ``v`` of ``block[1]``.
    :func:`quantise_attention` makes all of these. On a GPU a copy of ``v`` by columns is made in each call, unless it is given so, as
    :class:`ValuesByColumn`.

    A query without any key has zeros. With ``lse`` the result is a pair of it and the logarithm of each query's sum of
    exponentials, that of the sink included, problems x heads x queries: the natural one, or with ``lse_base=2`` the binary one.

    ``out`` and, where it is a tensor, ``lse`` get the results, which then have no gradient; ``out`` is in the order of ``layout``.
    Where keys are divided, ``workspace`` takes the sums that CTAs pass on to each other: :func:`attention_workspace` elements, zeros
    before the first call with it.
    """
    if scales is not None or _is_float8(q):
        from . import _attention_float8_known

        how = (causal, mask, score, softcap, scale, lse, layout, block, split, pdl, lse_base)
        return _attention_float8_known.attention(q, k, v, pattern, how, numbers, sinks, scales, (out, workspace))
    if out is None and workspace is None and isinstance(lse, bool) and not _arrays.in_graph():
        how = (causal, mask, score, softcap, scale, lse, layout, block, split, pdl, lse_base)
        found = _known().attention(q, k, v, pattern, how, numbers, sinks)
        if found is not None:
            return found
    # First of all: PyTorch's compiler is told there which functions are constants.
    from . import _attention_torch
    from ._results import Results

    how = (causal, mask, capped(score, softcap))
    call = _attention_torch.call_of(q, k, v, pattern, how, numbers, scale, layout, block, keys_of(split, pdl), sinks)
    results = Results(call.in_order(out), lse, lse_base, workspace)
    return _attention_torch.attention(call, results, keys_of(split, pdl), sinks)


def attention_workspace(
    q: Any,
    k: Any,
    v: Any,
    pattern: Any = None,
    *,
    causal: bool = False,
    mask: str | None = None,
    score: str | None = None,
    softcap: float | None = None,
    numbers: Mapping[str, Any] | Sequence[float] = (),
    scale: float | None = None,
    layout: Layout = "bhsd",
    block: tuple[int, int] | None = None,
    split: Literal["auto"] | int | None = None,
    sinks: Tensor | None = None,
) -> int:
    """How many elements the ``workspace`` of such a call of :func:`attention` has: 0 where no keys are divided, as on the CPU.

    The tensor is a vector of float32 that is zeros before the first call with it. It serves calls with tensors of the same shapes and
    the same settings, one after the other on one stream, and is not written by anything else between them.
    """
    from . import _attention_torch

    how = (causal, mask, capped(score, softcap))
    call = _attention_torch.call_of(q, k, v, pattern, how, numbers, scale, layout, block, keys_of(split), sinks)
    return _attention_torch.workspace(call, keys_of(split), sinks)


def _is_float8(q: Any) -> bool:
    dtype = getattr(q, "dtype", None)
    # Words of a type take longer than its size.
    return getattr(dtype, "itemsize", 1) == 1 and "float8" in str(dtype)


@functools.cache
def _known() -> Any:
    """What needs PyTorch, imported when it is there."""
    from . import _attention_known

    return _attention_known


def simulate_attention(
    q: Any,
    k: Any,
    v: Any,
    pattern: Any = None,
    *,
    causal: bool = False,
    mask: str | None = None,
    score: str | None = None,
    softcap: float | None = None,
    numbers: Mapping[str, Any] | Sequence[float] = (),
    scale: float | None = None,
    layout: Layout = "bhsd",
    block: tuple[int, int] | None = None,
    split: Literal["auto"] | int | None = None,
    pdl: bool = False,
    sinks: Tensor | None = None,
    scales: Sequence[Any] | None = None,
    seed: int = 0,
) -> Simulation:
    """Runs the PTX of :func:`attention`'s kernel on the CPU, instruction by instruction, and looks for its defects.

    The tensors are on the CPU, of f16, bf16 or float8_e4m3fn, and small. The second result are the logarithms of the sums of exponentials.
    """
    import torch

    from . import _sinks

    how = (causal, mask, capped(score, softcap))
    call = Call.of(q, k, v, pattern, how, numbers, scale, layout, DEFAULT if block is None else block)
    found = find(call.key, (call.q.shape[2], call.k.shape[2]))
    of_heads = _sinks.read(sinks, call.q)
    dtype, factors = q.dtype, None
    if scales is not None or _is_float8(q):
        from . import _attention_float8

        dtype, factors = torch.bfloat16, _attention_float8.factors_of(scales, call.q, call.k)
        given = of_heads is not None, _attention_float8.scale_word(factors)
        _attention_float8._check_factors(call, factors, found.block)
        kernel = Kernel(_attention_float8.spec_of_float8(call, found.block, keys_of(split, pdl), *given))
    else:
        columns, how = (q.shape[-1], v.shape[-1]), (call.closure, keys_of(split, pdl))
        kernel = Kernel(spec_of(found.block, columns, _arrays.kind_of(q), *how, has_sinks=of_heads is not None))
    tensors = [described(tensor) for tensor in (call.q, call.k, call.v)]
    vectors = [described(vector) for vector in call.vectors]
    data, sums, findings, cost = _native.simulate_attention(
        kernel._native,
        found._native,
        tensors,
        call.scale,
        list(call.numbers),
        vectors,
        seed,
        None if of_heads is None else of_heads.tolist(),
        None if factors is None else [factor.reshape(-1).tolist() for factor in factors],
    )
    shape = (*call.q.shape[:3], call.v.shape[3])
    out = (
        torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape) if data else call.q.new_zeros(shape, dtype=dtype)
    )
    rows = np.array(sums, dtype=np.float32).reshape(tuple(call.q.shape[:3]))
    return Simulation(call.as_given(out), rows, findings, *cost)
