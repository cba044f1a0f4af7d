"""Calls of attention whose launches are known, seen without a GPU: beside the same calls on the CPU."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from test_launches_of_attention import (  # noqa: E402, F401
    WITH_GRADIENTS,
    ReadyAttention,
    ReadyGradient,
    heads,
    on_the_cpu,
)

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm import DeviceMask  # noqa: E402
from bsr_gemm._lib import _attention_known, _torch  # noqa: E402

BLOCK = (64, 64)


@pytest.fixture
def known(monkeypatch, on_the_cpu):  # noqa: F811
    """Takes tensors of the CPU for those of a GPU; what it returns computes a call as the CPU does."""
    monkeypatch.setattr(_attention_known, "_is_launch", _torch._is_eager)

    def on_the_host(call):
        with monkeypatch.context() as patch:
            patch.setattr(_attention_known, "_is_launch", lambda *_: False)
            return call()

    return on_the_host


def alike(found, expected) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("score", [None, WITH_GRADIENTS])
def test_calls_and_gradients_are_those_of_the_cpu(known, score, lse, layout) -> None:
    mask = Mask.causal((100, 100), BLOCK) if score is None else Mask.full((100, 100), BLOCK)
    names = "" if score is None else "xabc"
    for _ in range(3):
        tensors = [x if layout == "bhsd" else x.transpose(1, 2).contiguous() for x in heads(columns=32)]
        vectors = [torch.randn(shape).mul(0.1) for shape in ((), (100,), (1, 4, 100), (4,))][: len(names)]
        leaves = [x.requires_grad_() for x in (*tensors, *vectors)]
        numbers = dict(zip(names, vectors))

        def call(tensors=tensors, numbers=numbers):
            found = bsr.attention(
                *tensors, mask, score=score, numbers=numbers, lse=lse, layout=layout, scale=0.25, lse_base=2
            )
            return found if lse else (found,)

        found, expected = call(), known(call)
        alike(found, expected)
        of_each = [torch.randn_like(x) for x in found]
        alike(torch.autograd.grad(found, leaves, of_each), torch.autograd.grad(expected, leaves, of_each))
        with torch.no_grad():
            alike(call(), expected)
    assert ReadyAttention.launches == 6 and ReadyGradient.launches == 3 and len(_attention_known._known) == 1


def test_what_is_no_launch_is_computed_all_the_same(known) -> None:
    """A gradient of one number everywhere, tensors at other addresses, sinks, numbers, types of autocast."""
    mask = Mask.full((100, 100), BLOCK)
    sinks = torch.randn(4, requires_grad=True)
    score = "|x: f32, a: Heads<f32>| s * scale + x * a * j"

    def shifted(x):
        return x.new_empty(x.numel() + 1)[1:].view(x.shape).copy_(x)

    for number in (0.25, 0.5, torch.tensor(0.75)):
        for of in (lambda x: x, shifted, torch.Tensor.float):
            leaves = [of(x).requires_grad_() for x in heads(columns=32)]
            numbers = {"x": number, "a": torch.arange(4)}

            def call(leaves=leaves, numbers=numbers):
                with torch.autocast("cpu", torch.bfloat16):
                    return bsr.attention(*leaves, mask, score=score, numbers=numbers, sinks=sinks)

            found, expected = call(), known(call)
            alike([found], [expected])
            both = (torch.autograd.grad(out.sum(), [*leaves, sinks]) for out in (found, expected))
            alike(*both)


def test_other_settings_are_other_calls(known) -> None:
    tensors = heads(columns=32)
    calls = [
        {},
        {"causal": True},
        {"scale": 0.5},
        {"softcap": 2.0},
        {"mask": "i - j < 30"},
        {"block": (128, 64)},
        {"pattern": Mask.window((100, 100), BLOCK, before=40)},
        {"score": "|x: f32| s * scale - x * j", "numbers": [0.5]},
        {"score": "|x: f32| s * scale - x * j", "numbers": [0.25]},
    ]
    for _ in range(2):
        for how in calls:
            alike([bsr.attention(*tensors, **how)], [known(lambda how=how: bsr.attention(*tensors, **how))])
    assert len(_attention_known._known) == len(calls)
    # A tensor may have another number in the next call.
    scale = torch.tensor(0.5)
    first = bsr.attention(*tensors, scale=scale)
    scale.fill_(0.125)
    assert not torch.equal(bsr.attention(*tensors, scale=scale), first)
    with pytest.raises(bsr.Error, match="numbers are given"):
        bsr.attention(*tensors, numbers=[1.0])
    with pytest.raises(bsr.Error, match="the pattern is a str"):
        bsr.attention(*tensors, "causal")


def test_masks_that_change(known) -> None:
    flags = torch.ones(2, 2, dtype=torch.bool)
    mask = DeviceMask.from_blocks(flags, (100, 100), BLOCK)
    tensors = [x.requires_grad_() for x in heads(columns=32)]
    for stored in (flags.clone(), flags.tril(), flags.triu()):
        flags.copy_(stored)
        mask.changed()
        found, expected = (of(functools.partial(bsr.attention, *tensors, mask)) for of in (lambda call: call(), known))
        alike([found], [expected])
    assert len(_attention_known._known) == 1
    out = bsr.attention(*tensors, mask)
    mask.changed()
    with pytest.raises(bsr.Error, match="has changed since"):
        out.sum().backward()
    _attention_known._forget(mask.key)
    assert not _attention_known._known


def test_second_derivatives_are_refused(known) -> None:
    q, k, v = heads(columns=32)
    q.requires_grad_()
    for _ in range(2):
        (dq,) = torch.autograd.grad(bsr.attention(q, k, v, causal=True).sum(), q, create_graph=True)
        with pytest.raises(bsr.Error, match="second derivative"):
            dq.sum().backward()
