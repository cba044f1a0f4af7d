"""The table of what is timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

NEIGHBOURS = 27
"""Stored blocks of a row: a node of a hexahedral mesh and those around it."""
VALUES = 400_000_000
"""Bytes of values of a matrix of small blocks, about."""


@dataclass(frozen=True)
class Vector:
    """A matrix of small square blocks times one vector, both of one type."""

    group: str
    """`mesh`, or `random`: a block in each 27th part of the block columns, anywhere in it."""
    block: int
    size: int
    """Bytes of a value: 8 of f64, 4 of f32."""

    @property
    def side(self) -> int:
        """Nodes along an edge of the mesh."""
        return int(round((VALUES / (NEIGHBOURS * self.block**2 * self.size)) ** (1 / 3)))

    @property
    def block_rows(self) -> int:
        """Block rows, and block columns."""
        return self.side**3

    @property
    def nnzb(self) -> int:
        """Stored blocks. Nodes on the surface of the mesh lack neighbours."""
        return (3 * self.side - 2) ** 3 if self.group == "mesh" else NEIGHBOURS * self.block_rows

    @property
    def name(self) -> str:
        """The row's name."""
        return f"{self.block} x {self.block}, f{8 * self.size}, {self.group}, {self.block_rows} block rows"

    @property
    def flops(self) -> int:
        """A product and a sum for each stored value."""
        return 2 * self.nnzb * self.block**2

    @property
    def bytes(self) -> int:
        """Values, block columns and row pointers of 32 bits, x and y, each once."""
        vectors = 2 * self.block_rows * self.block
        return (self.nnzb * self.block**2 + vectors) * self.size + 4 * (self.nnzb + self.block_rows + 1)


@dataclass(frozen=True)
class Pairs:
    """A product of two square matrices of `rows` rows in square blocks, each with a part of its blocks at random."""

    rows: int
    block: int
    density: float
    group: str = "pairs"

    @cached_property
    def masks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which blocks A and B store."""
        side = self.rows // self.block
        rng = np.random.default_rng(0)
        a, b = (rng.permutation(side * side).reshape(side, side) < self.density * side * side for _ in "ab")
        return a, b

    @property
    def name(self) -> str:
        """The row's name."""
        return f"{self.rows}^3, {self.block} x {self.block}, {self.density:g} of the blocks of A and of B"

    @property
    def flops(self) -> int:
        """Operations of the pairs of stored blocks."""
        a, b = self.masks
        return 2 * self.block**3 * int((a.sum(0, dtype=np.int64) * b.sum(1, dtype=np.int64)).sum())

    @property
    def bytes(self) -> int:
        """Values of A, B and C in f16."""
        a, b = self.masks
        stored = a.sum() + b.sum() + (a.astype(np.float32) @ b.astype(np.float32) > 0).sum()
        return 2 * self.block**2 * int(stored)


def random() -> Iterator[Vector]:
    """Blocks at random places."""
    for size in (8, 4):
        for block in range(1, 9):
            yield Vector("random", block, size)


def mesh() -> Iterator[Vector]:
    """Blocks of neighbours in a hexahedral mesh."""
    for size in (8, 4):
        for block in range(1, 9):
            yield Vector("mesh", block, size)


def pairs() -> Iterator[Pairs]:
    """Sparse times sparse; the last ones are what a library that works on single values may still hold."""
    for rows, block, density in (
        (8192, 128, 0.25),
        (8192, 64, 0.25),
        (8192, 128, 0.5),
        (8192, 64, 0.03125),
        (16384, 128, 0.03125),
        (4096, 64, 0.125),
    ):
        yield Pairs(rows, block, density)


GROUPS = {"pairs": pairs, "random": random, "mesh": mesh}
