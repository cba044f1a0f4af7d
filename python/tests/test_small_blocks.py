"""Small blocks in f32 and f64: transposed products, gradients, and epilogues, on the CPU, the simulator and a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import bsr_gemm as bsr
from bsr_gemm import Bsr, Dense, Rows

torch = pytest.importorskip("torch")

# ruff: noqa: F821  (names of the epilogue's language)

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@bsr.kernel(bm=3, bn=1, bk=3, mma="scalar", transpose=True, b_layout="col", c_layout="col")
def residual(a: Bsr["f64"], x: Dense["f64"], b: Dense["f64"], scale: Rows["f64"]) -> Dense["f64"]:
    return (b - acc) * scale


@bsr.kernel(bm=3, bn=2, bk=4, mma="scalar")
def layer(a: Bsr["f32"], b: Dense["f32"], bias: Rows["f32"], alpha: float) -> Dense["f32"]:
    return relu(alpha * acc + bias)


@bsr.kernel(bm=3, bn=1, bk=3, mma="scalar", b_layout="col", c_layout="col")
def narrow(a: Bsr["f64"], x: Dense["f32"]) -> Dense["f32"]: ...


@bsr.kernel(bm=3, bn=1, bk=3, mma="scalar", b_layout="col", c_layout="col", row_ptr="i64")
def wide(a: Bsr["f64"], x: Dense["f64"]) -> Dense["f64"]: ...


def close(found, expected, most: float) -> None:
    error = (torch.as_tensor(found).double().cpu() - torch.as_tensor(expected).double().cpu()).abs().max().item()
    assert error <= most, error


def on(device: str, *arrays) -> list:
    return [torch.as_tensor(array).to(device) for array in arrays]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-12), ("float32", 1e-4)])
@pytest.mark.parametrize("block", [(3, 3), (2, 5), (8, 8), (1, 1)])
def test_transposed_products_and_gradients(rng, block, dtype, most, device) -> None:
    kind = getattr(torch, dtype)
    (dense, x, y) = on(device, *(rng.standard_normal(shape) for shape in [(130, 97), (4, 130), (97, 3)]))
    w = bsr.from_dense(dense.to(kind), block, keep=0.3)
    exact = w.to_dense().double()
    close(x.to(kind) @ w, x @ exact, most)
    close(x.to(kind)[0] @ w, x[0] @ exact, most)
    close(bsr.bsr_gemm(w, x.to(kind).t(), transpose=True), exact.t() @ x.t(), most)
    y = y.to(kind).requires_grad_()
    (w @ y).square().sum().backward()
    close(y.grad, 2 * exact.t() @ (exact @ y.double()), 100 * most)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-13), ("float32", 1e-5)])
@pytest.mark.parametrize("block", [1, 3, 8])
def test_vectors_of_odd_lengths(rng, block, dtype, most, device) -> None:
    rows, kind = 37 * block, getattr(torch, dtype)
    dense, x = on(device, rng.standard_normal((rows, rows)), rng.standard_normal(rows))
    w = bsr.from_dense(dense.to(kind), (block, block), keep=0.4)
    with_rest = torch.full((rows + 64,), torch.nan, dtype=kind, device=device)
    with_rest[:rows] = x
    x, exact = with_rest[:rows], w.to_dense().double()
    for transpose, expected in [(False, exact @ x.double()), (True, exact.t() @ x.double())]:
        for _ in range(2):  # The second call finds the launch of the first.
            found = bsr.bsr_gemm(w, x, transpose=transpose)
            assert (found.double() - expected).norm() <= most * expected.norm()


@pytest.mark.parametrize("device", DEVICES)
def test_epilogues(rng, device) -> None:
    w = bsr.from_dense(on(device, rng.standard_normal((60, 100)))[0], (3, 3), keep=0.4)
    x, b, scale = on(device, *(rng.standard_normal(shape) for shape in [(60, 1), (100, 1), 100]))
    close(residual(w, x, b, scale), (b - w.to_dense().t() @ x) * scale[:, None], 1e-13)
    v = bsr.from_dense(on(device, rng.standard_normal((60, 100)).astype(np.float32))[0], (3, 4), keep=0.4)
    x, bias = on(device, rng.standard_normal((100, 5)).astype(np.float32), rng.standard_normal(60).astype(np.float32))
    close(layer(v, x, bias, 0.5), (0.5 * v.to_dense() @ x + bias[:, None]).relu(), 1e-4)
    x = on(device, rng.standard_normal((100, 1)).astype(np.float32))[0]
    close(narrow(w, x), w.to_dense() @ x.double(), 1e-5)


def test_epilogues_on_the_simulator(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((20, 31)), (3, 3), keep=0.6)
    x, b, scale = (rng.standard_normal(shape) for shape in [(20, 1), (31, 1), 31])
    run = bsr.simulate(residual, w, x, b, scale)
    assert run.findings == []
    close(run.result, (b - w.to_dense().T @ x) * scale[:, None], 1e-13)
    x = rng.standard_normal((31, 1)).astype(np.float32)
    run = bsr.simulate(narrow, w, x)
    assert run.findings == []
    close(run.result, w.to_dense() @ x, 1e-5)


def test_functions_of_f64_are_refused() -> None:
    with pytest.raises(bsr.KernelError, match="sums of f64 have no `tanh`"):
        bsr.Kernel('bm = 3, bn = 1, bk = 3, mma = scalar, dtype = f64, epilogue = "|| tanh(acc)"')


@pytest.mark.parametrize("device", DEVICES)
def test_row_pointers_of_64_bits(rng, device) -> None:
    dense, x = on(device, *(rng.standard_normal(shape) for shape in [(130, 97), (97, 1)]))
    w = bsr.from_dense(dense, (3, 3), keep=0.3)
    lists = [list_.astype(np.int64) for list_ in (w.pattern.row_ptr, w.pattern.col_idx)]
    again = bsr.Pattern(w.shape, w.block, indptr=lists[0], indices=torch.from_numpy(lists[1]))
    assert again == w.pattern
    assert again.indptr.dtype == np.int32, "32 bits count these blocks"
    close(bsr.BsrMatrix(w.values, again) @ x, w.to_dense() @ x, 1e-12)
    close(wide(w, x), w.to_dense() @ x, 1e-12)


def test_row_pointers_are_as_wide_as_the_blocks_ask() -> None:
    from bsr_gemm._lib._patterns import pointer_type

    assert [pointer_type(count) for count in (0, 2**31 - 1, 2**31, 5 << 32)] == ["<i4", "<i4", "<i8", "<i8"]
    with pytest.raises(bsr.Error, match="4294967297 stored blocks, but col_idx has 1 entries"):
        bsr.Pattern((3, 3), (3, 3), np.array([0, 2**32 + 1]), [0])
    with pytest.raises(bsr.Error, match=r"col_idx\[0\] = 4294967296 is beyond 2\^31 - 1"):
        bsr.Pattern((3, 3), (3, 3), [0, 1], np.array([2**32]))
