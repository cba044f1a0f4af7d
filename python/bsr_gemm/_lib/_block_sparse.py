"""Attention to lists of blocks, as video models call it: ``torch.ops.bsr_gemm.block_sparse_attention``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import _arrays, _attention_torch, _gpu, _torch
from ._block_flags import of_lists
from ._calls import Call
from ._device_masks import DeviceMask
from ._native import Error
from ._patterns import _pair, grid_of

#: The condition in blocks that have padding.
VALID = "|valid: Cols<f32>| valid > 0"

#: The most cached masks.
KEPT = 64

#: Masks on GPUs by sizes, block, patterns and padding. A mask serves one call after the other: freeing one waits for the GPU.
_masks: dict[tuple, DeviceMask] = {}
#: Those that CUDA graphs have captured, and which only further captures use.
_captured: dict[tuple, DeviceMask] = {}
#: The stream on which a mask was used last.
_streams: dict[tuple, torch.cuda.Stream] = {}
_gpu.further_caches.extend([_masks, _captured, _streams])


def block_sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q2k_block_index: Tensor,
    q2k_block_nums: Tensor,
    block_sizes: Tensor | None = None,
    *,
    scale: float | None = None,
    block: int | tuple[int, int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention in which each block of queries attends to a list of blocks of keys: O, and the natural logarithm of each query's
    sum of exponentials, problems x heads x queries.

    ``q``, ``k`` and ``v`` are problems x heads x tokens x columns, as of :func:`attention`. ``q2k_block_index`` has the columns of the
    blocks, problems x heads x rows of blocks x entries, and ``q2k_block_nums`` how many of a row's entries count, problems x heads
    x rows of blocks, where 1 stands for all problems or heads. Both are of int32 or int64. A block that is listed twice counts
    once, and an index that is no block not at all.

    ``block_sizes`` has the number of valid keys of each block of keys: its last keys are padding, to which nothing attends.
    ``block`` are the queries and keys of a block: the tokens divided by the number of blocks unless it is given, and without
    ``block_sizes`` as many keys as queries.

    The lists are read on their device, and may have others in every call. They are checked for nothing but shapes, and nothing
    waits for a GPU. Q, K and V have gradients.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v), ("q2k_block_index", q2k_block_index)):
        _arrays.check_dimensions(name, tensor, "problems and heads first")
    sides = _sides(q.shape[2], k.shape[2], q2k_block_index.shape[2], block_sizes) if block is None else _given(block)
    q, k, v = _torch._cast(q.device.type, q, k, v)
    scale = 1.0 / math.sqrt(max(1, q.shape[-1])) if scale is None else float(scale)
    lists = q2k_block_index, q2k_block_nums, block_sizes
    return torch.ops.bsr_gemm.block_sparse_attention(q, k, v, *lists, list(sides), scale)


def _given(block: int | tuple[int, int]) -> tuple[int, int]:
    return (block, block) if isinstance(block, int) else _pair(block, "block")


def _sides(queries: int, keys: int, rows: int, block_sizes: Tensor | None) -> tuple[int, int]:
    """Queries and keys of a block, of which there is a whole number."""
    bm = _side("queries", queries, rows, "rows of q2k_block_index")
    if block_sizes is None:
        return bm, bm
    return bm, _side("keys", keys, block_sizes.numel(), "block_sizes")


def _side(what: str, tokens: int, blocks: int, of: str) -> int:
    if blocks == 0 or tokens % blocks != 0 or tokens == 0:
        raise Error(
            f"{tokens} {what} are no multiple of the {blocks} {of}\n  help: pass the queries and keys of a block, `block=(64, 64)`"
        )
    return tokens // blocks


def _check(q: Tensor, k: Tensor, v: Tensor, lists: tuple[Tensor, Tensor, Tensor | None], block: list[int]) -> tuple:
    """What the tensors must be of each other; the rows and columns of blocks."""
    _attention_torch._check(q, k, v)
    index, nums, block_sizes = lists
    rows, columns = grid_of((q.shape[2], k.shape[2]), _pair(block, "block"))
    named = {"q2k_block_index": index, "q2k_block_nums": nums}
    for name, tensor in (named if block_sizes is None else named | {"block_sizes": block_sizes}).items():
        if tensor.dtype not in (torch.int32, torch.int64):
            raise Error(f"{name} is of {tensor.dtype}\n  help: int32 or int64, `{name}.int()`")
        if tensor.device != q.device:
            raise Error(f"{name} is on {tensor.device}, and q on {q.device}\n  help: `{name}.to(q.device)`")
    shape, (problems, heads) = tuple(index.shape), q.shape[:2]
    fits = len(shape) == 4 and shape[0] in (1, problems) and shape[1] in (1, heads) and shape[2] == rows
    if not fits or tuple(nums.shape) != shape[:3]:
        raise Error(
            f"q2k_block_index is {_words(index)} and q2k_block_nums {_words(nums)}, for {problems} problems, {heads} heads and {rows} rows "
            f"of blocks of {block[0]} queries\n  help: {problems} x {heads} x {rows} x entries, and {problems} x {heads} x {rows}; 1 is broadcast"
        )
    if block_sizes is not None and tuple(block_sizes.shape) != (columns,):
        raise Error(
            f"block_sizes is {_words(block_sizes)}, and there are {columns} blocks of {block[1]} keys\n  help: a vector of {columns} integers"
        )
    return rows, columns


def _words(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def _flags(
    lists: tuple[Tensor, Tensor, Tensor | None], grid: tuple[int, int], keys: int, side: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """The flags of the listed blocks, and of which keys are valid: blocks with padding are partial, others need no condition."""
    index, nums, block_sizes = lists
    stored = of_lists([(nums, index, 1)], grid)
    if block_sizes is None:
        return stored.bool(), {}
    within = torch.arange(side, device=index.device)
    valid = (within < block_sizes[:, None]).flatten()[:keys].float()
    # The last block may have fewer keys.
    length = (keys - side * torch.arange(grid[1], device=index.device)).clamp(max=side)
    kind = torch.where(block_sizes > 0, 1 + (block_sizes < length).to(torch.uint8), 0)
    return stored * kind.to(torch.uint8), {"valid": valid}


def _attend(
    q: Tensor, k: Tensor, v: Tensor, lists: tuple, block: list[int], scale: float, compute: Callable[..., Any]
) -> Any:
    """What ``compute`` returns for a call with the mask of the lists: key, closure, scale, numbers, vectors."""
    grid = _check(q, k, v, lists, block)

    def run(mask: DeviceMask, vectors: dict[str, Tensor]) -> Any:
        call = Call.of(q, k, v, mask, (False, None, None), vectors, scale, "bhsd", mask.block)
        return compute(call.key, call.closure, call.scale, call.numbers, call.vectors)

    sizes, sides = (q.shape[2], k.shape[2]), _pair(block, "block")
    vectors: dict[str, Tensor] = {}

    def flags() -> Tensor:
        found, of_keys = _flags(lists, grid, sizes[1], sides[1])
        vectors.update(of_keys)
        return found

    return under(q, sizes, sides, None if lists[2] is None else VALID, flags, lambda mask: run(mask, vectors))


def under(
    q: Tensor,
    sizes: tuple[int, int],
    sides: tuple[int, int],
    condition: str | None,
    flags: Callable[[], Tensor],
    run: Callable[[DeviceMask], Any],
) -> Any:
    """What ``run`` returns for a mask of blocks: booleans, or bytes where partial ones have a condition. On a GPU it is one that was
    made before."""
    if not q.is_cuda:
        return run(DeviceMask.from_blocks(flags().contiguous(), sizes, sides, mask=condition))
    with _gpu._lock, _gpu.OnDevice(q.device.index):
        found = flags()
        mask = _mask((q.device, tuple(found.shape), sizes, sides, condition))
        assert mask._bytes is not None
        mask._bytes.copy_(found)
        mask.changed()
        return run(mask)


def _mask(key: tuple) -> DeviceMask:
    """The mask of these sizes, whose flags are overwritten: after what was enqueued with it on another stream."""
    if torch.cuda.is_current_stream_capturing():
        mask = _captured.get(key) or _masks.pop(key, None)
        if mask is None:
            raise Error(
                "a CUDA graph captures an attention to lists on the GPU of sizes that no call before it had, and memory is allocated in a first call\n"
                "  help: call it once before the capture"
            )
        _captured[key] = mask
        return mask
    stream = torch.cuda.current_stream()
    last = _streams.get(key)
    if last is not None and last != stream:
        stream.wait_stream(last)
    _streams[key] = stream
    mask = _masks.get(key)
    if mask is None:
        if len(_masks) >= KEPT:
            _masks.clear()
        device, shape, sizes, block, condition = key
        kind = torch.bool if condition is None else torch.uint8
        flags = torch.zeros(shape, dtype=kind, device=device)
        mask = _masks[key] = DeviceMask.from_blocks(flags, sizes, block, mask=condition)
    return mask


def _fake(q, k, v, index, nums, block_sizes, block, scale):
    _check(q, k, v, (index, nums, block_sizes), block)
    return _attention_torch._places(q, v, True)


def _forward(attend: Callable) -> Callable:
    def kernel(q, k, v, index, nums, block_sizes, block, scale):
        def compute(key, closure, scale, numbers, vectors):
            return attend(q, k, v, None, key, closure, scale, numbers, True, vectors)

        return _attend(q, k, v, (index, nums, block_sizes), block, scale, compute)

    return kernel


def _gradient_fake(do, dlse, q, k, v, o, lse, index, nums, block_sizes, block, scale):
    return tuple(torch.empty_like(tensor) for tensor in (q, k, v))


def _gradient(differentiate: Callable) -> Callable:
    def kernel(do, dlse, q, k, v, o, lse, index, nums, block_sizes, block, scale):
        def compute(key, closure, scale, numbers, vectors):
            return tuple(differentiate(do, dlse, q, k, v, o, lse, key, closure, scale, numbers, vectors))

        return _attend(q, k, v, (index, nums, block_sizes), block, scale, compute)

    return kernel


LISTS = "Tensor index, Tensor nums, Tensor? block_sizes, int[] block, float scale"
_attention_torch.declare("block_sparse_attention", LISTS, (_fake, _gradient_fake), _forward, _gradient)
