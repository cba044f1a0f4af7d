"""stk (https://github.com/stanford-futuredata/stk), or where it is not installed a kernel of its kind."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl

from .case import Case
from .peer import Refused, Variant
from .rows import Row

try:
    import stk
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True


def refuse_what_none_takes(row: Row) -> None:
    """What stk's kernels are not for. They write whole tiles of C, beyond its end where it has other sides."""
    if row.dtype != "f16":
        raise Refused("f16 only")
    if row.block[0] != row.block[1]:
        raise Refused("square blocks only")
    if row.m % 128 or row.n % 128:
        raise Refused(f"whole tiles of 128 x 128 only, which {row.m} x {row.n} is not made of")


class Stk:
    """The package itself."""

    name = "stk"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The only one of each op."""
        del quick
        row = case.row
        refuse_what_none_takes(row)
        sparse: Any = stk.Matrix(
            row.sparse_shape, case.values, case.block_rows_of.short(), case.col_idx.short(), case.row_ptr
        )
        match row.op:
            case "dsd":
                yield Variant("stk.ops.dsd", lambda: stk.ops.dsd(sparse, case.b))
            case "dsd_t":
                yield Variant("stk.ops.dsd of the transpose", lambda: stk.ops.dsd(sparse.t(), case.b))
            case "dds":
                yield Variant("stk.ops.dds", lambda: stk.ops.dds(case.a, sparse))
            case "sdd":
                yield Variant("stk.ops.sdd", lambda: stk.ops.sdd(case.a, case.b, sparse).data)


class StkLike:
    """Not stk: this project's kernels with what defines stk's (pointers and no TMA, 128 x 128 tiles of one block or
    more, steps of 32, 4 stages, 4 warps, nothing tuned), to have the row at all."""

    name = "stk-like (not stk)"

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The only one of dsd and sdd."""
        del quick
        row = case.row
        refuse_what_none_takes(row)
        if row.block[0] % 128:
            raise Refused("blocks of 128 only")
        if row.op not in ("dsd", "sdd"):
            raise Refused("dsd and sdd only; install stk")
        run = like_dsd if row.op == "dsd" else like_sdd
        yield Variant("128x128x32, 4 warps, 4 stages", lambda: run(case, row.block[0]))


def peer() -> Stk | StkLike:
    """The real one where it can be imported."""
    return Stk() if INSTALLED else StkLike()


def like_dsd(case: Case, side: int) -> torch.Tensor:
    """C = A * B."""
    row = case.row
    dsd_like[(row.m // 128, row.n // 128)](
        case.values, case.b, case.c, case.row_ptr, case.col_idx, row.n, SIDE=side, STEP=32, num_warps=4, num_stages=4
    )
    return case.c


def like_sdd(case: Case, side: int) -> torch.Tensor:
    """The stored blocks of A * B."""
    row = case.row
    sdd_like[(case.pattern.nnzb * (side // 128) ** 2,)](
        case.a, case.b, case.c, case.block_rows_of, case.col_idx, row.k, row.n,
        SIDE=side, STEP=32, num_warps=4, num_stages=4,
    )  # fmt: skip
    return case.c


@triton.jit
def dsd_like(values, b, c, ptr, idx, N, SIDE: tl.constexpr, STEP: tl.constexpr):
    """A 128 x 128 tile of C a program."""
    row = tl.program_id(0) * 128 // SIDE
    inner = tl.program_id(0) * 128 % SIDE
    m = tl.arange(0, 128)
    n = tl.program_id(1) * 128 + tl.arange(0, 128)
    k = tl.arange(0, STEP)
    acc = tl.zeros((128, 128), dtype=tl.float32)
    STEPS: tl.constexpr = SIDE // STEP
    for step in range(tl.load(ptr + row) * STEPS, tl.load(ptr + row + 1) * STEPS):
        block = step // STEPS
        within = (step % STEPS) * STEP + k
        x = tl.load(values + (block * SIDE + inner + m)[:, None] * SIDE + within[None, :])
        y = tl.load(b + (tl.load(idx + block) * SIDE + within)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + (row * SIDE + inner + m)[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def sdd_like(a, b, c, rows, cols, K, N, SIDE: tl.constexpr, STEP: tl.constexpr):
    """A 128 x 128 tile of a stored block a program."""
    ACROSS: tl.constexpr = SIDE // 128
    block = tl.program_id(0) // (ACROSS * ACROSS)
    part = tl.program_id(0) % (ACROSS * ACROSS)
    m = (part // ACROSS) * 128 + tl.arange(0, 128)
    n = (part % ACROSS) * 128 + tl.arange(0, 128)
    k = tl.arange(0, STEP)
    x_at = a + (tl.load(rows + block) * SIDE + m)[:, None] * K + k[None, :]
    y_at = b + k[:, None] * N + (tl.load(cols + block) * SIDE + n)[None, :]
    acc = tl.zeros((128, 128), dtype=tl.float32)
    for _ in range(0, K, STEP):
        acc = tl.dot(tl.load(x_at), tl.load(y_at), acc)
        x_at += STEP
        y_at += STEP * N
    tl.store(c + (block * SIDE + m)[:, None] * SIDE + n[None, :], acc.to(c.dtype.element_ty))
