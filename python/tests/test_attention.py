"""Attention at the blocks of a mask."""

from __future__ import annotations

import inspect
import math
import pickle
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from apart import run  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm._lib import _attention  # noqa: E402
from bsr_gemm._lib import _attention_torch as _operators  # noqa: E402
from bsr_gemm._lib._conditions import CAUSAL  # noqa: E402
from bsr_gemm._lib._score import score_of  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: As a score, and as the closure that it becomes.
SCORE = "if i >= j { s * scale } else { -inf }"
CLOSURE = f"|| {SCORE}"
SLOPED = "|slope: f32| if i >= j { s * scale - slope * (i - j) } else { -inf }"
DOCUMENTS = (
    "|slopes: Heads<f32>, of_query: Rows<f32>, of_key: Cols<f32>| "
    "if of_query == of_key { s * scale - slopes * abs(i - j) } else { -inf }"
)
CAPPED = "if i >= j { 8.0 * tanh(s * scale / 8.0) } else { -inf }"


def allowed(mask: Mask, batch: int, heads: int, pairs=None) -> torch.Tensor:
    """Whether a pair is attended to, problems x heads x queries x keys: blocks of the mask, and in partial ones `pairs`."""
    (queries, keys), (bm, bk) = mask.sizes, mask.block
    blocks = torch.from_numpy(mask.blocks()).repeat_interleave(bm, 1).repeat_interleave(bk, 2)[:, :queries, :keys]
    shape = {"all": (1, 1), "head": (1, heads), "problem": (batch, 1), "both": (batch, heads)}[mask.per]
    found = (blocks == 1) | ((blocks == 2) & (torch.ones(queries, keys, dtype=bool) if pairs is None else pairs))
    return found.reshape(*shape, queries, keys).expand(batch, heads, queries, keys)


def dense(q, k, v, kept, score=None, scale=None):
    """The attention of every pair in PyTorch: O and the logarithms of the sums."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.mT
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    i, j = torch.arange(q.shape[2], device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)[None, :]
    scores = s * scale if score is None else score(s, scale, i, j)
    scores = scores.masked_fill(~kept.to(q.device), -math.inf)
    lse = scores.logsumexp(-1)
    p = torch.where(lse.isneginf()[..., None], 0.0, (scores - torch.where(lse.isneginf(), 0.0, lse)[..., None]).exp())
    return p @ v, lse


def tensors(shape, key_heads=None, keys=None, dtype=torch.float64, layout="bhsd", seed=0, device="cpu"):
    batch, heads, queries, columns = shape
    generator = torch.Generator().manual_seed(seed)

    def of(h, rows):
        sizes = (batch, h, rows, columns) if layout == "bhsd" else (batch, rows, h, columns)
        return torch.randn(sizes, dtype=torch.float64, generator=generator).to(device, dtype)

    return of(heads, queries), *(of(key_heads or heads, keys or queries) for _ in range(2))


def causal_pairs(queries, keys):
    return torch.ones(queries, keys, dtype=bool).tril()


def window_pairs(queries, keys, before, after):
    distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
    return (distance >= -before) & (distance <= after)


def cases():
    """Sizes, key heads, keys, mask, pairs of its partial blocks."""
    block = (16, 8)
    per_head = np.zeros((1, 4, 3, 5), dtype=bool)
    per_head[0, np.arange(4), np.arange(4) % 3, np.arange(4)] = True
    per_problem = np.random.default_rng(1).random((2, 1, 3, 5)) < 0.5
    both = np.random.default_rng(2).random((2, 4, 3, 5)) < 0.4
    yield "full", (2, 2, 40, 12), 2, 33, Mask.full((40, 33), block), None
    yield "causal", (1, 4, 45, 8), 2, 45, Mask.causal((45, 45), block), causal_pairs(45, 45)
    window = Mask.window((45, 45), block, before=9, after=3)
    yield "window", (2, 2, 45, 8), 1, 45, window, window_pairs(45, 45, 9, 3)
    yield "head", (2, 4, 45, 8), 2, 40, Mask.from_blocks(per_head, (45, 40), block), None
    yield "problem", (2, 2, 48, 8), 2, 39, Mask.from_blocks(per_problem, (48, 39), block), None
    yield "both", (2, 4, 41, 8), 1, 40, Mask.from_blocks(both, (41, 40), block), None
    strided = Mask.strided((64, 64), block, local=1, stride=3)
    yield "strided", (1, 1, 64, 8), 1, 64, strided, None


CASES = [pytest.param(*case, id=name) for name, *case in cases()]


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(("shape", "key_heads", "keys", "mask", "pairs"), CASES)
def test_attention_is_that_of_every_pair(shape, key_heads, keys, mask, pairs, layout) -> None:
    q, k, v = tensors(shape, key_heads, keys, layout=layout)
    out, lse = bsr.attention(q, k, v, mask, lse=True, layout=layout)
    given = (q, k, v) if layout == "bhsd" else (x.transpose(1, 2) for x in (q, k, v))
    expected, sums = dense(*given, allowed(mask, *shape[:2], pairs))
    assert out.shape == q.shape and out.is_contiguous()
    torch.testing.assert_close(out if layout == "bhsd" else out.transpose(1, 2), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(lse, sums, rtol=1e-12, atol=1e-12)
    assert torch.equal(bsr.attention(q, k, v, mask, layout=layout), out)


@pytest.mark.parametrize(("shape", "key_heads", "keys", "mask", "pairs"), CASES)
def test_gradients_are_those_of_every_pair(shape, key_heads, keys, mask, pairs) -> None:
    """The result's and that of the logarithms, beside those that PyTorch derives of the dense form."""
    inputs = [x.requires_grad_() for x in tensors(shape, key_heads, keys)]
    kept = allowed(mask, *shape[:2], pairs)
    dy, dl = torch.randn(shape, dtype=torch.float64), torch.randn(shape[:3], dtype=torch.float64)
    found, expected = bsr.attention(*inputs, mask, lse=True), dense(*inputs, kept)
    without = expected[1].detach().isneginf()
    for dlse in (torch.zeros_like(dl), dl.masked_fill(without, 0.0)):
        losses = [(o * dy).sum() + (lse.masked_fill(without, 0.0) * dlse).sum() for o, lse in (found, expected)]
        pairs_of = zip(*(torch.autograd.grad(loss, inputs, retain_graph=True) for loss in losses))
        for name, (ours, theirs) in zip("qkv", pairs_of):
            torch.testing.assert_close(
                ours, torch.nan_to_num(theirs), rtol=1e-6, atol=1e-7, msg=lambda m, n=name: f"d{n}: {m}"
            )


@pytest.mark.parametrize(
    "score",
    [
        SCORE,
        SLOPED,
        CAPPED,
        "let x = s * scale; x - 0.1 * x * x + 0.01 * head * j - batch",
        "s * scale * cos(0.3 * (i - j)) + sin(s) * floor(j / 3)",
    ],
)
def test_gradcheck(score) -> None:
    numbers = {"slope": 0.25} if score == SLOPED else ()
    mask = Mask.causal((11, 11), (4, 4))
    inputs = [x.requires_grad_() for x in tensors((2, 2, 11, 2), 1)]

    def attend(q, k, v):
        return bsr.attention(q, k, v, mask, score=score, numbers=numbers, lse=True, scale=0.7)

    assert torch.autograd.gradcheck(attend, inputs, atol=1e-5)


#: Vectors in terms, factors and functions of the score, and in conditions of it.
OF_VECTORS = [
    ("|slopes: Heads<f32>| s * scale - slopes * (i - j)", [(2,)]),
    ("|a: Rows<f32>, b: Cols<f32>| if i >= j { s * scale + a * b } else { -inf }", [(2, 11), (2, 2, 11)]),
    ("|temperature: Heads<f32>, b: Cols<f32>| tanh(s * scale * temperature) + b * b", [(2, 2), (11,)]),
]


@pytest.mark.parametrize(("score", "shapes"), OF_VECTORS)
def test_gradients_of_vectors(score, shapes) -> None:
    mask = Mask.from_blocks(np.tril(np.ones((3, 3), dtype=bool)), (11, 11), (4, 4))
    inputs = [x.requires_grad_() for x in tensors((2, 2, 11, 2), 1)]
    generator = torch.Generator().manual_seed(2)
    vectors = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
    names = [name for name, *_ in score_of(score).vectors]

    def attend(q, k, v, *vectors):
        return bsr.attention(q, k, v, mask, score=score, numbers=dict(zip(names, vectors)), lse=True, scale=0.7)

    # Kernels read vectors of f32, so that differences of the vectors are rounded: they are held against dense attention.
    found = torch.autograd.grad(sum(x.sum() for x in attend(*inputs, *vectors)), [*inputs, *vectors])
    out, lse = of_pairs(inputs, vectors, score, names, 0.7)
    expected = torch.autograd.grad(out.sum() + lse.sum(), [*inputs, *vectors])
    for ours, theirs in zip(found, expected):
        assert ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    # One alone, and none of Q, K and V.
    (alone,) = torch.autograd.grad(attend(*(x.detach() for x in inputs), *vectors)[0].sum(), vectors[:1])
    (theirs,) = torch.autograd.grad(of_pairs(inputs, vectors, score, names, 0.7)[0].sum(), vectors[:1])
    assert torch.allclose(alone, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("per", ["all", "device"])
def test_gradients_of_vectors_on_a_gpu(per) -> None:
    score = "|slopes: Heads<f32>, bias: Cols<f32>| if i >= j { s * scale + bias - slopes * (i - j) } else { -inf }"
    q, k, v = tensors((2, 4, 300, 64), dtype=torch.bfloat16)
    slopes, bias = torch.linspace(0.01, 0.1, 4), torch.randn(300, generator=torch.Generator().manual_seed(3))
    found = {}
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.bfloat16)):
        given = [x.to(device, dtype).requires_grad_() for x in (q, k, v)]
        leaves = [x.to(device).requires_grad_() for x in (slopes, bias)]
        mask = Mask.causal((300, 300), (64, 64))
        if per == "device" and device == "cuda":
            mask = bsr.DeviceMask.from_blocks(torch.from_numpy(mask.blocks()[0] > 0).cuda(), (300, 300), (64, 64))
        numbers = dict(zip(("slopes", "bias"), leaves))
        out = bsr.attention(*given, mask, score=score, numbers=numbers)
        of_out = torch.randn(out.shape, generator=torch.Generator().manual_seed(4)).to(out)
        found[device] = torch.autograd.grad(out, [*given, *leaves], of_out)
    for ours, theirs in zip(found["cuda"], found["cpu"]):
        error = ((ours.cpu().double() - theirs).norm() / theirs.double().norm()).item()
        assert error < 2e-2, error


def of_pairs(inputs, vectors, score, names, scale):
    """Dense attention with the score of every pair in blocks of 4 x 4 on and below the diagonal."""
    q, k, v = inputs
    at = torch.arange(11)
    values = {"i": at[:, None].double(), "j": at[None, :].double(), "scale": torch.tensor(scale).double()}
    values |= {"head": torch.arange(2).double()[:, None, None], "batch": torch.arange(2).double()[:, None, None, None]}
    for name, vector in zip(names, vectors):
        kind = dict((name, kind) for name, kind, _ in score_of(score).vectors)[name]
        wide = vector.reshape(*(1,) * ((2 if kind == "Heads" else 3) - vector.dim()), *vector.shape)
        wide = vector[:, None] if kind != "Heads" and vector.dim() == 2 else wide
        values[name] = {"Heads": wide[..., None, None], "Rows": wide[..., :, None], "Cols": wide[..., None, :]}[kind]
    scores = score_of(score).evaluate(values | {"s": q @ k.mT})
    stored = (at[:, None] // 4 >= at[None, :] // 4).expand(scores.shape)
    scores = scores.masked_fill(~stored, -torch.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


@pytest.mark.parametrize("device", DEVICES)
def test_scores_beyond_masks_are_computed_in_every_block(device) -> None:
    shape, dtype = (1, 2, 300, 64), torch.float64 if device == "cpu" else torch.bfloat16
    q, k, v = tensors(shape, dtype=dtype, device=device)
    mask = Mask.causal((300, 300), (64, 64))
    assert mask.blocks().max() == 2 and (mask.blocks() == 1).any()

    def sloped(s, scale, i, j):
        return s * scale - 0.125 * (i - j)

    def capped(s, scale, i, j):
        return 8.0 * torch.tanh(s * scale / 8.0)

    kept = causal_pairs(300, 300)
    for score, numbers, function in [(SLOPED, [0.125], sloped), (CAPPED, (), capped)]:
        found = bsr.attention(q, k, v, mask, score=score, numbers=numbers)
        expected, _ = dense(*(x.double() for x in (q, k, v)), kept, function)
        error = ((found.double() - expected).norm() / expected.norm()).item()
        assert error < (1e-12 if device == "cpu" else 5e-3), f"{score}: {error}"


def documents(batch, heads, queries, device="cpu"):
    """A score's vectors: slopes by head, and the documents that tokens of each problem belong to; the pairs within them."""
    ids = torch.stack([torch.arange(queries) * (b + 2) // queries for b in range(batch)]).to(device)
    slopes = 2.0 ** -torch.arange(1, heads + 1, device=device)
    given = {"slopes": slopes, "of_query": ids, "of_key": ids}

    def score(s, scale, i, j):
        return s * scale - slopes[:, None, None] * (i - j).abs()

    return given, score, (ids[:, None, :, None] == ids[:, None, None, :]).cpu()


@pytest.mark.parametrize("device", DEVICES)
def test_vectors_of_scores(device) -> None:
    dtype, columns = (torch.float64, 8) if device == "cpu" else (torch.bfloat16, 64)
    inputs = [x.requires_grad_() for x in tensors((2, 4, 150, columns), 2, 150, dtype, device=device)]
    mask = Mask.random((150, 150), (64, 64), density=0.7, seed=2)
    given, score, pairs = documents(2, 4, 150, device)
    found, lse = bsr.attention(*inputs, mask, score=DOCUMENTS, numbers=given, lse=True)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    expected, sums = dense(*wide, allowed(mask, 2, 4) & pairs, score)
    assert close(found, expected) < (1e-12 if device == "cpu" else 5e-3)
    assert (lse.double() - sums).abs().nan_to_num(0.0, 0.0).max() < (1e-10 if device == "cpu" else 4e-3)
    dy = torch.randn_like(found)
    theirs = torch.autograd.grad(expected, wide, dy.double())
    for ours, other in zip(torch.autograd.grad(found, inputs, dy), theirs):
        assert close(ours, torch.nan_to_num(other)) < (1e-6 if device == "cpu" else 2e-2)
    with torch.no_grad():
        again = bsr.attention(*inputs, mask, score=DOCUMENTS, numbers=given)
        assert torch.equal(again, bsr.attention(*inputs, mask, score=DOCUMENTS, numbers=given))
        assert torch.equal(again, found)


def test_vectors_on_the_simulator() -> None:
    q, k, v = tensors((1, 2, 100, 32), dtype=torch.bfloat16)
    given, score, pairs = documents(1, 2, 100)
    run = bsr.simulate_attention(q, k, v, score=DOCUMENTS, numbers=given, block=(64, 64))
    expected, _ = dense(*(x.double() for x in (q, k, v)), pairs.expand(1, 2, 100, 100), score)
    assert run.findings == [] and close(run.result, expected) < 5e-3


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("device", DEVICES)
def test_values_with_other_columns(device, layout) -> None:
    dtype, (narrow, wide) = (torch.float64, (6, 10)) if device == "cpu" else (torch.bfloat16, (192, 128))
    q, k, _ = tensors((2, 4, 100, narrow), 2, 100, dtype, layout, device=device)
    v = tensors((2, 2, 100, wide), dtype=dtype, layout=layout, device=device, seed=1)[0]
    inputs = [x.requires_grad_() for x in (q, k, v)]
    found = bsr.attention(*inputs, causal=True, layout=layout, block=(64, 64))
    seen = [x.detach().double().requires_grad_() for x in inputs]
    heads_first = seen if layout == "bhsd" else [x.transpose(1, 2) for x in seen]
    expected, _ = dense(*heads_first, causal_pairs(100, 100))
    expected = expected if layout == "bhsd" else expected.transpose(1, 2)
    assert found.shape == expected.shape and found.is_contiguous()
    assert close(found, expected) < (1e-12 if device == "cpu" else 5e-3)
    dy = torch.randn_like(found)
    theirs = torch.autograd.grad(expected, seen, dy.double())
    for ours, other in zip(torch.autograd.grad(found, inputs, dy), theirs):
        assert close(ours, other) < (1e-6 if device == "cpu" else 2e-2)


def test_a_score_on_whole_blocks_is_computed_in_all_of_them() -> None:
    q, k, v = tensors((1, 1, 32, 8))
    mask = Mask.from_blocks(np.ones((2, 2), dtype=bool), (32, 32), (16, 16))
    found = bsr.attention(q, k, v, mask, score=SCORE)
    expected, _ = dense(q, k, v, causal_pairs(32, 32))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(bsr.attention(q, k, v, causal=True, block=(16, 16)), expected)
    strided = Mask.strided((32, 32), (8, 8), local=0, stride=2)
    found = bsr.attention(q, k, v, strided, causal=True)
    expected, _ = dense(q, k, v, allowed(strided, 1, 1) & causal_pairs(32, 32))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_the_simulated_kernel_is_clean_and_right(dtype, causal) -> None:
    q, k, v = tensors((1, 2, 150, 32), 1, dtype=dtype, layout="bshd")
    mask = Mask.causal((150, 150), (64, 64)) if causal else Mask.block_window((150, 150), (64, 64), blocks=1)
    run = bsr.simulate_attention(q, k, v, mask, layout="bshd")
    assert run.findings == [] and run.flops > 0 and run.result.shape == q.shape
    kept = allowed(mask, 1, 2, causal_pairs(150, 150) if causal else None)
    expected, sums = dense(*(x.double().transpose(1, 2) for x in (q, k, v)), kept)
    error = ((run.result.double().transpose(1, 2) - expected).norm() / expected.norm()).item()
    assert error < (5e-3 if dtype == torch.bfloat16 else 7e-4), error
    np.testing.assert_allclose(run.rows, sums.numpy(), atol=2e-3)
    native = bsr.attention(q, k, v, mask, layout="bshd")
    assert ((native.double() - run.result.double()).norm() / expected.norm()).item() < 5e-3


@pytest.mark.parametrize("device", DEVICES)
def test_divided_keys(device) -> None:
    q, k, v = tensors((1, 2, 3, 64), 1, 2000, torch.float64 if device == "cpu" else torch.bfloat16, device=device)
    whole = bsr.attention(q, k, v, block=(64, 128), lse=True)
    attend = torch.compile(bsr.attention, backend="aot_eager", fullgraph=True)
    for split in ("auto", 2, 16):
        found = bsr.attention(q, k, v, block=(64, 128), lse=True, split=split)
        assert all(close(ours, theirs) < 5e-3 for ours, theirs in zip(found, whole)), split
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        attend(*inputs, block=(64, 128), split=split).sum().backward()
        assert all(x.grad.isfinite().all() for x in inputs)
    for split in ("two", 1, 17, True, 2.0):
        with pytest.raises(bsr.Error, match="split = .*\n  help: 'auto'"):
            bsr.attention(q, k, v, split=split)
    if device == "cpu":
        small = [x[:, :, :400].bfloat16() for x in (q, k, v)]
        runs = [bsr.simulate_attention(*small, block=(64, 128), split=split) for split in (None, 2)]
        assert all(run.findings == [] for run in runs)
        assert close(runs[1].result, runs[0].result.double()) < 5e-3


@pytest.mark.parametrize("device", DEVICES)
def test_a_launch_that_begins_early_computes_the_same(device) -> None:
    mask = Mask.causal((150, 150), (64, 64))
    attend = torch.compile(bsr.attention, backend="aot_eager", fullgraph=True)
    for seed in range(3):
        # Written by the kernel ahead of the attention.
        q, k, v = (x + seed for x in tensors((1, 4, 150, 64), 2, 150, torch.bfloat16, device=device))
        whole = bsr.attention(q, k, v, mask, lse=True)
        for attention in (bsr.attention, attend):
            found = attention(q, k, v, mask, lse=True, pdl=True)
            assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, whole))
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        bsr.attention(*inputs, mask, pdl=True).sum().backward()
        assert all(x.grad.isfinite().all() for x in inputs)
    if device == "cpu":
        run = bsr.simulate_attention(q[:, :1], k[:, :1], v[:, :1], mask, pdl=True)
        assert run.findings == [] and close(run.result, whole[0][:, :1].double()) < 1e-2
    for pdl in (1, "on", None):
        with pytest.raises(bsr.Error, match="pdl = .*\n  help: True, or False"):
            bsr.attention(q, k, v, pdl=pdl)


def test_masks_are_made_of_arrays_rules_and_pairs(rng) -> None:
    pairs = causal_pairs(45, 45).numpy()
    rule, of_pairs = Mask.causal((45, 45), (16, 8)), Mask.from_pairs(pairs, (16, 8))
    assert np.array_equal(of_pairs.blocks(), rule.blocks()) and of_pairs != rule, "only the rule has a condition"
    assert Mask.from_pairs(torch.from_numpy(pairs), (16, 8), mask=CAUSAL) == rule
    (indptr,), (indices,), (partial,) = rule.indptr, rule.indices, rule.partial
    assert Mask((45, 45), (16, 8), indptr, indices, partial, mask=CAUSAL) == rule
    assert Mask((45, 45), (16, 8), torch.from_numpy(indptr.astype(np.int64)), indices.tolist()).stored == rule.stored
    assert pickle.loads(pickle.dumps(rule)) == rule
    four = Mask((45, 45), (16, 8), [indptr] * 4, [indices] * 4, [partial] * 4, per="head", mask=CAUSAL)
    assert (four.per, four.stored) == ("head", 4 * rule.stored) and pickle.loads(pickle.dumps(four)) == four
    scores = rng.random((1, 2, 3, 6)).astype(np.float32)
    top = Mask.top_k(torch.from_numpy(scores), (45, 45), (16, 8), count=2)
    assert top.per == "head" and np.array_equal(
        top.blocks(), (scores[0] >= np.sort(scores[0])[:, :, -2:-1]).astype(int)
    )
    bird = Mask.big_bird((128, 128), (16, 16), local=1, first=1, random=1, seed=3)
    grid = bird.blocks()[0] > 0
    assert grid[0].all() and grid[:, 0].all() and (np.diag(grid)).all() and 8 * 8 > bird.stored > 8 * 3
    assert Mask.random((128, 128), (16, 16), density=0.0).stored == 8
    assert rule.pairs(2, 3) == 6 * (16 * 16 + 16 * 32 + 13 * 45)
    assert "|" in rule.picture() and "blocks of 16 x 8" in repr(rule)
    assert Mask.lower_triangle((64, 64), (16, 16)).blocks()[0].tolist() == np.tril(np.ones((4, 4), int)).tolist()


def test_masks_of_flex_attention() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    def windowed(b, h, i, j):
        return (i >= j) & (i - j <= 20 * (h + 1))

    for heads in (None, 2):
        mask_mod = windowed if heads else (lambda b, h, i, j: i >= j)
        block_mask = flex.create_block_mask(mask_mod, None, heads, 200, 200, device="cpu", BLOCK_SIZE=(64, 32))
        mask = Mask.from_block_mask(block_mask)
        assert mask.per == ("head" if heads else "all") and mask.block == (64, 32)
        q, k, v = tensors((1, 2, 200, 16))
        text = CAUSAL if heads is None else "i >= j && i - j <= 20 * (head + 1)"
        found = bsr.attention(q, k, v, block_mask, mask=text)
        h, i, j = torch.arange(2)[:, None, None], torch.arange(200)[:, None], torch.arange(200)[None, :]
        expected, _ = dense(q, k, v, (mask_mod(0, h, i, j)).expand(1, 2, 200, 200))
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(bsr.attention(q, k, v, Mask.from_block_mask(block_mask, mask=text)), expected)
        for score in (None, "8.0 * tanh(s * scale / 8.0)"):
            with pytest.raises(bsr.Error, match="blocks are partial, and there is no condition"):
                bsr.attention(q, k, v, block_mask, score=score)


def test_what_does_not_fit_is_refused_in_words() -> None:
    q, k, v = tensors((1, 4, 32, 8), 2)
    mask = Mask.causal((32, 32), (16, 16))
    per_head = Mask.from_blocks(np.ones((1, 3, 2, 2), dtype=bool), (32, 32), (16, 16))

    def vectors_of(slopes):
        ids = torch.zeros(32)
        return bsr.attention(q, k, v, mask, score=DOCUMENTS, numbers={"slopes": slopes, "of_query": ids, "of_key": ids})

    wrong = [
        (lambda: bsr.attention(q, k[:, :, :31], v, mask), "k and v of one shape"),
        (
            lambda: bsr.attention(q, k, v, mask, score=DOCUMENTS, numbers={"slopes": torch.ones(4)}),
            "and slopes are given",
        ),
        (lambda: vectors_of(torch.ones(3)), "`slopes` is 3 on cpu, a Heads of 1 problems, 4 heads"),
        (lambda: bsr.attention(q[:, :3], k, v, mask), "divides 3"),
        (lambda: bsr.attention(q, k.float(), v, mask), "convert them"),
        (lambda: bsr.attention(q[:, :, :31], k, v, mask), "32 queries x 32 keys, and q has 31"),
        (lambda: bsr.attention(q, k, v, per_head), "3 patterns per head"),
        (lambda: bsr.attention(q, k, v, torch.ones(2, 2)), "not an AttentionMask"),
        (lambda: bsr.attention(q[0], k, v), "3 dimensions"),
        (lambda: bsr.attention(q.numpy(), k, v), "a ndarray"),
        (lambda: bsr.attention(q, k, v, layout="bsdh"), "layout = 'bsdh'"),
        (lambda: bsr.attention(q, k, v, mask, score=lambda s, b, h, i, j: s), "score is a function"),
        (lambda: bsr.attention(q, k, v, mask=lambda b, h, i, j: i >= j), "mask is a function"),
        (lambda: bsr.attention(q, k, v, mask="i - j"), "`i - j` is a number, and no comparison"),
        (lambda: bsr.attention(q, k, v, mask="i >= j & j < 4"), "`&` follows its end\n  help: .*`&&`"),
        (lambda: bsr.attention(q, k, v, mask="s > 0.0"), "what depends on `s` is a `score`"),
        (
            lambda: bsr.attention(q, k, v, mask="|w: f32| i < w", score="|w: Rows<f32>| s * w"),
            "two parameters of one name",
        ),
        (lambda: bsr.attention(q, k, v, mask, score="if i >= j { t } else { s }"), "`t`"),
        (lambda: bsr.attention(q, k, v, mask, score=SLOPED, numbers={"alpha": 1.0}), "takes slope, and alpha"),
        (lambda: bsr.attention(q, k, v, mask, score=SLOPED), "takes 1 numbers, and 0"),
        (lambda: bsr.simulate_attention(q, k, v, mask), "f16 and bf16, not f64"),
        (lambda: Mask((32, 32), (16, 16), [0, 1, 2], [0, 2]), "block column 2"),
        (lambda: Mask((32, 32), (16, 16), [0, 1], [0]), "row starts"),
        (lambda: Mask((32, 32), (16, 16), [0, 1, 2], [0, -1]), "indices.1. = -1"),
        (lambda: Mask.from_blocks(np.ones((3, 2), dtype=bool), (32, 32), (16, 16)), "2 x 2 blocks"),
        (lambda: Mask.from_pairs(np.ones((32, 32)), (16, 16)), "booleans"),
        (lambda: Mask.window((32, 32), (16, 16), before=-1), "before = -1"),
    ]
    for attend, words in wrong:
        with pytest.raises(bsr.Error, match=words):
            attend()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not keep overloads")
def test_overloads_have_every_argument() -> None:
    keywords = set(_attention._How.__annotations__) | {"lse"}
    assert keywords | {"q", "k", "v", "pattern"} == set(inspect.signature(bsr.attention).parameters)
    returned = [str(overload.__annotations__["return"]) for overload in typing.get_overloads(bsr.attention)]
    assert returned == ["Tensor", "tuple[Tensor, Tensor]", "Tensor | tuple[Tensor, Tensor]"]


def test_scores_that_are_not_read_have_no_gradient() -> None:
    from bsr_gemm._lib._score import score_of

    unread = score_of("|bias: Dense<f32>| s * scale + bias")
    assert not unread.is_mask
    with pytest.raises(bsr.Error, match="has no gradient: `bias` is a Dense, which no score reads"):
        unread.evaluate({"s": torch.zeros(())})
    for text in (
        "s * scale",
        "{ scale * s }",
        "if head < 2.0 { s * scale } else { -inf }",
        "select(i < j, -inf, s*scale)",
    ):
        assert score_of(text).is_mask, text
    for text in ("s * scale * scale", "if s > 0.0 { s * scale } else { -inf }", "if i < j { s } else { -inf }", "-inf"):
        assert not score_of(text).is_mask, text


def test_second_derivatives_are_refused() -> None:
    q, k, v = (x.requires_grad_() for x in tensors((1, 1, 16, 4)))
    mask = Mask.causal((16, 16), (8, 8))
    (dq,) = torch.autograd.grad(bsr.attention(q, k, v, mask).sum(), q, create_graph=True)
    with pytest.raises(bsr.Error, match="second derivative"):
        dq.sum().backward()


@pytest.mark.parametrize("device", DEVICES)
def test_compile_has_no_graph_break(device) -> None:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    q, k, v = (x.requires_grad_() for x in tensors((1, 2, 128, 64), dtype=dtype, layout="bshd", device=device))
    mask = Mask.window((128, 128), (64, 64), before=50)

    def layer(q, k, v):
        out, lse = bsr.attention(q * 2, k, v, mask, lse=True, layout="bshd")
        return out.float().sum() + lse.sum()

    # The graph is what is tested; code for the CPU takes a minute to compile.
    compiled = torch.compile(layer, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    expected, found = layer(q, k, v), compiled(q, k, v)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    for ours, theirs in zip(torch.autograd.grad(found, (q, k, v)), torch.autograd.grad(expected, (q, k, v))):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 if device == "cuda" else 1e-4)


def test_compiled_scores_read_numbers_and_vectors() -> None:
    """In a process of its own, in which attention was not called before."""
    program = (
        "import torch, bsr_gemm as bsr\n"
        "text = '|c: f32, a: Heads<f32>, b: Rows<f32>| if i >= j { c * s * scale - a * (i - j) + b } else { -inf }'\n"
        "q, k, v = (torch.randn(1, 2, 64, 8, requires_grad=True) for _ in range(3))\n"
        "mask = bsr.AttentionMask.causal((64, 64), (16, 16))\n"
        "def f(q, k, v, a, b):\n"
        "    return bsr.attention(q, k, v, mask, score=text, numbers={'c': 0.5, 'a': a, 'b': b}).square().sum()\n"
        "a, b = torch.rand(2), torch.randn(64)\n"
        "x, y = torch.compile(f, fullgraph=True, backend='aot_eager')(q, k, v, a, b), f(q, k, v, a, b)\n"
        "assert torch.equal(x, y)\n"
        "for one, other in zip(*(torch.autograd.grad(z, (q, k, v)) for z in (x, y))):\n"
        "    assert torch.equal(one, other)\n"
    )
    run(program)


def test_opcheck() -> None:
    q, k, v = (x.requires_grad_() for x in tensors((1, 2, 24, 4), 1))
    mask, sinks = Mask.causal((24, 24), (8, 8)), torch.zeros(2, dtype=torch.float64, requires_grad=True)
    op = torch.ops.bsr_gemm.attention.default
    torch.library.opcheck(op, (q, k, v, sinks, mask.key, CLOSURE, 0.5, [], True, None, None))
    o, lse = op(q, k, v, sinks, mask.key, CLOSURE, 0.5, [], True, None, None)
    inputs = (torch.randn_like(o), None, q.detach(), k.detach(), v.detach(), o.detach(), lse.detach())
    torch.library.opcheck(torch.ops.bsr_gemm.attention_gradient.default, (*inputs, mask.key, CLOSURE, 0.5, []))


def test_empty_tensors_and_rows() -> None:
    q, k, v = tensors((1, 2, 32, 8))
    none = Mask.from_blocks(np.zeros((2, 2), dtype=bool), (32, 32), (16, 16))
    q.requires_grad_()
    out, lse = bsr.attention(q, k, v, none, lse=True)
    assert not out.any() and lse.isneginf().all()
    out.sum().backward()
    assert not q.grad.any()
    out = bsr.attention(q[:0], k[:0], v[:0], Mask.full((32, 32), (16, 16)))
    assert out.shape == (0, 2, 32, 8)
    out, lse = bsr.attention(q, k[:, :, :0], v[:, :, :0], lse=True)
    assert not out.any() and lse.isneginf().all()


def test_autocast() -> None:
    q, k, v = tensors((1, 1, 64, 16), dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert bsr.attention(q, k, v).dtype == torch.bfloat16


@pytest.mark.parametrize("device", DEVICES)
def test_checkpoints_under_autocast(device) -> None:
    from torch.utils.checkpoint import checkpoint

    inputs = [x.requires_grad_() for x in tensors((1, 2, 150, 64), 1, dtype=torch.float32, device=device)]
    mask = Mask.causal((150, 150), (64, 64))
    with torch.autocast(device, torch.bfloat16):
        found = bsr.attention(*inputs, mask)
        again = checkpoint(bsr.attention, *inputs, mask, use_reentrant=False)
    dy = torch.randn_like(found)
    for ours, theirs in zip(*(torch.autograd.grad(out, inputs, dy) for out in (found, again))):
        assert ours.dtype == torch.float32 and torch.equal(ours, theirs)


# On a GPU.


def gpu_cases():
    for dtype in (torch.bfloat16, torch.float16):
        for block in ((128, 128), (64, 64), (64, 128), (128, 64)):
            for columns in (64, 128):
                yield dtype, block, columns


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(("dtype", "block", "columns"), list(gpu_cases()))
def test_on_a_gpu(dtype, block, columns, layout) -> None:
    q, k, v = tensors((2, 4, 500, columns), 2, 500, dtype, layout, device="cuda")
    masks = [
        (Mask.causal((500, 500), block), causal_pairs(500, 500)),
        (Mask.window((500, 500), block, before=100, after=7), window_pairs(500, 500, 100, 7)),
        (Mask.random((500, 500), block, density=0.3), None),
        (
            Mask.from_blocks(
                np.random.default_rng(0).random((2, 4, -(-500 // block[0]), -(-500 // block[1]))) < 0.4,
                (500, 500),
                block,
            ),
            None,
        ),
    ]
    for mask, pairs in masks:
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        out, lse = bsr.attention(*inputs, mask, lse=True, layout=layout)
        wide = [x.detach().double().requires_grad_() for x in inputs]
        seen = wide if layout == "bhsd" else [x.transpose(1, 2) for x in wide]
        expected, sums = dense(*seen, allowed(mask, 2, 4, pairs))
        expected = expected if layout == "bhsd" else expected.transpose(1, 2)
        assert close(out, expected) < 5e-3
        torch.testing.assert_close(lse.double(), sums, rtol=1e-3, atol=2e-3)
        if layout == "bshd":
            dy = torch.randn_like(out)
            ours = torch.autograd.grad(out, inputs, dy)
            theirs = torch.autograd.grad(expected, wide, dy.double())
            for name, x, y in zip("qkv", ours, theirs):
                assert close(x, torch.nan_to_num(y)) < 2e-2, f"d{name} of {mask}"
        with torch.no_grad():
            assert torch.equal(bsr.attention(*inputs, mask, layout=layout), out)
            assert torch.equal(bsr.attention(*inputs, mask, layout=layout), out), "the launch that is known"


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(("dtype", "block", "columns"), list(gpu_cases()))
def test_kernels_of_gradients(dtype, block, columns, layout, monkeypatch) -> None:
    """Grouped heads, lengths that no block divides, queries without keys, LSE's gradient; the same bits twice."""

    def products(*_):
        raise AssertionError("no kernel is planned")

    monkeypatch.setattr(_operators, "gradients", products)
    sizes = (500, 700)
    some = np.random.default_rng(0).random((2, 6, -(-500 // block[0]), -(-700 // block[1]))) < 0.4
    cases = [
        (Mask.where("i > j + 3", sizes, block), torch.ones(sizes, dtype=bool).tril(-4), None, {}),
        (Mask.window(sizes, block, before=100, after=7), window_pairs(*sizes, 100, 7), None, {}),
        (Mask.from_blocks(some, sizes, block), None, None, {}),
        (
            Mask.causal(sizes, block),
            causal_pairs(*sizes),
            lambda s, scale, i, j: s * scale - 0.125 * (i - j),
            {"score": SLOPED, "numbers": {"slope": 0.125}},
        ),
        (
            Mask.window(sizes, block, before=100, after=7),
            window_pairs(*sizes, 100, 7),
            lambda s, scale, i, j: 1.5 * torch.tanh(s * scale / 1.5),
            {"score": "|cap: f32| cap * tanh(s * scale / cap)", "numbers": {"cap": 1.5}},
        ),
        (
            Mask.from_blocks(some, sizes, block),
            None,
            lambda s, scale, i, j: s * scale / (1 + 0.01 * i) + 0.5 * torch.sin(s * scale),
            {"score": "s * scale / (1 + 0.01 * i) + 0.5 * sin(s * scale)"},
        ),
    ]
    for mask, pairs, score, how in cases:
        inputs = [x.requires_grad_() for x in tensors((2, 6, 500, columns), 2, 700, dtype, layout, device="cuda")]
        wide = [x.detach().double().requires_grad_() for x in inputs]
        out, lse = bsr.attention(*inputs, mask, lse=True, layout=layout, **how)
        seen = wide if layout == "bhsd" else [x.transpose(1, 2) for x in wide]
        expected, sums = dense(*seen, allowed(mask, 2, 6, pairs), score)
        expected = expected if layout == "bhsd" else expected.transpose(1, 2)
        without = sums.isneginf()
        dy, dl = torch.randn_like(out), torch.randn_like(lse).masked_fill(without, 0.0)
        ours, again = (torch.autograd.grad((out, lse), inputs, (dy, dl), retain_graph=True) for _ in range(2))
        losses = (expected, sums.masked_fill(without, 0.0)), wide, (dy.double(), dl.double())
        for name, x, y, theirs, of in zip("qkv", ours, again, torch.autograd.grad(*losses), inputs):
            assert close(x, torch.nan_to_num(theirs)) < 1e-2, f"d{name} of {mask}"
            assert torch.equal(x, y) and x.stride() == of.stride(), f"d{name} of {mask}"


@pytest.mark.gpu
def test_gradients_take_the_memory_of_their_results() -> None:
    inputs = [x.requires_grad_() for x in tensors((1, 8, 4096, 128), 2, dtype=torch.bfloat16, device="cuda")]
    out = bsr.attention(*inputs, Mask.causal((4096, 4096)))
    dy = torch.randn_like(out)

    def added() -> int:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        torch.autograd.grad(out, inputs, dy, retain_graph=True)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    # The gradients, a number for each query, and what the allocator rounds up to.
    bound = sum(x.nbytes for x in inputs) + 8 * 4096 * 4 + (1 << 20)
    assert added() <= bound and added() <= bound, "of the first call, and of one that is known"


@pytest.mark.gpu
def test_a_graph_captures_gradients() -> None:
    q, k, v = tensors((1, 2, 512, 64), dtype=torch.bfloat16, device="cuda")
    mask = Mask.causal((512, 512))
    o, lse = torch.ops.bsr_gemm.attention(q, k, v, None, mask.key, CLOSURE, 0.125, [], True, None, None)
    do = torch.randn_like(o)

    def gradients():
        return torch.ops.bsr_gemm.attention_gradient(do, None, q, k, v, o, lse, mask.key, CLOSURE, 0.125, [])

    gradients()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = gradients()
    for _ in range(3):
        do.normal_()
        graph.replay()
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, gradients()))


def close(found, expected) -> float:
    return ((found.double() - expected).norm() / expected.norm().clamp(min=1e-30)).item()


@pytest.mark.gpu
def test_views_of_packed_tensors_are_read_where_they_lie() -> None:
    packed = torch.randn(2, 300, 3, 4, 64, device="cuda", dtype=torch.bfloat16)
    q, k, v = packed.unbind(2)
    found = bsr.attention(q, k, v, causal=True, layout="bshd")
    expected = bsr.attention(*(x.contiguous() for x in (q, k, v)), causal=True, layout="bshd")
    assert torch.equal(found, expected)
    odd = torch.randn(1, 2, 100, 68, device="cuda", dtype=torch.bfloat16)[..., 2:66]
    expected = bsr.attention(*(odd.contiguous(),) * 3, causal=True)
    assert torch.equal(bsr.attention(odd, odd, odd, causal=True), expected)


@pytest.mark.gpu
def test_a_graph_captures_attention() -> None:
    q, k, v = tensors((1, 2, 512, 64), dtype=torch.bfloat16, device="cuda")
    mask = Mask.causal((512, 512))
    with torch.no_grad():
        bsr.attention(q, k, v, mask)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = bsr.attention(q, k, v, mask)
        for _ in range(3):
            q.normal_()
            graph.replay()
            assert torch.equal(out, bsr.attention(q, k, v, mask))


@pytest.mark.gpu
def test_opcheck_on_a_gpu() -> None:
    q, k, v = (x.requires_grad_() for x in tensors((1, 2, 128, 64), dtype=torch.bfloat16, device="cuda"))
    mask, sinks = Mask.causal((128, 128)), torch.zeros(2, device="cuda", requires_grad=True)
    op = torch.ops.bsr_gemm.attention.default
    torch.library.opcheck(op, (q, k, v, sinks, mask.key, CLOSURE, 0.125, [], True, None, None))
    o, lse = op(q, k, v, sinks, mask.key, CLOSURE, 0.125, [], True, None, None)
    inputs = (torch.randn_like(o), None, q.detach(), k.detach(), v.detach(), o.detach(), lse.detach())
    torch.library.opcheck(torch.ops.bsr_gemm.attention_gradient.default, (*inputs, mask.key, CLOSURE, 0.125, []))


def test_the_example_runs(monkeypatch) -> None:
    folder = Path(__file__).parents[1] / "examples"
    if not folder.exists():
        pytest.skip("the examples are not beside the tests")
    monkeypatch.syspath_prepend(str(folder))
    import attention

    losses = attention.train(steps=6, length=48, block=(16, 16), before=12, report=lambda line: None)
    assert losses["block-sparse"][-1] < losses["block-sparse"][0]
    for ours, theirs in zip(losses["block-sparse"], losses["dense, masked"]):
        assert abs(ours - theirs) < 2e-3, "both models have the same weights and see the same tokens"
