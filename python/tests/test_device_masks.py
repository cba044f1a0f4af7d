"""Masks that are tensors, and change between attentions. On the CPU they are read there; on a GPU the host never sees them."""

from __future__ import annotations

import copy
import gc
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import captured  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask, DeviceMask  # noqa: E402
from bsr_gemm._lib import _attention_choice, _masks  # noqa: E402
from bsr_gemm._lib._conditions import CAUSAL  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: Blocks whose kernels have steps of two blocks and three consumers, and others.
BLOCKS = [(64, 64), (128, 128)]
SIZES = (300, 330)
PATTERNS = {"all": (1, 1), "head": (1, 4), "problem": (2, 1), "both": (2, 4)}


@pytest.fixture(autouse=True)
def one_kernel(monkeypatch) -> None:
    """Masks of the host take the kernels of masks on the GPU, however much their rows have in common."""
    monkeypatch.setattr(_attention_choice, "APART", 0.0)


def kind(device: str) -> torch.dtype:
    return torch.bfloat16 if device == "cuda" else torch.float64


def tensors(device: str, sizes=SIZES):
    """Q, K and V; of as many columns as a kernel takes, and of few on the CPU, which takes any."""
    generator, columns = torch.Generator().manual_seed(0), 64 if device == "cuda" else 8
    shapes = ((2, 4, sizes[0], columns), (2, 2, sizes[1], columns), (2, 2, sizes[1], columns))
    return [torch.randn(shape, dtype=torch.float64, generator=generator).to(device, kind(device)) for shape in shapes]


def flags(per: str, block, seed: int, density: float = 0.5) -> np.ndarray:
    """0, 1 or 2 for every block, problems x heads x rows x columns."""
    rows, columns = (-(-size // side) for size, side in zip(SIZES, block))
    random = np.random.default_rng(seed).random((*PATTERNS[per], rows, columns))
    # There are partial blocks: a mask of the host without one needs no score, and another kernel.
    random[..., 0, 0] = 0.0
    return ((random < density).astype(np.uint8) + (random < density / 2)).astype(np.uint8)


def host(found: np.ndarray, block, mask: str | None = CAUSAL) -> AttentionMask:
    return AttentionMask.from_blocks(found > 0, SIZES, block, partial=found > 1, mask=mask)


def lists(mask: AttentionMask, device: str, index=torch.int32, spare: int = 3):
    """The lists of all patterns of a mask, one below the other, with places that no block has."""
    starts, columns, partial = [0], [], []
    for indptr, indices, scored in zip(mask.indptr, mask.indices, mask.partial):
        starts += [len(columns) + int(end) for end in indptr[1:]]
        columns += [int(column) for column in indices]
        partial += [bool(flag) for flag in scored]
    columns, partial = columns + [-7] * spare, partial + [True] * spare
    return (
        torch.tensor(starts, dtype=index, device=device),
        torch.tensor(columns, dtype=index, device=device),
        torch.tensor(partial, dtype=torch.bool, device=device),
    )


def same(found, expected) -> None:
    """The kernels are the same, and so are the bits."""
    for ours, theirs in zip(found, expected):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("per", PATTERNS)
@pytest.mark.parametrize("block", BLOCKS)
def test_lists_are_those_of_the_host_s_mask(device, index, per, block) -> None:
    expected = host(flags(per, block, 1), block)
    mask = DeviceMask(SIZES, block, *lists(expected, device, index), per=per, mask=CAUSAL)
    given = tensors(device)
    same(bsr.attention(*given, mask, lse=True), bsr.attention(*given, expected, lse=True))
    mask.check()
    assert mask.to_mask() == expected and mask.patterns == expected.patterns
    assert "up to" in repr(mask)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("per", PATTERNS)
@pytest.mark.parametrize("block", BLOCKS)
def test_bytes_that_change(device, per, block) -> None:
    given, found = tensors(device), torch.from_numpy(flags(per, block, 0)).to(device)
    found = found[0, 0].clone() if per == "all" else found
    mask = DeviceMask.from_blocks(found, SIZES, block, mask=CAUSAL)
    assert mask.per == per
    for seed in range(4):
        now = flags(per, block, seed, density=(seed + 1) / 4)
        found.copy_(torch.from_numpy(now).reshape(found.shape))
        mask.changed()
        expected = host(now, block)
        same(bsr.attention(*given, mask, lse=True), bsr.attention(*given, expected, lse=True))
        mask.check()
        assert mask.to_mask() == expected


@pytest.mark.parametrize("device", DEVICES)
def test_scores_are_computed_in_the_blocks_that_need_them(device) -> None:
    block, given = (64, 64), tensors(device)
    stored = flags("all", block, 2) > 0
    expected = AttentionMask.from_blocks(stored, SIZES, block)
    boolean = DeviceMask.from_blocks(torch.from_numpy(stored).to(device), SIZES, block)
    listed = DeviceMask(SIZES, block, *lists(expected, device)[:2])
    for mask in (boolean, listed):
        assert not mask.has_partial and mask.scored().has_partial
        same([bsr.attention(*given, mask)], [bsr.attention(*given, expected)])
        alibi = "|slopes: Heads<f32>| s * scale - slopes * abs(i - j)"
        slopes = {"slopes": torch.tensor([0.5, 0.25, 0.125, 0.0625], device=device)}
        # The host's mask leaves out blocks above the diagonal; one of the same steps has all of them.
        below = AttentionMask.from_blocks(stored, SIZES, block, partial=stored, mask=CAUSAL)
        as_score = {"score": "if i >= j { s * scale } else { -inf }"}
        for how in ({"causal": True}, {"mask": CAUSAL}, as_score):
            same(bsr.attention(*given, mask, lse=True, **how), bsr.attention(*given, below, lse=True))
        how = {"score": alibi, "numbers": slopes}
        same(bsr.attention(*given, mask, lse=True, **how), bsr.attention(*given, expected, lse=True, **how))
        how["mask"] = CAUSAL
        same(bsr.attention(*given, mask, lse=True, **how), bsr.attention(*given, below, lse=True, **how))
    of_all = [
        DeviceMask.from_blocks(torch.from_numpy(stored).to(device), SIZES, block, mask=CAUSAL),
        DeviceMask(SIZES, block, *lists(expected, device)[:2], mask=CAUSAL),
        AttentionMask.from_blocks(stored, SIZES, block, mask=CAUSAL),
    ]
    for mask in of_all:
        # Nothing says which blocks are partial: the condition counts in all of them.
        same([bsr.attention(*given, mask)], [bsr.attention(*given, below)])
    partial = DeviceMask(SIZES, block, *lists(host(flags("all", block, 2), block, None), device))
    assert partial.scored().to_mask() == partial.to_mask().scored()
    with pytest.raises(bsr.Error, match="some blocks are partial, and there is no condition"):
        bsr.attention(*given, partial)
    with pytest.raises(bsr.Error, match="some blocks are partial, and there is no condition"):
        bsr.attention(*given, partial, **(how | {"mask": None}))
    # A condition of a call counts in whole blocks, too.
    same(bsr.attention(*given, partial, causal=True), bsr.attention(*given, below))


class BlockMask(SimpleNamespace):
    """The tensors of FlexAttention's."""

    @classmethod
    def of(cls, found: np.ndarray, block, device: str, with_full: bool = True) -> BlockMask:
        partial, full = (cls.lists(found == flag, device) for flag in (2, 1))
        none = (None, None)
        made = dict(zip(("kv_num_blocks", "kv_indices"), partial))
        made |= dict(zip(("full_kv_num_blocks", "full_kv_indices"), full if with_full else none))
        return cls(BLOCK_SIZE=block, seq_lengths=SIZES, **made)

    @staticmethod
    def lists(kept: np.ndarray, device: str):
        # Entries beyond the counts mean nothing: they are not 0.
        order = np.argsort(~kept, axis=-1, kind="stable").astype(np.int32)
        counts = kept.sum(-1).astype(np.int32)
        order[np.arange(kept.shape[-1]) >= counts[..., None]] = 1 << 30
        return torch.from_numpy(counts).to(device), torch.from_numpy(order).to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("with_full", [True, False])
@pytest.mark.parametrize("per", PATTERNS)
def test_block_masks_of_flex_attention(device, per, with_full) -> None:
    block, given = (128, 128), tensors(device)
    now = flags(per, block, 5)
    block_mask = BlockMask.of(now, block, device, with_full)
    mask = DeviceMask.from_block_mask(block_mask, mask=CAUSAL)
    for seed in (5, 6):
        now = flags(per, block, seed)
        for name, tensor in vars(BlockMask.of(now, block, device, with_full)).items():
            if isinstance(tensor, torch.Tensor):
                getattr(block_mask, name).copy_(tensor)
        mask.changed()
        expected = host(now if with_full else np.where(now == 2, now, 0), block)
        same(bsr.attention(*given, mask, lse=True), bsr.attention(*given, expected, lse=True))
        assert mask.to_mask() == expected
        assert np.array_equal(expected.blocks(), AttentionMask.from_block_mask(block_mask).blocks())


def test_a_block_mask_as_flex_attention_makes_it() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    block_mask = flex.create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 300, 300, device="cpu", BLOCK_SIZE=(64, 64))
    mask = DeviceMask.from_block_mask(block_mask, mask=CAUSAL)
    assert mask.to_mask() == AttentionMask.from_block_mask(block_mask, mask=CAUSAL)
    assert mask.to_mask().stored == AttentionMask.causal((300, 300), (64, 64)).stored


WRONG = [
    ("indptr", 0, 1, "the first row pointer is 1, not 0"),
    ("indptr", 2, -3, "is smaller than its own"),
    ("indptr", 4, 1000, "1000 > "),
    ("indices", 0, 6, "column 6, and the columns are 0 to 5"),
    ("indices", 0, -1, "column -1, and the columns"),
    ("indices", 1, 0, "occurs twice"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("which", "at", "value", "words"), WRONG)
def test_a_wrong_row_has_no_blocks_and_is_told(device, which, at, value, words) -> None:
    block, given = (64, 64), tensors(device)
    found = np.ones((1, 1, 5, 6), dtype=np.uint8)
    indptr, indices, _ = lists(host(found, block, None), device)
    mask = DeviceMask(SIZES, block, indptr, indices)
    expected, sums = bsr.attention(*given, host(found, block, None), lse=True)
    {"indptr": indptr, "indices": indices}[which][at] = value
    mask.changed()
    out, lse = bsr.attention(*given, mask, lse=True)
    with pytest.raises(bsr.Error, match=words):
        mask.check()
    mask.check()
    wrong = [row for row in range(5) if torch.isneginf(lse[0, 0, 64 * row])]
    assert wrong, "no row was found to be wrong"
    for row in range(5):
        rows = slice(64 * row, min(64 * row + 64, SIZES[0]))
        if row in wrong:
            assert not out[:, :, rows].any() and torch.isneginf(lse[:, :, rows]).all()
        else:
            assert torch.equal(out[:, :, rows], expected[:, :, rows])
            assert torch.equal(lse[:, :, rows], sums[:, :, rows])


def test_more_blocks_than_there_is_room_for() -> None:
    found = torch.ones(5, 6, dtype=torch.bool)
    mask = DeviceMask.from_blocks(found, SIZES, (64, 64), capacity=12)
    out = bsr.attention(*tensors("cpu"), mask)
    assert out[:, :, :128].any() and not out[:, :, 128:].any()
    with pytest.raises(bsr.Error, match="18 > 12, the capacity"):
        mask.check()


def test_tensors_that_are_no_masks_are_refused() -> None:
    block = (64, 64)
    indptr, indices, partial = lists(host(flags("all", block, 1), block), "cpu")
    refused = [
        ((indptr.float(), indices), {}, "indptr is torch.float32"),
        ((indptr, indices.long()), {}, "both of one type"),
        ((indptr, indices[::2]), {"capacity": 3}, "must be contiguous"),
        ((indptr[:-1], indices), {}, "5 row starts and per = 'all', of 5 rows"),
        ((indptr, indices), {"per": "row"}, "per = 'row'"),
        ((indptr, indices, partial[:-1]), {}, "partial is "),
        ((indptr, indices, partial.float()), {}, "partial is .* of torch.float32"),
        ((indptr, indices), {"capacity": len(indices) + 1}, "the capacity is"),
    ]
    for given, how, words in refused:
        with pytest.raises(bsr.Error, match=words):
            DeviceMask(SIZES, block, *given, **how)
    for blocks in (torch.ones(5, 5).bool(), torch.ones(5, 6), torch.ones(6, 5).bool().T, [[True]]):
        with pytest.raises(bsr.Error, match="blocks is .*\n  help: a contiguous tensor of 5 x 6"):
            DeviceMask.from_blocks(blocks, SIZES, block)
    four = DeviceMask.from_blocks(torch.ones(1, 3, 5, 6).bool(), SIZES, block)
    with pytest.raises(bsr.Error, match="3 patterns per head"):
        bsr.attention(*tensors("cpu"), four)
    with pytest.raises(bsr.Error, match="300 queries x 330 keys"):
        bsr.attention(*tensors("cpu", (300, 300)), four)


@pytest.mark.parametrize("device", DEVICES)
def test_compiled_attention_reads_the_tensors_when_it_runs(device) -> None:
    block, given = (64, 64), tensors(device)
    found = torch.from_numpy(flags("head", block, 0)).to(device)
    mask = DeviceMask.from_blocks(found, SIZES, block, mask=CAUSAL)

    @torch.compile(fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    def attend(q, k, v):
        return bsr.attention(2.0 * q, k, v, mask)

    for seed in range(3):
        now = flags("head", block, seed)
        found.copy_(torch.from_numpy(now))
        mask.changed()
        expected = bsr.attention(2.0 * given[0], *given[1:], host(now, block))
        assert torch.equal(attend(*given), expected)


def test_copies_and_what_is_dropped() -> None:
    block = (64, 64)
    listed = DeviceMask(SIZES, block, *lists(host(flags("both", block, 1), block), "cpu"), per="both", mask=CAUSAL)
    boolean = DeviceMask.from_blocks(torch.from_numpy(flags("both", block, 1)), SIZES, block, mask=CAUSAL)
    for mask in (listed, boolean):
        other = copy.deepcopy(mask)
        assert other.to_mask() == mask.to_mask() and other.key != mask.key
        keys = mask.key, mask.scored().key
        assert all(key in _masks._alive for key in keys)
    del mask, listed, boolean, other
    gc.collect()
    assert not any(key in _masks._alive for key in keys)


@pytest.mark.gpu
@pytest.mark.parametrize("of", ["bytes", "lists", "block mask"])
@pytest.mark.parametrize("block", BLOCKS)
def test_one_graph_serves_every_mask(of, block) -> None:
    given = tensors("cuda")
    now = flags("head", block, 0)
    block_mask = BlockMask.of(now, block, "cuda")
    found = torch.from_numpy(now).cuda()
    room = np.ones_like(now)
    listed = [tensor.clone() for tensor in lists(host(room, block), "cuda", torch.int64)]
    if of == "bytes":
        mask = DeviceMask.from_blocks(found, SIZES, block, mask=CAUSAL)
    elif of == "lists":
        mask = DeviceMask(SIZES, block, *listed, per="head", mask=CAUSAL)
    else:
        mask = DeviceMask.from_block_mask(block_mask, mask=CAUSAL)
    graph, out = captured(lambda: bsr.attention(*given, mask))
    for seed in range(20):
        now = flags("head", block, seed, density=(seed % 5 + 1) / 5)
        found.copy_(torch.from_numpy(now))
        for to, tensor in zip(listed, lists(host(now, block), "cuda", torch.int64, spare=0)):
            to[: len(tensor)] = tensor
        for name, tensor in vars(BlockMask.of(now, block, "cuda")).items():
            if isinstance(tensor, torch.Tensor):
                getattr(block_mask, name).copy_(tensor)
        graph.replay()
        assert torch.equal(out, bsr.attention(*given, host(now, block))), f"mask {seed}"
    mask.check()


def gradients(given, mask):
    """O, LSE and the gradients of Q, K and V by what is drawn for both."""
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    out, lse = bsr.attention(*leaves, mask, lse=True)
    generator = torch.Generator().manual_seed(1)
    of_each = [torch.randn(x.shape, generator=generator).to(x.device, x.dtype) for x in (out, lse)]
    # A query without keys has an LSE of minus infinity, on which nothing depends.
    of_each[1] = torch.where(lse.isinf(), 0, of_each[1])
    return out, lse, *torch.autograd.grad((out, lse), leaves, of_each)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("per", PATTERNS)
@pytest.mark.parametrize("block", BLOCKS)
def test_gradients_are_those_of_the_host_s_mask(device, per, block) -> None:
    given, found = tensors(device), torch.from_numpy(flags(per, block, 0)).to(device)
    mask = DeviceMask.from_blocks(found, SIZES, block, mask=CAUSAL)
    for seed in range(3):
        now = flags(per, block, seed, density=(seed + 1) / 4)
        found.copy_(torch.from_numpy(now))
        mask.changed()
        expected = gradients(given, host(now, block))
        same(gradients(given, mask), expected)
        listed = DeviceMask(SIZES, block, *lists(host(now, block), device), per=per, mask=CAUSAL)
        same(gradients(given, listed), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_a_mask_that_changes_before_its_gradient_is_refused(device) -> None:
    block, given = (64, 64), [tensor.requires_grad_() for tensor in tensors(device)]
    mask = DeviceMask.from_blocks(torch.from_numpy(flags("all", block, 0)).to(device), SIZES, block, mask=CAUSAL)
    out = bsr.attention(*given, mask)
    mask.changed()
    with pytest.raises(bsr.Error, match="has changed since"):
        out.sum().backward()
    bsr.attention(*given, mask).sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("block", BLOCKS)
def test_one_graph_trains_under_every_mask(block) -> None:
    given = tensors("cuda")
    found = torch.from_numpy(flags("head", block, 0)).cuda()
    mask = DeviceMask.from_blocks(found, SIZES, block, mask=CAUSAL)
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    do = torch.randn_like(given[0])
    graph, found_in_graph = captured(lambda: torch.autograd.grad(bsr.attention(*leaves, mask), leaves, do), warm_ups=2)
    for seed in range(10):
        now = flags("head", block, seed, density=(seed % 5 + 1) / 5)
        found.copy_(torch.from_numpy(now))
        graph.replay()
        same(found_in_graph, torch.autograd.grad(bsr.attention(*leaves, host(now, block)), leaves, do))
    mask.check()


@pytest.mark.gpu
def test_nothing_synchronizes() -> None:
    block, given = (64, 64), tensors("cuda")
    found = torch.from_numpy(flags("head", block, 0)).cuda()
    masks = [
        DeviceMask.from_blocks(found, SIZES, block, mask=CAUSAL),
        DeviceMask.from_block_mask(BlockMask.of(flags("head", block, 0), block, "cuda"), mask=CAUSAL),
    ]
    leaves = [tensor.requires_grad_() for tensor in given]
    do = torch.randn_like(leaves[0])
    for mask in masks:
        torch.autograd.grad(bsr.attention(*leaves, mask), leaves, do)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for mask in masks:
            found.logical_not_()
            mask.changed()
            torch.autograd.grad(bsr.attention(*leaves, mask), leaves, do)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    masks[0].check()
