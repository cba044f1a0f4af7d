"""Tiles for the Triton kernels to be tried with, and what Hopper has room for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """A tile of C, a step of K, and how it is run. `buffers` tiles of the operands are in flight, `group` tiles of the
    dense side are walked before all of the sparse one."""

    m: int
    n: int
    k: int
    warps: int
    buffers: int
    unroll: int = 1
    swap: bool = False
    group: int = 2

    def brief(self) -> str:
        """Its size, and how much of it is in flight."""
        return f"{self.m}x{self.n}x{self.k}, {self.warps} warps, {self.buffers} buffers"

    def words(self) -> str:
        """All of it in words."""
        more = f", {self.unroll} steps" if self.unroll > 1 else ""
        swapped = ", swapped" if self.swap else ""
        return f"{self.brief()}{more}{swapped}, group {self.group}"

    def bytes(self, element: int) -> int:
        """Shared memory of the operands."""
        return self.buffers * self.unroll * (self.m + self.n) * self.k * element


# Of the 232,448 B a CTA of Hopper has, what operands may take: barriers and the epilogue's tile need the rest.
SHARED = 220_000

# Up to so many columns a product takes as long as its weights take from memory: what counts is that enough of them are
# under way, and all columns are one tile.
FEW_COLUMNS = 64


def power_of_two(side: int, most: int) -> int:
    """The largest power of two that divides `side`, at most `most`: what Triton takes as a tile's side."""
    return min(side & -side, most)


def dsd_tiles(height: int, bk: int, columns: int, element: int, transposed: bool) -> list[Tile]:
    """Tiles for blocks of `height` x `bk` and a dense side of `columns`, the likeliest first."""
    tiles = few_columns(height, bk, columns, element) if columns <= FEW_COLUMNS else many_columns(height, bk, element)
    least = 16 if element == 2 else 32
    fitting = [tile for tile in tiles if tile.bytes(element) <= SHARED and tile.k >= least]
    if transposed:
        fitting = [tile for tile in fitting if tile.unroll == 1]
    return list(dict.fromkeys(fitting))


def few_columns(height: int, bk: int, columns: int, element: int) -> list[Tile]:
    """One tile of columns: the least power of two that has them all, and 16 that Triton's dot takes."""
    n = max(16, 1 << (columns - 1).bit_length())
    k = power_of_two(bk, 128 // element)
    tall, deep = power_of_two(height, 128), power_of_two(bk, 256 // element)
    low = min(tall, 64)
    tiles = [Tile(tall, n, k, 4, 4), Tile(tall, n, k, 4, 6), Tile(tall, n, deep, 4, 3), Tile(low, n, k, 4, 4)]
    tiles += [Tile(tall, n, k, 4, 3), Tile(tall, n, k, 8, 4), Tile(low, n, k, 4, 8), Tile(tall, n, deep, 8, 3)]
    return tiles


def many_columns(height: int, bk: int, element: int) -> list[Tile]:
    """Tiles that read each operand as seldom as shared memory allows."""
    k = power_of_two(bk, 128 // element)
    m = power_of_two(height, 128)
    steps = bk // k
    tiles = []
    if m == 128:
        tiles = [Tile(m, 256, k, 8, 4), Tile(m, 256, k, 8, 3), Tile(m, 128, k, 4, 3), Tile(m, 256, k, 8, 4, group=4)]
        tiles += [Tile(m, 128, k, 4, 5), Tile(m, 256, k, 8, 4, group=1), Tile(m, 128, k, 4, 3, group=4)]
        tiles += [Tile(m, 128, k, 8, 5), Tile(m, 256, k // 2, 8, 6), Tile(m, 128, k // 2, 4, 6)]
        if height >= 256:
            tiles += [Tile(256, 128, k, 8, 4), Tile(256, 128, k, 8, 3)]
        if k < 64 and steps > 1:
            tiles = [Tile(m, 256, k, 8, 2, unroll=steps), Tile(256, 128, k, 8, 2, unroll=steps), *tiles]
            tiles += [Tile(m, 256, k, 8, 8), Tile(m, 128, k, 4, 8)]
        if k < 64 and steps == 1:
            tiles = [Tile(m, 256, k, 8, 3, unroll=2), Tile(m, 256, k, 8, 8), *tiles]
    elif m == 64:
        tiles = [Tile(m, 256, k, 4, 4), Tile(m, 256, k, 4, 2), Tile(m, 128, k, 4, 3), Tile(m, 256, k, 8, 4)]
        tiles += [Tile(m, 256, k, 4, 5), Tile(m, 256, k, 4, 4, group=4), Tile(m, 256, k, 4, 2, group=4)]
        tiles += [Tile(m, 128, k, 4, 5), Tile(m, 256, k, 4, 2, unroll=2), Tile(m, 256, k, 8, 4, swap=True)]
        tiles += [Tile(m, 128, k, 4, 3, swap=True)]
    else:
        more = max(1, 64 // k)
        for unroll in (more, 2 * more, max(1, more // 2), 1):
            tiles += [Tile(m, 256, k, 8, 3, unroll, swap=True), Tile(m, 128, k, 4, 3, unroll, swap=True)]
            tiles += [Tile(m, 256, k, 4, 3, unroll, swap=True), Tile(m, 128, k, 4, 3, unroll)]
    return tiles


def stages(buffers: int) -> int:
    """Triton's num_stages for so many buffers of what is loaded through an index."""
    return 2 * buffers - 1
