"""Iterative solvers, held against scipy."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import bsr_gemm as bsr

torch = pytest.importorskip("torch")

METHODS = {"cg": scipy.sparse.linalg.cg, "bicgstab": scipy.sparse.linalg.bicgstab}
PLACES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def system(rng, method: str, side: int, blocks: int = 40, dtype=np.float64):
    """A matrix whose diagonal blocks dominate, with scales that differ; symmetric and positive definite for "cg"."""
    n = side * blocks
    near = np.abs(np.subtract.outer(np.arange(blocks), np.arange(blocks)))
    mask = np.kron((near <= 1) | (near == 7), np.ones((side, side)))
    dense = rng.uniform(-1, 1, (n, n)) * mask
    if method == "cg":
        dense = (dense + dense.T) / 2
    np.fill_diagonal(dense, 3.0 * side)
    scale = np.sqrt(1 + np.arange(n) % 13)
    dense = (dense * np.outer(scale, scale)).astype(dtype)
    return scipy.sparse.bsr_array(dense, blocksize=(side, side)), rng.standard_normal(n).astype(dtype)


def block_jacobi(a):
    """The same preconditioner as a matrix of scipy."""
    side, n = a.blocksize[0], a.shape[0]
    dense = a.toarray().astype(np.float64)
    blocks = [np.linalg.inv(dense[at : at + side, at : at + side]) for at in range(0, n, side)]
    return scipy.sparse.block_diag(blocks, format="csr")


def moved(place, a, b):
    """The system as tensors on a device, or as scipy's on the CPU."""
    if place == "cpu":
        return a, b
    return bsr.BsrMatrix.from_scipy(a).to(place), torch.from_numpy(b).to(place)


def host(x):
    return x.cpu().numpy() if isinstance(x, torch.Tensor) else x


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("preconditioner", ["block_jacobi", None])
@pytest.mark.parametrize("side", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("method", METHODS)
def test_as_scipy(rng, method, side, preconditioner, place) -> None:
    a, b = system(rng, method, side)
    expected = []
    inverse = block_jacobi(a) if preconditioner else None
    x, info = METHODS[method](
        a, b, rtol=1e-10, M=inverse, callback=lambda x: expected.append(np.linalg.norm(b - a @ x))
    )
    assert info == 0
    norms = []
    found, info = bsr.solve(*moved(place, a, b), method=method, rtol=1e-10, M=preconditioner, callback=norms.append)
    found = host(found)
    assert info == 0 and found.dtype == b.dtype and found.shape == b.shape
    assert np.linalg.norm(b - a @ found) <= 2e-10 * np.linalg.norm(b)
    assert np.abs(found - x).max() < 1e-8
    assert abs(len(norms) - len(expected)) <= 1 + len(expected) // 10
    assert norms[:5] == pytest.approx(expected[:5], rel=1e-8)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", METHODS)
def test_f32_of_tensors(rng, method, place) -> None:
    a, b = system(rng, method, 4, dtype=np.float32)
    w = torch.sparse_bsr_tensor(a.indptr, a.indices, torch.from_numpy(a.data), size=a.shape).to(place)
    x, info = bsr.solve(w, torch.from_numpy(b).to(place), method=method, rtol=1e-4)
    assert info == 0 and x.dtype == torch.float32 and x.device.type == place
    assert np.linalg.norm(b - a.astype(np.float64) @ host(x)) <= 2e-4 * np.linalg.norm(b)


@pytest.mark.parametrize("place", PLACES)
def test_the_conventions_of_scipy(rng, place) -> None:
    a, b = system(rng, "cg", 3)
    a, b = moved(place, a, b)
    for maxiter in [0, 1, 5]:
        x, info = bsr.solve(a, b, rtol=0, maxiter=maxiter)
        assert info == maxiter
    x, info = bsr.solve(a, b, rtol=1e-12)
    again, info = bsr.solve(a, b, x0=x, rtol=1e-10, maxiter=1)
    assert info == 0 and (host(again) == host(x)).all()
    # Columns are vectors; x0 and b stay as they are.
    x0, column, before = 0 * b + 1, b[:, None], host(b).copy()
    found, info = bsr.solve(a, column, x0=x0, rtol=0, atol=1e-3)
    assert info == 0 and found.shape == b.shape
    assert (host(x0) == 1).all() and (host(b) == before).all()
    assert np.linalg.norm(host(b) - host(a @ found)) <= 1.1e-3
    zero, info = bsr.solve(a, 0 * b, x0=x0)
    assert info == 0 and not host(zero).any()


@pytest.mark.parametrize("place", PLACES)
def test_refusals(rng, place) -> None:
    a, b = system(rng, "cg", 3)
    nan = b.copy()
    nan[7] = np.nan
    hollow = a.copy()
    hollow.data[hollow.indices == np.repeat(np.arange(40), np.diff(hollow.indptr))] *= 0
    negative = a.copy()
    negative.data *= -1
    for matrix, vector, options, words in [
        (a, b, {"method": "gmres"}, "no method"),
        (a, b, {"M": "ilu"}, "no preconditioner"),
        (a, b, {"rtol": -1.0}, "rtol = -1"),
        (a, b, {"maxiter": -1}, "maxiter = -1"),
        (a, nan, {}, "b is not finite"),
        (a, b[:-1], {}, "b is 119"),
        (a, b, {"x0": b[:-1]}, "x0 is 119"),
        (a, b.astype(np.float32), {}, "b is of f32, and the matrix of f64"),
        (hollow, b, {}, "diagonal block of block row 0 is singular"),
        (negative, b, {"M": None}, "iteration 1: p . A p <= 0"),
        (a.tocsr()[:60].tobsr((3, 3)), b[:60], {}, "as many rows as columns"),
    ]:
        matrix, vector = moved(place, matrix, vector)
        if "x0" in options:
            options = {"x0": moved(place, a, options["x0"])[1]}
        with pytest.raises(bsr.Error, match="help: ") as raised:
            bsr.solve(matrix, vector, **options)
        assert words in str(raised.value)


def test_what_a_callback_raises_is_raised(rng) -> None:
    def callback(norm: float) -> None:
        raise KeyError(norm)

    with pytest.raises(KeyError):
        bsr.solve(*system(rng, "cg", 2), callback=callback)


def test_tensors_and_arrays_do_not_mix(rng) -> None:
    a, b = system(rng, "cg", 2)
    with pytest.raises(bsr.Error, match="b is a tensor, and the matrix has an array of NumPy"):
        bsr.solve(a, torch.from_numpy(b))
    assert "conjugate gradients" in inspect.getdoc(bsr.solve)
