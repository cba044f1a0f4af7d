"""Attention of sequences of different lengths that are packed along the rows, as FlashAttention's ``varlen`` calls are."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from . import _arrays, _native, _sinks, _torch
from ._attention import attention
from ._calls import capped
from ._masks import AttentionMask
from ._native import Error
from ._operators import is_transformed
from ._patterns import _pair
from ._ranges import RANGE, attention_of_ranges
from ._results import Results

#: The most keys that a score numbers in f32.
MOST_KEYS = 1 << 24

Starts = Tensor | Sequence[int]


def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Starts,
    cu_seqlens_k: Starts | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    *,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float | None = None,
    scale: float | None = None,
    lse: bool | Tensor = False,
    block: tuple[int, int] = (128, 128),
    split: Literal["auto"] | int | None = None,
    sinks: Tensor | None = None,
    out: Tensor | None = None,
    lse_base: Literal["e", 2] = "e",
) -> Any:
    """Attention of sequences of different lengths, one behind the other, in one launch and without padding.

    ``q`` is queries x heads x columns, ``k`` and ``v`` are keys x heads x columns, of all sequences. ``cu_seqlens_q`` and
    ``cu_seqlens_k`` say where each sequence begins, and then where the last one ends: integers, one more than there are sequences,
    from 0 on. Queries behind the last sequence get zeros. Without ``cu_seqlens_k`` there are as many keys as queries.

    Starts that are numbers, an array, or a tensor on the CPU are read there, and the work of equal ones is listed once. Those that
    are on a GPU stay there: nothing waits, and a CUDA graph serves every content. They are not checked; wrong ones give a wrong
    result, but no address.

    With ``causal`` a query attends to keys up to its own place, where the last query of a sequence is at the place of its last key,
    as in FlashAttention 2.1 and later. ``window`` are the places before and after it that count, of which -1 is no limit. ``scale``,
    ``softcap``, ``lse``, ``split``, ``sinks``, ``out``, ``lse_base`` and ``block`` are those of :func:`attention`; LSE is heads x
    queries. ``max_seqlen_q`` and ``max_seqlen_k`` are not needed, and read by nothing.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v), ("out", out)):
        if tensor is not None and (not _arrays.is_tensor(tensor) or tensor.dim() != 3):
            found = f"{tensor.dim()} dimensions" if _arrays.is_tensor(tensor) else f"a {type(tensor).__name__}"
            raise Error(
                f"{name} is {found}\n  help: a tensor of PyTorch with three dimensions, tokens x heads x columns"
            )
    band = _band(causal, window)
    cu_seqlens_k = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
    wide = [tensor[None] for tensor in (q, k, v)]
    results = (None if out is None else out[None], lse[None] if _arrays.is_tensor(lse) else lse)
    if _arrays.in_graph() or _is_on_device(cu_seqlens_q) or _is_on_device(cu_seqlens_k):
        starts = [_tensor(x, q.device) for x in (cu_seqlens_q, cu_seqlens_k)]
        found = _on_device(wide, starts, band, (softcap, scale, block, sinks), results, lse_base)
    else:
        starts = _read("cu_seqlens_q", cu_seqlens_q), _read("cu_seqlens_k", cu_seqlens_k)
        pattern, numbers = _packed(starts, (q.shape[0], k.shape[0]), _pair(block, "block"), band, q.device)
        how = {"softcap": softcap, "scale": scale, "split": split, "sinks": sinks, "lse_base": lse_base}
        found = attention(*wide, pattern, numbers=numbers, lse=results[1], layout="bshd", out=results[0], **how)
    if isinstance(found, tuple):
        return found[0][0], found[1][0]
    return found[0]


def _band(causal: bool, window: tuple[int, int]) -> tuple[int | None, int | None]:
    """The places before and after a query that count; None is no limit."""
    if not isinstance(window, (tuple, list)) or len(window) != 2 or not all(type(x) is int and x >= -1 for x in window):
        raise Error(
            f"window = {window!r}\n  help: places before and after a query, (128, 0) for instance; -1 is no limit"
        )
    before, after = (None if places == -1 else places for places in window)
    return before, 0 if causal else after


def _is_on_device(starts: Starts) -> bool:
    return isinstance(starts, Tensor) and starts.is_cuda


# Starts that the host knows.


def _read(name: str, starts: Starts) -> tuple[int, ...]:
    array = starts.detach().numpy() if isinstance(starts, Tensor) else np.asarray(starts)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
        raise Error(
            f"{name} is {' x '.join(map(str, array.shape)) or 'one number'} of {array.dtype}\n"
            "  help: where each sequence begins, and where the last one ends: a vector of integers from 0 on"
        )
    return tuple(array.tolist())


@functools.lru_cache(maxsize=256)
def _listed(
    starts: tuple[tuple[int, ...], tuple[int, ...]],
    sizes: tuple[int, int],
    block: tuple[int, int],
    band: tuple[int | None, int | None],
) -> tuple[AttentionMask, np.ndarray, np.ndarray]:
    """The mask, and the first key of each query and the one behind its last."""
    native, first, end = _native.AttentionMask.sequences(tuple(map(list, starts)), sizes, block, band)
    mask = AttentionMask._of(native, RANGE)
    return mask, np.frombuffer(bytearray(first), dtype="<f4"), np.frombuffer(bytearray(end), dtype="<f4")


@functools.lru_cache(maxsize=256)
def _packed(
    starts: tuple, sizes: tuple[int, int], block: tuple[int, int], band: tuple, device: torch.device
) -> tuple[AttentionMask, dict[str, Tensor]]:
    """The mask, and the vectors of its condition where it has partial blocks."""
    mask, first, end = _listed(starts, sizes, block, band)
    if not mask.has_partial:
        return mask, {}
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise Error(
            "a CUDA graph captures an attention_varlen of lengths that no call before it had, whose ranges of keys are copied from the host\n"
            "  help: call it once before the capture, or pass cu_seqlens_q and cu_seqlens_k on the GPU"
        )
    return mask, {name: torch.from_numpy(x).to(device) for name, x in (("first_key", first), ("end_key", end))}


# Starts on a GPU, or in a graph of PyTorch's compiler.


def _tensor(starts: Starts, device: torch.device) -> Tensor:
    tensor = starts if isinstance(starts, Tensor) else torch.tensor(starts)
    if tensor.dim() != 1 or tensor.dtype not in (torch.int32, torch.int64) or tensor.shape[0] == 0:
        raise Error(
            f"the starts of sequences are {' x '.join(map(str, tensor.shape)) or 'one number'} of {tensor.dtype}\n"
            "  help: a vector of int32 or int64, one more than there are sequences"
        )
    return tensor.to(device)


def _ranges(
    starts: Sequence[Tensor], sizes: tuple[int, int], band: tuple[int | None, int | None]
) -> tuple[Tensor, Tensor]:
    """The first key of each query and the one behind its last, in f32: of a query without any both are 0."""
    (of_queries, of_keys), (queries, keys), (before, after) = starts, sizes, band
    if of_queries.shape != of_keys.shape:
        raise Error(
            f"{len(of_queries)} starts of queries and {len(of_keys)} of keys\n  help: one for each sequence, and the end of the last one"
        )
    row = torch.arange(queries, device=of_queries.device)
    if len(of_queries) == 1:
        return torch.zeros_like(row, dtype=torch.float32), torch.zeros_like(row, dtype=torch.float32)
    of_queries, of_keys = of_queries.long(), of_keys.long()
    # Of all starts, since PyTorch's compiler refuses a part of them here; rows before a wrong first start are in the first sequence.
    sequence = (torch.searchsorted(of_queries, row, right=True) - 1).clamp(min=0)
    within, sequence = sequence < len(of_queries) - 1, sequence.clamp(max=len(of_queries) - 2)
    first, end = of_keys[sequence], of_keys[sequence + 1]
    place = row + end - of_queries[sequence + 1]
    if before is not None:
        first = torch.maximum(first, place - before)
    if after is not None:
        end = torch.minimum(end, place + after + 1)
    # Wrong starts may lead beyond the keys.
    first, end = first.clamp(0, keys), end.clamp(0, keys)
    counts = within & (first < end)
    return torch.where(counts, first, 0).float(), torch.where(counts, end, 0).float()


def _on_device(
    wide: Sequence[Tensor],
    starts: Sequence[Tensor],
    band: tuple[int | None, int | None],
    how: tuple[float | None, float | None, tuple[int, int], Tensor | None],
    given: tuple[Any, Any],
    base: Any,
) -> Any:
    softcap, scale, block, sinks = how
    q, k, v = (tensor.transpose(1, 2) for tensor in _torch._cast(wide[0].device.type, *wide))
    sinks = _sinks.read(sinks, q)
    sizes = q.shape[2], k.shape[2]
    if sizes[1] > MOST_KEYS:
        raise Error(
            f"{sizes[1]} keys\n  a score numbers them in f32, which has every integer up to {MOST_KEYS}\n  help: several calls"
        )
    out, wants_lse = given
    results = Results(None if out is None else out.transpose(1, 2), wants_lse, base)
    is_plain = not _torch._wants_gradient(q, k, v, sinks) and not is_transformed()
    results.check(q, v, is_plain)
    scale = 1.0 / math.sqrt(max(1, q.shape[-1])) if scale is None else float(scale)
    ranges = _ranges(starts, sizes, band)
    found, sums = attention_of_ranges(q, k, v, sinks, ranges, _pair(block, "block"), capped(None, softcap), scale)
    found, sums = results.written(found, sums, is_plain and not _torch.is_dynamo_compiling())
    found = found.transpose(1, 2)
    return (found, sums) if results.wants_sums else found
