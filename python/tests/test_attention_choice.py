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
    with pytest.raises(bsr.KernelError, match="attentions with mma = mma_sync have no `split`"):
        _kernels.first_planned(_attention_choice.specs(mask, of, of, of, None, "split = 4"))


@pytest.mark.parametrize(
    ("block", "heads", "words"),
    [
        ((24, 16), (16, 2), ("pack_heads = 8", "consumers = 3", "k_step = 80")),
        ((16, 16), (16, 2), ("pack_heads = 8", "consumers = 2", "k_step = 80")),
        ((48, 16), (12, 3), ("pack_heads = 4", "consumers = 3", "k_step = 96")),
        ((32, 16), (4, 2), ("pack_heads = 2", "consumers = 1", "k_step = 80")),
    ],
)
def test_small_blocks_have_steps_of_whole_rows_and_heads_that_share_a_tile(monkeypatch, block, heads, words) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    of = SimpleNamespace(is_cuda=True, device="cuda:0", dtype=torch.bfloat16, shape=(1, heads[0], 600, 64))
    k = SimpleNamespace(is_cuda=True, device="cuda:0", dtype=torch.bfloat16, shape=(1, heads[1], 600, 64))
    mask = bsr.AttentionMask.window((600, 600), block, before=127)
    kernel = _kernels.first_planned(_attention_choice.specs(mask, of, k, k, "|| s * scale", None))
    assert all(word in kernel.spec for word in words), kernel.spec


@pytest.mark.gpu
@pytest.mark.parametrize("block", [(24, 16), (16, 16), (8, 16), None])
def test_on_a_gpu_windows_in_small_blocks_are_right(block) -> None:
    shapes = ((2, 16, 1100, 64), (2, 2, 1100, 64), (2, 2, 1100, 64))
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
    window = "i >= j && i - j < 128"
    sinks = torch.linspace(-2, 2, 16, device="cuda")
    found = bsr.attention(q, k, v, mask=window, block=block, sinks=sinks)
    whole = bsr.attention(*(x.double() for x in (q.cpu(), k.cpu(), v.cpu())), mask=window, sinks=sinks.cpu())
    assert ((found.cpu().double() - whole).norm() / whole.norm()).item() < 1e-2
