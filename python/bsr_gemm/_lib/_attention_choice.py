"""Which kernel computes an attention, where a call leaves that open."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _arrays, _narrow
from ._calls import divided, says_split, spec_of

#: The compute capability whose kernels are of ``wgmma``; those of the others are of ``mma_sync``.
HOPPER = (9, 0)
#: The most queries for which heads share tiles and keys are divided: a tile of one head would have few rows, and there would be
#: few tiles.
FEW = 16
#: Rows of a consumer, which the queries of the heads that share a tile do not exceed.
ROWS = 64
#: The most columns of V for which kernels divide keys.
WIDEST = 160
#: How many blocks of keys CTAs of two rows of blocks load for each that CTAs of one row load an SM, from which on the latter are
#: faster: rows that store the same keys are computed together. Causal masks have 1, random ones 2 less their density. On an
#: H100 the rates are even between 1.1 (window) and 1.5 (half of the blocks, at random).
APART = 1.3
#: Blocks of a row from which on keys are divided where GPUs have more SMs than there are tiles.
LONG = 24
#: The same from which on two CTAs of a cluster share each tile, and the columns of O that both then store a part of.
SLICED, TWO_PARTS = 16, 32
#: The most attentions of which it is kept what the cost model takes.
KEPT = 4096


#: Which kernel the cost model takes of an attention whose blocks it chose, by all that :func:`specs` depends on.
_taken: dict[tuple, str] = {}


def take(spec: str, mask: Any, *call: Any) -> None:
    """Has :func:`specs` prefer a kernel in further calls with these arguments."""
    if len(_taken) >= KEPT:
        _taken.clear()
    _taken[_of_call(mask, *call)] = spec


def _of_call(mask: Any, q: Tensor, k: Tensor, v: Tensor, *further: Any) -> tuple:
    return mask.key, q.dtype, q.device, tuple(q.shape), tuple(k.shape), tuple(v.shape), *further


def candidates(
    mask: Any, q: Tensor, k: Tensor, v: Tensor, closure: str | None, spec_keys: str | None, has_sinks: bool
) -> list[str]:
    """Kernels that the cost model is asked about: those of :func:`specs`, and other numbers of consumers."""
    found = specs(mask, q, k, v, closure, spec_keys, has_sinks)
    if q.shape[2] <= FEW:
        return found
    columns, kind = (q.shape[3], v.shape[3]), _arrays.kind_of(q)
    how = (mask.block, columns, kind, closure, spec_keys)
    return list(dict.fromkeys([*found, *(spec_of(*how, has_sinks=has_sinks, consumers=number) for number in (2, 3))]))


def specs(
    mask: Any, q: Tensor, k: Tensor, v: Tensor, closure: str | None, spec_keys: str | None, has_sinks: bool = False
) -> list[str]:
    """Specs by preference: the first one that is planned computes the attention, and the last one always is.

    With few queries, heads of Q that share a head of K and V share a tile, so that K and V are read once for all of them, and
    the keys of a tile are divided as far as GPUs have SMs for it; kernels of other GPUs than Hopper do neither. Where a row of blocks is no multiple of what two consumers
    compute, and neighbours store other keys, each consumer is a CTA of its own.
    """
    taken = _taken.get(_of_call(mask, q, k, v, closure, spec_keys, has_sinks))
    found = _preferred(mask, q, k, v, closure, spec_keys, has_sinks)
    return found if taken is None else list(dict.fromkeys([taken, *found]))


def _preferred(
    mask: Any, q: Tensor, k: Tensor, v: Tensor, closure: str | None, spec_keys: str | None, has_sinks: bool
) -> list[str]:
    queries, columns = q.shape[2], (q.shape[3], v.shape[3])
    if (capability := _capability(q)) not in (None, HOPPER):
        warps = (
            spec_of(mask.block, columns, _arrays.kind_of(q), closure, spec_keys, has_sinks=has_sinks)
            + ", mma = mma_sync"
        )
        return [warps + arch for arch in _archs(capability)]

    def spec(spec_keys: str | None, heads: int = 1, consumers: int | None = None, cluster: int | None = None) -> str:
        kind = _arrays.kind_of(q)
        how = (kind, closure, spec_keys, heads, has_sinks)
        return spec_of(mask.block, columns, *how, consumers=consumers, cluster=cluster)

    if mask.block[0] < ROWS and not mask.on_device:
        return _narrow.specs(mask, q, k, lambda heads, consumers: spec(spec_keys, heads, consumers))
    if mask.on_device or queries > FEW:
        if mask.block[0] // ROWS % 2 == 0 or not _are_apart(mask) or not _fits_l2(k, v):
            return [spec(spec_keys)]
        if not says_split(spec_keys) and v.shape[3] % TWO_PARTS == 0 and _is_short_of_tiles(mask, q, SLICED):
            return [spec(spec_keys, consumers=1, cluster=2), spec(spec_keys, consumers=1), spec(spec_keys)]
        is_short = _is_short_of_tiles(mask, q, LONG) and v.shape[3] <= WIDEST
        shared = divided(spec_keys) if is_short else spec_keys
        return list(dict.fromkeys([spec(shared, consumers=1), spec(spec_keys, consumers=1), spec(spec_keys)]))
    # A pattern for each head cannot be that of a tile of several.
    group = 1 if mask.per in ("head", "both") else q.shape[1] // k.shape[1]
    heads = min(group & -group, 1 << (ROWS // queries).bit_length() - 1)
    shared = divided(spec_keys) if v.shape[3] <= WIDEST else spec_keys
    return list(dict.fromkeys([spec(shared, heads), spec(shared), spec(spec_keys)]))


def card(q: Tensor) -> tuple[str, tuple[int, int]]:
    """The card of a tensor on a GPU: the driver's name for it, and its compute capability."""
    return torch.cuda.get_device_name(q.device), torch.cuda.get_device_capability(q.device)


def _capability(q: Tensor) -> tuple[int, int] | None:
    """The compute capability of a tensor's GPU; None on the CPU."""
    return torch.cuda.get_device_capability(q.device) if q.is_cuda else None


def _archs(capability: tuple[int, int]) -> list[str]:
    """Architectures whose code a GPU runs, its own first, as the end of a spec: one that the compiler does not know is not planned."""
    names = ["sm_{}{}".format(*capability), *(["sm_89"] if capability >= (8, 9) else []), "sm_80"]
    return [f", arch = {name}" for name in dict.fromkeys(names)]


def _are_apart(mask: Any) -> bool:
    """Do neighbours among the rows of blocks store other keys? Those of a mask on the GPU may."""
    if mask.on_device:
        return True
    rows, columns = (math.ceil(size / side) for size, side in zip(mask.sizes, mask.block))
    together = 0
    for starts, indices in zip(mask.indptr, mask.indices):
        pairs = np.zeros((rows + 1) // 2 * columns, dtype=bool)
        pairs[np.repeat(np.arange(rows) // 2 * columns, np.diff(starts)) + indices] = True
        together += np.count_nonzero(pairs)
    return 2 * together > APART * mask.stored


def _fits_l2(k: Tensor, v: Tensor) -> bool:
    """Do K and V of one head fit? Twice as many CTAs are as many places where they are read."""
    of_head = sum(tensor.shape[2] * tensor.shape[3] * tensor.element_size() for tensor in (k, v))
    return not k.is_cuda or of_head <= torch.cuda.get_device_properties(k.device).L2_cache_size


def _is_short_of_tiles(mask: Any, q: Tensor, blocks: int) -> bool:
    """Are there SMs without a tile, and have rows so many blocks?"""
    if mask.on_device or not q.is_cuda:
        return False
    rows = math.ceil(mask.sizes[0] / mask.block[0])
    tiles, mean = q.shape[0] * q.shape[1] * rows, mask.stored / (mask.patterns * rows)
    return tiles <= torch.cuda.get_device_properties(q.device).multi_processor_count and mean >= blocks
