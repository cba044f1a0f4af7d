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
    for matrix, vector, options, words in [
        (a, b, {"method": "minres"}, "no method"),
        (a, b, {"restart": 5}, "method = 'cg' has no cycles"),
        (a, b, {"method": "gmres", "restart": 0}, "restart = 0"),
        (a, b, {"method": "gmres", "restart": 257}, "restart = 257"),
        (a, b, {"callback_type": "y"}, "callback_type = 'y'"),
        (a, b, {"M": "ilu"}, "no preconditioner"),
        (a, b, {"rtol": -1.0}, "rtol = -1"),
        (a, b, {"maxiter": -1}, "maxiter = -1"),
        (a, nan, {}, "b is not finite"),
        (a, b[:-1], {}, "b is 119"),
        (a, b, {"x0": b[:-1]}, "x0 is 119"),
        (a, b.astype(np.float32), {}, "b is of f32, and the matrix of f64"),
        (a, b.astype(np.float16), {}, "b is of f16"),
        (a, b, {"x0": b[:-1].astype(np.float32)}, "x0 is 119"),
        (hollow, b, {}, "diagonal block of block row 0 is singular"),
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


def gmres_of_scipy(a, b, inverse, restart, **options):
    """GMRES of scipy preconditioned from the right, as ours is: its x, its info, and the norms relative to that of b."""
    norms = []
    times = a if inverse is None else scipy.sparse.linalg.aslinearoperator(a) @ inverse
    y, info = scipy.sparse.linalg.gmres(
        times, b, restart=restart, callback=norms.append, callback_type="pr_norm", **options
    )
    return (y if inverse is None else inverse @ y), info, norms


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("preconditioner", ["block_jacobi", None])
@pytest.mark.parametrize(("side", "restart"), [(1, 5), (3, None), (5, 50), (8, 20)])
def test_gmres_as_scipy(rng, side, restart, preconditioner, place) -> None:
    a, b = system(rng, "gmres", side)
    inverse = block_jacobi(a) if preconditioner else None
    expected, info, norms_of_scipy = gmres_of_scipy(a, b, inverse, restart, rtol=1e-10)
    assert info == 0
    norms = []
    options = {"restart": restart, "rtol": 1e-10, "M": preconditioner}
    x, info = bsr.solve(*moved(place, a, b), method="gmres", callback=norms.append, callback_type="pr_norm", **options)
    assert info == 0
    assert np.linalg.norm(b - a @ host(x)) <= 1.01e-10 * np.linalg.norm(b)
    assert np.abs(host(x) - expected).max() < 1e-8
    assert abs(len(norms) - len(norms_of_scipy)) <= 1 + len(norms) // 10
    assert norms[:5] == pytest.approx(norms_of_scipy[:5], rel=1e-8)


@pytest.mark.parametrize("place", PLACES)
def test_what_maxiter_counts(rng, place) -> None:
    """Cycles of GMRES, and iterations in the old way, as scipy says it."""
    a, b = system(rng, "gmres", 3)
    for maxiter, kind, iterations in [(3, "pr_norm", 12), (3, "legacy", 3), (3, "x", 3)]:
        theirs, ours = [], []
        options = {"rtol": 0, "restart": 4, "maxiter": maxiter, "callback_type": kind}
        x, info = scipy.sparse.linalg.gmres(
            a, b, callback=lambda found, of=theirs: of.append(np.copy(found)), **options
        )
        found, ended = bsr.solve(*moved(place, a, b), method="gmres", M=None, callback=ours.append, **options)
        assert ended == info == maxiter and len(ours) == len(theirs) == iterations
        assert host(found) == pytest.approx(x, rel=1e-6)
        for our, their in zip(ours, theirs):
            assert host(our) == pytest.approx(their, rel=1e-6)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", METHODS)
def test_a_callback_sees_x(rng, method, place) -> None:
    a, b = system(rng, method, 3)
    theirs, ours, norms = [], [], []
    METHODS[method](a, b, rtol=1e-8, callback=lambda x: theirs.append(x.copy()))
    options = {"method": method, "rtol": 1e-8, "M": None}
    x, _ = bsr.solve(*moved(place, a, b), callback=ours.append, callback_type="x", **options)
    assert type(ours[0]) is type(x) and (host(ours[-1]) == host(x)).all()
    assert abs(len(ours) - len(theirs)) <= 1 + len(theirs) // 10
    for our, their in list(zip(ours, theirs))[:5]:
        assert np.abs(host(our) - their).max() < 1e-8
    # The other kinds are told the norms of the same residuals.
    size = np.linalg.norm(b)
    bsr.solve(*moved(place, a, b), callback=norms.append, callback_type="pr_norm", **options)
    assert norms == pytest.approx([np.linalg.norm(b - a @ host(x)) / size for x in ours], rel=1e-4)


@pytest.mark.parametrize("place", PLACES)
def test_a_breakdown_is_a_negative_number(rng, place) -> None:
    a, b = system(rng, "cg", 3)
    turned = scipy.sparse.bsr_array(np.kron(np.eye(4), [[0.0, 1.0], [-1.0, 0.0]]), blocksize=(2, 2))
    singular = scipy.sparse.bsr_array(np.kron(np.eye(4), [[1.0, 0.0], [0.0, 0.0]]), blocksize=(2, 2))
    for matrix, vector, method, expected in [
        (-a, b, "cg", -2),
        (turned, np.ones(8), "bicgstab", -11),
        (singular, np.ones(8), "gmres", -3),
        (1e200 * turned, np.ones(8), "gmres", -1),
    ]:
        x, info = bsr.solve(*moved(place, matrix.tobsr(matrix.blocksize), vector), method=method, M=None)
        assert info == expected and host(x).shape == vector.shape
        if method != "gmres":
            # Nothing was done before the first iteration broke down.
            assert not host(x).any()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres"])
def test_values_of_narrower_types(rng, method, place) -> None:
    """The system of the values as they are stored is solved to the tolerance of the vectors."""
    a, b = system(rng, method, 3)
    for of_values, of_vectors, rtol in [
        (torch.float32, torch.float64, 1e-10),
        (torch.float16, torch.float64, 1e-10),
        (torch.bfloat16, torch.float64, 1e-10),
        (torch.float16, torch.float32, 1e-4),
        (torch.bfloat16, torch.float32, 1e-4),
    ]:
        values = torch.from_numpy(a.data).to(of_values)
        pattern = bsr.Pattern(a.shape, (3, 3), a.indptr, a.indices)
        matrix = bsr.BsrMatrix(values, pattern).to(place)
        x, info = bsr.solve(matrix, torch.from_numpy(b).to(of_vectors).to(place), method=method, rtol=rtol)
        assert info == 0 and x.dtype == of_vectors
        stored = scipy.sparse.bsr_array((values.double().numpy(), a.indices, a.indptr), shape=a.shape)
        right = torch.from_numpy(b).to(of_vectors).double().numpy()
        assert np.linalg.norm(right - stored @ host(x.double())) <= 2 * rtol * np.linalg.norm(right)
    x, info = bsr.solve(a.astype(np.float32), b, method=method, rtol=1e-10)
    assert info == 0 and x.dtype == np.float64


@pytest.mark.gpu
def test_solvers_are_kept_for_their_matrices(rng) -> None:
    """One solver for a matrix and a method, which sees new values, and is freed with the matrix."""
    from bsr_gemm._lib._solvers import KEPT, _kept

    _kept.clear()
    a, b = system(rng, "cg", 3)
    matrix, right = moved("cuda", a, b)
    first, _ = bsr.solve(matrix, right, rtol=1e-8)
    (kept,) = _kept.values()
    solver = kept.solver
    again, _ = bsr.solve(matrix, right, rtol=1e-8)
    assert torch.equal(first, again) and [kept.solver for kept in _kept.values()] == [solver]
    # Values that were written to, with their preconditioner, and values elsewhere.
    matrix.values.mul_(2)
    halved, _ = bsr.solve(matrix, right, rtol=1e-8)
    assert torch.allclose(2 * halved, first, rtol=1e-9)
    matrix.values = matrix.values / 2
    assert torch.equal(bsr.solve(matrix, right, rtol=1e-8)[0], first)
    assert [kept.solver for kept in _kept.values()] == [solver]
    for method in ("cg", "bicgstab", "gmres"):
        bsr.solve(matrix, right, method=method)
        bsr.solve(matrix, right, method=method, M=None)
    assert len(_kept) == 6
    # A solve within a callback has a solver of its own.
    found = []
    bsr.solve(matrix, right, callback=lambda _, a=matrix: found or found.append(bsr.solve(a, right, rtol=1e-8)[0]))
    assert torch.equal(found[0], first)
    others = [moved("cuda", a, b)[0] for _ in range(3)]
    for other in others:
        bsr.solve(other, right)
    assert len(_kept) == KEPT
    del matrix
    assert len(_kept) == 3
    bsr.empty_cache()
    assert not _kept


def test_what_is_called_within_a_callback(rng) -> None:
    a, b = system(rng, "cg", 2)
    found = []
    x, _ = bsr.solve(a, b, callback=lambda _: found.append(bsr.solve(a, b)[0]))
    assert (found[0] == x).all()


def test_fields() -> None:
    """Their blocks, what is known of them, and a system of each kind that is solved."""
    for field, side, rows in [
        ("elasticity:4x3x2", 3, 144),
        ("stokes:2x2x2", 4, 108),
        ("reservoir:4x3x2", 3, 72),
        ("euler:3x2x2", 5, 60),
        ("shell:4x3", 6, 96),
        ("graph:30x2x4", 4, 120),
    ]:
        a = bsr.from_field(field, seed=1)
        assert (a.shape, a.block, a.dtype) == ((rows, rows), (side, side), np.float64)
        dense = a.to_dense()
        symmetric = np.abs(dense - dense.T).max() <= 1e-12 * np.abs(dense).max()
        assert symmetric == (field.split(":")[0] not in ("reservoir", "euler"))
        assert np.array_equal(bsr.from_field(field, seed=1).to_dense(), dense)
    # What is constant over all nodes is the null space of a graph.
    assert np.abs(dense @ np.tile(np.eye(4), (30, 1))).max() < 1e-12
    a = bsr.from_field("euler:3x2x2")
    b = np.sin(np.arange(60.0))
    x, info = bsr.solve(a, b, method="gmres", rtol=1e-9)
    assert info == 0 and np.linalg.norm(b - a @ x) <= 1.01e-9 * np.linalg.norm(b)
    for wrong, words in [("banana:3", "is not a field"), ("shell:3", "whole numbers"), ("shell:0x3", "a size is 0")]:
        with pytest.raises(bsr.Error, match="help: ") as raised:
            bsr.from_field(wrong)
        assert words in str(raised.value)
