"""Attentions whose launches are known: in eager mode on a GPU a call costs the host little more than these.

One key finds what all calls with the same settings and tensors of the same shapes have in common. The first of them goes the way
that PyTorch's operator goes, and leaves its launches here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _attention_launch, _attention_torch, _gpu, _sinks, _torch
from ._calls import capped, keys_of, mask_of
from ._exact import exact
from ._launch import _device, _stream
from ._masks import find
from ._operators import once, refuse_forward
from ._results import LOG2_E, Results

_AS_IT_IS = contextlib.nullcontext()
#: The most calls of which it is known what they launch.
KEPT = 2048

_known: dict[tuple, Known] = {}
_gpu.further_caches.append(_known)


def attention(
    q: Any, k: Any, v: Any, pattern: Any, how: tuple, numbers: Mapping[str, Any] | Sequence[float], sinks: Any
) -> Any:
    """The result of a call with plain tensors on one GPU; None of every other call.

    ``how`` are causal, mask, score, softcap, scale, lse, layout, block, split, pdl and lse_base of :func:`bsr_gemm.attention`.
    """
    if not _is_launch(q, k, v):
        return None
    dtype = _torch.autocast_dtype(q.device.type)
    if dtype is not None and not q.dtype is k.dtype is v.dtype is dtype:
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    pattern = None if pattern is None else mask_of(pattern)
    key = key_of(q, k, v, pattern, how, numbers, sinks)
    if key is None:
        return None
    try:
        known = _known.get(key)
    except TypeError:
        return None
    is_new = known is None
    if known is None:
        # A tensor is no key: its number may change.
        if isinstance(how[4], Tensor):
            return None
        known = Known(q, k, v, pattern, how, numbers, sinks)
    vectors = [read_vector(numbers[name], dtype) for name, dtype, _ in known.vectors] if known.vectors else []
    if sinks is not None:
        sinks = _sinks.read(sinks, q if known.rows_last else q.transpose(1, 2))
    is_recorded = torch.is_grad_enabled() and (
        q.requires_grad
        or k.requires_grad
        or v.requires_grad
        or (sinks is not None and sinks.requires_grad)
        or (vectors and any([vector.requires_grad for vector in vectors]))
    )
    if is_recorded:
        found = KnownAttention.apply(known, q, k, v, sinks, *vectors)
        out, sums = found if known.wants_sums else (found, None)
    else:
        out, sums = known.attend(q, k, v, sinks, vectors, known.wants_sums)
    if is_new:
        known.keep(key)
    if not known.wants_sums:
        return out
    if known.is_binary:
        sums = sums * LOG2_E if is_recorded else sums.mul_(LOG2_E)
    return out, sums


def key_of(
    q: Tensor, k: Tensor, v: Tensor, pattern: Any, how: tuple, numbers: Mapping[str, Any] | Sequence[float], sinks: Any
) -> tuple | None:
    """What calls have in common that launch alike; None where a number is a tensor that no launch reads."""
    where, of_score = q.get_device(), []
    if numbers:
        for name, x in numbers.items() if isinstance(numbers, Mapping) else enumerate(numbers):
            if not isinstance(x, Tensor):
                of_score.append((name, x))
            elif type(x) in _torch._PLAIN and x.get_device() == where:
                of_score.append((name, x.shape, x.dtype))
            else:
                return None
    of_tensors = (q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), q.dtype, k.dtype, v.dtype, where)
    return None if pattern is None else pattern.key, how, sinks is None, tuple(of_score), of_tensors


def _is_launch(q: Any, k: Any, v: Any) -> bool:
    return isinstance(q, Tensor) and q.is_cuda and _torch._is_eager(q, k, v)


def read_vector(vector: Tensor, dtype: torch.dtype) -> Tensor:
    """A vector of a score as kernels read it; its dimensions may be fewer than theirs."""
    return (vector if vector.dtype is dtype else exact(vector, dtype)).contiguous()


class Known:
    """What calls with the same settings, and tensors of the same shapes, have in common."""

    __slots__ = (
        "backward",
        "forward",
        "held",
        "is_binary",
        "mask",
        "rows_last",
        "settings",
        "spec_keys",
        "vectors",
        "wants_sums",
        "where",
    )

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, pattern: Any, how: tuple, numbers: Any, sinks: Any) -> None:
        causal, mask, score, softcap, scale, lse, layout, block, split, pdl, base = how
        what = (causal, mask, capped(score, softcap))
        self.spec_keys = keys_of(split, pdl)
        open_ = (block, self.spec_keys, sinks)
        call = _attention_torch.call_of(q, k, v, pattern, what, numbers, scale, layout, *open_)
        results = Results(None, lse, base)
        self.is_binary, self.wants_sums = results.is_binary, results.wants_sums
        self.rows_last, self.where = layout == "bhsd", q.get_device()
        #: The mask's key, the score's closure, the scale and the score's numbers.
        self.settings = (call.key, call.closure, call.scale, call.numbers)
        #: Of each vector of the score by which name it is given, in which type it is read, and its three dimensions.
        self.vectors = [(name, of.dtype, of.shape) for name, of in zip(call.names, call.vectors)]
        self.mask = call.key
        found = find(call.key, (call.q.shape[2], call.k.shape[2]))
        #: A mask of the host; one on a device ends when the program has no other use of it.
        self.held = None if found.on_device else found
        #: The launch, shape and strides of O (no shape where they are those of Q), and shape of LSE.
        self.forward: tuple | None = None
        #: Launches of gradients by the strides of dO and by which vectors have one.
        self.backward: dict[tuple, tuple] = {}

    def keep(self, key: tuple) -> None:
        """Lets further calls find it, if they are launches."""
        if self.forward is not None:
            with _gpu._lock:
                if len(_known) >= KEPT:
                    _known.clear()
                _known[key] = self

    def of_kernels(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Tensors as problems x heads x rows x columns, or these back in the order of the call."""
        return tensors if self.rows_last else tuple([tensor.transpose(1, 2) for tensor in tensors])

    def wide(self, vectors: Sequence[Tensor]) -> list[Tensor]:
        """Vectors of the score as problems x heads x elements."""
        return [vector.view(shape) for vector, (_, _, shape) in zip(vectors, self.vectors)]

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, vectors: Sequence[Tensor], wants_sums: bool
    ) -> tuple[Tensor, Tensor | None]:
        """O, in the order of the call, and LSE, which may be None where it is not wanted."""
        if self.forward is not None and k.get_device() == v.get_device() == self.where == _device():
            at_q, at_k, at_v = q.data_ptr(), k.data_ptr(), v.data_ptr()
            further = [vector.data_ptr() for vector in vectors] if vectors else []
            if sinks is not None:
                further.append(sinks.data_ptr())
            if not (at_q | at_k | at_v) & 15 and not (further and any([at & 15 for at in further])):
                launch, shape, stride, of_sums = self.forward
                # What is alike in memory is allocated with one number less to read.
                out = torch.empty_like(q) if shape is None else q.new_empty_strided(shape, stride)
                sums = torch.empty(of_sums, dtype=torch.float32, device=q.device) if wants_sums else None
                at_sums = 0 if sums is None else sums.data_ptr()
                launch(at_q, at_k, at_v, out.data_ptr(), at_sums, _stream(self.where), *further)
                return out, sums
        tensors, vectors = self.of_kernels(q, k, v), self.wide(vectors)
        how = (*self.settings, wants_sums)
        out, sums = _attention_torch._attention_cuda(*tensors, sinks, *how, vectors, self.spec_keys)
        further = (*vectors, *(() if sinks is None else (sinks,)))
        ready = _attention_launch.ready(tensors, how, self.spec_keys, further)
        (out,) = self.of_kernels(out)
        if ready is not None:
            # Of strides that `empty_like` gives on any device no shape is kept.
            is_alike = out.shape == q.shape and out.stride() == torch.empty_like(q, device="meta").stride()
            self.forward = ready[0], None if is_alike else out.shape, out.stride(), tuple(tensors[0].shape[:3])
        return out, sums

    def differentiate(
        self, tensors: tuple[Tensor, ...], of_sums: tuple, vectors: Sequence[Tensor], wanted: tuple[bool, ...]
    ) -> list[Tensor]:
        """The gradients of Q, K and V, then of the wanted vectors, of Q, K, V, O and dO, and of LSE and dLSE."""
        q, k, v, o, do = tensors
        wide = self.wide(vectors)
        ready, places = self.backward.get((do.stride(), wanted)), None
        if ready is not None:
            places = _attention_launch._places(tensors)
        if ready is not None and places is not None:
            found = [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)]
            return found + _attention_launch._launch_gradient(ready, places, found, of_sums, wide)
        (lse, dlse), how = of_sums, self.settings
        q, k, v, o, do = seen = self.of_kernels(*tensors)
        found = _attention_torch._attention_gradient_cuda(do, dlse, q, k, v, o, lse, *how, wide, wanted)
        ready = _attention_launch.ready(seen, how, wanted, wide)
        found[:3] = self.of_kernels(*found[:3])
        # Without memory: what is alike in strides is asked for on no device.
        alike = (torch.empty_like(x, device="meta").stride() for x in tensors[:3])
        if ready is not None and all(strides == found_of.stride() for strides, found_of in zip(alike, found)):
            self.backward[tensors[4].stride(), wanted] = ready
        return found


class KnownAttention(torch.autograd.Function):
    """A known call whose gradient is recorded.

    The gradient of an operator takes the host longer, and so does a function with ``setup_context``: PyTorch inspects the
    signature of its ``forward`` in every call.
    """

    @staticmethod
    def forward(ctx: Any, known: Known, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, *vectors: Tensor) -> Any:
        out, sums = known.attend(q, k, v, sinks, vectors, True)
        ctx.known = known
        ctx.held = find(known.mask, (0, 0)) if known.held is None else known.held
        ctx.generation = ctx.held.generation
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, sinks, out, sums, *vectors)
        return (out, sums) if known.wants_sums else out

    @staticmethod
    def backward(ctx: Any, do: Tensor | None, dlse: Tensor | None = None) -> tuple:
        q, k, v, sinks, o, lse, *vectors = ctx.saved_tensors
        _attention_torch._refuse_changed(ctx)
        if do is None and dlse is None:
            return (None,) * (5 + len(vectors))
        do = torch.zeros_like(o) if do is None else do
        refuse_forward("attention_gradient", (do, dlse, q, k, v))
        of_sinks, wanted = None, ctx.needs_input_grad[5:]
        # Of gradients a graph is recorded with `create_graph=True` alone.
        with torch.no_grad() if torch.is_grad_enabled() else _AS_IT_IS:
            dq, dk, dv, *of_vectors = ctx.known.differentiate((q, k, v, o, do), (lse, dlse), vectors, wanted)
            if sinks is not None and ctx.needs_input_grad[4]:
                outputs = ctx.known.of_kernels(do, o)
                of_sinks = _sinks.gradient(outputs[0], dlse, outputs[1], lse, sinks)
        found = once((dq, dk, dv, of_sinks, *of_vectors), do, q, k, v)
        if not vectors:
            return None, *found
        gradient = iter(found[4:])
        each = [next(gradient).view(x.shape) if is_wanted else None for x, is_wanted in zip(vectors, wanted)]
        return None, *found[:4], *each


def _forget(key: str) -> None:
    """Forgets the calls with a mask on a device that is gone."""
    with _gpu._lock:
        for of in [of for of, known in _known.items() if known.mask == key]:
            del _known[of]


_gpu.on_forget.append(_forget)
