"""Masks of attention that are made of others: with a further condition, of both of two, or of either."""

from __future__ import annotations

import numpy as np

from ._conditions import Condition, condition_of
from ._masks import AttentionMask, find
from ._native import Error


def combined(sign: str, key: str, other: str) -> str:
    """The key of a mask with a further condition (``and``), or of two masks, which are given by their keys."""
    mask = find(key, (0, 0))
    if sign == "and":
        return narrowed(mask, condition_of(other)).key
    return (both if sign == "&" else either)(mask, find(other, (0, 0))).key


def narrowed(mask: AttentionMask, condition: Condition) -> AttentionMask:
    """The pairs of a mask for which a condition holds, too.

    Blocks in which it surely holds stay as they are, those in which it surely does not are left out, and all others are
    partial. Where a mask has partial blocks and no condition of its own, this is the one.
    """
    blocks = mask.blocks()
    holds, fails = condition.in_blocks(mask.sizes, mask.block)
    found = np.where(fails, 0, np.where(holds, blocks, np.minimum(2 * blocks, 2)))
    own = _own(mask)
    if own is not None:
        holds_in(own, mask, (found == 2) & (blocks == 1))
        condition = own.joined("and", condition)
    return _built(mask, found, mask.per, condition)


def both(first: AttentionMask, second: AttentionMask) -> AttentionMask:
    """The pairs that two masks have in common."""
    a, b, per = _aligned(first, second)
    found = np.where((a == 0) | (b == 0), 0, np.maximum(a, b))
    conditions = [_known(mask) for mask in (first, second)]
    if None not in conditions:
        # One condition counts in all partial blocks of the result, in those of the other mask as well.
        holds_in(conditions[0], first, (found == 2) & (a == 1))
        holds_in(conditions[1], second, (found == 2) & (b == 1))
    return _built(first, found, per, _joined("and", conditions))


def either(first: AttentionMask, second: AttentionMask) -> AttentionMask:
    """The pairs that one of two masks has, or both."""
    a, b, per = _aligned(first, second)
    whole = (a == 1) | (b == 1)
    found = np.where(whole, 1, np.maximum(a, b))
    conditions = [_known(mask) for mask in (first, second)]
    if None not in conditions and conditions[0] != conditions[1]:
        _fails_in(conditions[0], first, (found == 2) & (a == 0))
        _fails_in(conditions[1], second, (found == 2) & (b == 0))
    joined = _joined("or", conditions)
    if joined is not None and not joined.is_of_places and whole.any() and (found == 2).any():
        raise Error(
            f"whether `{joined.text}` holds in the whole blocks of the masks is not known here\n"
            "  help: give the whole condition as one `mask`, and the blocks as an array (`AttentionMask.from_blocks`)"
        )
    return _built(first, found, per, joined)


def holds_in(condition: Condition, mask: AttentionMask, blocks: np.ndarray) -> None:
    """Looks whether a mask's condition holds in some of its whole blocks, if that is known here: of numbers, vectors, heads and
    problems it is as the mask's maker says."""
    if condition.is_of_places:
        _refuse(condition, blocks & ~condition.in_blocks(mask.sizes, mask.block)[0], "is whole", "holds for all")


def _fails_in(condition: Condition, mask: AttentionMask, blocks: np.ndarray) -> None:
    _refuse(condition, blocks & ~condition.in_blocks(mask.sizes, mask.block)[1], "is left out", "holds for none")


def _refuse(condition: Condition, wrong: np.ndarray, how: str, what: str) -> None:
    if wrong.any():
        *_, row, column = (int(at[0]) for at in np.nonzero(wrong))
        raise Error(
            f"block ({row}, {column}) {how}, and it is not certain that the mask's condition `{condition.text}` {what} of its "
            "pairs\n  help: include these pairs in the condition (`.. || j < 64`), or pass the pairs as an array (`from_pairs`)"
        )


def _own(mask: AttentionMask) -> Condition | None:
    return condition_of(mask.mask) if mask.mask is not None and mask.has_partial else None


def _known(mask: AttentionMask) -> Condition | None:
    """The condition of a mask; None where all of its blocks are whole."""
    if mask.has_partial and mask.mask is None:
        raise Error(
            f"{mask.partial_blocks} blocks of a mask are partial, and it has no condition for their pairs\n"
            f'  help: make it with its condition, `mask="i >= j"` for instance, or add that with `&` first'
        )
    return _own(mask)


def _joined(sign: str, conditions: list[Condition | None]) -> Condition | None:
    known = [condition for condition in conditions if condition is not None]
    return known[0].joined(sign, known[1]) if len(known) == 2 else known[0] if known else None


def _built(like: AttentionMask, found: np.ndarray, per: str, condition: Condition | None) -> AttentionMask:
    text = condition.text if condition is not None and (found == 2).any() else None
    return AttentionMask._of_blocks(like.sizes, like.block, found, per, text)


def _aligned(first: AttentionMask, second: AttentionMask) -> tuple[np.ndarray, np.ndarray, str]:
    """The blocks of two masks, pattern by pattern, and whose patterns these are."""
    if (first.sizes, first.block) != (second.sizes, second.block):
        raise Error(f"{first!r} and {second!r} have other sizes or blocks\n  help: masks of the same")
    pers = {first.per, second.per} - {"all"}
    number = {mask.per: mask.patterns for mask in (first, second)}
    problems, heads = number.get("problem", -1), number.get("head", -1)
    if problems == heads == -1:
        heads = 1  # The patterns of problems and heads side by side.
    shapes = {"all": (1, 1), "head": (1, -1), "problem": (-1, 1), "both": (problems, heads)}
    try:
        a, b = (mask.blocks().reshape(*shapes[mask.per], *mask.grid) for mask in (first, second))
        a, b = np.broadcast_arrays(a, b)
    except ValueError:
        raise Error(
            f"masks of {first.patterns} patterns per {first.per} and {second.patterns} per {second.per} are not of the same "
            "heads and problems\n  help: one pattern, or as many as there are heads or problems"
        ) from None
    per = "all" if not pers else pers.pop() if len(pers) == 1 else "both"
    return a.reshape(-1, *first.grid), b.reshape(-1, *first.grid), per
