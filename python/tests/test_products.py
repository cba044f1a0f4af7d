"""Products of NumPy arrays and tensors, held against f64."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import bsr_gemm as bsr

SHAPES = [(128, 96, 64), (130, 97, 33), (64, 32, 1), (1, 1, 1), (200, 300, 129)]


def close(result, expected, dtype) -> None:
    """One rounding to the type, and what f32 sums lose."""
    eps = {"float64": 1e-15, "float32": 1e-7, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    result, expected = np.asarray(result, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    scale = np.abs(expected).max() + 1e-30
    sums = 1e-14 if dtype == "float64" else 2e-6
    assert np.abs(result - expected).max() <= eps * scale + sums * scale, np.abs(result - expected).max() / scale


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_products_of_numpy_arrays(rng, m, k, n, dtype) -> None:
    dense = rng.standard_normal((m, k)).astype(dtype)
    w, x = bsr.from_dense(dense, (32, 16), keep=0.5), rng.standard_normal((k, n)).astype(dtype)
    expected = w.to_dense().astype(np.float64) @ x.astype(np.float64)
    for result in (w @ x, bsr.bsr_gemm(w, np.asfortranarray(x))):
        assert result.dtype == dtype and result.shape == (m, n)
        close(result, expected, dtype)
    close(bsr.linear(x.T, w), expected.T, dtype)
    close(x.T @ w.T, expected.T, dtype)
    y = rng.standard_normal((m, n)).astype(dtype)
    close(bsr.bsr_gemm(w, y, transpose=True), w.to_dense().astype(np.float64).T @ y, dtype)
    close(y.T @ w, y.astype(np.float64).T @ w.to_dense(), dtype)
    a, b = rng.standard_normal((m, n)).astype(dtype), rng.standard_normal((n, k)).astype(dtype)
    assert bsr.sampled is bsr.sddmm, "its earlier name"
    stored = bsr.sddmm(a, b, w)
    mask = bsr.from_dense(np.ones((m, k)), (32, 16), mask=w.pattern.mask()).to_dense()
    close(stored.to_dense(), (a.astype(np.float64) @ b.astype(np.float64)) * mask, dtype)


def test_a_result_lies_as_the_operand_does(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((64, 48)), (16, 16), keep=0.5)
    x = rng.standard_normal((48, 10))
    assert (w @ x).flags.c_contiguous and (w @ np.asfortranarray(x)).flags.f_contiguous
    batch = rng.standard_normal((3, 2, 48, 10))
    assert np.allclose(w @ batch, w.to_dense() @ batch)
    assert np.allclose(w @ x[:, 0], w.to_dense() @ x[:, 0])
    assert np.allclose(x.T[0] @ w.T, x.T[0] @ w.to_dense().T)
    assert np.allclose(w @ x[:, ::3], w.to_dense() @ x[:, ::3])


def test_integers_are_exact(rng) -> None:
    dense, x = (rng.integers(-100, 100, shape).astype(np.int8) for shape in [(64, 96), (96, 32)])
    w = bsr.from_dense(dense, (32, 32), mask=np.array([[1, 0, 1], [0, 1, 1]], dtype=bool))
    result = w @ x
    assert result.dtype == np.int32 and np.array_equal(result, w.to_dense().astype(np.int32) @ x.astype(np.int32))


ACTIVATIONS = {
    "none": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "gelu": lambda z: z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_layers_of_numpy(rng, activation) -> None:
    w = bsr.from_dense(rng.standard_normal((100, 60)) / 8, (16, 12), keep=0.5)
    x, bias = rng.standard_normal((4, 5, 60)), rng.standard_normal(100)
    expected = ACTIVATIONS[activation](x @ w.to_dense().T + bias)
    assert np.allclose(bsr.linear(x, w, bias, activation), expected, rtol=1e-6, atol=1e-7)
    assert np.allclose(
        bsr.linear(x, w, activation=activation), ACTIVATIONS[activation](x @ w.to_dense().T), rtol=1e-6, atol=1e-7
    )


def test_a_stored_nan_is_multiplied_and_a_missing_block_is_not() -> None:
    dense = np.zeros((4, 4))
    dense[0, 0], dense[3, 3] = np.nan, 1.0
    w = bsr.from_dense(dense, (2, 2), mask=np.eye(2, dtype=bool))
    x = np.ones((4, 2))
    x[0, 1] = np.inf
    result = w @ x
    assert np.isnan(result[0]).all() and np.array_equal(result[2:], [[0, 0], [1, 1]])


def test_an_empty_pattern_is_zero(rng) -> None:
    w = bsr.from_dense(np.zeros((64, 64), np.float32), (32, 32), keep=0.5)
    assert w.nnzb == 0 and not (w @ np.ones((64, 3), np.float32)).any()
    assert (bsr.linear(np.ones((2, 64), np.float32), w, np.full(64, 2, np.float32), "relu") == 2).all()
    assert (w @ np.ones((64, 0), np.float32)).shape == (64, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w: w @ np.ones((5, 3)), ["multiplied along 5", "64 x 48 matrix has 48 columns"]),
        (lambda w: w @ np.ones((48, 3), np.float32), ["float64 and float32", "astype('float64')"]),
        (lambda w: bsr.linear(np.ones((3, 48)), w, np.ones(5)), ["bias is 5", "64 outputs"]),
        (lambda w: bsr.linear(np.ones((3, 48)), w, activation="swish"), ["`swish`", "relu, gelu"]),
        (lambda w: bsr.linear(np.ones((3, 48)), np.ones((64, 48))), ["ndarray, not a BsrMatrix", "from_dense"]),
        (lambda w: bsr.bsr_gemm(np.ones((64, 48)), np.ones((48, 3))), ["ndarray, not a BsrMatrix"]),
        (
            lambda w: bsr.sddmm(np.ones((64, 7)), np.ones((8, 48)), w),
            ["64 x 7 times 8 x 48", "A's columns are B's rows"],
        ),
    ],
)
def test_products_that_do_not_fit(rng, call, words) -> None:
    w = bsr.from_dense(rng.standard_normal((64, 48)), (16, 16), keep=0.5)
    with pytest.raises(bsr.Error) as refused:
        call(w)
    for word in words:
        assert word in str(refused.value), str(refused.value)


def test_arrays_and_tensors_are_not_mixed(rng) -> None:
    torch = pytest.importorskip("torch")
    w = bsr.from_dense(rng.standard_normal((64, 48)), (16, 16), keep=0.5)
    v = bsr.BsrMatrix(torch.from_numpy(w.values), w.pattern)
    x, bias = rng.standard_normal((3, 48)), rng.standard_normal(64)
    assert np.array_equal(bsr.linear(torch.from_numpy(x), w), bsr.linear(torch.from_numpy(x), v))
    for call in (
        lambda: bsr.linear(x, v),
        lambda: bsr.linear(x, w, torch.from_numpy(bias)),
        lambda: bsr.linear(torch.from_numpy(x), v, bias),
        lambda: bsr.sddmm(torch.ones(64, 2), np.ones((2, 48)), w),
    ):
        with pytest.raises(bsr.Error, match="torch.from_numpy"):
            call()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_batches_of_different_matrices(rng, library) -> None:
    torch = pytest.importorskip("torch")
    convert = torch.from_numpy if library == "torch" else np.asarray
    ws = [bsr.from_dense(convert(rng.standard_normal(shape)), (16, 16), keep=0.5) for shape in [(64, 48), (30, 70)]]
    xs = [convert(rng.standard_normal((rows, w.shape[1]))) for rows, w in zip((5, 9), ws)]
    expected = [np.asarray(x) @ np.asarray(w.to_dense()).T for x, w in zip(xs, ws)]
    batch = bsr.Batch(xs, ws)
    for found in (bsr.linear_batch(xs, ws), batch.launch()):
        assert all(np.allclose(result, product) for result, product in zip(found, expected))
    xs[1][...] = 0
    assert batch.launch() is batch.results and not np.asarray(batch.results[1]).any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda xs, ws: (xs[:1], ws), ["1 operands and 2 matrices"]),
        (lambda xs, ws: ([], []), ["0 operands", "at least one"]),
        (lambda xs, ws: (xs, [ws[0], np.ones((3, 3))]), ["matrix 1 is a ndarray"]),
        (lambda xs, ws: (xs[::-1], ws), ["operand 0 is 9 x 70", "64 x 48"]),
        (
            lambda xs, ws: (xs, [ws[0], bsr.from_dense(ws[1].to_dense(), (8, 8))]),
            ["blocks of 8 x 8", "one size of blocks"],
        ),
        (lambda xs, ws: ([xs[0].astype(np.float32), xs[1]], ws), ["operand 0", "float32", "convert it"]),
    ],
)
def test_batches_that_do_not_fit(rng, change, words) -> None:
    ws = [bsr.from_dense(rng.standard_normal(shape), (16, 16), keep=0.5) for shape in [(64, 48), (30, 70)]]
    xs = [rng.standard_normal((rows, w.shape[1])) for rows, w in zip((5, 9), ws)]
    for call in (bsr.linear_batch, bsr.Batch):
        with pytest.raises(bsr.Error) as refused:
            call(*change(xs, ws))
        for word in words:
            assert word in str(refused.value), str(refused.value)


@pytest.mark.gpu
@pytest.mark.parametrize("block", [(128, 128), (64, 64), (16, 16)])
def test_batches_on_a_gpu(rng, block) -> None:
    import torch

    def tensor(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    ws = [bsr.from_dense(tensor(*shape), block, keep=0.5) for shape in [(512, 384), (300, 200), (128, 1024), (61, 77)]]
    xs = [tensor(rows, w.shape[1]) for rows, w in zip((200, 33, 0, 5), ws)]

    def check(results) -> None:
        for found, x, w in zip(results, xs, ws):
            close(found.double().cpu(), (x.double() @ w.to_dense().double().t()).cpu(), "bfloat16") if len(x) else None

    check(bsr.linear_batch(xs, ws))
    batch = bsr.Batch(xs, ws)
    batch.launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch.launch()
    for x in xs:
        x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    check(batch.results)
    xs[0].requires_grad_()
    (total,) = (sum(result.float().sum() for result in bsr.linear_batch(xs, ws)),)
    total.backward()
    assert xs[0].grad is not None


def test_threads_share_a_matrix(rng) -> None:
    w, x = bsr.from_dense(rng.standard_normal((128, 128)), (32, 32), keep=0.5), rng.standard_normal((128, 32))
    expected, results = w @ x, []
    threads = [threading.Thread(target=lambda: results.extend(w @ x for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80 and all(np.array_equal(result, expected) for result in results)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_products_of_tensors(rng, m, k, n, dtype) -> None:
    torch = pytest.importorskip("torch")
    products_of_tensors(torch.device("cpu"), (m, k, n), getattr(torch, dtype), (32, 16))


@pytest.mark.gpu
@pytest.mark.parametrize("block", [(128, 128), (64, 64), (32, 32), (16, 16), (96, 80)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("m", "k", "n"), [(1024, 512, 256), (1000, 520, 200), (130, 97, 33), (256, 256, 1)])
def test_products_on_a_gpu(rng, m, k, n, dtype, block) -> None:
    import torch

    products_of_tensors(torch.device("cuda"), (m, k, n), getattr(torch, dtype), block)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("block", "dtype"),
    [
        ((64, 64), "float32"),
        ((24, 40), "float32"),
        ((8, 8), "float32"),
        ((3, 3), "float32"),
        ((3, 3), "float64"),
        ((4, 7), "float64"),
    ],
)
@pytest.mark.parametrize(("m", "k", "n"), [(1000, 520, 200), (130, 97, 3), (2001, 1501, 1)])
def test_wide_types_on_a_gpu(rng, m, k, n, dtype, block) -> None:
    import torch

    kind, device = getattr(torch, dtype), torch.device("cuda")
    w = bsr.from_dense(torch.randn(m, k, dtype=kind, device=device), block, keep=0.3)
    exact = w.to_dense().double()
    x = torch.randn(k, n, dtype=kind, device=device)
    bias = torch.randn(m, dtype=torch.float32, device=device)
    results = {
        "w @ x": (w @ x, exact @ x.double()),
        "of columns": (w @ x.t().contiguous().t(), exact @ x.double()),
        "of a vector": (w @ x[:, 0].contiguous(), exact @ x[:, 0].double()),
        "linear": (bsr.linear(x.t().contiguous(), w, bias), x.double().t() @ exact.t() + bias),
    }
    for name, (found, expected) in results.items():
        assert found.dtype == kind, name
        most = 1e-4 if kind == torch.float32 else 1e-12
        assert (found.double() - expected).abs().max().item() <= most * k**0.5, name
    if max(block) > 8:
        with pytest.raises(bsr.Error, match="no kernel on a GPU"):
            torch.randn(2, m, dtype=kind, device=device) @ w
    with pytest.raises(bsr.Error, match="no kernel on a GPU"):
        bsr.sddmm(torch.randn(m, 8, dtype=kind, device=device), torch.randn(8, k, dtype=kind, device=device), w)


def products_of_tensors(device, shape, dtype, block) -> None:
    import torch

    (m, k, n), name = shape, str(dtype).removeprefix("torch.")
    w = bsr.from_dense(torch.randn(m, k, dtype=dtype, device=device), block, keep=0.5)
    exact = w.to_dense().double()

    def check(result, expected) -> None:
        assert result.dtype == dtype and result.device.type == device.type
        close(result.double().cpu(), expected.cpu(), name)

    x, y = torch.randn(k, n, dtype=dtype, device=device), torch.randn(m, n, dtype=dtype, device=device)
    bias = torch.randn(m, dtype=torch.float32, device=device)
    check(w @ x, exact @ x.double())
    check(w @ x.t().contiguous().t(), exact @ x.double())
    check(bsr.bsr_gemm(w, y, transpose=True), exact.t() @ y.double())
    check(y.t() @ w, y.double().t() @ exact)
    check(y.t().contiguous() @ w, y.double().t() @ exact)
    check(bsr.linear(x.t().contiguous(), w, bias, "relu"), (x.double().t() @ exact.t() + bias).relu())
    check(torch.nn.functional.linear(x.t(), w), x.double().t() @ exact.t())
    a, b = torch.randn(m, n, dtype=dtype, device=device), torch.randn(n, k, dtype=dtype, device=device)
    whole = bsr.from_dense(torch.ones(m, k), block, mask=w.pattern.mask()).to_dense().to(device)
    check(bsr.sddmm(a, b, w).to_dense(), a.double() @ b.double() * whole)
    check(bsr.sddmm(a.t().contiguous().t(), b, w).to_dense(), a.double() @ b.double() * whole)
    batch = torch.randn(2, k, n, dtype=dtype, device=device)
    check(w @ batch, exact @ batch.double())
