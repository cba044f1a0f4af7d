"""Gradients of a score's numbers and vectors: as products, and from the sums of kernels, seen without a GPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from test_launches_of_attention import WITH_GRADIENTS, ReadyGradient, heads, on_the_cpu  # noqa: E402, F401

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm._lib import _attention_launch, _score_gradients  # noqa: E402


def dense(q, k, v, x, a, b, c):
    """The attention of :data:`WITH_GRADIENTS`; vectors are problems x heads x elements."""
    i, j = torch.arange(q.shape[2], dtype=q.dtype), torch.arange(k.shape[2], dtype=q.dtype)
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    of_pairs = x * a[..., :, None] * b[..., None, :] - c[..., None] * (i[:, None] - j).abs()
    return torch.softmax(0.25 * q @ k.mT + of_pairs, dim=-1) @ v


@pytest.mark.parametrize("shapes", [((100,), (100,), (4,)), ((2, 1, 100), (1, 4, 100), (2, 4))])
def test_numbers_and_vectors_have_gradients(shapes) -> None:
    mask = Mask.full((100, 100), (64, 64))
    tensors = [torch.randn(2, count, 100, 8, dtype=torch.float64).requires_grad_() for count in (4, 2, 2)]
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    vectors = [torch.randn(shape).mul(0.1).requires_grad_() for shape in shapes]
    numbers = dict(zip("xabc", (x, *vectors)))
    found = bsr.attention(*tensors, mask, score=WITH_GRADIENTS, numbers=numbers, scale=0.25)
    a, b, c = vectors
    right = dense(*tensors, x, a.expand(2, 4, 100), b.expand(2, 4, 100), c.expand(2, 4)[..., None])
    weights = torch.randn_like(right)
    leaves = [*tensors, x, *vectors]
    ours, theirs = (torch.autograd.grad((out * weights).sum(), leaves) for out in (found, right))
    for our, their, of in zip(ours, theirs, leaves):
        assert our.shape == of.shape and our.dtype == of.dtype
        torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)
    # A number alone, and one that wants no gradient.
    out = bsr.attention(
        *(of.detach() for of in tensors),
        mask,
        score=WITH_GRADIENTS,
        numbers=numbers | dict(a=vectors[0].detach()),
        scale=0.25,
    )
    (alone,) = torch.autograd.grad((out * weights).sum(), [x])
    torch.testing.assert_close(alone, theirs[3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wanted", ["xabc", "a", "bx", "c"])
def test_sums_of_kernels_become_gradients(wanted) -> None:
    mask = Mask.full((100, 100), (64, 64)).scored()
    for _ in range(2):
        tensors = heads(columns=32)
        vectors = [torch.randn(1, 4, size).mul(0.1) for size in (100, 100, 1)]
        how = mask.key, WITH_GRADIENTS, 0.25, (0.5,)
        o, lse = torch.ops.bsr_gemm.attention(*tensors, None, *how[:3], [0.5], True, vectors, None)
        given = (torch.randn_like(o), None, *tensors, o, lse)
        leaves = [*vectors, torch.tensor(0.5)]
        of_each = [leaf if name in wanted else None for name, leaf in zip("abcx", leaves)]
        found = _score_gradients.of_kernels(given, mask, how, vectors, of_each)
        expected = _score_gradients.of_products(given, mask, how, vectors, of_each)
        for our, their in zip(found[:3], expected):
            assert torch.equal(our, their)
        for our, their, leaf in zip(found[3:], expected[3:], of_each):
            assert (our is None) == (their is None) == (leaf is None)
            if leaf is not None:
                assert our.shape == leaf.shape
                torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)
    assert ReadyGradient.launches == 2 and len(_attention_launch._ready) == 1, "the second one is known"
