"""Attention of float8, with factors."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm._lib import _attention_float8 as float8  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: The rounding of probabilities to e4m3 on a GPU and the simulator; O is rounded to bfloat16 everywhere.
ROUNDED = {"cpu": 4e-3, "cuda": 4e-2}
#: A GPU's tensor cores keep 14 bits of a sum of products in FP8: some 2^-12 of a score, and the largest is about 6.
LOGARITHM = {"cpu": 1e-4, "cuda": 2e-3}


def drawn(device, shape=(2, 4, 200, 64), key_heads=2, keys=270):
    torch.manual_seed(0)
    q = torch.randn(shape, device=device) * torch.logspace(-1, 0, shape[1], device=device)[:, None, None]
    k, v = (torch.randn(shape[0], key_heads, keys, shape[3], device=device) for _ in range(2))
    return q, k, 3 * v


def dense(q, k, v, kept=None):
    """In float64: O and the logarithms of the sums."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if kept is not None:
        scores = scores.masked_fill(~kept, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def relative(found, right) -> float:
    return ((found.double() - right).norm() / right.norm()).item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("per", ["tensor", "head", "both"])
def test_it_is_the_attention_of_what_was_rounded(device, per) -> None:
    q, k, v = drawn(device)
    found = bsr.quantise_attention(q, k, v, per)
    assert found.q.dtype == found.k.dtype == found.v.dtype == torch.float8_e4m3fn
    assert [x.float().abs().max().item() for x in found[:3]] == [448.0] * 3
    assert all(tuple(x.shape) == {"tensor": (), "head": (2,), "both": (2, 2)}[per] for x in found.scales)
    o, lse = bsr.attention(*found[:3], causal=True, scales=found.scales, lse=True)
    assert o.dtype == torch.bfloat16 and o.shape == q.shape
    kept = torch.ones(200, 270, dtype=bool, device=device).tril()
    wide = [float8.dequantised(x, f, 2) for x, f in zip(found[:3], found.scales)]
    right = dense(*wide, kept)
    assert relative(o, right[0]) < ROUNDED[device]
    assert (lse - right[1]).abs().max() < LOGARITHM[device]
    # Of what was meant it is as exact as three significant bits and one that is implied are.
    assert 0.01 < relative(o, dense(q, k, v, kept)[0]) < 0.07


def test_the_kernel_computes_it_on_the_simulator() -> None:
    q, k, v = drawn("cpu", (1, 2, 70, 64), 1, 130)
    found = bsr.quantise_attention(q, k, v)
    pattern = Mask.random((70, 130), (64, 64), density=0.6, seed=1)
    simulated = bsr.simulate_attention(*found[:3], pattern, scales=found.scales)
    assert not simulated.findings
    right = bsr.attention(*found[:3], pattern, scales=found.scales)
    assert simulated.result.dtype == torch.bfloat16
    assert relative(simulated.result, right.double()) < 4e-2


def test_v_by_column_has_the_keys_of_a_thread_side_by_side() -> None:
    v = torch.arange(-9, 9).reshape(1, 1, 18, 1).expand(1, 1, 18, 2).to(torch.float8_e4m3fn)
    found = float8.by_column(v).float()
    assert found.shape == (1, 1, 2, 32)
    keys = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]
    assert found[0, 0, 1, :16].tolist() == [key - 9 for key in keys]
    assert found[0, 0, 0, 16:].tolist() == [7, 8] + [0] * 14


def test_without_factors_values_are_what_is_stored() -> None:
    q, k, v = (x.to(torch.float8_e4m3fn) for x in drawn("cpu"))
    assert relative(bsr.attention(q, k, v), dense(q.float(), k.float(), v.float())[0]) < ROUNDED["cpu"]
    by_rows = [x.transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(bsr.attention(*by_rows, layout="bshd").transpose(1, 2), bsr.attention(q, k, v))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_results_are_written_into_tensors_of_the_caller(device, layout) -> None:
    q, k, v = drawn(device)
    found = bsr.quantise_attention(q, k, v)
    tensors = [x if layout == "bhsd" else x.transpose(1, 2) for x in found[:3]]
    expected, sums = bsr.attention(*tensors, scales=found.scales, layout=layout, lse=True)
    # With gaps between the rows, too.
    for place in (torch.empty_like(expected), torch.empty(*expected.shape[:3], 96, device=device).bfloat16()[..., :64]):
        lse = torch.empty_like(sums)
        place.fill_(math.nan)
        given = bsr.attention(*tensors, scales=found.scales, layout=layout, out=place, lse=lse)
        assert given[0].data_ptr() == place.data_ptr() and given[1] is lse
        assert torch.equal(place, expected) and torch.equal(lse, sums)


def test_what_is_refused() -> None:
    q, k, v = drawn("cpu")
    found = bsr.quantise_attention(q, k, v)
    with pytest.raises(bsr.Error, match="float8_e4m3fn"):
        bsr.attention(q, k, v, scales=found.scales)
    with pytest.raises(bsr.Error, match="no gradient"):
        bsr.attention(
            *found[:3], numbers={"x": torch.ones(4, requires_grad=True)}, score="|x: Heads<f32>| s * scale + x"
        )
    with pytest.raises(bsr.Error, match="the scale of k is"):
        bsr.attention(*found[:3], scales=(1.0, torch.ones(3), 1.0))
    with pytest.raises(bsr.Error, match="no three"):
        bsr.attention(*found[:3], scales=2.0)
    with pytest.raises(bsr.Error, match="out is .* of torch.float32"):
        bsr.attention(*found[:3], out=torch.empty_like(q))
    with pytest.raises(bsr.Error, match="workspace of its own"):
        bsr.attention(*found[:3], workspace=torch.zeros(64))
    with pytest.raises(bsr.Error, match="per = "):
        bsr.quantise_attention(q, k, v, "problem")
