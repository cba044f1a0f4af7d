"""Launches of attention on NVIDIA GPUs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _arrays, _gpu, _native
from ._attention_choice import specs
from ._calls import spec_of
from ._gradient_lists import DeviceWork, is_listed
from ._kernels import first_planned
from ._launch import _device, _stream
from ._operands import vector_of
from ._score import score_of

#: What a call of `attention` finds its launch by.
_ready: dict[tuple, Any] = {}
#: Kernels by GPU and spec, and the work of masks by kernel, mask and shape.
_loaded: dict[tuple, Any] = {}
_work: dict[tuple, Any] = {}
_gpu.further_caches.extend([_ready, _work, _loaded])


def _key(tensors: Sequence[Tensor], how: tuple, further: Any, vectors: Sequence[Tensor] = ()) -> tuple:
    of_vectors = tuple([(vector.shape, vector.dtype) for vector in vectors])
    of_tensors = tuple([(tensor.shape, tensor.stride()) for tensor in tensors])
    return how, further, of_vectors, tensors[0].get_device(), tensors[0].dtype, of_tensors


def _places(tensors: Sequence[Tensor]) -> list[int] | None:
    """The addresses of tensors; None where they are not of one type, on the current device, at addresses that TMA takes."""
    where, dtype, places = tensors[0].get_device(), tensors[0].dtype, []
    for tensor in tensors:
        place = tensor.data_ptr()
        if place & 15 or tensor.dtype is not dtype or tensor.get_device() != where:
            return None
        places.append(place)
    return places if _device() == where else None


def _cache(key: tuple, ready: Any) -> None:
    with _gpu._lock:
        if len(_ready) >= _gpu.READY:
            _ready.clear()
        _ready[key] = ready


def ready(tensors: Sequence[Tensor], how: tuple, further: Any, vectors: Sequence[Tensor]) -> Any:
    """What is kept of :func:`attention` or :func:`gradient` with such tensors, where nothing was copied."""
    return _ready.get(_key(tensors, how, further, vectors))


def direct(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    how: tuple,
    further: Sequence[Tensor] = (),
    spec_keys: str | None = None,
    given: Any = None,
) -> tuple[Tensor, Tensor] | None:
    """The attention where tensors of these shapes were given before; None where they were not.

    ``further`` are the score's vectors, as many as it has, then sinks where there are any; ``given`` are tensors for O, for LSE, and
    a workspace, each None where it is a new one. Nothing here is looked at twice: a call costs the host little more than the launch.
    """
    out, lse, workspace = given or (None, None, None)
    if workspace is not None:
        return None
    tensors = (q, k, v) if out is None else (q, k, v, out)
    ready = _ready.get(_key(tensors, how, spec_keys, further))
    places = None if ready is None else _places(tensors)
    if ready is None or places is None:
        return None
    launch, shape, stride, sums = ready
    if out is None:
        out = q.new_empty_strided(shape, stride)
        places.append(out.data_ptr())
    if lse is None or not lse.is_contiguous():
        lse = q.new_empty(sums, dtype=torch.float32)
    operands = [vector_of(vector) for vector in further]
    launch(*places, lse.data_ptr() if how[-1] else 0, _stream(q.get_device()), *(x.data_ptr() for x in operands))
    del operands
    return out, lse


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    sums: Tensor,
    mask: Any,
    how: tuple,
    further: Sequence[Tensor] = (),
    spec_keys: str | None = None,
    has_sinks: bool = False,
    given: Any = None,
) -> tuple[Tensor, Tensor]:
    """Enqueues the attention into ``out`` and, where they are wanted, ``sums``.

    ``further`` and ``given`` are as in :func:`direct`.
    """
    _, closure, scale, numbers, lse = how
    index = q.device.index
    with _gpu.OnDevice(index):
        operands = [_addressable(tensor) for tensor in (q, k, v)]
        result = _addressable(out)
        loaded = _kernel(index, specs(mask, q, k, v, closure, spec_keys, has_sinks))
        workspace = None if given is None else given[2]
        work = _work_of(index, loaded, mask, tuple(q.shape), tuple(v.shape), workspace is not None)
        read = [vector_of(vector) for vector in further]
        extents = [_extent(vector) for vector in read[: len(read) - has_sinks]]
        ready = _native.ReadyAttention(loaded, work, _layouts([*operands, result]), scale, list(numbers), extents)
        launch = ready.launch
        if workspace is not None:
            launch = functools.partial(ready.launch_in, (workspace.data_ptr(), workspace.numel()))
        launch = mask.launching(launch) if mask.on_device else launch
        at_q, at_k, at_v, at_o = (tensor.data_ptr() for tensor in (*operands, result))
        launch(at_q, at_k, at_v, at_o, sums.data_ptr() if lse else 0, _stream(index), *(x.data_ptr() for x in read))
        if result is not out:
            out.copy_(result)
        elif workspace is None and all(tensor is given for tensor, given in zip(operands, (q, k, v))):
            of_results = tuple(out.shape), out.stride(), tuple(sums.shape)
            tensors = (q, k, v) if given is None or given[0] is None else (q, k, v, out)
            _cache(_key(tensors, how, spec_keys, further), (launch, *of_results))
    return out, sums


def direct_gradient(
    tensors: Sequence[Tensor],
    lse: Tensor,
    dlse: Tensor | None,
    how: tuple,
    vectors: Sequence[Tensor] = (),
    wanted: tuple[bool, ...] = (),
) -> list[Tensor] | None:
    """What :func:`gradient` computes of these, O and dO, where such tensors were given before; None where they were not."""
    launch = _ready.get(_key(tensors, how, wanted, vectors))
    places = None if launch is None else _places(tensors)
    if launch is None or places is None:
        return None
    found = [torch.empty_like(tensor) for tensor in tensors[:3]]
    return found + _launch_gradient(launch, places, found, (lse, dlse), vectors)


def gradient(
    tensors: Sequence[Tensor],
    lse: Tensor,
    dlse: Tensor | None,
    mask: Any,
    how: tuple,
    vectors: Sequence[Tensor] = (),
    wanted: tuple[bool, ...] = (),
) -> list[Tensor] | None:
    """Enqueues the gradients of Q, K and V, which have the strides of these, then of those vectors of the score that are
    ``wanted``; None where no kernels compute them."""
    _, closure, scale, numbers = how
    (q, _, v, *_), index = tensors, tensors[0].device.index
    if q.dtype not in (torch.float16, torch.bfloat16):
        return None
    with _gpu.OnDevice(index):
        spec, with_score = spec_of(mask.block, (q.shape[3], v.shape[3]), _arrays.kind_of(q), closure), any(wanted)
        loaded = _gpu.cached(_loaded, (index, spec, with_score), lambda: _load_gradient(index, spec, with_score))
        sizes = tuple(q.shape), tuple(v.shape)
        if not loaded or (mask.on_device and not all(map(is_listed, loaded.forms(*map(list, sizes))))):
            return None
        operands = [_addressable(tensor) for tensor in tensors]
        found = [torch.empty_like(tensor) for tensor in tensors[:3]]
        results = [_addressable(tensor) for tensor in found]
        extents = [_extent(vector) for vector in map(vector_of, vectors)]

        def ready_of(work: Any) -> Any:
            return _native.ReadyGradient(loaded, work, _layouts(operands + results), scale, list(numbers), extents)

        if mask.on_device:
            listed = _gpu.cached(_work, (loaded, mask.key, *sizes), lambda: DeviceWork(loaded, mask, *sizes, q.device))
            ready = ready_of(listed.native)
            enqueue = functools.partial(listed.launch, ready.launch)
        else:
            ready = ready_of(_work_of(index, loaded, mask, *sizes))
            enqueue = ready.launch
        launch = enqueue, ready.workspace, _sums(loaded, q, v), _lines(loaded, closure, wanted)
        of_vectors = _launch_gradient(launch, [tensor.data_ptr() for tensor in operands], results, (lse, dlse), vectors)
        for to, result in zip(found, results):
            if to is not result:
                to.copy_(result)
        if all(tensor is given for tensor, given in zip(operands + results, [*tensors, *found])):
            _cache(_key(tensors, how, wanted, vectors), launch)
    return found + of_vectors


def _sums(loaded: Any, q: Tensor, v: Tensor) -> list[tuple[int, ...]]:
    """What the kernels of dQ and of dK and dV sum of the score's parameters: problems x heads x parameters x queries or keys.
    Empty where neither sums any."""
    of_both = loaded.score_sums
    return (
        [(*q.shape[:2], len(of), rows) for of, rows in zip(of_both, (q.shape[2], v.shape[2]))] if any(of_both) else []
    )


def _lines(loaded: Any, closure: str | None, wanted: Sequence[bool]) -> list[tuple[int, int | None]]:
    """Of each wanted vector of the score its number, and which of the sums its gradient is made of, where any is."""
    if not any(wanted) or closure is None:
        return []
    summed = [parameter for of in loaded.score_sums for parameter in of]
    parameters = [at for at, (_, kind, _) in enumerate(score_of(closure).parameters) if kind != "f32"]
    of_each = ((number, at) for number, (at, is_wanted) in enumerate(zip(parameters, wanted)) if is_wanted)
    return [(number, summed.index(at) if at in summed else None) for number, at in of_each]


def _load_gradient(index: int, spec: str, with_score: bool) -> Any:
    """The kernels of a gradient; False where they are not planned."""
    kernels = _native.gradient_kernels(spec, with_score)
    return False if kernels is None else _gpu.gpu_of(index).load_gradient(*kernels)


def _launch_gradient(
    ready: tuple[Any, int, list[tuple[int, ...]], list[tuple[int, int | None]]],
    places: list[int],
    found: list[Tensor],
    of_queries: tuple[Tensor, Tensor | None],
    vectors: Sequence[Tensor],
) -> list[Tensor]:
    """Enqueues gradients into ``found``; those of the vectors that are wanted."""
    (launch, elements, shapes, lines), (lse, dlse) = ready, of_queries
    lse = lse.contiguous()
    dlse = None if dlse is None else dlse.contiguous()
    workspace = lse.new_empty(elements)
    of_lse = 0 if dlse is None else dlse.data_ptr()
    at = places + [tensor.data_ptr() for tensor in found]
    read = [vector_of(vector) for vector in vectors]
    sums = [lse.new_empty(shape) for shape in shapes]
    of_sums = [of.data_ptr() if shape[2] else 0 for of, shape in zip(sums, shapes)] or (0, 0)
    of_vectors = [vector.data_ptr() for vector in read]
    launch(at, lse.data_ptr(), of_lse, workspace.data_ptr(), of_sums, _stream(lse.get_device()), *of_vectors)
    if not lines:
        return []
    each = [line for of in sums for line in of.unbind(2)]

    def of_vector(number: int, line: int | None) -> Tensor:
        vector = vectors[number]
        return torch.zeros_like(vector) if line is None else each[line].sum_to_size(vector.shape).to(vector)

    return [of_vector(*of) for of in lines]


def _addressable(tensor: Tensor) -> Tensor:
    """A tensor whose rows TMA can address: itself, or a copy."""
    size = tensor.element_size()
    strides = [stride for stride, length in zip(tensor.stride()[:3], tensor.shape[:3]) if length > 1]
    fits = all(stride > 0 and stride * size % 16 == 0 for stride in strides)
    if fits and tensor.stride(3) == 1 and tensor.data_ptr() % 16 == 0:
        return tensor
    copy = tensor.contiguous()
    return copy.clone() if copy is tensor or copy.data_ptr() % 16 else copy


def _layouts(tensors: Sequence[Tensor]) -> list[tuple[list[int], list[int]]]:
    """Sizes of tensors, and elements between problems, heads and rows; where there is only one of these, a number that TMA takes."""

    def strides(tensor: Tensor) -> list[int]:
        width = tensor.shape[3]
        return [stride if length > 1 else width for stride, length in zip(tensor.stride()[:3], tensor.shape[:3])]

    return [(list(tensor.shape), strides(tensor)) for tensor in tensors]


def _kernel(index: int, specs: Sequence[str]) -> Any:
    """The kernel of the first of some specs that is planned."""

    def load() -> Any:
        return _gpu.gpu_of(index).load_attention(first_planned(specs)._native)

    return _gpu.cached(_loaded, (index, specs[0]), load)


def _extent(vector: Tensor) -> tuple[str, int, str]:
    """The element type and the length of a vector, problems x heads x elements, and which heads have elements of their own."""
    problems, heads, _ = vector.shape
    per = "both" if problems > 1 and heads > 1 else "problem" if problems > 1 else "head" if heads > 1 else "all"
    return _arrays.kind_of(vector), vector.numel(), per


def _work_of(index: int, loaded: Any, mask: Any, q: tuple, v: tuple, brings_workspace: bool = False) -> Any:
    def make() -> Any:
        if mask.on_device:
            return loaded.listed(mask.on_gpu(index), list(q), list(v))
        how = (True,) if brings_workspace else ()
        return loaded.work(mask._native, list(q), list(v), *how)

    return _gpu.cached(_work, (loaded, mask.key, q, v, brings_workspace), make)


def workspace(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, closure: str | None, spec_keys: str | None, has_sinks: bool
) -> int:
    """Elements of f32 of a workspace for such an attention."""
    index = q.device.index
    with _gpu.OnDevice(index):
        loaded = _kernel(index, specs(mask, q, k, v, closure, spec_keys, has_sinks))
        return _work_of(index, loaded, mask, tuple(q.shape), tuple(v.shape), True).workspace


def forget_mask(key: str) -> None:
    """Forgets what is kept of a mask on a device that is gone."""
    with _gpu._lock:
        for of in [of for of in _work if of[1] == key]:
            del _work[of]
        # The key of a launch begins with how it is computed, and that with the mask.
        for of in [of for of in _ready if of[0][0] == key]:
            del _ready[of]


_gpu.on_forget.append(forget_mask)
