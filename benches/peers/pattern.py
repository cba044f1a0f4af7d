"""Which blocks are stored: drawn from a seed, on the host, with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int32]


@dataclass(frozen=True)
class Pattern:
    """A matrix of `rows` x `cols` elements in blocks of `block`: block row r holds col_idx[row_ptr[r]:row_ptr[r + 1]],
    which increase."""

    rows: int
    cols: int
    block: tuple[int, int]
    row_ptr: Indices
    col_idx: Indices

    @property
    def nnzb(self) -> int:
        """Stored blocks."""
        return len(self.col_idx)

    @property
    def block_rows(self) -> int:
        """Block rows."""
        return self.rows // self.block[0]

    @property
    def block_cols(self) -> int:
        """Block columns."""
        return self.cols // self.block[1]

    @property
    def lengths(self) -> Indices:
        """Blocks in each block row."""
        return np.diff(self.row_ptr)

    @property
    def row_of(self) -> Indices:
        """The block row of each block."""
        return np.repeat(np.arange(self.block_rows, dtype=np.int32), self.lengths)

    def transposed(self) -> tuple[Indices, Indices, Indices]:
        """By block columns: offsets, the block row of each block, and where the block is stored."""
        where = np.argsort(self.col_idx, kind="stable").astype(np.int32)
        counts = np.bincount(self.col_idx, minlength=self.block_cols)
        col_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return col_ptr, self.row_of[where], where

    def values(self, seed: int) -> NDArray[np.float16]:
        """Values from N(0, 1), rounded to f16: nnzb x block rows x block columns."""
        rng = np.random.default_rng([seed, 1])
        return rng.standard_normal((self.nnzb, *self.block), dtype=np.float32).astype(np.float16)

    def save(self, path: Path, values: NDArray[np.float16]) -> None:
        """Writes what scipy.sparse.save_npz writes of a bsr matrix; not compressed."""
        np.savez(
            path,
            format=np.array(b"bsr"),
            shape=np.array([self.rows, self.cols], dtype=np.int64),
            indptr=self.row_ptr,
            indices=self.col_idx,
            data=values,
        )


def draw(rows: int, cols: int, block: tuple[int, int], words: str, seed: int) -> Pattern:
    """A pattern of the class that `bsr` calls by the same words: `random:D` stores round(D * all) blocks, any set as
    likely as another; `topk:T` stores T in every block row. The draw is this file's own.

    Raises ValueError for other words, and where the blocks do not divide the matrix.
    """
    if rows % block[0] or cols % block[1]:
        raise ValueError(f"blocks of {block[0]} x {block[1]} do not divide {rows} x {cols}")
    block_rows, block_cols = rows // block[0], cols // block[1]
    rng = np.random.default_rng([seed, 0])
    kind, _, number = words.partition(":")
    if kind == "random":
        everywhere = block_rows * block_cols
        density = float(number)
        if not 0 <= density <= 1:
            raise ValueError(f"`{words}`: a density is in 0..=1")
        places = np.sort(rng.choice(everywhere, int(density * everywhere + 0.5), replace=False))
        lengths = np.bincount(places // block_cols, minlength=block_rows)
        columns = places % block_cols
    elif kind == "topk":
        count = int(number)
        if not 0 <= count <= block_cols:
            raise ValueError(f"`{words}`: a block row has {block_cols} blocks")
        lengths = np.full(block_rows, count)
        columns = np.concatenate([np.sort(rng.choice(block_cols, count, replace=False)) for _ in range(block_rows)])
    else:
        raise ValueError(f"`{words}`: a pattern is random:D or topk:T")
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return Pattern(rows, cols, block, row_ptr, columns.astype(np.int32))


@dataclass(frozen=True)
class Ell:
    """Blocked-ELL: every block row as long as the longest, padded with column -1 and zeros."""

    width: int
    """Blocks in each block row."""
    columns: Indices
    """Block rows x width."""
    slots: Indices
    """Where block i goes, counted through block rows x width."""


def ell(pattern: Pattern) -> Ell:
    """The pattern in Blocked-ELL."""
    width = int(pattern.lengths.max(initial=0))
    within = np.arange(pattern.nnzb, dtype=np.int32) - pattern.row_ptr[pattern.row_of]
    slots = pattern.row_of * width + within
    columns = np.full(pattern.block_rows * width, -1, dtype=np.int32)
    columns[slots] = pattern.col_idx
    return Ell(width, columns.reshape(pattern.block_rows, width), slots.astype(np.int32))
