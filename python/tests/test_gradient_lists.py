"""The lists of a gradient's work as operations of PyTorch make them: those of the host, tile by tile."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bsr_gemm import AttentionMask, DeviceMask  # noqa: E402
from bsr_gemm._lib import _gradient_lists, _native  # noqa: E402
from bsr_gemm._lib._conditions import CAUSAL  # noqa: E402

SIZES = (1000, 730)
PATTERNS = {"all": (1, 1), "head": (1, 4), "problem": (2, 1), "both": (2, 4)}


def flags(per: str, block: tuple[int, int], seed: int) -> np.ndarray:
    """0, 1 or 2 for every block, problems x heads x rows x columns; rows and columns without blocks, and full ones."""
    rows, columns = (-(-size // side) for size, side in zip(SIZES, block))
    random = np.random.default_rng(seed)
    found = random.integers(0, 4, (*PATTERNS[per], rows, columns)).astype(np.uint8)
    found[found == 3] = 0
    found[..., 1, :], found[..., :, 2], found[..., 3, :], found[..., 0, 0] = 0, 0, 1, 2
    return found


def tiles_of(form, heads, tiles, steps) -> dict:
    """The words and the steps of each tile by its place. Every CTA has tiles, and every tile is there once."""
    words, count = form.words[0], int(heads[-1])
    assert heads[0] == 0 and all(first < second for first, second in zip(heads, heads[1:]))
    steps, found = np.asarray(steps, dtype=np.uint32).reshape(-1, 2), {}
    for tile in np.asarray(tiles, dtype=np.uint32).reshape(-1, words)[:count]:
        first, total = int(tile[4]), int(tile[5])
        found[tuple(map(int, tile[:3]))] = (
            (*map(int, tile[3:4]), *map(int, tile[5:])),
            steps[first : first + total].tolist(),
        )
    assert len(found) == count
    return found


def longest(form, heads, tiles) -> int:
    """What the CTA with most to do has to do, in steps and what tiles cost beside them."""
    words, rows = form.words[0], form.rows[2]
    each = np.asarray(tiles, dtype=np.int64).reshape(-1, words)[:, 6 : 6 + form.consumers[0]].max(axis=1) * rows
    return max(int((each[a:b] + form.schedule[2]).sum()) for a, b in zip(heads, heads[1:]))


@pytest.mark.parametrize("ctas", [5, 132])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("per", PATTERNS)
@pytest.mark.parametrize("block", [(64, 64), (128, 128), (128, 64), (64, 192)])
def test_work_is_the_hosts(block, per, key_heads, ctas) -> None:
    found = flags(per, block, key_heads)
    host = AttentionMask.from_blocks(found > 0, SIZES, block, partial=found > 1, mask=CAUSAL)
    mask = DeviceMask.from_blocks(torch.from_numpy(found), SIZES, block, mask=CAUSAL)
    q, v = (2, 4, SIZES[0], 64), (2, key_heads, SIZES[1], 64)
    spec = f"op = attention, bm = {block[0]}, bn = 64, bk = {block[1]}, dtype = bf16"
    for kernel in _native.gradient_kernels(spec):
        form, work = _native.gradient_work(kernel, host._native, list(q), list(v), ctas)
        if not _gradient_lists.is_listed(form):
            continue
        lists = _gradient_lists.Lists(form, mask, q, v, torch.device("cpu"))
        lists.refresh(_gradient_lists.blocks_of(mask))
        heads, tiles, steps = (tensor.numpy().astype(np.uint32) for tensor in lists.places)
        assert tiles_of(form, heads.tolist(), tiles, steps) == tiles_of(form, *work)
        assert len(heads) <= ctas + 1
        assert longest(form, heads.tolist(), tiles) <= 1.3 * longest(form, work[0], work[1])


def test_what_is_wrong_has_no_blocks() -> None:
    block, sizes = (64, 64), (320, 330)
    indptr = torch.tensor([0, 2, 4, 6, 5, 9], dtype=torch.int32)
    indices = torch.tensor([0, 5, 3, 3, 4, 6, 0, 1, 2], dtype=torch.int32)
    partial = torch.tensor([0, 1, 0, 0, 0, 0, 0, 0, 0], dtype=torch.bool)
    mask = DeviceMask(sizes, block, indptr, indices, partial, mask=CAUSAL)
    # Row 1 has a column twice, row 2 one that is none, row 3 ends before it begins, and row 4 has that of row 2, too.
    assert _gradient_lists.blocks_of(mask)[0].tolist() == [[1, 0, 0, 0, 0, 2], *[[0] * 6] * 4]
    boolean = torch.ones(5, 6, dtype=torch.bool)
    assert not _gradient_lists.blocks_of(DeviceMask.from_blocks(boolean, sizes, block, capacity=29)).any()
    assert _gradient_lists.blocks_of(DeviceMask.from_blocks(boolean, sizes, block, capacity=30)).all()
    scored = DeviceMask.from_blocks(boolean, sizes, block).scored()
    assert (_gradient_lists.blocks_of(scored) == 2).all()


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("per", PATTERNS)
def test_lists_and_bytes_are_the_same_blocks(per, index) -> None:
    block = (64, 64)
    found = flags(per, block, 7)
    host = AttentionMask.from_blocks(found > 0, SIZES, block, partial=found > 1, mask=CAUSAL)
    starts, columns, partial = [0], [], []
    for indptr, indices, scored in zip(host.indptr, host.indices, host.partial):
        starts += [len(columns) + int(end) for end in indptr[1:]]
        columns += [int(column) for column in indices]
        partial += [bool(flag) for flag in scored]
    given = (
        torch.tensor(starts, dtype=index),
        torch.tensor([*columns, -1], dtype=index),
        torch.tensor([*partial, True]),
    )
    listed = DeviceMask(SIZES, block, *given, per=per, mask=CAUSAL)
    assert torch.equal(_gradient_lists.blocks_of(listed), torch.from_numpy(found).flatten(0, 1))
