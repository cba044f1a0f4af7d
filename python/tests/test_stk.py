"""The names of stk: products with all transposes and their gradients, places, and MegaBlocks' way of using them."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from apart import run  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import stk  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
TRANSPOSES = list(itertools.product((False, True), repeat=2))
#: Rows, inner dimension, columns, sparsity, block.
SIZES = [
    (128, 256, 384, 0.0, 128),
    (384, 256, 128, 0.6, 128),
    (160, 96, 64, 0.5, 32),
    (24, 40, 16, 0.7, 8),
    (6, 5, 7, 0.4, 1),
]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def sides(device: str) -> list:
    # On a GPU products take blocks that tensor cores multiply.
    return [size for size in SIZES if device == "cpu" or size[-1] == 128]


def kind(device: str) -> torch.dtype:
    return torch.bfloat16 if device == "cuda" else torch.float64


def sparse(rows: int, columns: int, sparsity: float, block: int, device: str):
    """The same matrix as a dense one, and as one of blocks; both are leaves."""
    dense = (
        torch.randn(rows, columns, dtype=torch.float64) * stk.random.dense_mask(rows, columns, sparsity, block)
    ).to(device, kind(device))
    found = stk.ops.to_sparse(dense, block)
    return dense.requires_grad_(), found.requires_grad_()


def pair(rows: int, columns: int, device: str):
    dense = torch.randn(rows, columns, dtype=torch.float64).to(device, kind(device))
    return dense.clone().requires_grad_(), dense.clone().requires_grad_()


def turned(operand, is_transposed: bool):
    return operand.t() if is_transposed else operand


def close(ours, theirs) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    tolerance = {"atol": 1e-9, "rtol": 1e-9} if ours.dtype == torch.float64 else {"atol": 0.3, "rtol": 3e-2}
    torch.testing.assert_close(ours, theirs, **tolerance)


def same_gradients(ours, theirs, matrices) -> None:
    """Of the sum of both, weighted by what is drawn; gradients of a sparse matrix are those of the dense one at its blocks."""
    weights = torch.randn(theirs.shape, dtype=torch.float64).to(theirs)
    (ours * weights).sum().backward()
    (theirs * weights).sum().backward()
    for sparse_or_dense, dense in matrices:
        if isinstance(sparse_or_dense, stk.Matrix):
            stored = stk.ops.to_dense(stk.ops.ones_like(sparse_or_dense))
            close(stk.ops.to_dense(sparse_or_dense.grad), dense.grad * stored)
        else:
            close(sparse_or_dense.grad, dense.grad)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("of_a", "of_b"), TRANSPOSES)
@pytest.mark.parametrize("size", SIZES)
def test_dsd(device, size, of_a, of_b) -> None:
    if size not in sides(device):
        pytest.skip("no kernel has such blocks")
    m, k, n, sparsity, block = size
    dense, a = sparse(*((k, m) if of_a else (m, k)), sparsity, block, device)
    b, other = pair(*((n, k) if of_b else (k, n)), device)
    out, expected = stk.ops.dsd(turned(a, of_a), turned(b, of_b)), turned(dense, of_a) @ turned(other, of_b)
    close(out, expected)
    same_gradients(out, expected, [(a, dense), (b, other)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("of_a", "of_b"), TRANSPOSES)
@pytest.mark.parametrize("size", SIZES)
def test_dds(device, size, of_a, of_b) -> None:
    if size not in sides(device):
        pytest.skip("no kernel has such blocks")
    m, k, n, sparsity, block = size
    a, other = pair(*((k, m) if of_a else (m, k)), device)
    dense, b = sparse(*((n, k) if of_b else (k, n)), sparsity, block, device)
    out, expected = stk.ops.dds(turned(a, of_a), turned(b, of_b)), turned(other, of_a) @ turned(dense, of_b)
    close(out, expected)
    same_gradients(out, expected, [(a, other), (b, dense)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("of_a", "of_b"), TRANSPOSES)
@pytest.mark.parametrize("size", SIZES)
def test_sdd(device, size, of_a, of_b) -> None:
    if size not in sides(device):
        pytest.skip("no kernel has such blocks")
    m, k, n, sparsity, block = size
    topo = stk.random.mask(m, n, sparsity, block).to(device)
    (a, a_dense), (b, b_dense) = (
        pair(*((k, m) if of_a else (m, k)), device),
        pair(*((n, k) if of_b else (k, n)), device),
    )
    out = stk.ops.sdd(turned(a, of_a), turned(b, of_b), topo)
    stored = stk.ops.to_dense(topo).to(kind(device))
    expected = (turned(a_dense, of_a) @ turned(b_dense, of_b)) * stored
    close(stk.ops.to_dense(out), expected.detach())
    weights = torch.randn(out.data.shape, dtype=torch.float64).to(out.data)
    (out.data * weights).sum().backward()
    (expected * stk.ops.to_dense(out.with_data(weights))).sum().backward()
    close(a.grad, a_dense.grad)
    close(b.grad, b_dense.grad)


def test_operands_with_other_strides() -> None:
    _, a = sparse(96, 64, 0.5, 16, "cpu")
    b = torch.randn(64, 80, dtype=torch.float64)[:, ::2]
    close(stk.ops.dsd(a, b), stk.ops.to_dense(a) @ b)
    close(stk.ops.dds(b.t(), a.t()), b.t() @ stk.ops.to_dense(a).t())


def test_matrices_and_their_transposes() -> None:
    dense, x = sparse(96, 64, 0.5, 16, "cpu")
    assert torch.equal(stk.ops.to_dense(x), dense) and torch.equal(stk.ops.to_dense(x.t()), dense.t())
    assert torch.equal(stk.ops.to_dense(x.t().contiguous()), dense.t()) and x.t().contiguous().is_contiguous()
    x.validate()
    x.t().contiguous().validate()
    assert x.t().t().is_contiguous() and x.t().shape == (64, 96) and x.t().data is x.data
    assert (x.blocking, x.nnz, x.dim(), x.dtype, x.requires_grad) == (16, x.data.numel(), 2, torch.float64, True)
    # The transposed matrix's lists are those of the transposed dense matrix.
    expected = stk.ops.to_sparse(dense.t().contiguous(), 16)
    assert torch.equal(x.offsets_t, expected.offsets) and torch.equal(x.column_indices_t, expected.column_indices)
    assert torch.equal(x.data[x.block_offsets_t.long()].transpose(1, 2), expected.data)
    rows = stk.ops.row_indices(x.shape, x.data, x.offsets, x.column_indices)
    assert torch.equal(rows, x.row_indices) and rows.dtype == x.column_indices.dtype
    assert stk.ops.sum(x) == x.data.sum() and torch.equal(stk.ops.to_dense(stk.ops.mul(x, x)), dense * dense)
    copy = x.clone()
    copy.data.data.zero_()
    assert torch.equal(stk.ops.to_dense(x), dense)


def test_random_matrices() -> None:
    mask = stk.random.dense_mask(64, 96, 0.75, 16)
    assert mask.shape == (64, 96) and mask.sum() == 6 * 256
    assert len(stk.random.mask(64, 96, 0.75, 16).data) == 6
    x = stk.random.randn((2, 4, 8, 96), 0.5, 16)
    assert x.shape == (2, 4, 8, 96) and x.dtype == torch.float16 and len(x.data) == 12
    dense = stk.ops.to_dense(x)
    assert dense.shape == (2, 4, 8, 96) and 0.4 < (dense != 0).float().mean() <= 0.5
    assert torch.equal(stk.ops.to_dense(x.view(64, 96)), dense.reshape(64, 96))
    empty = stk.random.mask(32, 32, 1.0, 16)
    assert not stk.ops.dsd(empty, torch.ones(32, 8).half()).any()


def test_lists_that_change_in_place() -> None:
    _, x = sparse(64, 64, 0.5, 16, "cpu")
    b = torch.randn(64, 8, dtype=torch.float64)
    for _ in range(2):
        close(stk.ops.dsd(x, b), stk.ops.to_dense(x) @ b)
        first = slice(0, int(x.offsets[1]))
        x.column_indices[first] = torch.arange(first.stop, dtype=torch.int16)


@pytest.mark.parametrize("in_place", [False, True])
def test_experts_as_megablocks_computes_them(in_place) -> None:
    # 3 experts of 32 features on 48, 16 and 32 tokens: blocks of 16 along the diagonal, lists of a topology without data.
    side, features, tokens = 16, 32, (48, 16, 32)
    blocks, per_row = torch.tensor(tokens) // side, features // side
    offsets = torch.arange(0, 6 * per_row + 1, per_row, dtype=torch.int32)
    expert = torch.arange(3).repeat_interleave(blocks)
    columns = (expert[:, None] * per_row + torch.arange(per_row)).flatten().to(torch.int16)
    data = torch.empty(len(columns), side, side, device="meta")
    rows = stk.ops.row_indices((96, 96), data, offsets, columns)
    topo = stk.Matrix((96, 96), data, rows, columns, offsets)
    topo.validate()
    lists = (
        topo.row_indices,
        topo.column_indices,
        topo.offsets,
        topo.column_indices_t,
        topo.offsets_t,
        topo.block_offsets_t,
    )
    ours, theirs = (
        [x.clone().requires_grad_() for x in made]
        for made in [[torch.randn(96, 24, dtype=torch.float64) for _ in range(3)]] * 2
    )
    x, w1, w2 = ours
    h = stk.ops.sdd(x, w1.t(), topo)
    y = stk.ops.dsd(stk.Matrix(topo.size(), h.data.relu(), *lists), w2)
    each = zip(*(tensor.split(tokens) if tensor is theirs[0] else tensor.split(features) for tensor in theirs))
    expected = torch.cat([(x @ w1.t()).relu() @ w2 for x, w1, w2 in each])
    close(y, expected)
    weights = torch.randn_like(y)
    (expected * weights).sum().backward()
    if in_place:
        from bsr_gemm.stk.backend import triton_kernels

        with torch.no_grad():
            dh, dx = stk.Matrix(topo.size(), torch.empty_like(h.data), *lists), torch.empty_like(x)
            triton_kernels.sdd(weights, w2.t(), dh.shape, dh.data, dh.offsets, dh.row_indices, dh.column_indices)
            dh.data.mul_(h.data > 0)
            of_lists = (
                dh.offsets,
                dh.row_indices,
                dh.column_indices,
                dh.offsets_t,
                dh.column_indices_t,
                dh.block_offsets_t,
            )
            triton_kernels.dsd(dh.shape, dh.data, *of_lists, False, w1, dx)
            dw1 = torch.empty_like(w1)
            triton_kernels.dsd(dh.t().shape, dh.data, *of_lists, True, x, dw1)
            turned_back = torch.empty_like(x.t())
            triton_kernels.dds(w1.t(), dh.t().shape, dh.data, *of_lists, True, turned_back)
        found = dx, dw1, stk.ops.dsd(stk.Matrix(topo.size(), h.data.relu(), *lists).t(), weights)
        close(turned_back.t(), dx)
    else:
        (y * weights).sum().backward()
        found = tuple(tensor.grad for tensor in ours)
    for our, their in zip(found, theirs):
        close(our, their.grad)


def test_what_is_refused() -> None:
    _, x = sparse(64, 32, 0.5, 16, "cpu")
    lists = x.row_indices, x.column_indices, x.offsets
    refused = [
        (
            lambda: stk.ops.sdd(torch.ones(32, 8), torch.ones(8, 64), x.t()),
            "of a transposed matrix\n  help: `topo.contiguous",
        ),
        (lambda: stk.ops.dsd(x, torch.ones(33, 8, dtype=torch.float64)), "multiplied along 32"),
        (lambda: stk.ops.mul(x, x.t()), "have other places"),
        (lambda: stk.ops.to_sparse(torch.ones(30, 32), 16), "30 x 32 in blocks of 16"),
        (lambda: stk.random.dense_mask(64, 64, 1.5, 16), "a fraction from 0 to 1"),
        (lambda: x.view(32, 64), "not viewed as 32 x 64"),
        (lambda: stk.Matrix((65, 32), x.data, *lists).validate(), "for a matrix of 65 x 32"),
        (lambda: stk.Matrix((64, 32), x.data, x.row_indices[1:], *lists[1:]).validate(), "row_indices is "),
        (lambda: stk.Matrix((64, 32), x.data, *lists[:2], x.offsets[1:]).validate(), "5 of int32 or int64"),
        (lambda: stk.Matrix((64, 32), x.data, lists[0], x.column_indices + 2, lists[2]).validate(), "block row"),
        (
            lambda: stk.Matrix((64, 1 << 12), x.data, lists[0], x.column_indices.to(torch.int8), lists[2]),
            "more than 127 blocks",
        ),
        (lambda: stk.random.randn((2, 32, 32), 0.5, 16).t(), r"help: `x.view\(rows, columns\)`"),
    ]
    for call, words in refused:
        with pytest.raises(bsr.Error, match=words):
            call()


def test_programs_that_import_stk() -> None:
    program = """
import bsr_gemm.stk
bsr_gemm.stk.install()
import stk.ops, stk.backend.triton_kernels
from stk import Matrix
from stk.backend.autocast import custom_bwd, custom_fwd
assert stk.Matrix is Matrix is bsr_gemm.stk.Matrix and stk.ops is bsr_gemm.stk.ops
assert custom_fwd(lambda x: x)(3) == 3 and stk.backend.triton_kernels.sdd
print("as stk")
"""
    assert run(program) == "as stk\n"
