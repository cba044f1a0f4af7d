"""Which kernel computes an attention, where a call leaves that open."""

from __future__ import annotations

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


def specs(
    mask: Any, q: Tensor, k: Tensor, v: Tensor, closure: str | None, split: str | None, has_sinks: bool = False
) -> list[str]:
    """Specs by preference: the first one that is planned computes the attention, and the last one always is.

    With few queries, heads of Q that share a head of K and V share a tile, so that K and V are read once for all of them, and
    the keys of a tile are divided as far as GPUs have SMs for it.
    """
    queries, columns = q.shape[2], (q.shape[3], v.shape[3])

    def spec(split: str | None, heads: int = 1) -> str:
        return spec_of(mask.block, columns, _arrays.kind_of(q), closure, split, heads, has_sinks)

    if mask.on_device or queries > FEW:
        return [spec(split)]
    # A pattern for each head cannot be that of a tile of several.
    group = 1 if mask.per in ("head", "both") else q.shape[1] // k.shape[1]
    heads = min(group & -group, 1 << (ROWS // queries).bit_length() - 1)
    divided = split or ("auto" if v.shape[3] <= WIDEST else None)
    return list(dict.fromkeys([spec(divided, heads), spec(divided), spec(split)]))
