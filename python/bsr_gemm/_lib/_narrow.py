"""Attention in narrow windows: heads that share a tile, and steps of neighbouring small blocks of keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _arrays
from ._masks import find

#: Rows of a consumer, and of the widest tile: of three consumers.
ROWS, TILE = 64, 192
#: Keys of a block that a step joins, the fewest blocks of a step that does, and the most keys of it.
KEYS, JOINED, STEP = 16, 3, 128
#: The most heads that share a tile.
HEADS = 8
#: The fewest, by the columns of a head: those for which such kernels were timed (H200, a window of 128 keys). Of 64 columns four heads take 0.68
#: of the time of blocks of 128 x 128, eight 0.58, two 0.95; of 128 columns eight take 0.53.
FEWEST = {64: 4, 128: 8}
#: The most blocks of 128 keys that rows of blocks of 128 queries store of a narrow mask, in the mean.
BLOCKS = 3
#: The fewest queries, and the most blocks of a mask that is looked at.
LONG, MOST = 1024, 1 << 23


def heads_of(q: Any, k: Any) -> int:
    """The most heads of Q that share a head of K and can share a tile."""
    group = q.shape[1] // k.shape[1]
    return min(group & -group, HEADS)


def _fewest(q: Any, v: Any) -> float:
    """The fewest heads that share a tile; more than there can be where such kernels were not timed."""
    return FEWEST.get(q.shape[3], math.inf) if q.shape[3] == v.shape[3] else math.inf


def block_of(call: Any) -> tuple[int, int] | None:
    """The blocks of a call in blocks of 128 x 128; None where its mask is no narrow window that such a kernel computes.

    A score that reads vectors or the head is another one for each head of a tile.
    """
    q, k, v = call.q, call.k, call.v
    heads = heads_of(q, k)
    if heads < _fewest(q, v) or q.shape[2] < LONG or call.closure is None:
        return None
    if call.vectors or "head" in call.closure or _arrays.kind_of(q) not in ("f16", "bf16"):
        return None
    mask = find(call.key, (q.shape[2], k.shape[2]))
    if mask.per in ("head", "both") or mask.stored > BLOCKS * math.ceil(q.shape[2] / 128) * len(mask.indptr):
        return None
    block = TILE // heads, KEYS
    blocks = math.ceil(q.shape[2] / block[0]) * math.ceil(k.shape[2] / block[1])
    return None if blocks > MOST else block


def specs(mask: Any, q: Any, k: Any, spec: Callable[[int, int], str]) -> list[str]:
    """Kernels of a mask in blocks of fewer than 64 queries, the one with the longest steps first: as many as a row needs, of equal length.

    ``spec`` has so many heads share a tile of so many consumers.
    """
    heads = max(min(heads_of(q, k), TILE // mask.block[0]), 1)
    base = spec(heads, max(heads * mask.block[0] // ROWS, 1))
    longest = max((int(np.diff(starts).max(initial=0)) for starts in mask.indptr), default=0)
    fewest = max(math.ceil(longest * mask.block[1] / STEP), 1)
    steps = [math.ceil(longest / number) for number in range(fewest, longest + 1)]
    return [f"{base}, k_step = {step * mask.block[1]}" for step in dict.fromkeys(steps) if step >= JOINED] or [base]
