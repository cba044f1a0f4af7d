"""FlexAttention's functions, against FlexAttention's own eager attention and PyTorch's gradients."""

from __future__ import annotations

import inspect
import math

import pytest

torch = pytest.importorskip("torch")
flex = pytest.importorskip("torch.nn.attention.flex_attention")

import flex_mods as mods  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm._lib import _attention_torch, _flex  # noqa: E402
from bsr_gemm._lib._calls import spec_of  # noqa: E402
from bsr_gemm._lib._conditions import _text, closure_of, condition_of  # noqa: E402
from bsr_gemm._lib._score import score_of  # noqa: E402
from bsr_gemm._lib._traced import Trace  # noqa: E402

SIZES = mods.BATCH, mods.HEADS, mods.LENGTH, mods.LENGTH


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, raising=False)


def tensors(dtype=torch.float32, heads=mods.HEADS, key_heads=mods.HEADS, keys=mods.LENGTH, seed=0):
    random = torch.Generator().manual_seed(seed)
    shapes = (heads, mods.LENGTH), (key_heads, keys), (key_heads, keys)
    return [
        torch.randn(mods.BATCH, *shape, mods.COLUMNS, generator=random, dtype=dtype).requires_grad_()
        for shape in shapes
    ]


def block_mask(mask_mod, block=32):
    return flex.create_block_mask(mask_mod, *SIZES, device="cpu", BLOCK_SIZE=block)


def dense(q, k, v, score_mod=None, mask_mod=None):
    """The attention of every pair; the functions are given indices that broadcast."""
    shapes = [[-1 if dim == at else 1 for dim in range(4)] for at in range(4)]
    places = [torch.arange(size, device=q.device).reshape(shape) for size, shape in zip(SIZES, shapes)]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores if score_mod is None else score_mod(scores, *places)
    scores = scores if mask_mod is None else scores.masked_fill(~mask_mod(*places), -math.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


@pytest.mark.parametrize("name", mods.MASKS)
def test_masks(name) -> None:
    q, k, v = (x.detach() for x in tensors())
    mask = block_mask(mods.MASKS[name])
    out, lse = bsr.flex_attention(q, k, v, block_mask=mask, return_lse=True)
    wanted, sums = flex.flex_attention(q, k, v, block_mask=mask, return_lse=True)
    torch.testing.assert_close(out, wanted, rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(lse, sums, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", mods.SCORES)
def test_scores(name) -> None:
    q, k, v = (x.detach() for x in tensors())
    wanted = flex.flex_attention(q, k, v, mods.SCORES[name])
    torch.testing.assert_close(bsr.flex_attention(q, k, v, mods.SCORES[name]), wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("mask", ["causal", "documents by problem", "NATTEN", "dilated", "a rule by head", "padding"])
@pytest.mark.parametrize("score", ["ALiBi", "causal soft cap", "key bias", "periodic", "documents"])
def test_scores_under_masks(score, mask) -> None:
    q, k, v = (x.detach() for x in tensors())
    given = mods.SCORES[score], block_mask(mods.MASKS[mask])
    wanted = flex.flex_attention(q, k, v, *given)
    torch.testing.assert_close(bsr.flex_attention(q, k, v, *given), wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", mods.REFUSED)
def test_refused(name) -> None:
    function, why = mods.REFUSED[name]
    q, k, v = (x.detach() for x in tensors())
    if len(inspect.signature(function).parameters) == 5:
        given = {"score_mod": function}
    else:
        # PyTorch calls it, too, to find the blocks, and has its own objections.
        blocks = flex.create_block_mask(mods.causal, *SIZES, device="cpu", BLOCK_SIZE=32)
        blocks.mask_mod = function
        given = {"block_mask": blocks}
    with pytest.raises(bsr.Error, match=why) as raised:
        bsr.flex_attention(q, k, v, **given)
    message = str(raised.value)
    assert "help: " in message
    line = function.__code__.co_firstlineno + (name == "if")
    assert name == "no value" or f"flex_mods.py:{line}: " in message


@pytest.mark.parametrize(
    ("score", "mask"),
    [
        (None, "causal window"),
        (None, "NATTEN"),
        (None, "valid keys"),
        ("ALiBi", "causal"),
        ("causal soft cap", None),
        ("decay", "documents by problem"),
        ("steps of distance", "dilated"),
        ("query scale", None),
    ],
)
def test_gradients(score, mask) -> None:
    score_mod, mask_mod = mods.SCORES.get(score), mods.MASKS.get(mask)
    ours, theirs = tensors(torch.float64), tensors(torch.float64)
    out = bsr.flex_attention(*ours, score_mod, mask_mod and block_mask(mask_mod))
    wanted = dense(*theirs, score_mod, mask_mod)
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
    weight = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(3))
    (out * weight).sum().backward()
    (wanted * weight).sum().backward()
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "score_mod",
    [
        lambda t: lambda s, b, h, q, k: s + t[h, k],
        lambda t: lambda s, b, h, q, k: s * torch.sigmoid(t[h, q]),
        lambda t: lambda s, b, h, q, k: s - torch.exp(t[h, 0]) * (q - k).abs() / 50,
        lambda t: lambda s, b, h, q, k: s * t[0, 0] + t[h, q // 2] * t[h, k],
    ],
)
def test_captured_tensors_have_gradients(score_mod) -> None:
    of = [torch.randn(mods.HEADS, mods.LENGTH, generator=torch.Generator().manual_seed(2)) for _ in range(2)]
    ours, theirs = (one.requires_grad_() for one in of)
    bsr.flex_attention(*tensors(), score_mod(ours), block_mask(mods.causal)).square().sum().backward()
    dense(*tensors(), score_mod(theirs), mods.causal).square().sum().backward()
    assert theirs.grad.abs().max() > 1e-3
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)


def test_heads_that_share_a_key() -> None:
    q, k, v = (x.detach() for x in tensors(key_heads=2))
    given = mods.SCORES["ALiBi"], block_mask(mods.causal), 0.3
    with pytest.raises(bsr.Error, match="4 heads of the query, and 2 of the key"):
        bsr.flex_attention(q, k, v, *given)
    wanted = flex.flex_attention(q, k, v, *given, enable_gqa=True)
    torch.testing.assert_close(bsr.flex_attention(q, k, v, *given, enable_gqa=True), wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.skipif(not hasattr(flex, "AuxRequest"), reason="PyTorch 2.9 has it")
def test_auxiliary_outputs() -> None:
    q, k, v = (x.detach() for x in tensors())
    out, aux = bsr.flex_attention(q, k, v, return_aux=flex.AuxRequest(lse=True))
    _, lse = flex.flex_attention(q, k, v, return_lse=True)
    torch.testing.assert_close(aux.lse, lse)
    assert aux.max_scores is None and out.shape == q.shape
    with pytest.raises(bsr.Error, match="the greatest score"):
        bsr.flex_attention(q, k, v, return_aux=flex.AuxRequest(max_scores=True))


def test_other_keys_and_one_query() -> None:
    q, k, v = (x.detach() for x in tensors(keys=77))
    for queries in (mods.LENGTH, 1):
        one = q[:, :, :queries]
        mask = flex.create_block_mask(lambda b, h, i, j: i + 50 >= j, 1, 1, queries, 77, device="cpu", BLOCK_SIZE=32)
        wanted = flex.flex_attention(one, k, v, mods.SCORES["relative"], mask)
        torch.testing.assert_close(
            bsr.flex_attention(one, k, v, mods.SCORES["relative"], mask), wanted, rtol=1e-4, atol=2e-5
        )


def test_lists_without_a_function_are_whole() -> None:
    q, k, v = (x.detach() for x in tensors())
    counts = torch.ones(1, 1, 6, dtype=torch.int32)
    blocks = torch.randint(6, (1, 1, 6, 6), dtype=torch.int32, generator=torch.Generator().manual_seed(1))
    mask = flex.BlockMask.from_kv_blocks(counts, blocks, BLOCK_SIZE=32)
    listed = blocks[0, 0, :, 0]
    wanted = dense(q, k, v, mask_mod=lambda b, h, i, j: listed[i // 32] == j // 32)
    torch.testing.assert_close(bsr.flex_attention(q, k, v, block_mask=mask), wanted, rtol=1e-4, atol=2e-5)


def test_values_change_from_call_to_call() -> None:
    q, k, v = (x.detach() for x in tensors())
    bias = torch.zeros(mods.LENGTH)

    def score_mod(s, b, h, i, j):
        return s + bias[j]

    first = bsr.flex_attention(q, k, v, score_mod)
    bias[5] = 9.0
    torch.testing.assert_close(
        bsr.flex_attention(q, k, v, score_mod), flex.flex_attention(q, k, v, score_mod), rtol=1e-4, atol=2e-5
    )
    assert not torch.allclose(first, bsr.flex_attention(q, k, v, score_mod))


def test_more_vectors_than_kernels_have_are_refused() -> None:
    q, k, v = (x.detach() for x in tensors())
    biases = torch.randn(9, mods.LENGTH)

    def score_mod(s, b, h, i, j):
        for bias in biases:
            s = s + bias[j]
        return s

    with pytest.raises(bsr.Error, match="9 vectors: k0, k1.* up to 8"):
        bsr.flex_attention(q, k, v, score_mod)


@pytest.mark.parametrize(
    ("what", "name"), [*(("mask", name) for name in mods.MASKS), *(("score", name) for name in mods.SCORES)]
)
def test_functions_are_kernels(what, name) -> None:
    trace = Trace(SIZES, torch.device("cpu"))
    if what == "mask":
        closure = closure_of(condition_of(_flex._condition(trace, trace.condition(mods.MASKS[name]))), None)
    else:
        closure = score_of(_flex._closure(trace, _text(trace.score(mods.SCORES[name], torch.float32)))).closure
    assert bsr.Kernel(spec_of((128, 128), (128, 128), "bf16", closure)).ptx.count(".entry") == 1


def test_functions_are_traced_again_when_what_they_read_changes(monkeypatch) -> None:
    traced = []
    monkeypatch.setattr(_flex, "Trace", lambda *how: traced.append(how) or Trace(*how))
    q, k, v = (x.detach() for x in tensors())
    width, bias, slope = 20, torch.randn(mods.LENGTH), torch.tensor(0.5, requires_grad=True)

    def score(score, b, h, q, k):
        return torch.where(q - k < width, score + bias[k], score - 1)

    def check(function, times):
        before = len(traced)
        for _ in range(2):
            found = bsr.flex_attention(q, k, v, function)
            torch.testing.assert_close(found, dense(q, k, v, function), rtol=1e-4, atol=2e-5)
        assert len(traced) - before == times

    check(score, 1)
    check(score, 0)
    width = 30
    check(score, 1)
    bias.add_(1)
    check(score, 1)
    bias = bias.clone()
    check(score, 1)
    # Another function that computes the same of the same.
    check(lambda *values: score(*values), 1)
    check(lambda *values: score(*values), 1)
    # A gradient, random numbers and objects are looked at in every call.
    check(lambda s, b, h, q, k: s * slope, 2)
    check(lambda s, b, h, q, k: s + 0 * torch.rand(()), 2)
    check(lambda s, b, h, q, k, config=[width]: s + config[0] * k, 1)
    check(lambda s, b, h, q, k, config={"width": 0.1}: s + config["width"] * k, 2)
    monkeypatch.setattr(mods, "SLOPES", mods.SLOPES.flip(0))
    check(mods.SCORES["ALiBi"], 1)


def test_a_tensor_in_the_place_of_one_that_is_gone_is_read() -> None:
    q, k, v = (x.detach() for x in tensors())

    def check(bias):
        def score(score, b, h, q, k):
            return score + bias[k]

        torch.testing.assert_close(bsr.flex_attention(q, k, v, score), dense(q, k, v, score), rtol=1e-4, atol=2e-5)

    for seed in range(20):
        check(torch.arange(mods.LENGTH) % (seed + 2.0))


# FlexAttention has one mask on the CPU where the function returns a number of Python.
ON_GPU = [name for name in mods.MASKS if name != "everything, of Python"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*ON_GPU, *(f"score: {name}" for name in mods.SCORES)])
def test_kernels(name, monkeypatch) -> None:
    for variable, value in vars(mods).items():
        if isinstance(value, torch.Tensor):
            monkeypatch.setattr(mods, variable, value.cuda())
    q, k, v = torch.randn(3, *SIZES[:3], 64, device="cuda", dtype=torch.bfloat16).unbind()
    score_mod, mask_mod = mods.SCORES.get(name.removeprefix("score: ")), mods.MASKS.get(name)
    # Tensors that functions make are on the GPU, too.
    with torch.device("cuda"):
        blocks = mask_mod and flex.create_block_mask(mask_mod, *SIZES, BLOCK_SIZE=64)
        how = (None, blocks) if mask_mod else (score_mod, None)
        wanted = flex.flex_attention(q.float(), k.float(), v.float(), *how)
        found = bsr.flex_attention(q, k, v, *how)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-2


#: Scores whose derivative is not the scale, in words that have one.
CURVED = ["soft cap", "soft cap by methods", "causal soft cap", "temperature by query"]


@pytest.mark.gpu
@pytest.mark.parametrize("mask", [None, "causal window"])
@pytest.mark.parametrize("score", CURVED)
def test_kernels_compute_gradients(score, mask, monkeypatch) -> None:
    def products(*_, **__):
        raise AssertionError("no kernel is planned")

    monkeypatch.setattr(_attention_torch, "gradients", products)
    q, k, v = (x.requires_grad_() for x in torch.randn(3, *SIZES[:3], 64, device="cuda", dtype=torch.bfloat16).unbind())
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    score_mod, mask_mod = mods.SCORES[score], mods.MASKS.get(mask)
    with torch.device("cuda"):
        blocks = mask_mod and flex.create_block_mask(mask_mod, *SIZES, BLOCK_SIZE=64)
        out = bsr.flex_attention(q, k, v, score_mod, blocks)
        wanted = dense(*wide, score_mod, mask_mod)
    dy = torch.randn_like(out)
    for found, right in zip(torch.autograd.grad(out, (q, k, v), dy), torch.autograd.grad(wanted, wide, dy.double())):
        assert float((found - right).norm() / right.norm()) < 1e-2
