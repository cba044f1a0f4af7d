"""Kernels in Triton. `compile.py` compiles them to the PTX texts of this folder."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, stride, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * stride + at, mask=inside, other=float("-inf"))
        v = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * stride + at, v / tl.sum(v, axis=0), mask=inside)


@triton.jit
def sum_rows(x, out, lock, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr, SAFE: tl.constexpr):
    """Rows are added up in groups, each under a lock: the second stage of a layer norm's gradient."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    group = row % GROUPS
    total = tl.load(x + row * columns + at, mask=inside)
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    count = tl.load(lock + GROUPS + group)
    if SAFE:
        # All threads have read the count before one of them changes it.
        tl.debug_barrier()
    if count == 0:
        tl.atomic_xchg(lock + GROUPS + group, 1)
    else:
        total += tl.load(out + group * columns + at, mask=inside)
    tl.store(out + group * columns + at, total, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        deep = ok + k * BK
        x = tl.load(a + om[:, None] * sam + deep[None, :], mask=(om[:, None] < M) & (deep[None, :] < K), other=0.0)
        y = tl.load(b + deep[:, None] * sbk + on[None, :], mask=(deep[:, None] < K) & (on[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + om[:, None] * scm + on[None, :], acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def matmul_tma(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr):
    """a is [M, K], b is [N, K], c is [M, N]: descriptors that the host has made."""
    tiles_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, SMS, flatten=True):
        m = (tile // tiles_n) * BM
        n = (tile % tiles_n) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        c.store([m, n], acc.to(tl.float16))


@triton.jit
def copy_device_tma(a, c, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Descriptors that the kernel makes itself."""
    da = tl.make_tensor_descriptor(a, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m = tl.program_id(0) * BM
    for n in range(0, N, BN):
        dc.store([m, n], da.load([m, n]) * 2.0)


@triton.jit
def attention_tma(q, k, v, out, lse, L, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """q, k, v and out are descriptors of [heads * L, D]."""
    row = tl.program_id(0) * BM
    first = tl.program_id(1) * L
    x = q.load([first + row, 0])
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in tl.range(0, L, BN):
        s = tl.dot(x, k.load([first + start, 0]).T) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        alpha = tl.math.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([first + start, 0]), acc * alpha[:, None])
        top = new
    tl.store(lse + first + row + tl.arange(0, BM), top + tl.math.log2(total))
    out.store([first + row, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def grouped(pointers_x, pointers_out, sizes, groups, BLOCK: tl.constexpr):
    """Arrays of different lengths by their addresses."""
    for g in range(groups):
        x = tl.load(pointers_x + g).to(tl.pointer_type(tl.float16))
        out = tl.load(pointers_out + g).to(tl.pointer_type(tl.float16))
        n = tl.load(sizes + g)
        for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(out + at, tl.load(x + at, mask=at < n) * 0.5, mask=at < n)


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.device_assert(v < BINS, "a bin is in range")
    tl.atomic_add(out + tl.arange(0, BINS), tl.histogram(v, BINS, mask=at < n))
    tl.device_print("value", v)


@triton.jit
def layer_norm(x, y, weight, bias, mean, rstd, stride, columns, eps, BLOCK: tl.constexpr):
    """A program for each row, which is longer than a block."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + at, mask=at < columns, other=0.0)
    middle = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        away = tl.where(at < columns, tl.load(x + row * stride + at, mask=at < columns, other=0.0) - middle, 0.0)
        squares += away * away
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean + row, middle)
    tl.store(rstd + row, scale)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        normal = (tl.load(x + row * stride + at, mask=inside) - middle) * scale
        out = normal * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
        tl.store(y + row * stride + at, out, mask=inside)


@triton.jit
def layer_norm_gradient(dx, dy, dw, db, x, weight, mean, rstd, lock, stride, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of a row, and partial ones of weight and bias, which rows of a group add up under a lock."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    normal = (tl.load(x + row * stride + at, mask=inside, other=0.0) - tl.load(mean + row)) * tl.load(rstd + row)
    given = tl.load(dy + row * stride + at, mask=inside, other=0.0)
    through = given * tl.load(weight + at, mask=inside, other=0.0)
    normal = tl.where(inside, normal, 0.0)
    along = tl.sum(normal * through, axis=0) / columns
    constant = tl.sum(through, axis=0) / columns
    tl.store(dx + row * stride + at, (through - (normal * along + constant)) * tl.load(rstd + row), mask=inside)
    group = row % GROUPS
    of_weight, of_bias = given * normal, given
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    count = tl.load(lock + GROUPS + group)
    # All threads have read the count before one of them changes it.
    tl.debug_barrier()
    if count == 0:
        tl.atomic_xchg(lock + GROUPS + group, 1)
    else:
        of_weight += tl.load(dw + group * columns + at, mask=inside)
        of_bias += tl.load(db + group * columns + at, mask=inside)
    tl.store(dw + group * columns + at, of_weight, mask=inside)
    tl.store(db + group * columns + at, of_bias, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def grouped_gemm(pointers_a, pointers_b, pointers_c, sizes, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B of several sizes, by a fixed number of programs; sizes has M, N and K of each, and rows are dense."""
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        M, N, K = tl.load(sizes + 3 * g), tl.load(sizes + 3 * g + 1), tl.load(sizes + 3 * g + 2)
        tiles_n = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * tiles_n
        while tile >= before and tile < before + tiles:
            a = tl.load(pointers_a + g).to(tl.pointer_type(tl.float16))
            b = tl.load(pointers_b + g).to(tl.pointer_type(tl.float16))
            c = tl.load(pointers_c + g).to(tl.pointer_type(tl.float16))
            m = (tile - before) // tiles_n * BM + tl.arange(0, BM)
            n = (tile - before) % tiles_n * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), tl.float32)
            for start in range(0, K, BK):
                k = start + tl.arange(0, BK)
                x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
                y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
                acc = tl.dot(x, y, acc)
            tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
            tile += tl.num_programs(0)
        before += tiles
