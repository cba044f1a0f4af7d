"""Gradients of attention as products, where no kernels compute them: see `_attention_launch.gradient`.

All heads of all problems are one product: block rows are those of the queries of every head, one head after the other, and
block columns those of the keys of every head of K.

    P  = exp(scale * Q K^T - lse)         at the stored blocks, computed again, with the exponential as an epilogue
    dV = P^T dO
    dS = scale * P * (dO V^T - delta)     at the stored blocks, as an epilogue; delta = sums of dO * O
    dQ = dS K,  dK = dS^T Q

In partial blocks the condition of a mask of pairs, or the score and its derivative, are applied to the stored values.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _arrays, _native
from ._masks import AttentionMask
from ._patterns import Pattern
from ._score import score_of

#: The most cached patterns of all heads.
KEPT = 64

_stacked: OrderedDict[tuple, Stacked] = OrderedDict()


class Stacked:
    """The pattern of all heads as one matrix, and which of its blocks need more than the scaled product."""

    def __init__(self, mask: AttentionMask, batch: int, heads: int, key_heads: int) -> None:
        (_, keys), (bm, bk), (rows, columns) = mask.sizes, mask.block, mask.grid
        self.sizes = (rows * bm, columns * bk)
        starts, indices, partial, total = [np.zeros(1, dtype=np.int64)], [], [], 0
        for problem in range(batch):
            for head in range(heads):
                at = {"all": 0, "head": head, "problem": problem, "both": problem * heads + head}[mask.per]
                key_head = problem * key_heads + head // (heads // key_heads)
                starts.append(mask.indptr[at][1:].astype(np.int64) + total)
                indices.append(mask.indices[at].astype(np.int64) + key_head * columns)
                partial.append(mask.partial[at])
                total += len(mask.indices[at])
        shape = (batch * heads * rows * bm, batch * key_heads * columns * bk)
        self.pattern = Pattern(shape, mask.block, np.concatenate(starts), np.concatenate(indices))
        row, column = (index.astype(np.int64) for index in (self.pattern.row_idx, self.pattern.col_idx))
        at_edge = (column % columns == columns - 1) if keys % bk else np.zeros(len(column), dtype=bool)
        flags = np.concatenate(partial) if partial else np.zeros(0, dtype=bool)
        self.special = np.nonzero(flags | at_edge)[0]
        self.is_partial = flags[self.special]
        row, column = row[self.special], column[self.special]
        head_of_row = row // rows
        #: Of each special block: first query, first key, head and problem.
        self.places = np.stack(
            [row % rows * bm, column % columns * bk, head_of_row % heads, head_of_row // heads], axis=1
        )
        self.block_rows = row
        special_rows = np.searchsorted(row, np.arange(shape[0] // bm + 1))
        self.of_special = Pattern(shape, mask.block, special_rows, column) if len(row) else None


def stacked(mask: AttentionMask, batch: int, heads: int, key_heads: int) -> Stacked:
    """The pattern of all heads, made now or before."""
    key = (mask.key, batch, heads, key_heads)
    found = _stacked.get(key)
    if found is None:
        found = _stacked[key] = Stacked(mask, batch, heads, key_heads)
        while len(_stacked) > KEPT:
            _stacked.popitem(last=False)
    return found


def gradients(
    do: Tensor,
    dlse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    mask: Any,
    score: str | None,
    scale: float,
    numbers: Sequence[float],
    vectors: Sequence[Tensor] = (),
    wanted: Sequence[bool] = (),
) -> tuple[Tensor, ...]:
    """The gradients of Q, K and V, then of those of the score's vectors that are ``wanted``.

    A mask on a GPU is copied to the host, which waits for it.
    """
    mask = mask.to_mask() if mask.on_device else mask
    wanted = wanted or (False,) * len(vectors)
    vectors = [vector.detach().requires_grad_(is_wanted) for vector, is_wanted in zip(vectors, wanted)]
    leaves = [vector for vector in vectors if vector.requires_grad]
    batch, heads, queries, _ = q.shape
    if 0 in q.shape or 0 in v.shape or mask.stored == 0:
        return tuple(torch.zeros_like(tensor) for tensor in (q, k, v, *leaves))
    whole, tensors = stacked(mask, batch, heads, k.shape[1]), (q, k, v)
    key, (high, wide) = whole.pattern.key, whole.sizes
    delta = (do.to(lse.dtype) * o).sum(-1)
    delta = delta if dlse is None else delta - dlse
    # A query without keys has no probabilities, as those have that fill the last block.
    sums = torch.where(lse.isneginf(), torch.inf, lse)
    sums = torch.nn.functional.pad(sums, (0, high - queries), value=torch.inf).reshape(-1)
    delta = torch.nn.functional.pad(delta, (0, high - queries)).reshape(-1)
    q, do = (_rows(tensor, high) for tensor in (q, do))
    k, v = (_rows(tensor, wide) for tensor in (k, v))
    p = sddmm(q, k.t(), whole.pattern, PROBABILITIES, {"lse": sums, "scale": scale})
    slope, scores = _correct(p, whole, q, k, sums, (mask, score, scale, numbers, vectors), leaves)
    linear = torch.ops.bsr_gemm.linear
    dv = linear(do.t(), p, None, key, True).t()
    ds = sddmm(do, v.t(), whole.pattern, _score_gradient(_arrays.kind_of(p)), {"p": p, "delta": delta, "scale": scale})
    found_of_score = [torch.zeros_like(leaf) for leaf in leaves]
    if slope is not None:
        special = _arrays.index(whole.special, ds)
        of_scores = ds.index_select(0, special)
        if scores is not None:
            # What the scores are minus infinity for depends on nothing.
            of_each = torch.where(scores.detach().isneginf(), 0, of_scores.to(scores.dtype) / scale)
            each = torch.autograd.grad(scores, leaves, of_each, allow_unused=True)
            found_of_score = [zero if found is None else found for found, zero in zip(each, found_of_score)]
        ds.index_copy_(0, special, (of_scores * slope).to(ds.dtype))
    dq = linear(k.t(), ds, None, key, False).t()
    dk = linear(q.t(), ds, None, key, True).t()

    def laid_out(found: Tensor, of: Tensor) -> Tensor:
        rows = found.reshape(*of.shape[:2], -1, of.shape[3])[:, :, : of.shape[2]]
        return torch.empty_like(of).copy_(rows)

    return *map(laid_out, (dq, dk, dv), tensors), *found_of_score


PROBABILITIES = "|lse: Rows<f32>, scale: f32| exp(scale * acc - lse)"


def _score_gradient(kind: str) -> str:
    kind = "f32" if kind == "f64" else kind
    return f"|p: Bsr<{kind}>, delta: Rows<f32>, scale: f32| scale * p * (acc - delta)"


def _rows(tensor: Tensor, rows: int) -> Tensor:
    """The rows of all heads below one another, as many of each as its blocks have."""
    padded = torch.nn.functional.pad(tensor, (0, 0, 0, rows - tensor.shape[2])) if rows != tensor.shape[2] else tensor
    return padded.reshape(-1, tensor.shape[3]).contiguous()


def _correct(
    p: Tensor,
    whole: Stacked,
    q: Tensor,
    k: Tensor,
    sums: Tensor,
    how: tuple[AttentionMask, str | None, float, Sequence, Sequence],
    leaves: Sequence[Tensor],
) -> tuple[Tensor | None, Tensor | None]:
    """Brings the probabilities of special blocks to their scores; their scores' derivatives by the scaled product, where
    there are other than 1, and the scores themselves where gradients of their vectors are wanted: of ``leaves``."""
    mask, closure, scale, numbers, vectors = how
    if whole.of_special is None:
        return None, None
    (bm, bk), (_, keys) = mask.block, mask.sizes
    places = _arrays.index(whole.places, p)
    query = (places[:, 0, None] + torch.arange(bm, device=p.device))[:, :, None]
    key = (places[:, 1, None] + torch.arange(bk, device=p.device))[:, None, :]
    inside, special = key < keys, _arrays.index(whole.special, p)
    score = None if closure is None else score_of(closure)
    if score is None:
        p.index_copy_(0, special, torch.where(inside, p.index_select(0, special), 0))
        return None, None
    kind = torch.float64 if p.dtype == torch.float64 else torch.float32
    values = {
        name: torch.as_tensor(number, dtype=kind, device=p.device) for name, number in zip(score.numbers, numbers)
    }
    head, batch = (places[:, at, None, None].to(kind) for at in (2, 3))
    values |= {"i": query.to(kind), "j": key.to(kind), "head": head, "batch": batch}
    for (name, word, _), vector in zip(score.vectors, vectors):
        # Queries and keys beyond the last ones have its elements, and no probabilities.
        at = {"Rows": query, "Cols": key}.get(word, torch.zeros_like(query[:, :1])).clamp(max=vector.shape[2] - 1)
        of_problem = places[:, 3, None, None].clamp(max=vector.shape[0] - 1)
        with torch.enable_grad():
            values[name] = vector[of_problem, places[:, 2, None, None].clamp(max=vector.shape[1] - 1), at].to(kind)
    values["scale"] = torch.as_tensor(scale, dtype=kind, device=p.device)
    partial = _arrays.index(whole.is_partial, p)[:, None, None]
    if score.is_mask:
        # The score of a product of 1 is the scale where the pair is attended to, and minus infinity elsewhere.
        attended = score.evaluate(values | {"s": torch.ones((), dtype=kind, device=p.device)}) > -torch.inf
        kept = inside & (attended | ~partial)
        p.index_copy_(0, special, torch.where(kept, p.index_select(0, special), 0))
        return None, None
    s = sddmm(q, k.t(), whole.of_special, "|| acc", {}, torch.float64 if kind == torch.float64 else torch.float32)
    with torch.enable_grad():
        s.requires_grad_()
        scores = torch.where(partial, score.evaluate(values | {"s": s}), s * values["scale"])
        depends = scores.requires_grad
        (slope,) = (
            torch.autograd.grad(scores.sum(), s, retain_graph=bool(leaves)) if depends else (torch.zeros_like(s),)
        )
    row = torch.arange(sums.shape[0], device=p.device).reshape(-1, bm)
    of_rows = sums[row.index_select(0, _arrays.index(whole.block_rows, p))][:, :, None]
    probabilities = torch.where(inside, (scores.detach() - of_rows).exp(), 0)
    p.index_copy_(0, special, probabilities.to(p.dtype))
    return torch.where(inside, slope / values["scale"], 0), scores if leaves and depends else None


def sddmm(
    a: Tensor, b: Tensor, pattern: Pattern, epilogue: str, values: dict[str, Any], dtype: torch.dtype | None = None
) -> Tensor:
    """The stored blocks of ``epilogue(a @ b)``; what the epilogue reads are vectors by row, values of the blocks, numbers."""
    out = a.new_empty((pattern.nnzb, *pattern.block), dtype=dtype or a.dtype)
    if a.is_cuda:
        from . import _launch

        return _launch.sddmm(a, b, out, pattern, epilogue, values)
    described: list[tuple[str, _arrays.Matrix]] = []
    alive: list[Any] = []
    for name, value in values.items():
        if not isinstance(value, Tensor):
            number, matrix = _arrays.scalar(value)
            alive.append(number)
            described.append((name, matrix))
        else:
            alive.append(value)
            described.append((name, _arrays.values(value) if value.dim() == 3 else _arrays.rows(value, len(value))))
    _native.multiply_sddmm(
        pattern._native, _arrays.matrix(a), _arrays.matrix(b), _arrays.values(out), (epilogue, described)
    )
    del alive
    return out
