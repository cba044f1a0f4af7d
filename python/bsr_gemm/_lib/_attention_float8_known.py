"""Attentions of float8 whose launches are known: calls with the same settings, and tensors of the same shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _attention_float8 as float8
from . import _attention_known, _block_choice, _gpu, _sinks, _torch
from ._calls import Call, capped, keys_of, mask_of
from ._float8_values import ValuesByColumn, by_column
from ._launch import _device, _stream
from ._results import LOG2_E, Results

#: The most calls of which it is known what they launch.
KEPT = 512

_known: dict[tuple, Known] = {}
_gpu.further_caches.append(_known)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor | ValuesByColumn,
    pattern: Any,
    how: tuple,
    numbers: Mapping[str, Any] | Sequence[float],
    sinks: Any,
    scales: Any,
    given: tuple[Any, Any],
) -> Any:
    """The result of a call, and the logarithms of sums where they are wanted.

    ``how`` is as in :func:`_attention_known.attention`, and ``given`` are the caller's tensors for O and a workspace.
    """
    causal, mask, score, softcap, scale, lse, layout, block, split, pdl, base = how
    spec_keys = keys_of(split, pdl)
    pattern = None if pattern is None else mask_of(pattern)
    values = v if isinstance(v, ValuesByColumn) else None
    is_new = given[0] is None and given[1] is None
    key = _key(q, k, v, pattern, how, numbers, sinks, scales) if is_new else None
    known = None if key is None else _known.get(key)
    if known is not None:
        found = known.attend(q, k, v, numbers, sinks, scales)
        if found is not None:
            return found
    stand_in = v if values is None else values.stand_in(layout)
    given_by_call = sinks is not None, float8.scale_word(scales)

    def specs(mask: Any, call: Call) -> list[str]:
        return [float8.spec_of_float8(call, mask.block, spec_keys, *given_by_call)]

    # There is one for each size of blocks.
    kernels = specs, lambda *_: None
    what, further = (causal, mask, capped(score, softcap)), (spec_keys, *given_by_call)
    call = _block_choice.call_of(q, k, stand_in, pattern, what, numbers, scale, layout, block, further, kernels)
    results = Results(call.in_order(given[0]), lse, base, given[1])

    def keep(launch: Any, counts: Any) -> None:
        if key is not None:
            with _gpu._lock:
                if len(_known) >= KEPT:
                    _known.clear()
                _known[key] = Known(call, results, launch, counts)

    return float8.attention(call, results, spec_keys, sinks, scales, values, keep)


def _key(q: Any, k: Any, v: Any, pattern: Any, how: tuple, numbers: Any, sinks: Any, scales: Any) -> tuple | None:
    """What calls with a launch have in common; None of every other call."""
    stored = v.data if isinstance(v, ValuesByColumn) else v
    tensors = (q, k, stored)
    if not all(isinstance(x, Tensor) for x in tensors) or not float8.is_on_gpu(q) or not _torch._is_eager(*tensors):
        return None
    if isinstance(how[4], Tensor) or isinstance(how[5], Tensor):
        return None
    key = _attention_known.key_of(q, k, stored, pattern, how, numbers, sinks)
    if key is None:
        return None
    key = (*key, stored is v, v.shape, float8.scale_word(scales))
    try:
        hash(key)
    except TypeError:
        return None
    return key


class Known:
    """The launch of such calls, and what it is given beside its tensors."""

    __slots__ = ("counts", "is_binary", "launch", "layout", "mask", "rows", "vectors", "wants_sums", "where", "width")

    def __init__(self, call: Call, results: Results, launch: Any, counts: Any) -> None:
        self.launch, self.counts, self.layout, self.mask = launch, counts, call.layout, call.key
        self.is_binary, self.wants_sums, self.where = results.is_binary, results.wants_sums, call.q.get_device()
        self.rows, self.width = tuple(call.q.shape[:3]), call.v.shape[3]
        #: Of each vector of the score by which name it is given, and in which type it is read.
        self.vectors = [(name, of.dtype) for name, of in zip(call.names, call.vectors)]

    def attend(self, q: Tensor, k: Tensor, v: Any, numbers: Any, sinks: Any, scales: Any) -> Any:
        """The results; None where the tensors are not what the launch takes."""
        if not k.get_device() == self.where == _device() or v.device != q.device:
            return None
        vectors = [_attention_known.read_vector(numbers[name], kind) for name, kind in self.vectors]
        if torch.is_grad_enabled() and any(
            isinstance(x, Tensor) and x.requires_grad for x in (q, k, v, sinks, *vectors)
        ):
            return None
        by_heads = (q, k) if self.layout == "bhsd" else (q.transpose(1, 2), k.transpose(1, 2))
        factors = float8.factors_of(scales, *by_heads) or []
        if factors and [factor.numel() for factor in factors] != self.counts:
            return None
        if sinks is not None:
            vectors.append(_sinks.read(sinks, by_heads[0]))
        if isinstance(v, ValuesByColumn):
            of_v = v.data
        else:
            of_v = by_column((v if self.layout == "bhsd" else v.transpose(1, 2)).detach())
        places = [q.data_ptr(), k.data_ptr(), of_v.data_ptr()]
        further = [vector.data_ptr() for vector in (*vectors, *factors)]
        if any(place & 15 for place in (*places, *further[: len(vectors)])):
            return None
        out = q.new_empty((*self.rows, self.width), dtype=torch.bfloat16)
        sums = q.new_empty(self.rows if self.wants_sums else (0,), dtype=torch.float32)
        at_sums = sums.data_ptr() if self.wants_sums else 0
        self.launch(*places, out.data_ptr(), at_sums, _stream(self.where), *further)
        out = out if self.layout == "bhsd" else out.transpose(1, 2)
        if not self.wants_sums:
            return out
        return out, sums.mul_(LOG2_E) if self.is_binary else sums


def _forget(key: str) -> None:
    """Forgets the calls with a mask on a device that is gone."""
    with _gpu._lock:
        for of in [of for of, known in _known.items() if known.mask == key]:
            del _known[of]


_gpu.on_forget.append(_forget)
