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


CLASSES = {"random": "random:D", "topk": "topk:T", "window": "window:W", "powerlaw": "powerlaw:D"}
Grid = tuple[int, int]
"""Block rows and block columns."""
Drawn = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The number of blocks in each block row, and the block columns of all."""


def draw(rows: int, cols: int, block: tuple[int, int], words: str, seed: int) -> Pattern:
    """A pattern of the class that `bsr` calls by the same words, with as many blocks; the draw is this file's own.

        random:D     round(D * all) blocks, any set as likely as another
        topk:T       T blocks in every block row, at random columns
        window:W     max(1, round(W * block columns)) adjacent blocks in every block row, centred on the diagonal from
                     the first element to the last and moved inside at the ends; none for W = 0
        powerlaw:D   round(D * all) blocks, where the length of the r-th longest block row is proportional to 1 / r,
                     rounded and at most all of a row; rows in random order, random columns

    Raises ValueError for other words, and where the blocks do not divide the matrix.
    """
    if rows % block[0] or cols % block[1]:
        raise ValueError(f"blocks of {block[0]} x {block[1]} do not divide {rows} x {cols}")
    kind, _, number = words.partition(":")
    if kind not in CLASSES:
        raise ValueError(f"`{words}`: a pattern is {', '.join(CLASSES.values())}")
    grid = (rows // block[0], cols // block[1])
    rng = np.random.default_rng([seed, 0])
    match kind:
        case "topk":
            lengths, columns = _topk(grid, int(number), words, rng)
        case "window":
            lengths, columns = _window(grid, _fraction(number, words))
        case "powerlaw":
            lengths, columns = _power_law(grid, _fraction(number, words), rng)
        case _:
            lengths, columns = _random(grid, _fraction(number, words), rng)
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return Pattern(rows, cols, block, row_ptr, columns.astype(np.int32))


def _fraction(number: str, words: str) -> float:
    value = float(number)
    if not 0 <= value <= 1:
        raise ValueError(f"`{words}`: a density is in 0..=1")
    return value


def _rounded(value: float) -> int:
    """To the nearest, halves up."""
    return int(value + 0.5)


def _random(grid: Grid, density: float, rng: np.random.Generator) -> Drawn:
    everywhere = grid[0] * grid[1]
    places = np.sort(rng.choice(everywhere, _rounded(density * everywhere), replace=False))
    return np.bincount(places // grid[1], minlength=grid[0]), places % grid[1]


def _topk(grid: Grid, count: int, words: str, rng: np.random.Generator) -> Drawn:
    if not 0 <= count <= grid[1]:
        raise ValueError(f"`{words}`: a block row has {grid[1]} blocks")
    return _scatter(np.full(grid[0], count), grid[1], rng)


def _window(grid: Grid, fraction: float) -> Drawn:
    width = max(1, _rounded(fraction * grid[1])) if fraction else 0
    # In blocks the diagonal passes (row + 1 / 2) * columns / rows. The first block is the middle less half the width,
    # rounded: all times twice the number of block rows, so that nothing is lost to fractions.
    middle = (2 * np.arange(grid[0]) + 1) * grid[1]
    start = np.clip((middle - (width - 1) * grid[0]) // (2 * grid[0]), 0, grid[1] - width)
    return np.full(grid[0], width), (start[:, None] + np.arange(width)).ravel()


def _power_law(grid: Grid, density: float, rng: np.random.Generator) -> Drawn:
    lengths = power_law_lengths(*grid, _rounded(density * grid[0] * grid[1]))
    return _scatter(rng.permutation(lengths), grid[1], rng)


def power_law_lengths(rows: int, cols: int, count: int) -> NDArray[np.int64]:
    """min(cols, scale / rank), rounded so that they add up to `count`; the longest first."""
    rank = np.arange(1, rows + 1)

    def whole(scale: float) -> NDArray[np.int64]:
        return np.minimum(cols, (scale / rank).astype(np.int64))

    # A scale of rows * cols fills every row; halved until the bounds are neighbours.
    low, high = 0.0, rows * cols + 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if whole(middle).sum() <= count else (low, middle)
    lengths = whole(low)
    # What rounding down left over: a block each to the rows that are nearest to their next one.
    nearest = np.argsort((lengths + 1) * rank, kind="stable")
    nearest = nearest[lengths[nearest] < cols]
    lengths[nearest[: count - lengths.sum()]] += 1
    return lengths


def _scatter(lengths: NDArray[np.int64], block_cols: int, rng: np.random.Generator) -> Drawn:
    """Random columns for block rows of these lengths."""
    return lengths, np.concatenate([np.sort(rng.choice(block_cols, length, replace=False)) for length in lengths])


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
