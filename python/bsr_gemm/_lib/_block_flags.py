"""A byte for each block of attention, computed from lists or scores on their device: 0 is not stored, 1 is whole, 2 is partial.

All sizes are known on the host: nothing synchronizes, and a CUDA graph can capture it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Derivation:
    """Flags that are a function of other tensors, computed again after a change of these."""

    def __init__(self, compute: Callable[[], Tensor], flags: Tensor) -> None:
        self.compute, self.flags, self.is_current = compute, flags, False

    def refresh(self) -> None:
        """Computes the flags if they are out of date; while a graph is captured, always."""
        captured = self.flags.is_cuda and torch.cuda.is_current_stream_capturing()
        if self.is_current and not captured:
            return
        self.flags.copy_(self.compute())
        self.is_current = not captured


def of_lists(lists: Sequence[tuple[Tensor, Tensor, int]], grid: tuple[int, int]) -> Tensor:
    """The flags of lists of block columns: each has counts, ``[.., rows]``, indices, ``[.., rows, entries]``, and a flag.

    Entries behind the counts mean nothing, and what is no column of ``grid`` is left out. Of several lists the last one counts.
    """
    (rows, columns), first = grid, lists[0][0]
    # One more column takes what is no block.
    wide = torch.zeros((*first.shape[:-1], rows, columns + 1), dtype=torch.uint8, device=first.device)
    for counts, indices, flag in lists:
        counts, indices = counts[..., :rows, None], indices[..., :rows, :].long()
        counted = torch.arange(indices.shape[-1], device=indices.device) < counts
        wide.scatter_(-1, torch.where(counted & (indices >= 0) & (indices < columns), indices, columns), flag)
    return wide[..., :columns]


def of_scores(
    scores: Tensor, count: int, threshold: float | None, causal: tuple[tuple[int, int], tuple[int, int]] | None
) -> Tensor:
    """The flags of the ``count`` greatest scores of each row; of equal scores the first ones count.

    A score of minus infinity, NaN, or up to ``threshold`` is none of them. With the sizes and the block of ``causal`` only blocks
    with a key up to their last query are candidates, and those with a key beyond their first query are partial.
    """
    scores = scores.detach().float()
    candidate = scores > (-torch.inf if threshold is None else threshold)
    partial = None
    if causal is not None:
        (queries, keys), (bm, bk) = causal
        row, column = (torch.arange(size, device=scores.device) for size in scores.shape[-2:])
        row, column = row[:, None] * bm, column * bk
        candidate = candidate & (column < (row + bm).clamp(max=queries))
        partial = (column + bk).clamp(max=keys) - 1 > row
    scores = torch.where(candidate, scores, -torch.inf)
    if count == 0:
        stored = torch.zeros_like(candidate)
    elif count >= scores.shape[-1]:
        stored = candidate
    else:
        least = scores.topk(count, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)
        above, equal = scores > least, candidate & (scores == least)
        room = count - above.sum(dim=-1, keepdim=True)
        stored = above | (equal & (equal.cumsum(dim=-1) <= room))
    return stored if partial is None else stored.to(torch.uint8) + (stored & partial)
