"""Block-sparse products in Triton, with operands loaded by TMA: the strongest peer that a few dozen lines make.

Sparse values lie block by block and are seen as one tall matrix, [nnzb * block rows, block columns]: a tile of a block
is a tile of that matrix, and TMA loads it like any other. All kernels sum in f32.

An operand's address depends on an index that is loaded before it. Triton's pipeliner gives each of the two loads half
of the stages: `num_stages = 2 * buffers - 1` keeps `buffers` tiles of the operand in shared memory.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_at(pid, tiles_long, tiles_short, GROUP: tl.constexpr):
    """Walks all of the long side under GROUP tiles of the short one, then under the next."""
    group = pid // (GROUP * tiles_long)
    width = tl.minimum(tiles_short - group * GROUP, GROUP)
    within = pid % (GROUP * tiles_long)
    return within // width, group * GROUP + within % width


@triton.jit
def dsd_kernel(
    a,
    b,
    c,
    ptr,
    idx,
    where,
    order,
    nnzb,
    tiles_m,
    tiles_n,
    BR: tl.constexpr,
    BK: tl.constexpr,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    UNROLL: tl.constexpr,
    GROUP: tl.constexpr,
    STAGES: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    B_COL: tl.constexpr,
    SWAP: tl.constexpr,
):
    """C = A * B, a TM x TN tile a program. A's blocks are BR x BK, stored so or, if TRANSPOSED, BK x BR and found
    through `where`. B_COL: B lies column-major. SWAP: C's transpose is summed, so that the tensor core's M is the
    dense side. UNROLL steps of TK share an iteration; a step beyond the row's end loads zeros from below the values."""
    tl.static_assert(UNROLL == 1 or not TRANSPOSED, "there is no entry of `where` for a step beyond the end")
    SLICES: tl.constexpr = BR // TM
    STEPS: tl.constexpr = BK // TK
    tile_m, tile_n = tile_at(tl.program_id(0), tiles_m, tiles_n, GROUP)
    row = tl.load(order + tile_m // SLICES)
    slice_at = (tile_m % SLICES) * TM
    n0 = tile_n * TN
    first = tl.load(ptr + row) * STEPS
    last = tl.load(ptr + row + 1) * STEPS
    if SWAP:
        acc = tl.zeros((TN, TM), dtype=tl.float32)
    else:
        acc = tl.zeros((TM, TN), dtype=tl.float32)
    # With loop-invariant code moved out, ptxas serializes the WGMMAs of a column-major B (C7515).
    for at in tl.range(first, last, UNROLL, num_stages=STAGES, disable_licm=B_COL):
        for ahead in tl.static_range(UNROLL):
            step = at + ahead
            block = step // STEPS
            k = (step % STEPS) * TK
            if UNROLL > 1:
                inside = step < last
                column = tl.load(idx + block, mask=inside, other=0)
                block = tl.where(inside, block, nnzb)
            else:
                column = tl.load(idx + block)
            if TRANSPOSED:
                x = tl.trans(a.load([tl.load(where + block) * BK + k, slice_at]))
            else:
                x = a.load([block * BR + slice_at, k])
            if B_COL:
                y = tl.trans(b.load([n0, column * BK + k]))
            else:
                y = b.load([column * BK + k, n0])
            if SWAP:
                acc = tl.dot(tl.trans(y), tl.trans(x), acc)
            else:
                acc = tl.dot(x, y, acc)
    if SWAP:
        acc = tl.trans(acc)
    c.store([row * BR + slice_at, n0], acc.to(c.dtype))


@triton.jit
def gather_kernel(
    values,
    b,
    c,
    ptr,
    idx,
    order,
    N,
    tiles_m,
    tiles_n,
    BR: tl.constexpr,
    BK: tl.constexpr,
    TN: tl.constexpr,
    BLOCKS: tl.constexpr,
    GROUP: tl.constexpr,
    STAGES: tl.constexpr,
    SWAP: tl.constexpr,
):
    """C = A * B for small blocks, without TMA: BLOCKS blocks of a row are one BR x (BLOCKS * BK) tile of A, and the
    rows of B that they meet are gathered through pointers."""
    KT: tl.constexpr = BLOCKS * BK
    tile_m, tile_n = tile_at(tl.program_id(0), tiles_m, tiles_n, GROUP)
    row = tl.load(order + tile_m)
    first = tl.load(ptr + row)
    last = tl.load(ptr + row + 1)
    k = tl.arange(0, KT)
    m = tl.arange(0, BR)
    n = tile_n * TN + tl.arange(0, TN)
    if SWAP:
        acc = tl.zeros((TN, BR), dtype=tl.float32)
    else:
        acc = tl.zeros((BR, TN), dtype=tl.float32)
    for at in tl.range(first, last, BLOCKS, num_stages=STAGES):
        block = at + k // BK
        inside = block < last
        rows = tl.load(idx + block, mask=inside, other=0) * BK + k % BK
        x_at = block[None, :] * (BR * BK) + m[:, None] * BK + (k % BK)[None, :]
        x = tl.load(values + x_at, mask=inside[None, :], other=0.0)
        y = tl.load(b + rows[:, None] * N + n[None, :], mask=inside[:, None], other=0.0)
        if SWAP:
            acc = tl.dot(tl.trans(y), tl.trans(x), acc)
        else:
            acc = tl.dot(x, y, acc)
    if SWAP:
        acc = tl.trans(acc)
    c_at = (row * BR + m)[:, None] * N + n[None, :]
    tl.store(c + c_at, acc.to(c.dtype.element_ty))


@triton.jit(do_not_specialize=["parts"])
def split_kernel(
    a,
    b,
    out,
    ptr,
    idx,
    order,
    M,
    N,
    b_row,
    b_column,
    parts,
    BR: tl.constexpr,
    BK: tl.constexpr,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sums for C = A * B with few columns, of which one tile has all: a program walks one of `parts` parts of a block
    row's steps, and writes what it sums to its part's own M x N matrix in `out`, which is C where there is one part.

    B, whose element k, n lies at k * b_row + n * b_column, is read through pointers: masks pad its columns to TN."""
    SLICES: tl.constexpr = BR // TM
    STEPS: tl.constexpr = BK // TK
    tile = tl.program_id(0) // parts
    part = tl.program_id(0) % parts
    row = tl.load(order + tile // SLICES)
    slice_at = (tile % SLICES) * TM
    begin = tl.load(ptr + row) * STEPS
    steps = tl.load(ptr + row + 1) * STEPS - begin
    n = tl.arange(0, TN)
    inside = (n < N)[None, :]
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for step in tl.range(begin + steps * part // parts, begin + steps * (part + 1) // parts, num_stages=STAGES):
        block = step // STEPS
        k = (step % STEPS) * TK
        x = a.load([block * BR + slice_at, k])
        rows = tl.load(idx + block) * BK + k + tl.arange(0, TK)
        y = tl.load(b + rows[:, None] * b_row + n[None, :] * b_column, mask=inside, other=0.0)
        acc = tl.dot(x, y, acc)
    m = part * M + row * BR + slice_at + tl.arange(0, TM)
    tl.store(out + m[:, None] * N + n[None, :], acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def sum_kernel(sums, c, elements, PARTS: tl.constexpr, SIZE: tl.constexpr):
    """C, of so many elements, from the sums of its PARTS parts, always added in the same order."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = at < elements
    acc = tl.zeros((SIZE,), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        acc += tl.load(sums + part * elements + at, mask=inside, other=0.0)
    tl.store(c + at, acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def dds_kernel(
    a,
    s,
    c,
    ptr,
    idx,
    where,
    order,
    tiles_n,
    tiles_m,
    BK: tl.constexpr,
    BC: tl.constexpr,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    GROUP: tl.constexpr,
    STAGES: tl.constexpr,
):
    """C = A * S with S in BK x BC blocks, walked by block columns: `ptr`, `idx`, `where` are its transposed index."""
    SLICES: tl.constexpr = BC // TN
    STEPS: tl.constexpr = BK // TK
    tile_n, tile_m = tile_at(tl.program_id(0), tiles_n, tiles_m, GROUP)
    column = tl.load(order + tile_n // SLICES)
    slice_at = (tile_n % SLICES) * TN
    m0 = tile_m * TM
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for step in tl.range(tl.load(ptr + column) * STEPS, tl.load(ptr + column + 1) * STEPS, num_stages=STAGES):
        k = (step % STEPS) * TK
        x = a.load([m0, tl.load(idx + step // STEPS) * BK + k])
        y = s.load([tl.load(where + step // STEPS) * BK + k, slice_at])
        acc = tl.dot(x, y, acc)
    c.store([m0, column * BC + slice_at], acc.to(c.dtype))


@triton.jit
def sdd_kernel(
    a,
    b,
    c,
    rows,
    cols,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The blocks BM x BN of A * B that C stores, a TM x TN tile of one block a program."""
    ACROSS: tl.constexpr = BN // TN
    PARTS: tl.constexpr = (BM // TM) * ACROSS
    block = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    m0 = (part // ACROSS) * TM
    n0 = (part % ACROSS) * TN
    row = tl.load(rows + block) * BM + m0
    column = tl.load(cols + block) * BN + n0
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for k in tl.range(0, K, TK, num_stages=STAGES):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    c.store([block * BM + m0, n0], acc.to(c.dtype))
