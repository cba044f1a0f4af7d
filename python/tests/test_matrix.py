"""Block-sparse matrices: made, refused, shown, converted."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import bsr_gemm as bsr


def blocks_of(dense: np.ndarray, bm: int, bk: int):
    for row in range(-(-dense.shape[0] // bm)):
        for col in range(-(-dense.shape[1] // bk)):
            yield row, col, dense[row * bm : (row + 1) * bm, col * bk : (col + 1) * bk]


@pytest.mark.parametrize("shape", [(128, 96), (130, 97), (1, 1), (64, 200)])
def test_the_blocks_of_the_largest_norms_stay(rng, shape) -> None:
    dense = rng.standard_normal(shape)
    w = bsr.from_dense(dense, block=(32, 16), keep=0.3)
    norms = {(row, col): np.square(block).sum() for row, col, block in blocks_of(dense, 32, 16)}
    count = max(1, round(0.3 * len(norms)))
    kept = sorted(norms, key=lambda place: -norms[place])[:count]
    assert set(zip(*np.nonzero(w.pattern.mask()))) == set(kept)
    expected = np.zeros(shape)
    for row, col in kept:
        window = slice(row * 32, (row + 1) * 32), slice(col * 16, (col + 1) * 16)
        expected[window] = dense[window]
    assert np.array_equal(w.to_dense(), expected)


def test_blocks_of_a_row_or_of_a_mask_stay(rng) -> None:
    dense = rng.standard_normal((96, 96)).astype(np.float32)
    w = bsr.from_dense(dense, block=(32, 32), per_row=2)
    assert (w.pattern.mask().sum(axis=1) == 2).all()
    mask = np.eye(3, dtype=bool)
    assert np.array_equal(bsr.from_dense(dense, (32, 32), mask=mask).pattern.mask(), mask)
    assert bsr.from_dense(dense, (32, 32)).nnzb == 9
    assert bsr.from_dense(np.zeros((64, 64), np.float32), (32, 32), keep=1.0).nnzb == 0


def test_a_matrix_says_what_it_is(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((128, 128)).astype(np.float16), (64, 64), mask=[[True, False], [True, True]])
    text = repr(w)
    assert "128 x 128 of f16, 3 of 4 blocks of 64 x 64" in text and "|█ |\n|██|" in text
    assert (w.shape, w.block, w.nnzb, w.density, w.dtype) == ((128, 128), (64, 64), 3, 0.75, np.float16)


def test_transposed(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((70, 50)), (16, 8), keep=0.4)
    assert w.T.shape == (50, 70) and w.T.block == (8, 16)
    assert np.array_equal(w.T.to_dense(), w.to_dense().T)


def test_a_pattern_is_known_by_its_key(rng) -> None:
    pattern = bsr.Pattern.from_mask(rng.random((4, 5)) < 0.5, (64, 80), (16, 16))
    again = pickle.loads(pickle.dumps(pattern))
    assert again == pattern and again.key == pattern.key and len({again, pattern}) == 1
    assert bsr.Pattern((64, 80), (16, 16), pattern.row_ptr, pattern.col_idx) == pattern
    assert bsr.Pattern.from_mask(np.ones((4, 5)), (64, 80), (16, 16)) != pattern


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: bsr.Pattern((64, 64), (32, 32), [0, 1, 2], [0, 2]),
            ["col_idx[1] = 2", "outside 0..2", "count columns in blocks"],
        ),
        (
            lambda: bsr.Pattern((64, 64), (32, 32), [0, 2, 2], [1, 0]),
            ["col_idx[1] = 0 follows 1", "sort each block row"],
        ),
        (lambda: bsr.Pattern((64, 64), (32, 32), [0, 1], [0]), ["row_ptr has 2 entries", "64 rows in blocks of 32"]),
        (lambda: bsr.Pattern((64, 64), (0, 32), [0], []), ["both sides must be at least 1"]),
        (lambda: bsr.Pattern((64, 64), (32, 32), [0, 2**40, 0], [0]), ["less than row_ptr[1] = 1099511627776"]),
        (lambda: bsr.Pattern((64, 64), (32, 32), [0, 1, 1], [2**40]), ["beyond 2^31 - 1"]),
        (lambda: bsr.Pattern((64, 64), 32, [0], []), ["block = 32 is no pair", "block=(32, 32)"]),
        (lambda: bsr.from_dense(np.ones((32, 32)), block=(16.5, 16)), ["block = (16.5, 16) is no pair of integers"]),
        (lambda: bsr.Pattern((2**40, 64), (64, 64), [0], []), ["not below 2^31", "split the matrix"]),
        (lambda: bsr.Pattern((64, 64), (64, 64), [0, 0]), ["`col_idx` is not given"]),
        (lambda: bsr.Pattern((64, 64), (64, 64), [0, 0], [], indptr=[0, 0]), ["`indptr` is `row_ptr`", "drop one"]),
        (lambda: bsr.Pattern((64, 64), (64, 64), [0, 0], [], columns=[]), ["`columns` is no list of a pattern"]),
        (lambda: bsr.BsrMatrix(np.ones((4, 4)), (2, 2)), ["the pattern is a tuple", "from_dense(x, block=(64, 64))"]),
        (lambda: np.asarray(whole()), ["a dense array is expected", "w.to_dense()"]),
        (lambda: np.sum(whole()), ["`numpy.sum` does not know", "w.to_dense()"]),
        (lambda: bsr.bsr_gemm(whole(), whole()), ["a dense array is expected", "bsr_gemm.matmul"]),
        (lambda: whole() @ np.float64(2), ["a number is no operand", "w * 2.0"]),
        (lambda: bsr.linear(np.float64(2), whole()), ["a number is no operand"]),
        (lambda: whole() * np.ones(4), ["`w * x` of a matrix and a ndarray", "w @ x"]),
        (lambda: bsr.bsr_gemm(np.eye(4), np.eye(4)), ["the first operand is a ndarray", "from_dense"]),
        (lambda: bsr.sddmm(np.eye(4), np.eye(4), np.eye(4) > 0), ["`like` is a mask", "Pattern.from_mask"]),
        (lambda: whole().requires_grad_(), ["no gradient", "w.to('cpu')"]),
        (lambda: bsr.explain(whole().half(), 10**10), ["10000000000 rows", "134217728"]),
        (lambda: bsr.explain(whole().half(), np.broadcast_to(0, (2**20, 2**20, 4))), ["1099511627776 rows"]),
        (lambda: bsr.Pattern.from_mask(np.ones((2, 3)), (64, 64), (32, 32)), ["mask is 2 x 3", "2 x 2 blocks"]),
        (lambda: bsr.from_dense(np.ones((4, 4)), (2, 2), keep=1.5), ["keep = 1.5", "at most 1"]),
        (lambda: bsr.from_dense(np.ones((4, 4)), (2, 2), keep=0.5, per_row=1), ["pass only one of them"]),
        (lambda: bsr.from_dense(np.full((4, 4), np.nan), (2, 2), keep=0.5), ["NaN or infinite", "block (0, 0)"]),
        (lambda: bsr.from_dense(np.ones((4, 4, 4)), (2, 2)), ["has 3", "one matrix at a time"]),
        (lambda: bsr.from_dense(np.ones((4, 4), dtype=np.complex64), (2, 2)), ["complex64", "float16"]),
        (
            lambda: bsr.BsrMatrix(np.ones((1, 2, 2)), bsr.Pattern((3, 2), (2, 2), [0, 0, 1], [0])),
            ["beyond the edge of the 3 x 2", "set it to zero"],
        ),
        (
            lambda: bsr.BsrMatrix(np.ones((2, 2, 2)), bsr.Pattern((2, 2), (2, 2), [0, 1], [0])),
            ["2 x 2 x 2", "1 x 2 x 2"],
        ),
    ],
)
def test_refusals_say_fact_and_remedy(make, words) -> None:
    with pytest.raises(bsr.Error) as refused:
        make()
    assert isinstance(refused.value, ValueError)
    for word in words:
        assert word in str(refused.value), str(refused.value)


def whole() -> bsr.BsrMatrix:
    return bsr.from_dense(np.eye(4), (2, 2), mask=np.ones((2, 2)))


def test_values_are_replaced_by_such_that_fit(rng) -> None:
    w, x = bsr.from_dense(rng.standard_normal((96, 64)), (32, 16), keep=0.5), rng.standard_normal((64, 5))
    for wrong in (np.zeros((1, 32, 16)), np.zeros((w.nnzb, 16, 32)), np.zeros((w.nnzb, 32, 16), complex)):
        before = w.values
        with pytest.raises(bsr.Error):
            w.values = wrong
        assert w.values is before
    w.values = rng.standard_normal((w.nnzb, 16, 32)).transpose(0, 2, 1)
    assert np.allclose(w @ x, w.to_dense() @ x), "values whose elements are not one after the other"
    edge = bsr.from_dense(np.ones((3, 3)), (2, 2))
    with pytest.raises(bsr.Error, match="set it to zero"):
        edge.values = np.ones((4, 2, 2))
    for beyond in (lambda: edge.with_values(np.ones((4, 2, 2))), lambda: edge * np.inf):
        with pytest.raises(bsr.Error, match="set it to zero"), np.errstate(invalid="ignore"):
            beyond()
    for name in ("pattern", "key", "shape", "block"):
        with pytest.raises(AttributeError):
            setattr(w, name, getattr(edge, name))
    for name in ("shape", "block", "nnzb", "key", "row_ptr"):
        with pytest.raises(AttributeError):
            setattr(w.pattern, name, getattr(edge.pattern, name))


def test_values_that_were_resized_are_not_read_beyond_their_end(rng) -> None:
    x = np.ones((4096, 8), np.float32)
    uses = [
        lambda w: w @ x,
        lambda w: bsr.linear(x.T, w),
        lambda w: bsr.linear_batch([x.T], [w]),
        lambda w: bsr.bsr_gemm(w, x, transpose=True),
        lambda w: bsr.Kernel("bm = 64, bn = 64, bk = 64, dtype = f32, mma = scalar")(w, x),
    ]
    for use in uses:
        w = bsr.from_dense(np.ones((4096, 4096), np.float32), (64, 64))
        w.values.resize((1, 64, 64), refcheck=False)
        with pytest.raises(bsr.Error, match="1 x 64 x 64, but 4096 blocks of 64 x 64"):
            use(w)


def test_the_native_half_compares_lengths(rng) -> None:
    from bsr_gemm._lib import _arrays, _native

    w, x, out = whole(), np.ones((4, 3)), np.ones((4, 3))
    dense, result = _arrays.matrix(x), _arrays.matrix(out)
    address = _arrays.address_of(w.values)
    multiply, native = _native.multiply, w.pattern._native
    with pytest.raises(bsr.Error, match="15 values, and 4 blocks of 2 x 2 are 16"):
        multiply(native, False, (address, "f64", 15), dense, result)
    bias = ("|bias: Rows<f32>| acc + bias", [("bias", (address, "f32", 3, 1, 1, 0))])
    with pytest.raises(bsr.Error, match="`bias` is 3 x 1, and the epilogue reads it at 4 x 3"):
        multiply(native, False, (address, "f64", 16), dense, result, bias)
    sums = ("|| { (acc, row_sum(acc)) }", [])
    with pytest.raises(bsr.Error, match="4 rows have 3 places"):
        multiply(native, False, (address, "f64", 16), dense, result, sums, (address, "f32", 3, 1, 1, 0))


def test_a_matrix_is_copied_converted_and_scaled(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((40, 30)), (16, 8), keep=0.5)
    assert (w.ndim, w.nnz, w.requires_grad) == (2, w.nnzb * 16 * 8, False)
    assert [m.dtype for m in (w.half(), w.float(), w.double())] == [np.float16, np.float32, np.float64]
    assert not np.shares_memory(w.clone().values, w.values) and w.cpu() is w and w.detach() is w
    for scaled in (w * 2, 2 * w, w * np.float64(2), w / 0.5, -w * -2.0):
        assert np.array_equal(scaled.toarray(), 2 * w.to_dense()) and scaled.pattern is w.pattern
    assert np.array_equal(w.t().to_dense(), w.T.to_dense())
    x = rng.standard_normal((30, 5))
    assert np.array_equal(np.dot(w, x), w @ x) and np.array_equal(np.dot(x.T, w.T), x.T @ w.T)
    torch = pytest.importorskip("torch")
    for tensors in (w.to(torch.float32), w.to("cpu").float(), w.to(device="cpu", dtype=torch.float32)):
        assert torch.equal(tensors.to_dense(), torch.from_numpy(w.float().to_dense()))
    v = w.to("cpu").clone().requires_grad_()
    assert v.requires_grad and not v.detach().requires_grad and v.cpu().values.requires_grad
    assert (
        torch.equal((v * torch.tensor(2.0)).to_dense(), (v / 0.5).to_dense()) and v.bfloat16().dtype == torch.bfloat16
    )


def test_a_picture_needs_no_mask_of_all_blocks(rng) -> None:
    pattern = bsr.Pattern.from_mask(rng.random((37, 70)) < 0.3, (370, 700), (10, 10))
    mask, lines = pattern.mask(), pattern.picture().splitlines()
    for part, line in zip(np.array_split(mask, 16), lines, strict=True):
        levels = [int(np.ceil(cell.mean() * 4)) for cell in np.array_split(part, 32, axis=1)]
        assert line == "|" + "".join(" ░▒▓█"[level] for level in levels) + "|"
    huge = bsr.Pattern((2**31 - 1, 2**31 - 1), (2**30, 1), [0, 1, 1], [2**31 - 2])
    assert huge.picture() == f"|{' ' * 31}░|\n|{' ' * 32}|" and "1 of 4294967294 blocks" in repr(huge)


def test_torch_and_numpy_keep_the_same_blocks(rng) -> None:
    torch = pytest.importorskip("torch")
    dense = rng.standard_normal((130, 90)).astype(np.float32)
    w, v = bsr.from_dense(dense, (32, 16), keep=0.4), bsr.from_dense(torch.from_numpy(dense), (32, 16), keep=0.4)
    assert v.pattern == w.pattern and np.array_equal(v.values.numpy(), w.values)
    assert torch.equal(v.to_dense(), torch.from_numpy(w.to_dense()))
    assert v.to(torch.bfloat16).dtype == torch.bfloat16


def test_sparse_tensors_share_the_values(rng) -> None:
    torch = pytest.importorskip("torch")
    w = bsr.from_dense(torch.randn(128, 96), (32, 16), keep=0.5)
    tensor = w.to_torch()
    assert tensor.layout is torch.sparse_bsr and torch.equal(tensor.to_dense(), w.to_dense())
    assert tensor.values().data_ptr() == w.values.data_ptr()
    back = bsr.BsrMatrix.from_torch(tensor)
    assert back.pattern == w.pattern and back.values.data_ptr() == w.values.data_ptr()
    assert torch.equal(bsr.from_dense(w.to_dense().numpy(), (32, 16)).to_torch().to_dense(), w.to_dense())
    with pytest.raises(bsr.Error, match="to_sparse_bsr"):
        bsr.BsrMatrix.from_torch(torch.ones(4, 4))


def test_scipy_reads_the_same_arrays(rng) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    w = bsr.from_dense(rng.standard_normal((128, 96)), (32, 16), keep=0.5)
    scipy = sparse.bsr_array((w.values, w.pattern.col_idx, w.pattern.row_ptr), shape=w.shape)
    assert np.array_equal(scipy.toarray(), w.to_dense())


@pytest.mark.gpu
def test_matrices_on_a_gpu(rng) -> None:
    import torch

    dense = torch.randn(300, 200, device="cuda", dtype=torch.bfloat16)
    w = bsr.from_dense(dense, (64, 32), keep=0.4)
    assert w.values.is_cuda and w.pattern == bsr.from_dense(dense.cpu(), (64, 32), keep=0.4).pattern
    assert torch.equal(w.to("cpu").to_dense(), w.to_dense().cpu())
    assert torch.equal(w.to_torch().to_dense()[:300, :200], w.to_dense())
