"""Products of two block-sparse matrices, held against f64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import bsr_gemm as bsr

torch = pytest.importorskip("torch")

#: M, K, N; blocks of A and the width of B's; the part of the blocks that is stored.
CASES = [
    ((256, 256, 256), (64, 64, 64), (0.5, 0.5)),
    ((200, 300, 130), (64, 32, 16), (0.4, 0.6)),
    ((512, 500, 260), (128, 64, 128), (0.3, 1.0)),
    ((130, 64, 64), (64, 64, 64), (1.0, 0.5)),
]
PLACES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def operands(rng, shape, blocks, keep, dtype=np.float64):
    (m, k, n), (bm, bk, bn) = shape, blocks
    a = bsr.from_dense(rng.standard_normal((m, k)).astype(dtype), (bm, bk), keep=keep[0])
    b = bsr.from_dense(rng.standard_normal((k, n)).astype(dtype), (bk, bn), keep=keep[1])
    return a, b


@pytest.mark.parametrize(("shape", "blocks", "keep"), CASES)
def test_the_product_has_the_pattern_of_its_pairs(rng, shape, blocks, keep) -> None:
    a, b = operands(rng, shape, blocks, keep)
    c = a @ b
    mask = a.pattern.mask().astype(int) @ b.pattern.mask().astype(int) > 0
    assert np.array_equal(c.pattern.mask(), mask) and c.pattern == bsr.product_pattern(a, b.pattern)
    expected = a.to_dense() @ b.to_dense()
    assert np.abs(c.to_dense() - expected).max() < 1e-12
    # Fewer blocks are a mask, and more are zeros.
    every = bsr.Pattern.from_mask(np.ones_like(mask), expected.shape, c.block)
    assert np.abs(bsr.matmul(a, b, pattern=every).to_dense() - expected).max() < 1e-12
    some = bsr.from_dense(rng.standard_normal(expected.shape), c.block, keep=0.3)
    kept = bsr.matmul(a, b, pattern=some)
    assert kept.pattern == some.pattern
    wanted = bsr.from_dense(expected, c.block, mask=some.pattern.mask())
    assert np.abs(kept.values - wanted.values).max() < 1e-12


def test_matmul_takes_what_products_take(rng) -> None:
    a, b = operands(rng, *CASES[0])
    x, expected = rng.standard_normal((256, 8)), a.to_dense() @ b.to_dense()
    assert np.allclose(bsr.matmul(a, x), a.to_dense() @ x) and np.allclose(bsr.matmul(x.T, b), x.T @ b.to_dense())
    of_scipy = scipy.sparse.bsr_array(b.to_dense(), blocksize=(64, 64))
    assert np.allclose(bsr.matmul(a, of_scipy).to_dense(), expected)
    tensors = [bsr.BsrMatrix(torch.from_numpy(w.values), w.pattern) for w in (a, b)]
    for product in (tensors[0] @ tensors[1], torch.matmul(*tensors), bsr.matmul(*tensors)):
        assert np.allclose(product.to_dense().numpy(), expected)


def test_a_matrix_without_blocks_has_a_product_without_blocks(rng) -> None:
    a, b = operands(rng, *CASES[0])
    none = bsr.BsrMatrix(np.zeros((0, 64, 64)), bsr.Pattern((256, 256), (64, 64), [0] * 5, []))
    for c in (none @ b, a @ none):
        assert c.nnzb == 0 and c.shape == (256, 256)
    empty = bsr.BsrMatrix(torch.zeros((0, 64, 64), dtype=torch.float64), none.pattern)
    kept = bsr.matmul(empty, bsr.BsrMatrix(torch.from_numpy(b.values), b.pattern), pattern=a)
    assert kept.nnzb == a.nnzb and not kept.values.any()


def of_torch(w, device, dtype) -> bsr.BsrMatrix:
    values = torch.from_numpy(w.values).to(device, dtype).requires_grad_()
    return bsr.BsrMatrix(values, w.pattern)


def gradients(a, b, dtype, device) -> list:
    a, b = of_torch(a, device, dtype), of_torch(b, device, dtype)
    c = bsr.matmul(a, b).values
    seed = torch.Generator().manual_seed(1)
    dc = torch.randn(c.shape, generator=seed, dtype=torch.float64).to(device, dtype)
    c.backward(dc)
    return [x.detach().double().cpu() for x in (c, a.values.grad, b.values.grad)]


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("shape", "blocks", "keep"), CASES)
def test_products_and_gradients_of_tensors(rng, shape, blocks, keep, dtype, device) -> None:
    a, b = operands(rng, shape, blocks, keep)
    rounded = [
        bsr.BsrMatrix(torch.from_numpy(w.values).to(getattr(torch, dtype)).double().numpy(), w.pattern) for w in (a, b)
    ]
    dc_type = getattr(torch, dtype)
    results = gradients(*rounded, dc_type, device)
    left, right = (torch.from_numpy(w.to_dense()).requires_grad_() for w in rounded)
    whole = left @ right
    pattern = bsr.product_pattern(a, b)

    def at(dense, of):
        return torch.from_numpy(bsr.from_dense(dense.detach().numpy(), of.block, mask=of.mask()).values)

    seed = torch.Generator().manual_seed(1)
    dc = torch.randn((pattern.nnzb, *pattern.block), generator=seed, dtype=torch.float64).to(dc_type).double()
    whole.backward(torch.from_numpy(bsr.BsrMatrix(dc.numpy(), pattern, check=False).to_dense()))
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 1e-5}[dtype]
    for result, expected in zip(results, (at(whole, pattern), at(left.grad, a.pattern), at(right.grad, b.pattern))):
        assert (result - expected).abs().max() <= eps * expected.abs().max()


def test_gradcheck_and_opcheck(rng) -> None:
    a, b = operands(rng, (20, 24, 18), (8, 8, 6), (0.5, 0.7))
    c = bsr.product_pattern(a, b)
    values = [torch.from_numpy(w.values).requires_grad_() for w in (a, b)]
    keys = a.pattern.key, b.pattern.key, c.key
    op = torch.ops.bsr_gemm.spgemm
    torch.library.opcheck(op, (*values, *keys))
    # What lies beyond the edge is no variable.
    inside = [w != 0 for w in values]

    def of_inside(x, y):
        parts = [torch.zeros_like(w).masked_scatter(mask, part) for w, mask, part in zip(values, inside, (x, y))]
        return op(*parts, *keys)

    assert torch.autograd.gradcheck(of_inside, [w.detach()[mask].requires_grad_() for w, mask in zip(values, inside)])


def test_compile_has_no_graph_break_where_the_pattern_is_known(rng) -> None:
    a, b = operands(rng, *CASES[1])
    pattern = bsr.product_pattern(a, b)

    def loss(x, y):
        return bsr.matmul(x, y, pattern=pattern).values.square().sum()

    found = []
    for function in (torch.compile(loss, fullgraph=True, backend="aot_eager"), loss):
        x, y = of_torch(a, "cpu", torch.float64), of_torch(b, "cpu", torch.float64)
        function(x, y).backward()
        found.append((x.values.grad, y.values.grad))
    assert all(torch.equal(*pair) for pair in zip(*found))
    # By its name: PyTorch 2.11 traces no operator between two matrices.
    whole = torch.compile(lambda x, y: bsr.matmul(x, y).values, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match=r"product_pattern\(a, b\)"):
        whole(*(of_torch(w, "cpu", torch.float64) for w in (a, b)))


@pytest.mark.gpu
def test_a_factor_may_be_both_and_a_graph_replays(rng) -> None:
    a, _ = operands(rng, *CASES[0])
    w = bsr.BsrMatrix(torch.from_numpy(a.values).cuda().half(), a.pattern)
    expected = (w @ w).values.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = (w @ w).values
    for _ in range(3):
        c.fill_(float("nan"))
        graph.replay()
        assert torch.equal(c, expected)


def made(rng, shape, block) -> bsr.BsrMatrix:
    return bsr.from_dense(rng.standard_normal(shape), block, keep=0.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a, b, x: bsr.matmul(b, a), r"the shapes do not fit: 96 x 100 times 128 x 96"),
        (
            lambda a, b, x: bsr.matmul(a, b, pattern=a),
            r"the product is 128 x 100 in blocks of 64 x 16, and the pattern is Pattern\(128 x 96",
        ),
        (lambda a, b, x: bsr.matmul(a, x, pattern=a), r"one operand is dense\n.*sddmm"),
        (lambda a, b, x: a @ b.with_values(b.values.astype(np.float32)), r"of float64 and float32"),
        (lambda a, b, x: bsr.matmul(x, x), r"the second operand is a ndarray"),
    ],
)
def test_what_is_no_product_is_refused_in_words(rng, call, words) -> None:
    a, b = made(rng, (128, 96), (64, 32)), made(rng, (96, 100), (32, 16))
    with pytest.raises(bsr.Error, match=words):
        call(a, b, rng.standard_normal((96, 4)))


def test_blocks_without_pairs_are_refused_with_blocks_that_have_them(rng) -> None:
    a, b = made(rng, (128, 96), (64, 32)), made(rng, (96, 100), (16, 16))
    with pytest.raises(
        bsr.Error, match=r"64 x 32 and 16 x 16 have no pairs: 32 columns and 16 rows\n.*block=\(32, 16\)"
    ):
        a @ b
    assert (a @ bsr.from_dense(b.to_dense(), block=(32, 16))).shape == (128, 100)
