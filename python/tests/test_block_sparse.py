"""Attention to lists of blocks, as video models call it, and masks of the best blocks."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import captured  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask, DeviceMask, block_sparse_attention  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SIDE, ROWS, COLUMNS = 64, 4, 5
#: Of the lists: whether problems and heads have their own.
PATTERNS = {"all": (1, 1), "head": (1, 4), "problem": (2, 1), "both": (2, 4)}
SIZES = [64, 40, 64, 1, 17]


def tensors(device: str, queries: int = ROWS * SIDE, keys: int = COLUMNS * SIDE, heads: int = 4):
    generator, kind = torch.Generator().manual_seed(0), torch.bfloat16 if device == "cuda" else torch.float64
    shapes = (2, 4, queries, 64), (2, heads, keys, 64), (2, heads, keys, 64)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(device, kind) for shape in shapes]


def lists(per: str, seed: int, device: str, rows: int = ROWS, columns: int = COLUMNS, kind=torch.int32):
    """Which blocks are stored, and lists of them whose entries behind the counts are no blocks."""
    random = np.random.default_rng(seed)
    stored = random.random((*PATTERNS[per], rows, columns)) < 0.5
    counts = stored.sum(-1)
    order = np.argsort(~stored, axis=-1, kind="stable")
    order[np.arange(columns) >= counts[..., None]] = 1 << 30
    index, nums = (torch.from_numpy(x).to(device, kind) for x in (order, counts))
    return torch.from_numpy(stored).to(device), index, nums


def dense(q, k, v, stored, sizes=None, scale=None, block=(SIDE, SIDE)):
    """O and LSE of a dense attention in f64, with the keys that count."""
    q, k, v = (tensor.double() for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for tensor in (k, v))
    counts = stored.repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)
    counts = counts[..., : q.shape[2], : k.shape[2]].expand(q.shape[0], q.shape[1], -1, -1)
    if sizes is not None:
        valid = torch.arange(block[1], device=q.device) < sizes[:, None]
        counts = counts & valid.flatten()[: k.shape[2]]
    s = (q @ k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~counts, -torch.inf)
    lse = s.logsumexp(-1)
    p = torch.where(counts, (s - torch.where(lse.isinf(), 0, lse)[..., None]).exp(), 0)
    return p @ v, lse


def close(found, expected) -> None:
    for ours, theirs in zip(found, expected):
        exact = ours.dtype == torch.float64
        tolerance = {"atol": 1e-9, "rtol": 1e-9} if exact else {"atol": 2e-2, "rtol": 2e-2}
        torch.testing.assert_close(ours.double(), theirs, **tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("per", PATTERNS)
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_lists_of_blocks(device, per, kind) -> None:
    given = tensors(device)
    for seed in range(3):
        stored, index, nums = lists(per, seed, device, kind=kind)
        close(block_sparse_attention(*given, index, nums), dense(*given, stored))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("per", PATTERNS)
def test_padding_of_blocks_does_not_count(device, per) -> None:
    given = tensors(device, heads=2)
    for sizes in (SIZES, [0, 64, 3, 64, 64]):
        block_sizes = torch.tensor(sizes, dtype=torch.int32, device=device)
        stored, index, nums = lists(per, 7, device)
        expected = dense(*given, stored, block_sizes, 0.2)
        close(block_sparse_attention(*given, index, nums, block_sizes, scale=0.2), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("with_sizes", [False, True])
def test_gradients(device, with_sizes) -> None:
    sizes = torch.tensor(SIZES, device=device, dtype=torch.int32) if with_sizes else None
    stored, index, nums = lists("both", 3, device)
    ours, theirs = ([x.clone().requires_grad_() for x in tensors(device, heads=2)] for _ in range(2))
    found, expected = block_sparse_attention(*ours, index, nums, sizes), dense(*theirs, stored, sizes)
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(device) for x in expected]
    weights[1] = torch.where(expected[1].isinf(), 0, weights[1])
    close(
        torch.autograd.grad(found, ours, [w.to(x.dtype) for w, x in zip(weights, found)]),
        [x.double() for x in torch.autograd.grad(expected, theirs, weights)],
    )


def test_lists_may_not_change_before_the_gradient() -> None:
    _, index, nums = lists("all", 1, "cpu")
    q, k, v = (x.requires_grad_() for x in tensors("cpu"))
    out, _ = block_sparse_attention(q, k, v, index, nums)
    nums.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_indices_that_are_no_blocks_are_left_out() -> None:
    given = tensors("cpu")
    index = torch.tensor(
        [[[[3, -1, 5, 3, 1], [1 << 30, -(1 << 31), 9, 6, 7], [0] * 5, [4, 3, 2, 1, 0]]]], dtype=torch.int32
    )
    nums = torch.tensor([[[4, 5, -3, 900]]], dtype=torch.int32)
    stored = torch.zeros(1, 1, ROWS, COLUMNS, dtype=torch.bool)
    stored[0, 0, 0, 3] = True
    stored[0, 0, 3] = True
    out, lse = block_sparse_attention(*given, index, nums)
    close((out, lse), dense(*given, stored))
    assert not out[:, :, SIDE : 3 * SIDE].any() and lse[:, :, SIDE : 3 * SIDE].isneginf().all()


def test_blocks_that_do_not_divide_the_tokens() -> None:
    given = tensors("cpu", 150, 170)
    sizes = torch.tensor([64, 30, 42])
    stored, index, nums = lists("head", 5, "cpu", 5, 3)
    found = block_sparse_attention(*given, index, nums, sizes, block=(32, 64))
    close(found, dense(*given, stored, sizes, block=(32, 64)))
    stored, index, nums = lists("head", 5, "cpu", 3, 3)
    close(block_sparse_attention(*given, index, nums, block=64), dense(*given, stored, block=(64, 64)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_compiled_model_has_no_graph_break(device) -> None:
    given = tensors(device)
    sizes = torch.tensor(SIZES, device=device)

    @torch.compile(fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    def attend(q, k, v, index, nums):
        return block_sparse_attention(2.0 * q, k, v, index, nums, sizes)[0].sum()

    for seed in range(2):
        stored, index, nums = lists("both", seed, device)
        ours, theirs = ([x.clone().requires_grad_() for x in given] for _ in range(2))
        attend(*ours, index, nums).backward()
        dense(2.0 * theirs[0], *theirs[1:], stored, sizes)[0].sum().backward()
        close([x.grad for x in ours], [x.grad.double() for x in theirs])


def test_what_is_refused() -> None:
    q, k, v = tensors("cpu")
    _, index, nums = lists("all", 0, "cpu")
    sizes = torch.tensor(SIZES)
    refused = [
        ((q, k, v, index[0], nums), {}, "q2k_block_index is 3 dimensions\n  help: a tensor of PyTorch with four"),
        ((q[0], k, v, index, nums), {}, "q is 3 dimensions"),
        ((q, k, v, [0], nums), {}, "q2k_block_index is a list"),
        (
            (q[:, :, :-1], k, v, index, nums),
            {},
            "255 queries are no multiple of the 4 rows of q2k_block_index\n  help: .*block=",
        ),
        ((q, k, v, index, nums, sizes[:3]), {}, "320 keys are no multiple of the 3 block_sizes"),
        ((q, k, v, index, nums, sizes[:4]), {"block": 64}, "block_sizes is 4, and there are 5 blocks of 64 keys"),
        (
            (q, k, v, index.float(), nums),
            {},
            r"q2k_block_index is of torch.float32\n  help: .*`q2k_block_index.int\(\)`",
        ),
        ((q, k, v, index, nums.short()), {}, "q2k_block_nums is of torch.int16"),
        ((q, k, v, index, nums, sizes.double()), {}, "block_sizes is of torch.float64"),
        (
            (q, k, v, index, nums[..., :3]),
            {},
            "q2k_block_index is 1 x 1 x 4 x 5 and q2k_block_nums 1 x 1 x 3, for 2 problems",
        ),
        ((q, k, v, index.expand(3, 1, 4, 5), nums.expand(3, 1, 4)), {}, "1 is broadcast"),
        ((q, k, v, index.to("meta"), nums), {}, r"q2k_block_index is on meta, and q on cpu\n  help: .*to\(q.device\)"),
        ((q, k, v.float(), index, nums), {}, "v of torch.float32"),
    ]
    for given, how, words in refused:
        with pytest.raises(bsr.Error, match=words):
            block_sparse_attention(*given, **how)


@pytest.mark.gpu
def test_one_graph_serves_all_lists_and_nothing_synchronizes() -> None:
    given, sizes = tensors("cuda"), torch.tensor(SIZES, dtype=torch.int32, device="cuda")
    _, index, nums = lists("both", 0, "cuda")
    leaves = [x.clone().requires_grad_() for x in given]
    do = torch.randn_like(leaves[0])

    def step():
        out, lse = block_sparse_attention(*leaves, index, nums, sizes)
        return out, lse, *torch.autograd.grad(out, leaves, do)

    graph, found = captured(step, warm_ups=2)
    for seed in range(8):
        for to, new in zip((index, nums), lists("both", seed, "cuda")[1:]):
            to.copy_(new)
        graph.replay()
        for ours, theirs in zip(found, step()):
            assert torch.equal(ours, theirs)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


# The best blocks of scores.


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("per", PATTERNS)
@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_the_best_blocks_are_those_of_the_host_s_mask(device, per, count) -> None:
    sizes, block = (300, 330), (64, 64)
    # Few values: many are equal.
    scores = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (*PATTERNS[per], 5, 6))).float()
    on_device = scores.to(device)
    mask = DeviceMask.top_k(on_device, sizes, block, count=count)
    for _ in range(2):
        assert mask.to_mask() == AttentionMask.top_k(scores, sizes, block, count=count)
        given = tensors(device, *sizes)
        expected = bsr.attention(*given, AttentionMask.top_k(scores, sizes, block, count=count))
        assert torch.equal(bsr.attention(*given, mask), expected)
        mask.check()
        scores = scores.flip(-1)
        on_device.copy_(scores)
        mask.changed()
        assert copy.deepcopy(mask).to_mask() == AttentionMask.top_k(scores, sizes, block, count=count)


@pytest.mark.parametrize("device", DEVICES)
def test_a_threshold_and_scores_that_are_none(device) -> None:
    none, nan = -torch.inf, torch.nan
    scores = torch.tensor([[3.0, 1.0, 2.0, 2.0], [none, nan, none, 1.0], [none, nan, none, nan]], device=device)
    kept = DeviceMask.top_k(scores, (48, 64), (16, 16), count=2).to_mask().blocks()[0]
    assert kept.tolist() == [[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    kept = DeviceMask.top_k(scores, (48, 64), (16, 16), count=3, threshold=1.0).to_mask().blocks()[0]
    assert kept.tolist() == [[1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [(64, 64), (128, 64)])
def test_causal_limits(device, block) -> None:
    sizes = (300, 330)
    grid = [-(-size // side) for size, side in zip(sizes, block)]
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((1, 4, *grid), generator=generator)
    every = DeviceMask.top_k(scores.to(device), sizes, block, count=grid[1], causal=True)
    assert np.array_equal(every.to_mask().blocks()[0], AttentionMask.causal(sizes, block).blocks()[0])
    mask = DeviceMask.top_k(scores.to(device), sizes, block, count=2, causal=True)
    causal = torch.from_numpy(AttentionMask.causal(sizes, block).blocks()[0])
    stored = mask.to_mask().blocks()
    for head in range(4):
        for row in range(grid[0]):
            candidates = np.nonzero(causal[row].numpy())[0]
            best = sorted(candidates, key=lambda column: -scores[0, head, row, column])[:2]
            assert sorted(np.nonzero(stored[head, row])[0]) == sorted(best)
    given = tensors(device, *sizes)
    keys = torch.from_numpy(stored > 0)[None].repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)
    keys = keys[..., :300, :330] & torch.ones(300, 330, dtype=torch.bool).tril()
    expected = dense(*given, keys.to(device), block=(1, 1))
    close(bsr.attention(*given, mask, lse=True), expected)


def test_scores_that_fit_no_mask_are_refused() -> None:
    for scores in (torch.ones(5, 5), torch.ones(5, 6).int(), torch.ones(1, 5, 6), np.ones((5, 6))):
        with pytest.raises(bsr.Error, match="scores is .*\n  help: floating-point numbers for 5 x 6 blocks"):
            DeviceMask.top_k(scores, (300, 330), (64, 64), count=2)
    with pytest.raises(bsr.Error, match="count = -1"):
        DeviceMask.top_k(torch.ones(5, 6), (300, 330), (64, 64), count=-1)


@pytest.mark.gpu
def test_one_graph_chooses_the_best_blocks_of_all_scores() -> None:
    sizes, block, given = (300, 330), (64, 64), tensors("cuda", 300, 330)
    scores = torch.zeros(1, 4, 5, 6, device="cuda")
    mask = DeviceMask.top_k(scores, sizes, block, count=2)
    graph, out = captured(lambda: bsr.attention(*given, mask))
    for _ in range(5):
        scores.normal_()
        graph.replay()
        assert torch.equal(out, bsr.attention(*given, AttentionMask.top_k(scores, sizes, block, count=2)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True])
def test_the_whole_way_from_means_of_blocks_to_attention(device, causal) -> None:
    """Means of blocks, scores of pairs of blocks, the best of each row, lists, attention and its gradient: on a GPU one captured
    graph, whose queries and keys, and so its blocks, are others in each replay."""
    sizes, block = (ROWS * SIDE, ROWS * SIDE), (SIDE, SIDE)
    q, k, v = (x.requires_grad_() for x in tensors(device, *sizes))
    scores = torch.zeros(2, 4, ROWS, ROWS, device=device)
    mask = DeviceMask.top_k(scores, sizes, block, count=2, causal=causal)
    do = torch.randn_like(q)

    def step():
        with torch.no_grad():
            of_q, of_k = (x.unflatten(2, (-1, SIDE)).float().mean(3) for x in (q, k))
            torch.matmul(of_q, of_k.mT, out=scores)
        mask.changed()
        out = bsr.attention(q, k, v, mask)
        return out, *torch.autograd.grad(out, (q, k, v), do)

    replay, found = (None, step()) if device == "cpu" else captured(step)
    chosen = set()
    for seed in range(3):
        with torch.no_grad():
            for x, y in zip((q, k, v), tensors(device, *sizes)):
                x.copy_(y.roll(seed + 1, 2) * (1 + seed))
        if replay is None:
            found = step()
        else:
            replay.replay()
        best = DeviceMask.top_k(scores.clone(), sizes, block, count=2, causal=causal).to_mask()
        chosen.add(best.key)
        plain = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        out = bsr.attention(*plain, best)
        expected = (out, *torch.autograd.grad(out, plain, do))
        tolerance = 0 if device == "cpu" else 2e-2
        for ours, theirs in zip(found, expected):
            torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    assert len(chosen) > 1, "the blocks are others in each replay"
