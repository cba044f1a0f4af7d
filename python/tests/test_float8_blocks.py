"""Attention of float8 with factors of blocks."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from test_attention_float8 import DEVICES, LOGARITHM, ROUNDED, dense, drawn, relative  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm._lib import _attention_float8 as float8  # noqa: E402

BLOCK = (64, 128)


def with_outliers(device):
    """Blocks of rows whose magnitudes are far apart, and a block of zeros."""
    q, k, v = drawn(device)
    k = k * torch.linspace(0.2, 2, k.shape[2], device=device)[:, None]
    v = v.clone()
    v[:, :, :128] *= 40
    v[0, 1, 128:256] = 0
    return q, k, v


def wide_of(found):
    rows = (BLOCK[0], BLOCK[1], BLOCK[1])
    return [float8.dequantised(x, f, 2, b) for x, f, b in zip(found[:3], found.scales, rows)]


@pytest.mark.parametrize("device", DEVICES)
def test_each_block_has_a_factor_of_its_own(device) -> None:
    q, k, v = with_outliers(device)
    found = bsr.quantise_attention(q, k, v, "block", BLOCK)
    assert [tuple(x.shape) for x in found.scales] == [(2, 4, 4), (2, 2, 3), (2, 2, 3)]
    o, lse = bsr.attention(*found[:3], causal=True, scales=found.scales, block=BLOCK, lse=True)
    kept = torch.ones(200, 270, dtype=bool, device=device).tril()
    right = dense(*wide_of(found), kept)
    assert relative(o, right[0]) < ROUNDED[device]
    assert (lse - right[1]).abs().max() < LOGARITHM[device]
    # Another call takes the launch that is known then.
    again = bsr.attention(*found[:3], causal=True, scales=found.scales, block=BLOCK)
    assert torch.equal(again, o)


def test_the_simulated_kernel_reads_them() -> None:
    q, k, v = (x[:1, -2:, :150] for x in with_outliers("cpu"))
    found = bsr.quantise_attention(q, k, v, "block", BLOCK)
    mask = Mask.full((150, 150), BLOCK)
    run = bsr.simulate_attention(*found[:3], mask, scales=found.scales)
    assert not run.findings
    right = dense(*wide_of(found))
    assert relative(torch.as_tensor(run.result), right[0]) < ROUNDED["cuda"]


def test_other_numbers_of_blocks_are_refused() -> None:
    q, k, v = drawn("cpu")
    found = bsr.quantise_attention(q, k, v, "block", BLOCK)
    with pytest.raises(bsr.Error, match="200 rows in blocks of 128 are 2"):
        bsr.attention(*found[:3], causal=True, scales=found.scales, block=(128, 128))
    with pytest.raises(bsr.Error, match="others are those of blocks"):
        bsr.attention(*found[:3], causal=True, scales=(1.0, *found.scales[1:]), block=BLOCK)
    with pytest.raises(bsr.Error, match="queries, keys"):
        bsr.quantise_attention(q, k, v, "block", (0, 64))
