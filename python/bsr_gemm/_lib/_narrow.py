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
#: The fewest heads that must share a tile, and the most that do. With two a query has 192 pairs in a window of 128 keys, and the kernel
#: takes what others take (H200: 933 us and 958; with eight 575).
HEADS = 4, 8
#: The most blocks of 128 keys that rows of blocks of 128 queries store of a narrow mask, in the mean.
BLOCKS = 3
#: Columns of heads for which such kernels were timed.
COLUMNS = 64
#: The fewest queries, and the most blocks of a mask that is looked at.
LONG, MOST = 1024, 1 << 23


def heads_of(q: Any, k: Any) -> int:
    """The most heads of Q that share a head of K and can share a tile."""
    group = q.shape[1] // k.shape[1]
    return min(group & -group, HEADS[1])


def block_of(call: Any, mask: Any) -> tuple[int, int] | None:
    """The blocks of a call whose mask in blocks of 128 x 128 is this one; None where it is no narrow window that such a kernel computes.

    A score that reads vectors or the head is another one for each head of a tile.
    """
    q, k, v = call.q, call.k, call.v
    heads = heads_of(q, k)
    if heads < HEADS[0] or q.shape[2] < LONG or not q.shape[3] == v.shape[3] == COLUMNS or call.closure is None:
        return None
    if call.vectors or "head" in call.closure or _arrays.kind_of(q) not in ("f16", "bf16"):
        return None
    if mask.per in ("head", "both") or mask.stored > BLOCKS * math.ceil(q.shape[2] / 128) * len(mask.indptr):
        return None
    block = TILE // heads, KEYS
    blocks = math.ceil(q.shape[2] / block[0]) * math.ceil(k.shape[2] / block[1])
    return None if blocks > MOST else block


def of_call(call: Any) -> tuple[int, int] | None:
    """The same of a call in blocks of 128 x 128, whose mask is found first."""
    heads = heads_of(call.q, call.k)
    if heads < HEADS[0] or call.closure is None:
        return None
    return block_of(call, find(call.key, (call.q.shape[2], call.k.shape[2])))


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
