"""Blocks of an attention that its caller leaves open."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm._lib import _attention_choice, _attention_torch, _block_choice, _native  # noqa: E402

H200 = _native.card("NVIDIA H200")
WINDOW = "i >= j && i - j < 128"


@pytest.fixture
def on_an_h200(monkeypatch):
    """Chooses for calls on the CPU as for those on a GPU."""
    monkeypatch.setattr(_block_choice, "card_of", lambda call: H200)
    _block_choice._blocks.clear()
    yield
    _block_choice._blocks.clear()


def call_of(
    problems,
    heads,
    key_heads,
    queries,
    keys,
    columns,
    mask=None,
    causal=False,
    block=None,
    pattern=None,
    gradient=False,
):
    """A call of tensors that take no memory."""

    def like(heads, rows):
        return torch.empty(1, dtype=torch.bfloat16, requires_grad=gradient).expand(problems, heads, rows, columns)

    tensors = like(heads, queries), like(key_heads, keys), like(key_heads, keys)
    how = (causal, mask, None)
    return _attention_torch.call_of(*tensors, pattern, how, (), None, "bhsd", block, None, None)


def block_of(*args, **how):
    call = call_of(*args, **how)
    sizes = call.q.shape[2], call.k.shape[2]
    return _block_choice.find(call.key, sizes).block


def test_few_queries_have_blocks_of_as_few_rows_as_there_are(on_an_h200) -> None:
    for queries in (1, 16):
        assert block_of(8, 32, 8, queries, 8192, 128) == (64, 128)
    assert block_of(8, 32, 4, 1, 32_768, 128) == (64, 128)


def test_long_masks_have_large_blocks(on_an_h200) -> None:
    assert block_of(1, 16, 16, 8192, 8192, 128) == (128, 128)
    assert block_of(1, 16, 16, 8192, 8192, 128, causal=True) == (128, 128)
    for how in ({"causal": True}, {"mask": "i >= j"}):
        assert block_of(1, 16, 16, 8192, 8192, 64, **how) == (128, 64)
        assert block_of(1, 16, 16, 8192, 8192, 64, gradient=True, **how) == (128, 128), "as its gradient was measured"
    for columns in (64, 128):
        assert block_of(1, 16, 16, 8192, 8192, columns, mask=WINDOW)[0] == 128


def test_full_masks_of_64_columns_have_a_block_for_three_consumers(on_an_h200) -> None:
    assert block_of(1, 16, 16, 8192, 8192, 64) == (192, 128)
    assert block_of(8, 32, 8, 1, 8192, 64)[0] != 192


def test_windows_of_heads_that_share_keys_have_small_blocks(on_an_h200) -> None:
    assert block_of(2, 64, 8, 4096, 4096, 64, mask=WINDOW) == (24, 16)
    assert block_of(2, 16, 4, 4096, 4096, 64, mask=WINDOW) == (48, 16)
    # Of one head each, of a wide window, of few queries, and where the score tells heads apart, they are large.
    assert block_of(2, 8, 8, 4096, 4096, 64, mask=WINDOW)[0] >= 128
    assert block_of(2, 64, 8, 4096, 4096, 64, causal=True)[0] >= 128
    assert block_of(2, 64, 8, 512, 4096, 64, mask=WINDOW)[0] >= 128
    # Of 128 columns eight heads gain.
    assert block_of(2, 64, 8, 4096, 4096, 128, mask=WINDOW) == (24, 16)
    assert block_of(2, 16, 4, 4096, 4096, 128, mask=WINDOW)[0] >= 128


def test_the_kernel_that_the_model_takes_is_launched(on_an_h200, monkeypatch) -> None:
    spec = "op = attention, bm = 64, bn = 128, bk = 128, dtype = bf16, pack_heads = 2"
    monkeypatch.setattr(_block_choice, "choose_attention", lambda *_: (2, spec))
    call = call_of(8, 32, 8, 1, 8192, 128)
    mask = _block_choice.find(call.key, (1, 8192))
    tensors = call.q, call.k, call.v
    assert mask.block == (64, 128)
    specs = _attention_choice.specs(mask, *tensors, None, None, False)
    assert specs[0] == spec and len(specs) == len(set(specs)) > 1, "what cannot be planned is followed by others"
    assert spec not in _attention_choice.specs(mask, *tensors, None, "4", False), "another call"
    _attention_choice._taken.clear()


def test_what_the_caller_says_stays(on_an_h200) -> None:
    assert block_of(8, 32, 8, 1, 8192, 128, block=(128, 64)) == (128, 64)
    mask = bsr.AttentionMask.full((1, 8192), (128, 128))
    assert block_of(8, 32, 8, 1, 8192, 128, pattern=mask) == (128, 128)
    assert not _block_choice._blocks


def test_a_choice_is_made_once(on_an_h200, monkeypatch) -> None:
    first = block_of(1, 8, 8, 1024, 1024, 64, mask=WINDOW)
    monkeypatch.setattr(_block_choice, "choose_attention", None)
    assert block_of(1, 8, 8, 1024, 1024, 64, mask=WINDOW) == first
    assert len(_block_choice._blocks) == 1


def test_huge_masks_are_not_looked_at(on_an_h200, monkeypatch) -> None:
    monkeypatch.setattr(_block_choice, "choose_attention", None)
    assert block_of(1, 1, 1, 1 << 16, 1 << 16, 128) == (128, 128)


@pytest.mark.parametrize("mask", [None, WINDOW, "i >= j", "j < 70 || i == j"])
def test_blocks_do_not_change_the_result(on_an_h200, monkeypatch, mask) -> None:
    tensors = [torch.randn(1, heads, rows, 64, dtype=torch.bfloat16) for heads, rows in ((4, 16), (2, 300), (2, 300))]
    whole = bsr.attention(*tensors, mask=mask, block=(128, 128), lse=True)
    for at in range(len(_block_choice.BLOCKS)):
        _block_choice._blocks.clear()
        monkeypatch.setattr(_block_choice, "choose_attention", lambda *_, at=at: (at, ""))
        for found, expected in zip(bsr.attention(*tensors, mask=mask, lse=True), whole):
            torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)


def test_of_a_card_and_masks_the_fastest_kernel_is_told() -> None:
    q, v = [8, 32, 1, 128], [8, 8, 8192, 128]
    masks = [bsr.AttentionMask.full((1, 8192), block) for block in ((128, 128), (64, 128))]
    spec = "op = attention, bm = {}, bn = 128, bk = 128, dtype = bf16, pack_heads = 4, split = auto"
    of = [(mask._native, [spec.format(mask.block[0])]) for mask in masks]
    at, chosen = _native.choose_attention(H200, of, q, v)
    assert at == 1 and "bm = 64" in chosen and "pack_heads = 4" in chosen
    refused = [(masks[0]._native, ["op = attention, bm = 48, bn = 128, bk = 128, dtype = bf16"])]
    assert _native.choose_attention(H200, refused, q, v) is None
    with pytest.raises(bsr.Error, match="bm"):
        _native.choose_attention(H200, [(masks[0]._native, ["bm = none"])], q, v)


def test_float8_has_kernels_of_its_own(on_an_h200, monkeypatch) -> None:
    seen = []

    def choose(card, candidates, q, v):
        seen.extend(spec for _, specs in candidates for spec in specs)
        return 1, ""

    monkeypatch.setattr(_block_choice, "choose_attention", choose)
    found = bsr.quantise_attention(*(torch.randn(1, 2, 200, 64) for _ in range(3)))
    assert bsr.attention(*found[:3], scales=found.scales, mask=WINDOW).shape == (1, 2, 200, 64)
    assert len(seen) == 2 and all("dtype = e4m3" in spec and "scale = tensor" in spec for spec in seen)


@pytest.mark.gpu
@pytest.mark.parametrize("queries", [1, 16, 300])
@pytest.mark.parametrize("mask", [None, WINDOW])
def test_on_a_gpu_the_chosen_blocks_are_right(queries, mask) -> None:
    shapes = ((2, 8, queries, 64), (2, 2, 1000, 64), (2, 2, 1000, 64))
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
    found = bsr.attention(q, k, v, mask=mask)
    whole = bsr.attention(*(x.double() for x in (q.cpu(), k.cpu(), v.cpu())), mask=mask)
    assert ((found.cpu().double() - whole).norm() / whole.norm()).item() < 1e-2
