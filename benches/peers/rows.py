"""The rows of the table: what is multiplied, and which of our kernels do it.

A row's sparse matrix has blocks of `block` elements. Which operand it is depends on `op`:

    op      product                              sparse matrix
    dsd     C[m, n] = A[m, k] * B[k, n]          A, m x k
    dsd_t   C[m, n] = transpose(A) * B[k, n]     A, k x m, as stored
    dds     C[m, n] = A[m, k] * B[k, n]          B, k x n
    sdd     C[m, n] = A[m, k] * B[k, n]          C, m x n: only its blocks are computed
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

OPS = ("dsd", "dsd_t", "dds", "sdd")


@dataclass(frozen=True)
class Row:
    """One product. `specs` are kernels of ours, in the words of `bsr plan`; the fastest right one counts."""

    name: str
    op: str
    m: int
    n: int
    k: int
    block: tuple[int, int]
    pattern: str
    specs: tuple[str, ...]
    dtype: str = "f16"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise ValueError(f"{self.name}: op `{self.op}` is none of {', '.join(OPS)}")
        if self.dtype not in ("f16", "e4m3"):
            raise ValueError(f"{self.name}: dtype `{self.dtype}` is neither f16 nor e4m3")

    @property
    def sparse_shape(self) -> tuple[int, int]:
        """Rows and columns of the sparse matrix, in elements, as it is stored."""
        m, n, k = self.m, self.n, self.k
        return {"dsd": (m, k), "dsd_t": (k, m), "dds": (k, n), "sdd": (m, n)}[self.op]

    @property
    def dense_side(self) -> int:
        """How often each stored element takes part in a product."""
        return {"dsd": self.n, "dsd_t": self.n, "dds": self.m, "sdd": self.k}[self.op]

    def executed_flops(self, nnzb: int) -> int:
        """Operations on the stored blocks, and no others."""
        return 2 * nnzb * self.block[0] * self.block[1] * self.dense_side

    def equal_dense(self, nnzb: int) -> tuple[int, int, int]:
        """m, n, k of the dense product of as many operations, to the nearest multiple of 8 (of 16 for 8 bits).

        The sides that are long stay: k shrinks, and for sdd, which runs over all of k, n.
        """
        unit = 16 if self.dtype == "e4m3" else 8
        flops = self.executed_flops(nnzb)
        if self.op == "sdd":
            return self.m, _nearest(flops, 2 * self.m * self.k, unit), self.k
        return self.m, self.n, _nearest(flops, 2 * self.m * self.n, unit)

    def words(self) -> str:
        """The work in words."""
        rows, cols = self.block
        return f"{self.op} {self.m} x {self.n} x {self.k}, {rows} x {cols}, {self.pattern}, {self.dtype}"


def _nearest(flops: int, each: int, unit: int) -> int:
    return max(unit, round(flops / each / unit) * unit)


def _square(block: int, density: float, *specs: str, dtype: str = "f16", side: int = 8192) -> Row:
    name = f"{'fp8-' if dtype == 'e4m3' else ''}{f'{side}-' if side != 8192 else ''}{block}x{block}-{density:g}"
    return Row(name, "dsd", side, side, side, (block, block), f"random:{density:g}", specs, dtype)


def _layer(name: str, m: int, n: int, k: int, block: int, pattern: str, *specs: str, dtype: str = "f16") -> Row:
    """Weights of m x k in square blocks, times n columns."""
    return Row(f"{name}-{m}x{n}x{k}", "dsd", m, n, k, (block, block), pattern, specs, dtype)


_PACKED = "bm = 64, bn = 256, bk = 64, cluster = 2, swap = off, pack = 2"
_NARROW = "bm = 128, bn = 16, bk = 128, consumers = 1"
_WIDER = "bm = 128, bn = 64, bk = 128, consumers = 1"

# fmt: off
# The one place to edit when kernels of ours change. A spec that `bsr plan` refuses is shown with the reason.
ROWS = (
    Row("flagship", "dsd", 8192, 8192, 8288, (512, 112), "topk:16",
        ("bm = 512, bn = 192, bk = 112", "bm = 512, bn = 256, bk = 112")),
    Row("128x32-topk16", "dsd", 8192, 8192, 8192, (128, 32), "topk:16", ("bm = 128, bn = 256, bk = 32",)),
    _square(64, 0.25, f"{_PACKED}, split = auto", side=4096),
    _square(64, 0.125, f"{_PACKED}, split = auto", side=4096),
    _square(128, 0.5, "bm = 128, bn = 256, bk = 128, cluster = 2"),
    _square(128, 0.25, "bm = 128, bn = 256, bk = 128, cluster = 2"),
    _square(128, 0.125, "bm = 128, bn = 256, bk = 128, cluster = 2"),
    _square(128, 0.03, "bm = 128, bn = 256, bk = 128, cluster = 2", "bm = 128, bn = 256, bk = 128"),
    _square(64, 0.25, _PACKED),
    _square(64, 0.05, _PACKED),
    _square(32, 0.25, "bm = 32, bn = 256, bk = 32, k_step = 128"),
    _square(32, 0.05, "bm = 32, bn = 256, bk = 32, k_step = 128"),
    _square(16, 0.1, "bm = 16, bn = 256, bk = 16, stages = 3"),
    _square(128, 0.5, "bm = 128, bn = 256, bk = 128, dtype = e4m3", dtype="e4m3"),
    _square(128, 0.25, "bm = 128, bn = 256, bk = 128, dtype = e4m3", dtype="e4m3"),
    _square(128, 0.125, "bm = 128, bn = 256, bk = 128, dtype = e4m3, cluster = 2", dtype="e4m3"),
    _square(64, 0.125, "bm = 64, bn = 512, bk = 64, dtype = e4m3, cluster = 2", dtype="e4m3"),
    _square(32, 0.125, "bm = 32, bn = 256, bk = 32, dtype = e4m3", dtype="e4m3"),
    _layer("decode", 28672, 1, 8192, 128, "random:0.25", _NARROW, f"{_NARROW}, split = auto"),
    _layer("decode", 28672, 16, 8192, 128, "random:0.25", _NARROW, f"{_NARROW}, split = auto"),
    _layer("decode", 28672, 64, 8192, 128, "random:0.25", _WIDER, f"{_WIDER}, split = auto"),
    _layer("fp8-decode", 28672, 16, 8192, 128, "random:0.25",
           f"{_NARROW}, dtype = e4m3", f"{_NARROW}, dtype = e4m3, split = auto", dtype="e4m3"),
    _layer("decode", 11008, 16, 4096, 64, "random:0.25",
           "bm = 64, bn = 16, bk = 64", "bm = 64, bn = 16, bk = 64, k_step = 128"),
    _layer("decode", 4096, 16, 14336, 128, "random:0.25",
           "bm = 128, bn = 16, bk = 128, split = 3", "bm = 128, bn = 16, bk = 128, split = 2"),
    _layer("tokens", 14336, 256, 4096, 64, "random:0.25",
           "bm = 64, bn = 256, bk = 64", "bm = 64, bn = 128, bk = 64, cluster = 2"),
    _layer("tokens", 11008, 256, 4096, 64, "random:0.12",
           "bm = 64, bn = 256, bk = 64", "bm = 64, bn = 128, bk = 64, cluster = 2"),
    _layer("window", 12288, 6144, 12288, 128, "window:0.05", "bm = 128, bn = 192, bk = 128, cluster = 2"),
    _layer("powerlaw", 12288, 6144, 12288, 64, "powerlaw:0.06",
           "bm = 64, bn = 192, bk = 64, cluster = 2, swap = off, pack = 3"),
    Row("sdd-128x128-0.25", "sdd", 8192, 8192, 4096, (128, 128), "random:0.25", ("op = sdd, bm = 128, bn = 256, bk = 128",)),
    Row("sdd-128x128-0.05", "sdd", 8192, 8192, 4096, (128, 128), "random:0.05", ("op = sdd, bm = 128, bn = 256, bk = 128",)),
    Row("dds-128x128-0.25", "dds", 8192, 8192, 8192, (128, 128), "random:0.25", ("op = dds, bm = 128, bn = 256, bk = 128",)),
    Row("dsd_t-128x128-0.25", "dsd_t", 8192, 8192, 8192, (128, 128), "random:0.25", ("transpose = on, bm = 128, bn = 256, bk = 128",)),
)
# fmt: on


def _shape(rows: int, cols: int, spec: str) -> Row:
    """A small product, which shows who takes blocks of this shape."""
    m, k = (side * max(4, 1024 // side) for side in (rows, cols))
    kernel = f"bm = {rows}, bn = 128, bk = {cols}{spec}"
    return Row(f"blocks-{rows}x{cols}", "dsd", m, 512, k, (rows, cols), "random:0.25", (kernel,))


#: What other libraries take, and what they do with the rest: `--rows 'blocks-*'`.
SHAPES = tuple(
    _shape(rows, cols, spec)
    for rows, cols, spec in (
        (16, 16, ""),
        (64, 64, ""),
        (128, 128, ""),
        (32, 16, ""),
        (16, 32, ""),
        (64, 128, ""),
        (128, 64, ""),
        (48, 48, ""),
        (96, 96, ""),
        (512, 112, ""),
        (3, 3, ", mma = scalar"),
    )
)


def choose(names: list[str]) -> list[Row]:
    """The rows whose names match one of `names` (shell patterns); all of `ROWS` without names.

    Raises ValueError with the names there are if one matches nothing.
    """
    if not names:
        return list(ROWS)
    known = (*ROWS, *SHAPES)
    for name in names:
        if not any(fnmatch.fnmatchcase(row.name, name) for row in known):
            raise ValueError(f"no row is called `{name}`; there are {', '.join(row.name for row in known)}")
    return [row for row in known if any(fnmatch.fnmatchcase(row.name, name) for name in names)]
