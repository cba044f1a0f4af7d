"""Results in the caller's tensors, the base of LSE, and soft caps of scores."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def drawn(queries: int, keys: int, device: str = "cpu", layout: str = "bhsd"):
    """Q of 2 problems and 4 heads over 2 of K and V, of 64 columns."""
    generator = torch.Generator().manual_seed(queries)
    dtype = torch.float64 if device == "cpu" else torch.bfloat16
    shapes = [(2, 4, queries, 64), (2, 2, keys, 64), (2, 2, keys, 64)]
    tensors = [torch.randn(shape, dtype=torch.float64, generator=generator).to(device, dtype) for shape in shapes]
    return tensors if layout == "bhsd" else [x.transpose(1, 2).contiguous() for x in tensors]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("queries", [3, 200])
def test_results_are_written_into_given_tensors(device, layout, queries) -> None:
    inputs, mask = drawn(queries, 200, device, layout), Mask.full((queries, 200), (64, 64))
    for _ in range(2):
        expected, sums = bsr.attention(*inputs, mask, lse=True, layout=layout)
        out, lse = torch.empty_like(inputs[0]), torch.empty_like(sums)
        found = bsr.attention(*inputs, mask, out=out, lse=lse, layout=layout)
        assert found[0].data_ptr() == out.data_ptr() and found[0].shape == out.shape and found[1] is lse
        assert torch.equal(out, expected) and torch.equal(lse, sums)
        # One of them, and tensors with gaps.
        wide = torch.full((*out.shape[:3], 72), 7.0, dtype=out.dtype, device=device)
        assert torch.equal(bsr.attention(*inputs, mask, out=wide[..., :64], layout=layout), expected)
        assert torch.equal(wide[..., :64], expected) and (wide[..., 64:] == 7).all()
        gaps = torch.full((*lse.shape, 2), 7.0, dtype=lse.dtype, device=device)
        assert torch.equal(bsr.attention(*inputs, mask, lse=gaps[..., 0], layout=layout)[0], expected)
        assert torch.equal(gaps[..., 0], sums) and (gaps[..., 1] == 7).all()
        # The next launch of these shapes is a cached one, of other values.
        inputs = [x.flip(0) for x in inputs]


@pytest.mark.parametrize("device", DEVICES)
def test_the_base_of_lse(device) -> None:
    inputs, mask = drawn(70, 90, device), Mask.causal((70, 90), (64, 64))
    (out, natural), (same, binary) = (bsr.attention(*inputs, mask, lse=True, lse_base=base) for base in ("e", 2))
    assert torch.equal(out, same) and torch.allclose(binary, natural / math.log(2))
    given = torch.empty_like(binary)
    assert bsr.attention(*inputs, mask, lse=given, lse_base=2)[1] is given and torch.equal(given, binary)
    with torch.no_grad():
        compiled = torch.compile(lambda *x: bsr.attention(*x, mask, lse=True, lse_base=2), backend="aot_eager")
        assert torch.equal(compiled(*inputs)[1], binary)


def test_a_binary_lse_has_a_gradient() -> None:
    inputs = [x[..., :2].clone().requires_grad_() for x in drawn(5, 6)]
    assert torch.autograd.gradcheck(lambda *x: bsr.attention(*x, block=(4, 4), lse=True, lse_base=2), inputs)


@pytest.mark.parametrize("device", DEVICES)
def test_softcap(device) -> None:
    inputs = drawn(70, 90, device)
    q, k, v = (x.double() for x in inputs)
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    scores = 3 * torch.tanh(q @ k.mT / 8 / 3)
    below = torch.ones(70, 90, dtype=torch.bool, device=device).tril()
    for causal, kept in ((False, scores), (True, scores.masked_fill(~below, -math.inf))):
        found = bsr.attention(*inputs, causal=causal, softcap=3.0, block=(64, 64))
        error = (found.double() - kept.softmax(-1) @ v).norm() / v.norm()
        assert error < (1e-12 if device == "cpu" else 5e-3)


def test_what_is_no_result_is_refused() -> None:
    q, k, v = drawn(5, 6)
    cases = [
        ({"out": q[:1]}, r"out is \[1, 4, 5, 64\].*\n  the result is \[2, 4, 5, 64\]"),
        ({"out": q.float()}, "float32"),
        ({"out": 3}, "out is a int"),
        ({"lse": q[..., 0].float()}, r"lse is \[2, 4, 5\] of torch.float32"),
        ({"lse": "yes"}, "lse is a str"),
        ({"lse": True, "lse_base": 10}, "lse_base = 10"),
        ({"softcap": 0}, "softcap = 0"),
        ({"softcap": 1.0, "score": "s"}, "score and softcap = 1.0"),
    ]
    for how, words in cases:
        with pytest.raises(bsr.Error, match=words):
            bsr.attention(q, k, v, **how)
    with pytest.raises(bsr.Error, match="out is given, and a gradient is wanted"):
        bsr.attention(q.clone().requires_grad_(), k, v, out=torch.empty_like(q))


def test_a_workspace_on_the_cpu_is_not_needed() -> None:
    inputs = drawn(3, 200)
    workspace = torch.zeros(bsr.attention_workspace(*inputs, split="auto"))
    assert workspace.numel() == 0
    with torch.no_grad():
        assert torch.equal(bsr.attention(*inputs, workspace=workspace), bsr.attention(*inputs))
    for words, how in {
        "workspace is a list": {"workspace": [0.0]},
        r"workspace is \[2, 3\] of torch.float32": {"workspace": torch.zeros(2, 3)},
        r"workspace is \[4\] of torch.float64": {"workspace": torch.zeros(4, dtype=torch.float64)},
    }.items():
        with pytest.raises(bsr.Error, match=words) as error:
            bsr.attention(*inputs, **how)
        assert "help: " in str(error.value)
    with pytest.raises(bsr.Error, match="a gradient is wanted"):
        bsr.attention(*(x.requires_grad_() for x in inputs), workspace=workspace)


@pytest.mark.gpu
@pytest.mark.parametrize("split", ["auto", 4])
def test_a_workspace_of_the_caller_takes_the_sums(split) -> None:
    inputs, mask = drawn(2, 20_000, "cuda"), Mask.full((2, 20_000), (64, 128))
    expected, sums = bsr.attention(*inputs, mask, lse=True, split=split)
    elements = bsr.attention_workspace(*inputs, mask, split=split)
    assert elements > 0
    workspace = torch.zeros(elements, device="cuda")
    out, lse = torch.empty_like(expected), torch.empty_like(sums)
    for _ in range(3):
        # A stream that has seen no launch: nothing of another call is passed on there.
        with torch.cuda.stream(torch.cuda.Stream()):
            workspace.zero_()
            bsr.attention(*inputs, mask, split=split, out=out.zero_(), lse=lse.zero_(), workspace=workspace)
            torch.cuda.synchronize()
            assert workspace.any()
        assert torch.equal(out, expected) and torch.equal(lse, sums)
    with pytest.raises(bsr.Error, match=f"the workspace has {elements - 1} elements"):
        bsr.attention(*inputs, mask, split=split, workspace=workspace[:-1])
