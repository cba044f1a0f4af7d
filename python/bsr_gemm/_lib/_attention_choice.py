"""Which kernel computes an attention, where a call leaves that open."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from . import _arrays
from ._calls import spec_of

#: The most queries for which heads share tiles and keys are divided: a tile of one head would have few rows, and there would be
#: few tiles.
FEW = 16
#: Rows of a consumer, which the queries of the heads that share a tile do not exceed.
ROWS = 64
#: The most columns of V for which kernels divide keys.
WIDEST = 160
#: The most of a mask's blocks for which CTAs of one row of blocks are faster than CTAs that load keys for two: rows that store
#: more have most of their keys in common. Between 0.25 and 0.5 on an H100.
SPARSE = 0.4


def specs(
    mask: Any, q: Tensor, k: Tensor, v: Tensor, closure: str | None, split: str | None, has_sinks: bool = False
) -> list[str]:
    """Specs by preference: the first one that is planned computes the attention, and the last one always is.

    With few queries, heads of Q that share a head of K and V share a tile, so that K and V are read once for all of them, and
    the keys of a tile are divided as far as GPUs have SMs for it. Where a row of blocks is no multiple of what two consumers
    compute, and few blocks are stored, each consumer is a CTA of its own.
    """
    queries, columns = q.shape[2], (q.shape[3], v.shape[3])

    def spec(split: str | None, heads: int = 1, consumers: int | None = None) -> str:
        kind = _arrays.kind_of(q)
        return spec_of(mask.block, columns, kind, closure, split, heads, has_sinks, consumers=consumers)

    if mask.on_device or queries > FEW:
        is_alone = mask.block[0] // ROWS % 2 == 1 and _is_sparse(mask)
        return [spec(split, consumers=1), spec(split)] if is_alone else [spec(split)]
    # A pattern for each head cannot be that of a tile of several.
    group = 1 if mask.per in ("head", "both") else q.shape[1] // k.shape[1]
    heads = min(group & -group, 1 << (ROWS // queries).bit_length() - 1)
    divided = split or ("auto" if v.shape[3] <= WIDEST else None)
    return list(dict.fromkeys([spec(divided, heads), spec(divided), spec(split)]))


def _is_sparse(mask: Any) -> bool:
    """Are few of its blocks stored? Of a mask on the GPU that is what it is for."""
    if mask.on_device:
        return True
    rows, columns = (math.ceil(size / side) for size, side in zip(mask.sizes, mask.block))
    return sum(map(len, mask.indices)) <= SPARSE * len(mask.indices) * rows * columns
