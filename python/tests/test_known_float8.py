"""Launches of attention in float8 that are known, seen without a GPU: beside the same calls on the CPU."""

from __future__ import annotations

import ctypes
import math

import pytest

torch = pytest.importorskip("torch")

import test_launches as fakes  # noqa: E402
from test_launches_of_attention import Gpu  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm._lib import (  # noqa: E402
    _attention_float8,
    _attention_float8_known,
    _attention_launch,
    _float8_values,
    _launch,
)

BLOCK = (64, 64)


def seen(address, dtype, sizes, strides):
    """The tensor at an address."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    memory = (ctypes.c_char * (elements * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).as_strided(sizes, strides)


class ReadyAttention:
    """An attention of float8 that only lacks its addresses; V is by columns."""

    launches = made = 0

    def __init__(self, loaded, work, tensors, scale, numbers, vectors, counts=None) -> None:
        type(self).made += 1
        self.spec, (self.mask, _, self.of_v) = loaded.kernel.spec, work
        assert "dtype = e4m3" in self.spec and ("scale = tensor" in self.spec) == (counts is not None)
        # As many of each, but for those of blocks.
        count = 0 if counts is None else counts[0]
        assert counts in (None, [count] * 3)
        self.tensors, self.scale, self.numbers, self.vectors, self.count = tensors, scale, numbers, vectors, count

    def launch(self, q, k, v, o, sums, stream, *vectors) -> None:
        type(self).launches += 1
        kind, kinds = _float8_values.KIND, [_float8_values.KIND] * 3 + [torch.bfloat16]
        *given, out = (
            seen(at, kind, sizes, [*strides, 1])
            for at, kind, (sizes, strides) in zip((q, k, v, o), kinds, self.tensors)
        )
        values = object.__new__(bsr.ValuesByColumn)
        values.data, values.shape = given[2].clone(), tuple(self.of_v)
        given[2] = values.to_rows()
        heads, factors = given[1].shape[1], None
        if self.count:
            vectors, at_factors = vectors[:-3], vectors[-3:]
            shape = {1: (), heads: (heads,)}.get(self.count, (given[1].shape[0], heads))
            factors = [seen(at, torch.float32, [self.count], [1]).reshape(shape) for at in at_factors]
        sinks = None
        if "sinks = on" in self.spec:
            *vectors, at = vectors
            sinks = seen(at, torch.float32, [given[0].shape[1]], [1])
        assert not vectors and kind is given[0].dtype
        wide = [_attention_float8.dequantised(x, f, heads) for x, f in zip(given, factors or (None,) * 3)]
        o, lse = torch.ops.bsr_gemm.attention(*wide, sinks, self.mask_key, None, self.scale, [], True, [], None)
        out.copy_(o)
        if sums:
            seen(sums, torch.float32, list(lse.shape), list(lse.stride())).copy_(lse)

    mask_key = ""


@pytest.fixture
def known(monkeypatch):
    """Takes tensors of the CPU for those of a GPU; what it returns computes a call as the CPU does."""
    monkeypatch.setattr(_attention_float8, "is_on_gpu", lambda q: True)
    ReadyAttention.launches = ReadyAttention.made = 0
    modules = [_launch, _attention_launch, _attention_float8_known]
    replaced = fakes.replaced(monkeypatch, Gpu, modules, {"ReadyAttention": ReadyAttention})
    next(replaced)

    def on_the_host(call):
        with monkeypatch.context() as patch:
            patch.setattr(_attention_float8, "is_on_gpu", lambda q: False)
            return call()

    yield on_the_host
    _attention_float8_known._known.clear()


def drawn(per="head", rows_first=False):
    q = torch.randn(2, 4, 100, 64)
    k, v = (torch.randn(2, 2, 130, 64) for _ in range(2))
    found = bsr.quantise_attention(q, k, v, per)
    return [x.transpose(1, 2).contiguous() if rows_first else x for x in found[:3]], found.scales


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("per", ["tensor", "head", "both"])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("lse", [False, True])
def test_calls_are_those_of_the_cpu_and_launched_alike(known, monkeypatch, lse, by_column, per, layout) -> None:
    mask = Mask.random((100, 130), BLOCK, density=0.6, seed=3)
    monkeypatch.setattr(ReadyAttention, "mask_key", mask.key)
    for number in range(3):
        (q, k, v), scales = drawn(per, layout == "bshd")
        values = bsr.ValuesByColumn(v, layout) if by_column else v
        sinks = torch.randn(4) if per == "both" else None

        def call(v, q=q, k=k, scales=scales, sinks=sinks):
            found = bsr.attention(
                q, k, v, mask, scales=scales, lse=lse, layout=layout, scale=0.1, lse_base=2, sinks=sinks
            )
            return found if lse else (found,)

        found, expected = call(values), known(lambda v=v, call=call: call(v))
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)
        assert (ReadyAttention.launches, ReadyAttention.made) == (number + 1, 1), "one is made, and kept"


def test_other_factors_another_launch(known, monkeypatch) -> None:
    mask = Mask.full((100, 130), BLOCK)
    monkeypatch.setattr(ReadyAttention, "mask_key", mask.key)
    tensors, scales = drawn("head")
    for given in (scales, (1.0, 2.0, 3.0), None, scales, (2.0, 1.0, 3.0)):
        found = bsr.attention(*tensors, mask, scales=given)
        expected = known(lambda given=given: bsr.attention(*tensors, mask, scales=given))
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
    assert ReadyAttention.launches == 5


def test_tensors_of_the_caller_get_the_results(known, monkeypatch) -> None:
    mask = Mask.full((100, 130), BLOCK)
    monkeypatch.setattr(ReadyAttention, "mask_key", mask.key)
    tensors, scales = drawn("head")
    expected = known(lambda: bsr.attention(*tensors, mask, scales=scales, lse=True))
    wide = torch.zeros(2, 4, 100, 65, dtype=torch.bfloat16)
    for out in (torch.zeros(2, 4, 100, 64, dtype=torch.bfloat16), wide[..., 1:]):
        lse = torch.zeros(2, 4, 200)[..., ::2]
        found = bsr.attention(*tensors, mask, scales=scales, out=out, lse=lse)
        assert found[0].data_ptr() == out.data_ptr() and found[1].data_ptr() == lse.data_ptr()
        torch.testing.assert_close(out, expected[0], rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(lse, expected[1], rtol=1e-4, atol=1e-4)
    assert (wide[..., 0] == 0).all() and ReadyAttention.launches == 2


def test_values_by_column_are_v_again() -> None:
    for keys in (1, 16, 70, 128):
        v = torch.randn(2, 3, keys, 32).to(torch.float8_e4m3fn)
        values = bsr.ValuesByColumn(v)
        assert values.shape == v.shape and values.dtype == v.dtype and values.device == v.device
        assert torch.equal(values.to_rows().float(), v.float())
        assert values.data.shape == (2, 3, 32, -(-keys // 16) * 16)
        by_rows = bsr.ValuesByColumn(v.transpose(1, 2), layout="bshd")
        assert torch.equal(by_rows.data.float(), values.data.float())
    assert "2 x 3 x 128 x 32" in repr(values)


def test_on_the_cpu_values_by_column_are_v() -> None:
    (q, k, v), scales = drawn()
    found = bsr.attention(q, k, bsr.ValuesByColumn(v), scales=scales, causal=True)
    assert torch.equal(found, bsr.attention(q, k, v, scales=scales, causal=True))
    assert math.isfinite(found.float().sum())


def test_what_is_refused() -> None:
    (q, k, v), scales = drawn()
    with pytest.raises(bsr.Error, match="float8_e4m3fn"):
        bsr.ValuesByColumn(v.float())
    with pytest.raises(bsr.Error, match="layout"):
        bsr.ValuesByColumn(v, "sbhd")
    with pytest.raises(bsr.Error, match="ValuesByColumn"):
        bsr.attention(q.bfloat16(), k.bfloat16(), bsr.ValuesByColumn(v))
    with pytest.raises(bsr.Error, match="k is"):
        bsr.attention(q, k[:, :, :64], bsr.ValuesByColumn(v), scales=scales)
