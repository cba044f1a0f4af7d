"""Patterns of the tensors that an operator is given: those of a layer, which may be another one's, or from a file.

A *rule* says what the tensors do not: ``KEY@ROWSxCOLSxBMxBK``, where the key is that of a pattern on a device, or nothing.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._device_patterns import DevicePattern
from ._native import Error
from ._patterns import Pattern, _alive, find

#: Row pointers and block columns; None for both where a pattern is named by its key.
Places = tuple[Tensor | None, Tensor | None]
NONE: Places = (None, None)

#: Cached patterns of tensors on a GPU, with the tensors, so that their addresses are not reused.
KEPT = 256
_known: OrderedDict[tuple, tuple] = OrderedDict()


class Shape(NamedTuple):
    """What is known of a pattern whose tensors are not read."""

    shape: tuple[int, int]
    block: tuple[int, int]
    nnzb: int


def rule_of(pattern: Any) -> str:
    """The rule of a pattern whose tensors are handed on."""
    (rows, cols), (bm, bk) = pattern.shape, pattern.block
    return f"{pattern.key if pattern.on_device else ''}@{rows}x{cols}x{bm}x{bk}"


@functools.lru_cache(maxsize=1024)
def _read(rule: str) -> tuple[str, tuple[int, int], tuple[int, int]]:
    key, _, numbers = rule.partition("@")
    try:
        rows, cols, bm, bk = (int(number) for number in numbers.split("x"))
    except ValueError:
        raise Error(
            f"`{rule}` is not a rule of a pattern\n  help: `KEY@ROWSxCOLSxBMxBK` with row pointers and columns"
        ) from None
    return key, (rows, cols), (bm, bk)


def shape_of(pattern: str, row_ptr: Tensor | None, col_idx: Tensor | None) -> Any:
    """A pattern, or what is known of it without a look at its tensors."""
    if row_ptr is None or col_idx is None:
        return find(pattern)
    _, shape, block = _read(pattern)
    return Shape(shape, block, col_idx.shape[0])


def resolved(pattern: str, row_ptr: Tensor | None, col_idx: Tensor | None) -> Any:
    """The pattern with a key, or of the tensors."""
    if row_ptr is None or col_idx is None:
        return find(pattern)
    key, shape, block = _read(pattern)
    tensors = row_ptr, col_idx
    if key:
        known: Any = _alive.get(key)
        if known is not None and [t.data_ptr() for t in known._tensors()] == [t.data_ptr() for t in tensors]:
            return known
    versions = version_of(row_ptr), version_of(col_idx)
    if (not key and not row_ptr.is_cuda) or None in versions:
        return _built(key, shape, block, tensors)
    at = (key != "", shape, block, len(row_ptr), len(col_idx), row_ptr.data_ptr(), col_idx.data_ptr())
    cached = _known.get(at)
    if cached is None or cached[0] != versions:
        if cached is not None and key:
            cached[1].changed()
            cached = (versions, *cached[1:])
        else:
            cached = (versions, _built(key, shape, block, tensors), tensors)
        _known[at] = cached
        while len(_known) > KEPT:
            _known.popitem(last=False)
    return cached[1]


def _built(key: str, shape: tuple[int, int], block: tuple[int, int], tensors: tuple[Tensor, Tensor]) -> Any:
    if key:
        return DevicePattern(shape, block, *tensors)
    if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
        raise Error(
            "the pattern of a layer is read by the host, which cannot be while a graph is captured\n"
            "  help: call the layer once before; `DynamicBlockSparseLinear` has a pattern that the host does not read"
        )
    return Pattern(shape, block, *(tensor.detach().cpu().numpy() for tensor in tensors))


def version_of(tensor: Tensor) -> int | None:
    """How often a tensor was written to; None where PyTorch does not count that."""
    return None if tensor.is_inference() else tensor._version
