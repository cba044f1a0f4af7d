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


#: Kernels on two block-sparse matrices, and what they multiply: sizes, stored parts, and the type of the values.
KERNELS = [
    ("op = dss, bm = 64, bn = 32, bk = 64", (130, 100, 90), (0.6, 0.6)),
    ("op = dss, bm = 64, bn = 64, bk = 64, pack = 3, c_layout = col", (250, 200, 130), (0.5, 0.5)),
    ("op = sss, bm = 64, bn = 64, bk = 64, pack = 4, dtype = bf16", (300, 128, 140), (0.5, 0.5)),
    ("op = sss, bm = 128, bn = 64, bk = 32, pack = 2, out = f32", (300, 100, 140), (0.5, 0.5)),
    ("op = dss, bm = 64, bn = 64, bk = 64, dtype = e4m3, out = f32", (130, 200, 90), (0.6, 0.6)),
    ("op = sss, bm = 128, bn = 128, bk = 64, dtype = e5m2, pack = 2", (300, 100, 140), (0.5, 0.5)),
    ("op = dss, bm = 64, bn = 64, bk = 64, dtype = i8", (70, 100, 90), (0.6, 0.6)),
]
DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "i8": "int8",
}


def of_kernel(rng, text, shape, keep) -> tuple:
    """A kernel, its operands in tensors, and their product in f64."""
    kernel = bsr.Kernel(text)
    bm, bk, bn = *kernel._native.block, kernel._native.width
    scale = 4 if "i8" in text else 1
    a, b = operands(rng, shape, (bm, bk, bn), keep)
    kind = getattr(torch, DTYPES[kernel._native.dtypes[0]])
    a, b = (bsr.BsrMatrix((torch.from_numpy(w.values) * scale).to(kind), w.pattern) for w in (a, b))
    return (
        kernel,
        a,
        b,
        bsr.BsrMatrix(a.values.double(), a.pattern).to_dense() @ bsr.BsrMatrix(b.values.double(), b.pattern).to_dense(),
    )


def is_close(result, expected) -> bool:
    eps = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-9, torch.int32: 0}[result.dtype]
    return bool((result.double().cpu() - expected).abs().max() <= eps * expected.abs().max())


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize(("text", "shape", "keep"), KERNELS)
def test_kernels_of_two_sparse_matrices(rng, text, shape, keep, device) -> None:
    kernel, a, b, expected = of_kernel(rng, text, shape, keep)
    c = kernel(*(bsr.BsrMatrix(w.values.to(device), w.pattern) for w in (a, b)))
    assert is_close(c.to_dense() if "sss" in text else c, expected)


@pytest.mark.parametrize(("text", "shape", "keep"), KERNELS)
def test_kernels_of_two_sparse_matrices_on_the_simulator(rng, text, shape, keep) -> None:
    kernel, a, b, expected = of_kernel(rng, text, shape, keep)
    run = bsr.simulate(kernel, a, b, seed=3)
    assert run.findings == [] and is_close(run.result.to_dense() if "sss" in text else run.result, expected)


def test_the_blocks_of_a_pattern_are_what_a_kernel_computes(rng) -> None:
    kernel, a, b, expected = of_kernel(rng, *KERNELS[3])
    like = bsr.from_dense(rng.standard_normal(expected.shape), (128, 64), keep=0.4).pattern
    for c in (kernel(a, b, like=like), bsr.simulate(kernel, a, b, like=like).result):
        wanted = bsr.from_dense(expected.numpy(), like.block, mask=like.mask())
        assert c.pattern == like and np.abs(c.values.double().numpy() - wanted.values).max() < 0.1


def test_a_function_of_two_sparse_matrices_is_a_kernel(rng) -> None:
    @bsr.kernel(bm=64, bn=32, bk=32)
    def product(a: bsr.Bsr["f16"], b: bsr.Bsr["f16"]) -> bsr.Dense["f32"]:  # noqa: F821
        return acc  # noqa: F821

    assert "op = dss" in product.spec
    a, b = operands(rng, (100, 64, 70), (64, 32, 32), (0.5, 0.5), np.float16)
    assert np.abs(product(a, b) - a.to_dense().astype(np.float64) @ b.to_dense().astype(np.float64)).max() < 0.05


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(("shape", "blocks", "keep"), CASES)
def test_products_of_float8(rng, shape, blocks, keep, dtype, device) -> None:
    a, b = operands(rng, shape, blocks, keep)
    kind = getattr(torch, dtype)
    narrow = [bsr.BsrMatrix(torch.from_numpy(w.values).to(kind).to(device), w.pattern) for w in (a, b)]
    wide = [bsr.BsrMatrix(w.values.double().cpu(), w.pattern).to_dense() for w in narrow]
    c = bsr.matmul(*narrow)
    assert c.dtype == torch.bfloat16 and c.pattern == bsr.product_pattern(a, b)
    assert is_close(c.to_dense(), wide[0] @ wide[1])
    # What B holds is arranged for the kernel once, and again when it changes.
    narrow[1].values.view(torch.int8).zero_()
    assert not bsr.matmul(*narrow).values.any()


def test_blocks_by_columns_are_kept_until_the_values_change(rng) -> None:
    from bsr_gemm._lib._pairs import in_columns

    values = torch.from_numpy(rng.standard_normal((3, 4, 2))).to(torch.float8_e4m3fn)
    first = in_columns(values)
    assert first.shape == (3, 2, 4) and torch.equal(first.float(), values.float().mT) and in_columns(values) is first
    values.copy_(torch.ones(3, 4, 2))
    assert torch.equal(in_columns(values).float(), torch.ones(3, 2, 4))


def test_tiles_of_several_blocks_are_taken_where_they_save_loads() -> None:
    from bsr_gemm._lib import _native
    from bsr_gemm._lib._pairs import facts_of

    card = _native.card("NVIDIA H200")
    for density, is_shared in ((0.5, True), (0.02, False)):
        rng = np.random.default_rng(0)
        a, b = (bsr.Pattern.from_mask(rng.random((32, 32)) < density, (2048, 2048), (64, 64)) for _ in "ab")
        chosen = _native.explain_pairs(
            *(pattern._native for pattern in (a, b, a.product(b))), facts_of("f16", a, b), card
        )
        assert ("pack" in chosen) is is_shared and bsr.Kernel(chosen)


#: Epilogues of a dense result, and of one in blocks, as functions of the sum and of what they read.
DENSE, BLOCKS = "op = dss, bm = 64, bn = 32, bk = 64", "op = sss, bm = 64, bn = 64, bk = 64"
EPILOGUES = [
    (
        DENSE + ', epilogue = "|bias: Rows<f32>, alpha: f32| relu(alpha * acc + bias)"',
        lambda acc, of: np.maximum(0.5 * acc + of["bias"][:, None], 0),
    ),
    (
        DENSE + ', c_layout = col, epilogue = "|scale: Cols<f16>, d: Dense<f16>| acc * scale + d"',
        lambda acc, of: acc * of["scale"][None, :] + of["d"],
    ),
    (
        DENSE + ', pack = 2, epilogue = "|scale: Cols<f32>| { let x = acc * scale; (x, row_sum(x * x)) }"',
        lambda acc, of: acc * of["scale"][None, :],
    ),
    (BLOCKS + ', epilogue = "|alpha: f32| relu(alpha * acc)"', lambda acc, of: np.maximum(0.5 * acc, 0)),
    (BLOCKS + ', epilogue = "|z: Bsr<f16>| acc * z"', lambda acc, of: acc * of["z"]),
]


def fused(rng, text: str, shape: tuple, keep: tuple) -> tuple:
    """A kernel, its operands, what its epilogue reads and that as arrays of f64, and the sums."""
    kernel, a, b, sums = of_kernel(rng, text, shape, keep)
    (m, n), further, dense = sums.shape, {}, {}
    for name, kind in kernel._inputs:
        if kind == "f32":
            further[name] = 0.5
            continue
        word, element = kind.removesuffix(">").split("<")
        if word == "Bsr":
            pattern = bsr.product_pattern(a, b)
            drawn = bsr.from_dense(rng.standard_normal((m, n)), pattern.block, mask=pattern.mask())
            further[name] = torch.from_numpy(drawn.values).to(getattr(torch, DTYPES[element]))
            dense[name] = bsr.BsrMatrix(further[name].double().numpy(), pattern).to_dense()
            continue
        size = {"Rows": (m,), "Cols": (n,), "Dense": (m, n)}[word]
        further[name] = torch.from_numpy(rng.standard_normal(size)).to(getattr(torch, DTYPES[element]))
        dense[name] = further[name].double().numpy()
    return kernel, (a, b), further, dense, sums.numpy()


def check_fused(result, expected: np.ndarray, kernel) -> None:
    if kernel._native.second:
        result, rows = result
        assert np.allclose(rows.cpu().numpy(), (expected**2).sum(axis=1), rtol=2e-3, atol=1e-3)
    found = result.to_dense() if isinstance(result, bsr.BsrMatrix) else result
    assert is_close(found, torch.from_numpy(expected))


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize(("text", "of"), EPILOGUES)
def test_epilogues_of_two_sparse_matrices(rng, text, of, device) -> None:
    kernel, (a, b), further, dense, sums = fused(rng, text, (250, 200, 130), (0.5, 0.5))
    expected = of(sums, dense)
    moved = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in further.items()}
    check_fused(kernel(*(bsr.BsrMatrix(w.values.to(device), w.pattern) for w in (a, b)), **moved), expected, kernel)
    # Without a block the sums are zeros.
    none = bsr.BsrMatrix(a.values[:0].to(device), bsr.Pattern(a.shape, a.block, [0] * (len(a.pattern.row_ptr)), []))
    if "Bsr" not in text:
        b = bsr.BsrMatrix(b.values.to(device), b.pattern)
        check_fused(kernel(none, b, **moved), of(np.zeros_like(sums), dense) * ("dss" in text), kernel)


@pytest.mark.parametrize(("text", "of"), EPILOGUES)
def test_epilogues_of_two_sparse_matrices_on_the_simulator(rng, text, of) -> None:
    kernel, factors, further, dense, sums = fused(rng, text, (130, 100, 130), (0.5, 0.5))
    run = bsr.simulate(kernel, *factors, **further)
    assert run.findings == []
    result = run.result if run.rows is None else (run.result, torch.from_numpy(run.rows))
    check_fused(result, of(sums, dense), kernel)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda k, a, b: k(a, a), r"blocks of 64 x 32 and 64 x 32, and the kernel multiplies 64 x 32 and 32 x 16\n"),
        (lambda k, a, b: k(a), r"`b` is not given\n.*takes a, b"),
        (lambda k, a, b: k(a, b, bias=a), r"`bias` is no operand of the kernel"),
        (lambda k, a, b: k(a, b, like=a), r"the product is 128 x 100 in blocks of 64 x 16"),
        (lambda k, a, b: k(a.with_values(a.values.astype(np.float32)), b), r"`a` is of f32"),
        (
            lambda k, a, b: bsr.Kernel(k.spec + ', epilogue = "|x: Bsr<f16>| acc + x"')(a, b, a),
            r"`x` is .* of f16, and the kernel's epilogue reads .* x 64 x 16 of f16",
        ),
    ],
)
def test_what_a_kernel_of_two_sparse_matrices_does_not_take(rng, call, words) -> None:
    a, b = made(rng, (128, 96), (64, 32)), made(rng, (96, 100), (32, 16))
    a, b = (w.with_values(w.values.astype(np.float16)) for w in (a, b))
    with pytest.raises(bsr.Error, match=words):
        call(bsr.Kernel("op = sss, bm = 64, bn = 16, bk = 32"), a, b)


def test_float8_has_no_gradient(rng) -> None:
    a, b = operands(rng, *CASES[0])
    a, b = (bsr.BsrMatrix(torch.from_numpy(w.values).to(torch.float8_e4m3fn), w.pattern) for w in (a, b))
    a.values.requires_grad_()
    with pytest.raises(bsr.Error, match=r"float8_e4m3fn computes no gradient"):
        bsr.matmul(a, b).values.float().sum().backward()
