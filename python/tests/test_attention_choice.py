"""Which kernel computes an attention: that of the GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm._lib import _attention_choice, _kernels  # noqa: E402


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((8, 0), "sm_80"),
        ((8, 6), "sm_86"),
        ((8, 7), "sm_80"),
        ((8, 9), "sm_89"),
        ((10, 0), "sm_89"),
        ((12, 0), "sm_120"),
    ],
)
def test_gpus_that_are_no_hopper_have_kernels_of_mma_sync(monkeypatch, capability, arch) -> None:
    """Each is planned for the GPU's own limits, and the score and the sinks are those of the call."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    of = SimpleNamespace(is_cuda=True, device="cuda:0", dtype=torch.bfloat16, shape=(2, 4, 300, 64))
    mask = bsr.AttentionMask.causal((300, 300), (128, 128))
    score = "|| if i >= j { s * scale } else { -inf }"
    kernel = _kernels.first_planned(_attention_choice.specs(mask, of, of, of, score, None, True))
    for words in ("mma = mma_sync", f"arch = {arch}", "bm = 128", "sinks = on", score):
        assert words in kernel.spec
    with pytest.raises(bsr.KernelError, match="kernels with mma = mma_sync have no `split`"):
        _kernels.first_planned(_attention_choice.specs(mask, of, of, of, None, "4"))
