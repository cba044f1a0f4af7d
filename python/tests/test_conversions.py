"""Block-sparse matrices of scipy and PyTorch: taken and given with the same values."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import bsr_gemm as bsr

sparse = pytest.importorskip("scipy.sparse")


def close(a, b) -> None:
    assert np.allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [sparse.bsr_array, sparse.bsr_matrix])
def test_scipys_matrices_share_their_values(rng, kind) -> None:
    w = bsr.from_dense(rng.standard_normal((128, 96)).astype(np.float32), (32, 16), keep=0.5)
    theirs = kind((w.values, w.pattern.indices, w.pattern.indptr), shape=w.shape)
    ours = bsr.BsrMatrix.from_scipy(theirs)
    assert ours.pattern == w.pattern and np.shares_memory(ours.values, theirs.data)
    back = ours.to_scipy()
    assert np.shares_memory(back.data, theirs.data) and np.array_equal(back.toarray(), w.toarray())
    x, y = rng.standard_normal((96, 5)).astype(np.float32), rng.standard_normal((5, 96)).astype(np.float32)
    close(bsr.bsr_gemm(theirs, x), theirs @ x)
    close(bsr.linear(y, theirs, activation="relu"), np.maximum(y @ theirs.T.toarray(), 0))
    close(bsr.ffn(y, theirs, ours.T.to_scipy(), activation="none"), y @ theirs.toarray().T @ theirs.toarray())
    close(bsr.sddmm(np.eye(128, 96, dtype=np.float32), x @ y, theirs).nnz, w.nnz)
    close(bsr.linear_batch([y], [theirs])[0], bsr.linear(y, w))


def test_blocks_in_any_order_become_sorted_ones(rng) -> None:
    data = rng.standard_normal((4, 2, 3))
    theirs = sparse.bsr_array((data, [1, 0, 1, 0], [0, 3, 4]), shape=(4, 6))
    ours = bsr.BsrMatrix.from_scipy(theirs)
    assert ours.pattern.indices.tolist() == [0, 1, 0] and not np.shares_memory(ours.values, data)
    assert np.array_equal(ours.to_dense(), theirs.toarray())
    assert theirs.indices.tolist() == [1, 0, 1, 0], "what was given is as it was"
    # More places than blocks, as scipy has where some were removed.
    roomy = sparse.bsr_array((rng.standard_normal((2, 2, 3)), [0, 1], [0, 1, 2]), shape=(4, 6))
    expected = roomy.toarray()
    roomy.data, roomy.indices = np.concatenate([roomy.data, data]), np.concatenate([roomy.indices, [0, 0, 0, 0]])
    assert np.array_equal(bsr.BsrMatrix.from_scipy(roomy).to_dense(), expected)


def test_tensors_of_blocks_are_operands(rng) -> None:
    torch = pytest.importorskip("torch")
    w = bsr.from_dense(torch.randn(128, 96), (32, 16), keep=0.5)
    theirs, x, y = w.to_torch(), torch.randn(96, 5), torch.randn(5, 96)
    assert torch.equal(bsr.bsr_gemm(theirs, x), w @ x) and torch.equal(bsr.linear(y, theirs), bsr.linear(y, w))
    assert bsr.sddmm(torch.randn(128, 3), torch.randn(3, 96), theirs).pattern == w.pattern
    assert bsr.explain(theirs.to(torch.bfloat16), 8) == bsr.explain(w.to(torch.bfloat16), 8)
    kernel = bsr.Kernel("bm = 32, bn = 64, bk = 16, dtype = f16")
    assert torch.equal(kernel(theirs.half(), x.half()), kernel(w.half(), x.half()))
    blocks = bsr.Pattern(w.shape, w.block, crow_indices=theirs.crow_indices(), col_indices=theirs.col_indices())
    assert blocks == w.pattern == bsr.Pattern(w.shape, w.block, indptr=w.pattern.indptr, indices=w.pattern.indices)


def test_types_of_ml_dtypes_become_tensors(rng) -> None:
    torch, types = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes")
    w = bsr.from_dense(rng.standard_normal((64, 48)).astype(types.bfloat16), (16, 8), keep=0.5)
    expected = torch.from_numpy(w.to_dense().astype(np.float32))
    for tensors in (w.to("cpu"), bsr.BsrMatrix.from_torch(w.to_torch())):
        assert tensors.dtype == torch.bfloat16 and torch.equal(tensors.float().to_dense(), expected)
    x = torch.randn(48, 3).bfloat16()
    assert torch.equal(w @ x, w.to("cpu") @ x)


def test_gradients_reach_the_values_of_a_tensor_of_blocks(rng) -> None:
    torch = pytest.importorskip("torch")
    w, x = bsr.from_dense(torch.randn(64, 48), (16, 8), keep=0.5).double(), torch.randn(5, 48, dtype=torch.float64)
    values = w.values.clone().requires_grad_()
    bsr.linear(x, w.with_values(values).to_torch()).square().sum().backward()
    assert w.requires_grad_().requires_grad
    bsr.linear(x, w).square().sum().backward()
    assert torch.equal(values.grad, w.values.grad)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bsr.bsr_gemm(sparse.csr_array(np.eye(4)), np.ones(4)), ["a csr matrix", "tobsr(blocksize=(64, 64))"]),
        (lambda: bsr.from_dense(sparse.csr_array(np.eye(4)), (2, 2)), ["a sparse csr matrix", "toarray()"]),
        (lambda: bsr.from_dense(np.eye(4), (2, 2)) @ sparse.csr_array(np.eye(4)), ["a dense array is expected"]),
        (lambda: bsr.from_dense(np.eye(4, dtype=np.float16), (2, 2)).bfloat16().to_scipy(), ["scipy has no bf16"]),
    ],
)
def test_other_sparse_matrices_are_refused_with_the_way_on(make, words) -> None:
    pytest.importorskip("ml_dtypes")
    with pytest.raises(bsr.Error) as refused:
        make()
    for word in words:
        assert word in str(refused.value), str(refused.value)


def test_other_layouts_of_tensors_are_refused_with_the_way_on() -> None:
    torch = pytest.importorskip("torch")
    for layout in (torch.eye(64).to_sparse(), torch.eye(64).to_sparse_csr()):
        with pytest.raises(bsr.Error, match=r"to_sparse_bsr\(\(64, 64\)\)"):
            bsr.bsr_gemm(layout, torch.ones(64))
        assert torch.equal(bsr.bsr_gemm(layout.to_sparse_bsr((64, 64)), torch.ones(64)), torch.ones(64)), "what it says"
        with pytest.raises(bsr.Error, match="a dense array is expected"):
            bsr.from_dense(torch.eye(64), (16, 16)) @ layout


def test_copies_of_a_matrix(rng) -> None:
    torch = pytest.importorskip("torch")
    w = bsr.from_dense(torch.randn(64, 48), (16, 16), keep=0.5)
    file = io.BytesIO()
    torch.save({"w": w}, file)
    file.seek(0)
    for again in (copy.deepcopy(w), pickle.loads(pickle.dumps(w)), torch.load(file, weights_only=True)["w"]):
        assert again.key == w.key and torch.equal(again.values, w.values)
        assert again.values.data_ptr() != w.values.data_ptr()
    moving = bsr.BsrMatrix(torch.randn(4, 16, 16), bsr.DevicePattern.from_mask(torch.eye(4) > 0, (64, 64), (16, 16), 4))
    again = copy.deepcopy(moving)
    assert again.key == again.pattern.key != moving.key, "a pattern of tensors is known by its number"
    assert torch.equal(again @ torch.ones(64, 2), moving @ torch.ones(64, 2))
