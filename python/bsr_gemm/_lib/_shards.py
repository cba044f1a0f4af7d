"""Matrices cut into shards for several ranks: whole block rows or block columns, balanced by stored blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _native
from ._matrix import BsrMatrix
from ._native import Error
from ._patterns import Pattern


@dataclass(frozen=True)
class Owned:
    """What one rank owns."""

    lines: range
    """Block rows, or block columns."""
    elements: range
    """The same in elements."""
    blocks: int
    """Stored blocks."""


@dataclass(frozen=True)
class Sharding:
    """Which rank owns which part of a matrix. Every block row (or block column) has one owner."""

    side: str
    """What is divided: ``"rows"`` or ``"columns"``."""
    pattern: Pattern
    """That of the whole matrix."""
    ranks: tuple[Owned, ...]
    """What each rank owns: consecutive ranges that cover everything."""

    @property
    def imbalance(self) -> float:
        """The largest number of stored blocks of a rank, over the average: 1 where every rank has the same work."""
        blocks = [owned.blocks for owned in self.ranks]
        return max(blocks) * len(blocks) / sum(blocks) if sum(blocks) else 1.0

    def blocks(self, rank: int) -> np.ndarray:
        """The numbers, in the whole matrix, of the stored blocks that a rank owns, in the order in which it stores them."""
        lines = self.ranks[rank].lines
        index = self.pattern.row_idx if self.side == "rows" else self.pattern.col_idx
        return np.flatnonzero((index >= lines.start) & (index < lines.stop))

    def part_pattern(self, rank: int) -> Pattern:
        """Where the blocks of a rank are in its own matrix."""
        owned, whole = self.ranks[rank], self.pattern
        blocks = self.blocks(rank)
        rows, cols = whole.row_idx[blocks], whole.col_idx[blocks]
        if self.side == "rows":
            shape, rows, grid = (len(owned.elements), whole.shape[1]), rows - owned.lines.start, len(owned.lines)
        else:
            shape, cols, grid = (whole.shape[0], len(owned.elements)), cols - owned.lines.start, whole.grid[0]
        row_ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=grid))])
        return Pattern(shape, whole.block, row_ptr, cols)

    def part(self, w: BsrMatrix, rank: int) -> BsrMatrix:
        """The shard of a rank: a matrix of the rows or columns that it owns. The values are copied."""
        self._check(w)
        values = w.values[_arrays.index(self.blocks(rank), w.values)]
        return BsrMatrix(values, self.part_pattern(rank), check=False)

    def gather(self, parts: Sequence[BsrMatrix]) -> BsrMatrix:
        """The whole matrix, of the shards of all ranks in their order."""
        if len(parts) != len(self.ranks):
            raise Error(
                f"{len(parts)} shards of a matrix that {len(self.ranks)} ranks own\n"
                "  help: give the shards of all ranks, in their order"
            )
        for rank, part in enumerate(parts):
            if part.pattern != self.part_pattern(rank):
                raise Error(
                    f"the shard of rank {rank} has another pattern than what this rank owns\n"
                    "  help: give the shards in the order of the ranks"
                )
        return BsrMatrix(self.gather_values([part.values for part in parts]), self.pattern, check=False)

    def gather_values(self, values: Sequence[Any]) -> Any:
        """The values of the whole matrix, of those of the ranks in their order."""
        order = np.concatenate([self.blocks(rank) for rank in range(len(self.ranks))])
        place = _arrays.index(np.argsort(order, kind="stable"), values[0])
        if _arrays.is_tensor(values[0]):
            return sys.modules["torch"].cat(list(values))[place]
        return np.concatenate(list(values))[place]

    def _check(self, w: BsrMatrix) -> None:
        if w.pattern != self.pattern:
            raise Error("the matrix has another pattern than the one that was divided\n  help: divide this one")

    def __str__(self) -> str:
        everything = sum(owned.blocks for owned in self.ranks)
        lines = [
            f"rank {rank}: block {self.side} {owned.lines.start}..{owned.lines.stop}, "
            f"{self.side} {owned.elements.start}..{owned.elements.stop}, {owned.blocks} of {everything} blocks"
            for rank, owned in enumerate(self.ranks)
        ]
        return "\n".join([*lines, f"the largest shard has {self.imbalance:.3f} times the average"])


def shard_rows(w: BsrMatrix | Pattern, ranks: int) -> Sharding:
    """Divides the block rows of a matrix among ranks, in their order."""
    pattern = _pattern(w)
    return _cut(pattern, "rows", _native.balanced(_lengths(pattern, "rows").tolist(), ranks))


def shard_cols(w: BsrMatrix | Pattern, ranks: int) -> Sharding:
    """Divides the block columns of a matrix among ranks, in their order."""
    pattern = _pattern(w)
    return _cut(pattern, "columns", _native.balanced(_lengths(pattern, "columns").tolist(), ranks))


def shard_hidden(
    ups: Sequence[BsrMatrix | Pattern], down: BsrMatrix | Pattern, ranks: int
) -> tuple[list[Sharding], Sharding]:
    """Divides the hidden features of layers among ranks: the rows of ``ups`` and the columns of ``down``, at the same places.

    The stored blocks of all of them are balanced together. What a rank's shards compute, one after the other, is its part of
    the sum of the whole.
    """
    firsts, last = [_pattern(up) for up in ups], _pattern(down)
    for first in firsts:
        if first.shape[0] != last.shape[1]:
            raise Error(
                f"the first layer has {first.shape[0]} outputs and the second {last.shape[1]} inputs\n"
                "  help: both numbers are equal"
            )
    # All are cut between whole blocks: at multiples of all sides.
    step = math.lcm(*(first.block[0] for first in firsts), last.block[1])
    weights = np.zeros(-(-last.shape[1] // step), dtype=np.int64)
    for pattern, side, height in [
        *((first, "rows", first.block[0]) for first in firsts),
        (last, "columns", last.block[1]),
    ]:
        lengths = _lengths(pattern, side)
        area = pattern.block[0] * pattern.block[1]
        np.add.at(weights, np.arange(len(lengths)) * height // step, lengths * area)
    cuts = _native.balanced(weights.tolist(), ranks)

    def lines(pattern: Pattern, side: str) -> Sharding:
        height = pattern.block[0 if side == "rows" else 1]
        count = pattern.grid[0 if side == "rows" else 1]
        return _cut(pattern, side, [tuple(min(at * (step // height), count) for at in cut) for cut in cuts])

    return [lines(first, "rows") for first in firsts], lines(last, "columns")


def _pattern(w: Any) -> Pattern:
    found = w if isinstance(w, Pattern) else getattr(w, "pattern", None)
    if not isinstance(found, Pattern):
        raise Error(f"a {type(w).__name__} has no blocks\n  help: pass a BsrMatrix, a Pattern or a block-sparse layer")
    return found


def _lengths(pattern: Pattern, side: str) -> np.ndarray:
    """The number of stored blocks of each block row or block column."""
    if side == "rows":
        return np.diff(pattern.row_ptr).astype(np.int64)
    return np.bincount(pattern.col_idx, minlength=pattern.grid[1]).astype(np.int64)


def _cut(pattern: Pattern, side: str, cuts: Sequence[tuple[int, ...]]) -> Sharding:
    axis = 0 if side == "rows" else 1
    lengths, step, end = _lengths(pattern, side), pattern.block[axis], pattern.shape[axis]
    owned = [
        Owned(range(start, stop), range(min(start * step, end), min(stop * step, end)), int(lengths[start:stop].sum()))
        for start, stop in cuts
    ]
    return Sharding(side, pattern, tuple(owned))
