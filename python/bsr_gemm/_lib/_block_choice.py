"""Blocks of an attention whose caller leaves them open: the cost model takes them, by mask and shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _arrays, _narrow
from ._calls import Call
from ._masks import find
from ._native import choose_attention
from ._patterns import grid_of

#: Queries and keys of a block where nothing is chosen: on the CPU, within graphs of PyTorch's compiler, of other GPUs than Hopper.
DEFAULT = (128, 128)
#: What is chosen among; blocks of fewer queries for few queries alone: of long masks they take longer than the model says (15 % for
#: a window of 128 keys on an H200).
BLOCKS = (DEFAULT, (128, 64), (64, 128), (64, 64))
LONG = BLOCKS[:2]
#: Blocks of full masks with heads of 64 columns: what three consumers compute. The model sees no difference; an H200 takes 0.86 of the
#: time of 128 x 128.
FULL = (192, 128)
#: Those of causal masks without a gradient, of which the model takes a kernel of two consumers in blocks of 128 x 128: an H200 takes 0.93 of its
#: time for 8192 keys and 0.87 for 16,384.
CAUSAL = (128, 64)
#: The most queries for which a block of 64 is looked at.
FEW = 16
#: The most blocks of a mask that is looked at.
MOST = 1 << 18
#: The most calls whose blocks are kept.
KEPT = 4096

_blocks: dict[tuple, tuple[int, int]] = {}

#: The kernels of an attention, for a mask and the call with its closure, and what is told of the one that is taken.
Kernels = tuple[Callable[[Any, Call], list[str]], Callable[[str, Any, Call], None]]
#: A card: the driver's name for it, and its compute capability.
Card = tuple[str, tuple[int, int]]


def call_of(
    q: Any,
    k: Any,
    v: Any,
    pattern: Any,
    how: tuple[bool, str | None, str | None],
    numbers: Any,
    scale: float | None,
    layout: str,
    block: tuple[int, int] | None,
    further: tuple[Any, ...],
    kernels: Kernels,
    has_gradient: bool = False,
) -> Call:
    """The call as :meth:`Call.of` makes it, in blocks that are chosen where neither ``pattern`` nor ``block`` says them.

    ``further`` are what else the ``kernels`` depend on. Where the result has a gradient, blocks are those of its kernels, too.
    """

    def of(block: tuple[int, int]) -> Call:
        return Call.of(q, k, v, pattern, how, numbers, scale, layout, block)

    call = of(DEFAULT if block is None else block)
    if block is not None or pattern is not None:
        return call
    card = card_of(call)
    if card is None:
        return call
    shapes = tuple(call.q.shape), tuple(call.k.shape), tuple(call.v.shape)
    key = (card, shapes, _arrays.kind_of(call.q), call.key, call.closure, further, has_gradient)
    if call.q.shape[2] > FEW and call.q.shape[3] == call.v.shape[3] == 64 and _arrays.kind_of(call.q) != "e4m3":
        if call.closure is None:
            return of(FULL)
        if not has_gradient and how in ((True, None, None), (False, "i >= j", None)):
            return of(CAUSAL)
    chosen = _blocks.get(key)
    if chosen is None and not has_gradient and (narrow := _narrow.block_of(call)) is not None:
        chosen = _blocks[key] = narrow
    if chosen is None:
        calls = [call, *map(of, (LONG if call.q.shape[2] > FEW else BLOCKS)[1:])]
        if len(_blocks) >= KEPT:
            _blocks.clear()
        chosen = _blocks[key] = _chosen(card, calls, kernels)
    return call if chosen == DEFAULT else of(chosen)


def card_of(call: Call) -> Card | None:
    """The card that a call's blocks are chosen for; None where they are not."""
    from ._attention_choice import HOPPER, card

    q, k, v = call.q, call.k, call.v
    if (
        _arrays.in_graph()
        or not _arrays.is_tensor(q)
        or not q.is_cuda
        or _arrays.kind_of(q) not in ("f16", "bf16", "e4m3")
    ):
        return None
    fits = q.dim() == k.dim() == v.dim() == 4 and k.shape[:3] == v.shape[:3] and q.shape[0] == k.shape[0]
    if not fits or q.dtype != k.dtype or k.shape[1] == 0 or q.shape[1] % k.shape[1] or 0 in (*q.shape, *v.shape):
        return None
    found = card(q)
    return found if found[1] == HOPPER else None


def _chosen(card: Card, calls: list[Call], kernels: Kernels) -> tuple[int, int]:
    """The blocks whose kernel should be the fastest; that kernel is taken."""
    sizes = calls[0].q.shape[2], calls[0].k.shape[2]
    rows = [(call, block) for call, block in zip(calls, BLOCKS) if _count(sizes, block) <= MOST]
    if len(rows) < 2:
        return DEFAULT
    masks = [find(call.key, sizes) for call, _ in rows]
    specs, take = kernels
    candidates = [(mask._native, specs(mask, call)) for mask, (call, _) in zip(masks, rows)]
    found = choose_attention(card, candidates, list(calls[0].q.shape), list(calls[0].v.shape))
    if found is None:
        return DEFAULT
    at, spec = found
    call, block = rows[at]
    take(spec, masks[at], call)
    return block


def _count(sizes: tuple[int, int], block: tuple[int, int]) -> int:
    rows, columns = grid_of(sizes, block)
    return rows * columns
