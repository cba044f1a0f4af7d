"""Factors of blocks of Q, K and V in float8."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._float8_values import KIND
from ._native import Error

#: The least factor of a block of V, of the largest one of its head: a larger one of a block of zeros would lift the reference of its rows.
LEAST_OF_HEAD = 2.0**-40


class QuantisedAttention(NamedTuple):
    """Q, K and V in float8 and their factors, as :func:`bsr_gemm.attention` takes them."""

    q: Tensor
    k: Tensor
    v: Tensor
    scales: tuple[Tensor, Tensor, Tensor]


def quantise(q: Tensor, k: Tensor, v: Tensor, block: tuple[int, int]) -> QuantisedAttention:
    """Q, K and V rounded with a factor for each block of rows of each head."""
    if len(block) != 2 or min(block) < 1:
        raise Error(f"block = {block!r}\n  help: (queries, keys) of a block, those of the attention")
    found = [_rounded(x, rows, x is v) for x, rows in ((q, block[0]), (k, block[1]), (v, block[1]))]
    return QuantisedAttention(*(x for x, _ in found), tuple(factor for _, factor in found))


def _rounded(tensor: Tensor, rows: int, is_near: bool) -> tuple[Tensor, Tensor]:
    largest, wide = torch.finfo(KIND).max, tensor.detach().float()
    blocks = -(-tensor.shape[2] // rows)
    padded = torch.nn.functional.pad(wide, (0, 0, 0, blocks * rows - tensor.shape[2]))
    most = (
        padded.unflatten(2, (blocks, rows)).abs().amax((3, 4))
        if padded.numel()
        else padded.new_zeros((*tensor.shape[:2], blocks))
    )
    if is_near and most.numel():
        most = most.maximum(most.amax(2, keepdim=True) * LEAST_OF_HEAD)
    factor = torch.where(most > 0, (most / largest).clamp_min(torch.finfo(torch.float32).tiny), 1.0)
    each = factor.repeat_interleave(rows, 2)[:, :, : tensor.shape[2], None]
    return (wide / each).clamp(-largest, largest).to(KIND), factor


def factors_of(scales: Any, q: Tensor, k: Tensor) -> list[Tensor]:
    """The factors of blocks of Q, K and V: problems x heads x blocks."""
    found = [torch.as_tensor(scale, dtype=torch.float32, device=q.device) for scale in scales]
    for name, factor, like in zip("qkv", found, (q, k, k)):
        if factor.ndim != 3 or factor.shape[:2] != like.shape[:2]:
            raise Error(
                f"the scale of {name} is {list(factor.shape)}, and others are those of blocks\n"
                f"  help: {like.shape[0]} problems x {like.shape[1]} heads x blocks of rows"
            )
    return [factor.contiguous() for factor in found]


def check(factors: list[Tensor], q: Tensor, k: Tensor, block: tuple[int, int]) -> None:
    """Whether there are as many factors as blocks."""
    for name, factor, like, rows in zip("qkv", factors, (q, k, k), (block[0], block[1], block[1])):
        blocks = -(-like.shape[2] // rows)
        if factor.shape[2] != blocks:
            raise Error(
                f"the scale of {name} has {factor.shape[2]} blocks\n"
                f"  {like.shape[2]} rows in blocks of {rows} are {blocks}; the attention has blocks of {block[0]} x {block[1]}\n"
                "  help: `block` of the attention, the same that the scales were made with"
            )
