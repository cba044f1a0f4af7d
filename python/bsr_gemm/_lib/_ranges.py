"""Attention in which each query attends to a range of keys, whose ends are tensors: ``torch.ops.bsr_gemm.attention_of_ranges``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import _attention_torch, _block_sparse
from ._calls import Call
from ._patterns import grid_of

#: The condition in blocks of which some query does not attend to all keys.
RANGE = "|first_key: Rows<f32>, end_key: Rows<f32>| j >= first_key && j < end_key"


def flags_of(first: Tensor, end: Tensor, keys: int, block: tuple[int, int]) -> Tensor:
    """A byte for each block, rows x columns: 0 without a pair that counts, 1 where all do, 2 elsewhere. All ranges are within
    the keys."""
    (bm, bk), queries = block, len(first)
    rows, columns = grid_of((queries, keys), block)
    first, end = first.long(), end.long()
    stored = torch.stack((first // bk, (end + bk - 1) // bk))
    # The last block is whole where the range ends with the keys.
    whole = torch.stack(((first + bk - 1) // bk, torch.where(end == keys, columns, end // bk)))
    whole[1] = torch.maximum(whole[0], whole[1])
    row = torch.arange(queries, device=first.device) // bm
    present = (first < end).int()
    # How many queries begin and end to have a block, and to have all of it.
    changes = first.new_zeros((2, rows * (columns + 1)), dtype=torch.int32)
    for of, ends in zip(changes, (stored, whole)):
        of.scatter_add_(0, row * (columns + 1) + ends[0], present)
        of.scatter_add_(0, row * (columns + 1) + ends[1], -present)
    number = changes.view(2, rows, columns + 1).cumsum(-1)[..., :columns]
    heights = (queries - bm * torch.arange(rows, device=first.device)).clamp(max=bm)
    is_partial = number[1] < heights[:, None]
    return (number[0] > 0).to(torch.uint8) * (1 + is_partial.to(torch.uint8))


def attention_of_ranges(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Tensor | None,
    ranges: tuple[Tensor, Tensor],
    block: tuple[int, int],
    score: str | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """O and LSE; ``ranges`` are the first key of each query and the one behind its last, in f32."""
    return torch.ops.bsr_gemm.attention_of_ranges(q, k, v, sinks, *ranges, list(block), score, scale)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ends: tuple[Tensor, Tensor],
    block: list[int],
    score: str | None,
    scale: float,
    compute: Callable[[Call], Any],
) -> Any:
    """What ``compute`` returns for a call with the mask of the ranges."""
    _attention_torch._check(q, k, v)
    sizes, sides = (q.shape[2], k.shape[2]), (block[0], block[1])
    numbers = {"first_key": ends[0], "end_key": ends[1]}

    def run(mask: Any) -> Any:
        return compute(Call.of(q, k, v, mask, (False, None, score), numbers, scale, "bhsd", mask.block))

    return _block_sparse.under(q, sizes, sides, RANGE, lambda: flags_of(*ends, sizes[1], sides), run)


def _fake(q, k, v, sinks, first, end, block, score, scale):
    _attention_torch._check(q, k, v)
    return _attention_torch._places(q, v, True)


def _forward(attend: Callable) -> Callable:
    def kernel(q, k, v, sinks, first, end, block, score, scale):
        def compute(call):
            return attend(q, k, v, sinks, call.key, call.closure, call.scale, call.numbers, True, call.vectors)

        return _attend(q, k, v, (first, end), block, score, scale, compute)

    return kernel


def _gradient_fake(do, dlse, q, k, v, o, lse, first, end, block, score, scale):
    return tuple(torch.empty_like(tensor) for tensor in (q, k, v))


def _gradient(differentiate: Callable) -> Callable:
    def kernel(do, dlse, q, k, v, o, lse, first, end, block, score, scale):
        def compute(call):
            how = (call.key, call.closure, call.scale, call.numbers, call.vectors)
            return tuple(differentiate(do, dlse, q, k, v, o, lse, *how))

        return _attend(q, k, v, (first, end), block, score, scale, compute)

    return kernel


ENDS = "Tensor first, Tensor end, int[] block, str? score, float scale"
_attention_torch.declare("attention_of_ranges", ENDS, (_fake, _gradient_fake), _forward, _gradient, has_sinks=True)
