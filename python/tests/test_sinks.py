"""Sinks of attention: against a softmax with one more column, on the CPU, on the simulator and on a GPU, and their gradient."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm import DeviceMask  # noqa: E402
from bsr_gemm._lib import _attention_choice  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: Among the logarithms of sums, below them, above them, and none.
SINKS = [3.0, -1.0, 8.0, -math.inf]


def drawn(queries: int, keys: int, columns: int, dtype=torch.float64, device="cpu"):
    """Q of 2 problems and 4 heads over 2 of K and V."""
    generator = torch.Generator().manual_seed(queries)
    shapes = [(2, 4, queries, columns), (2, 2, keys, columns), (2, 2, keys, columns)]
    return [torch.randn(shape, dtype=torch.float64, generator=generator).to(device, dtype) for shape in shapes]


def some_rows_empty(queries: int, keys: int, side: int) -> Mask:
    """Blocks on and below the diagonal, and none in the second row of blocks."""
    blocks = torch.ones(-(-queries // side), -(-keys // side), dtype=torch.bool).tril()
    blocks[1] = False
    return Mask.from_blocks(blocks, (queries, keys), (side, side))


def dense(q, k, v, sinks, mask: Mask):
    """O and LSE of a softmax whose last column is the sink, which has no value."""
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    bm, bk = mask.block
    pairs = torch.from_numpy(mask.blocks()[0] > 0).repeat_interleave(bm, 0).repeat_interleave(bk, 1)
    kept = pairs[: q.shape[2], : k.shape[2]].to(q.device)
    scores = (q @ k.mT / math.sqrt(q.shape[3])).masked_fill(~kept, -math.inf)
    column = sinks[:, None, None].expand(2, 4, q.shape[2], 1)
    scores = torch.cat((scores, column), -1)
    # Where nothing counts the softmax is no number, and a query has zeros.
    nothing = scores.isneginf().all(-1, keepdim=True)
    p = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    return p[..., :-1] @ v, scores.logsumexp(-1)


def error(found, expected) -> float:
    return ((found.double() - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("split", [None, "auto", 3])
@pytest.mark.parametrize(("queries", "keys"), [(300, 300), (3, 500)])
def test_values(device, queries, keys, split) -> None:
    dtype, bound = (torch.float64, 1e-12) if device == "cpu" else (torch.bfloat16, 5e-3)
    inputs, mask = drawn(queries, keys, 64, dtype, device), Mask.full((queries, keys), (64, 64))
    if queries > 64:
        mask = some_rows_empty(queries, keys, 64)
    sinks = torch.tensor(SINKS, device=device)
    for _ in range(2):
        found, lse = bsr.attention(*inputs, mask, sinks=sinks, split=split, lse=True)
        expected, sums = dense(*(x.double() for x in inputs), sinks.double(), mask)
        assert error(found, expected) < bound
        finite = sums.isfinite()
        assert torch.equal(lse.isneginf(), ~finite) and (lse[finite] - sums[finite]).abs().max() < 1e-4
        # The next launch of these shapes is a cached one, of another sink.
        sinks = sinks.roll(1)
    # Without sinks it is another kernel.
    none = torch.full((4,), -math.inf, dtype=torch.float64, device=device)
    expected, _ = dense(*(x.double() for x in inputs), none, mask)
    assert error(bsr.attention(*inputs, mask, split=split), expected) < bound


@pytest.mark.parametrize("split", [None, 2])
def test_the_simulated_kernel_is_clean_and_right(split) -> None:
    inputs, mask = drawn(200, 200, 32, torch.bfloat16), some_rows_empty(200, 200, 64)
    sinks = torch.tensor(SINKS, dtype=torch.bfloat16)
    run = bsr.simulate_attention(*inputs, mask, sinks=sinks, split=split)
    expected, sums = dense(*(x.double() for x in inputs), sinks.double(), mask)
    assert run.findings == [] and error(run.result, expected) < 5e-3
    assert torch.allclose(torch.from_numpy(run.rows).double(), sums, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients(device) -> None:
    dtype, bound = (torch.float64, 1e-9) if device == "cpu" else (torch.bfloat16, 1e-2)
    inputs, mask = drawn(200, 200, 64, dtype, device), some_rows_empty(200, 200, 64)
    sinks = torch.tensor(
        [3.0, -1.0, 8.0, 0.5], device=device, dtype=torch.float64 if device == "cpu" else torch.float32
    )
    leaves = [x.requires_grad_() for x in (*inputs, sinks)]
    wide = [x.detach().double().requires_grad_() for x in leaves]
    of_output = torch.randn(2, 4, 200, 64, dtype=torch.float64).to(device)
    of_lse = torch.randn(2, 4, 200, dtype=torch.float64).to(device)

    def loss(out, lse):
        return (out.double() * of_output).sum() + (lse.double() * of_lse).sum()

    found = torch.autograd.grad(loss(*bsr.attention(*leaves[:3], mask, sinks=sinks, lse=True)), leaves)
    expected = torch.autograd.grad(loss(*dense(*wide, mask)), wide)
    for name, ours, theirs in zip(("q", "k", "v", "sinks"), found, expected):
        assert error(ours, theirs) < bound, name
    # Of sinks alone, as of a model whose other parameters are frozen.
    frozen = [x.detach() for x in inputs]
    (alone,) = torch.autograd.grad(loss(*bsr.attention(*frozen, mask, sinks=sinks, lse=True)), sinks)
    assert torch.equal(alone, found[3])


@pytest.mark.parametrize("score", [None, "|slope: Heads<f32>| s * scale - slope * abs(i - j)"])
def test_gradcheck(score) -> None:
    inputs = [x.requires_grad_() for x in drawn(11, 11, 2)]
    sinks = torch.tensor([1.0, -0.5, 2.0, 0.0], dtype=torch.float64, requires_grad=True)
    slope = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64, requires_grad=True)
    mask = some_rows_empty(11, 11, 4)

    def attend(q, k, v, sinks, *slopes):
        numbers = {"slope": slopes[0]} if slopes else ()
        return bsr.attention(q, k, v, mask, sinks=sinks, score=score, numbers=numbers, lse=True)

    further = () if score is None else (slope,)
    assert torch.autograd.gradcheck(attend, (*inputs, sinks, *further), atol=1e-5, eps=1e-4 if further else 1e-6)


def test_transforms_and_graphs() -> None:
    inputs, sinks = drawn(11, 11, 2), torch.tensor([1.0, -0.5, 2.0, 0.0], dtype=torch.float64)

    def loss(sinks):
        return bsr.attention(*inputs, causal=True, block=(4, 4), sinks=sinks).square().sum()

    leaf = sinks.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    assert torch.allclose(torch.func.grad(loss)(sinks), expected)
    several = torch.stack((sinks, sinks + 1))
    assert torch.allclose(torch.func.vmap(loss)(several), torch.stack([loss(each) for each in several]))
    (compiled,) = torch.autograd.grad(torch.compile(loss, backend="aot_eager", fullgraph=True)(leaf), leaf)
    assert torch.allclose(compiled, expected)


def test_queries_without_any_key() -> None:
    q, k, v = drawn(5, 0, 4)
    out, lse = bsr.attention(q, k, v, sinks=torch.tensor(SINKS), lse=True)
    assert not out.any() and torch.equal(lse, torch.tensor(SINKS, dtype=lse.dtype)[:, None].expand(2, 4, 5))


@pytest.mark.gpu
def test_a_mask_on_the_gpu(monkeypatch) -> None:
    monkeypatch.setattr(_attention_choice, "APART", 0.0)
    inputs, mask = drawn(300, 300, 64, torch.bfloat16, "cuda"), some_rows_empty(300, 300, 64)
    blocks = torch.from_numpy(mask.blocks()[0]).cuda() > 0
    sinks = torch.tensor(SINKS, device="cuda")
    found = bsr.attention(*inputs, DeviceMask.from_blocks(blocks, (300, 300), (64, 64)), sinks=sinks)
    assert torch.equal(found, bsr.attention(*inputs, mask, sinks=sinks))


@pytest.mark.parametrize(
    ("sinks", "words"),
    [
        (torch.zeros(3), r"a tensor of \[3\]\n  help: .* 4 heads"),
        (torch.zeros(4, dtype=torch.int64), "a number for each"),
        (0.5, "sinks are a float"),
    ],
)
def test_what_are_no_sinks_is_refused(sinks, words) -> None:
    with pytest.raises(bsr.Error, match=words):
        bsr.attention(*drawn(5, 5, 4), sinks=sinks)
