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
        (lambda: bsr.Pattern((64, 64), (32, 32), [0, 2**40, 0], [0]), ["beyond 2^31 - 1"]),
        (lambda: bsr.Pattern((64, 64), 32, [0], []), ["block = 32 is no pair", "block=(64, 64)"]),
        (lambda: bsr.Pattern.from_mask(np.ones((2, 3)), (64, 64), (32, 32)), ["mask is 2 x 3", "2 x 2 blocks"]),
        (lambda: bsr.from_dense(np.ones((4, 4)), (2, 2), keep=1.5), ["keep = 1.5", "at most 1"]),
        (lambda: bsr.from_dense(np.ones((4, 4)), (2, 2), keep=0.5, per_row=1), ["pass one of them"]),
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
