"""Masks of attention: which blocks of Q K^T are computed, and in which of them a condition selects pairs."""

from __future__ import annotations

import functools
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from . import _arrays
from ._conditions import CAUSAL, condition_of
from ._mask_arrays import boolean, counted, flags_of, mark, patterns_of, unsigned
from ._native import AttentionMask as _Native
from ._native import Error
from ._patterns import KEPT, _pair, grid_of, picture

_alive: WeakValueDictionary[str, AttentionMask] = WeakValueDictionary()
_recent: OrderedDict[str, AttentionMask] = OrderedDict()


class AttentionMask:
    """The blocks of Q K^T that an attention computes: one pattern for all heads, or one for each head or problem.

    ``sizes`` are queries and keys, ``block`` those of a block. ``indptr`` and ``indices`` are where each row of blocks begins,
    and the block column of each stored block; ``partial`` says of each block whether only some of its pairs count. ``per`` is
    ``all``, ``head``, ``problem`` (the first dimension of Q) or ``both``; other than for ``all`` the lists are sequences of
    arrays, one for each pattern. ``mask`` is the condition under which a pair of a partial block counts: ``"i >= j && i - j < 64"``,
    or a closure with parameters, ``"|a: Rows<f32>, b: Cols<f32>| a == b"``, which ``numbers`` of an attention give; without ``partial`` it counts in every stored block. In whole blocks
    it must hold, too, wherever a score is computed in every block or masks are combined; of a condition on ``i`` and ``j`` alone
    that is looked at.

    ``a & b`` has the pairs of both masks, ``a & "i >= j"`` those for which a condition holds, too, and ``a | b`` those of either.
    A mask never changes.
    """

    __slots__ = (
        "__weakref__",
        "_anchor",
        "_native",
        "_scored",
        "block",
        "indices",
        "indptr",
        "key",
        "mask",
        "partial",
        "per",
        "sizes",
    )

    def __init__(
        self,
        sizes: Any,
        block: Any,
        indptr: Any,
        indices: Any,
        partial: Any = None,
        *,
        per: str = "all",
        mask: str | None = None,
    ) -> None:
        if per == "all":
            indptr, indices, partial = [indptr], [indices], None if partial is None else [partial]
        columns = [unsigned(list_, "indices") for list_ in indices]
        everywhere = mask is not None
        flags = [np.full(len(c), everywhere) for c in columns] if partial is None else [flags_of(p) for p in partial]
        starts = [unsigned(list_, "indptr") for list_ in indptr]
        if not len(starts) == len(columns) == len(flags):
            raise Error(
                f"{len(starts)} lists of row starts, {len(columns)} of block columns and {len(flags)} of flags\n"
                "  help: one of each for every pattern"
            )
        lists = [(start.tobytes(), c.tobytes(), p.tobytes()) for start, c, p in zip(starts, columns, flags)]
        self._take(_Native(_pair(sizes, "sizes"), _pair(block, "block"), per, lists), mask)

    #: Masks whose lists are tensors are another class, and change.
    on_device, generation = False, 0

    mask: str | None
    sizes: tuple[int, int]
    block: tuple[int, int]
    per: str
    key: str
    indptr: list[np.ndarray]
    indices: list[np.ndarray]
    partial: list[np.ndarray]

    @classmethod
    def _of(cls, native: _Native, mask: str | None = None) -> AttentionMask:
        built = object.__new__(cls)
        built._take(native, mask)
        return built

    def _take(self, native: _Native, mask: str | None) -> None:
        self._native, self.mask = native, None if mask is None else condition_of(mask).text
        self.sizes, self.block, self.per = native.sizes, native.block, native.sharing
        lists = native.lists()
        self.indptr, self.indices, self.partial = ([one[at] for one in _lists(native)] for at in range(3))
        digest = hashlib.blake2b(
            repr((self.sizes, self.block, self.per, self.mask, len(lists))).encode(), digest_size=16
        )
        for list_ in lists:
            for part in list_:
                digest.update(part)
        self.key = digest.hexdigest()
        self._scored: AttentionMask | None = None
        # The first of equal masks is the one that is found by the key, and lives as long as any of them.
        first = _alive.setdefault(self.key, self)
        self._anchor = None if first is self else first
        _recent[self.key] = first
        _recent.move_to_end(self.key)
        while len(_recent) > KEPT:
            _recent.popitem(last=False)

    # Masks by a rule.

    @classmethod
    def full(cls, sizes: Any, block: Any = (128, 128)) -> AttentionMask:
        """Every block."""
        return cls._generated("full", sizes, block)

    @classmethod
    def causal(cls, sizes: Any, block: Any = (128, 128)) -> AttentionMask:
        """Keys up to the query; blocks on the diagonal are partial."""
        return cls._generated("causal", sizes, block, mask=CAUSAL)

    @classmethod
    def window(cls, sizes: Any, block: Any = (128, 128), *, before: int, after: int = 0) -> AttentionMask:
        """Keys within ``before`` places before the query and ``after`` places after it; blocks at its edges are partial."""
        before, after = counted(before, "before"), counted(after, "after")
        mask = f"j <= i + {after} && i <= j + {before}"
        return cls._generated("window", sizes, block, before, after, mask=mask)

    @classmethod
    def block_window(cls, sizes: Any, block: Any = (128, 128), *, blocks: int) -> AttentionMask:
        """Whole blocks within ``blocks`` block columns of the diagonal on either side."""
        return cls._generated("block_window", sizes, block, counted(blocks, "blocks"))

    @classmethod
    def lower_triangle(cls, sizes: Any, block: Any = (128, 128)) -> AttentionMask:
        """Whole blocks on and below the diagonal."""
        return cls._generated("lower_triangle", sizes, block)

    @classmethod
    def strided(cls, sizes: Any, block: Any = (128, 128), *, local: int, stride: int) -> AttentionMask:
        """Whole blocks within ``local`` block columns of the diagonal, and every ``stride``-th block column."""
        return cls._generated("strided", sizes, block, counted(local, "local"), counted(stride, "stride", 1))

    @classmethod
    def big_bird(
        cls, sizes: Any, block: Any = (128, 128), *, local: int, first: int, random: int, seed: int = 0
    ) -> AttentionMask:
        """``local`` block columns on either side of the diagonal, the ``first`` rows and columns of blocks, and ``random``
        further blocks in every row."""
        numbers = [counted(local, "local"), counted(first, "first"), counted(random, "random"), counted(seed, "seed")]
        return cls._generated("big_bird", sizes, block, *numbers)

    @classmethod
    def random(cls, sizes: Any, block: Any = (128, 128), *, density: float, seed: int = 0) -> AttentionMask:
        """Each block with a probability of ``density``, and those of the diagonal."""
        if not 0.0 <= density <= 1.0:
            raise Error(f"density = {density}\n  help: a number from 0 to 1")
        return cls._generated("random", sizes, block, density, counted(seed, "seed"))

    @classmethod
    def _generated(cls, rule: str, sizes: Any, block: Any, *numbers: float, mask: str | None = None) -> AttentionMask:
        return _named(by_rule(rule, _pair(sizes, "sizes"), _pair(block, "block"), numbers, mask))

    # Masks of arrays.

    @classmethod
    def from_blocks(
        cls, blocks: Any, sizes: Any, block: Any = (128, 128), *, partial: Any = None, mask: str | None = None
    ) -> AttentionMask:
        """The blocks where ``blocks`` is true, and of ``partial`` likewise those in which ``mask`` says which pairs count.

        Both are ``[rows, columns]`` of blocks, or have further dimensions before: ``[problems, heads, rows, columns]``, where
        1 stands for all.
        """
        stored, per = patterns_of(boolean(blocks, "blocks"))
        flags = (
            np.full_like(stored, mask is not None) if partial is None else patterns_of(boolean(partial, "partial"))[0]
        )
        rows, columns = (-(-size // max(1, side)) for size, side in zip(_pair(sizes, "sizes"), _pair(block, "block")))
        for array, what in ((stored, "blocks"), (flags, "partial")):
            if array.shape != (len(stored), rows, columns):
                raise Error(
                    f"{what} is {' x '.join(map(str, array.shape))} for {rows} x {columns} blocks\n"
                    "  help: a flag for each block"
                )
        return cls._of_blocks(sizes, block, stored.astype(np.int8) + (stored & flags), per, mask)

    @classmethod
    def where(cls, mask: str, sizes: Any, block: Any = (128, 128)) -> AttentionMask:
        """The pairs for which a condition holds, of the numbers of query and key: ``where("i >= j || j < 64", (300, 300))``.

        Blocks in which it holds for no pair are left out, and those in which it holds for all are whole; a condition of anything
        else leaves every block partial.
        """
        return cls.full(sizes, block) & mask

    @classmethod
    def from_pairs(cls, pairs: Any, block: Any = (128, 128), *, mask: str | None = None) -> AttentionMask:
        """The blocks with a pair where ``pairs`` is true: ``[queries, keys]``, or ``[problems, heads, queries, keys]``.

        Blocks whose pairs are not all true are partial: ``mask`` must select their pairs.
        """
        patterns, per = patterns_of(boolean(pairs, "pairs"))
        of = functools.partial(_Native.from_pairs, patterns.shape[1:], _pair(block, "block"))
        return cls._each(patterns, of, per, mask)

    @classmethod
    def top_k(cls, scores: Any, sizes: Any, block: Any = (128, 128), *, count: int) -> AttentionMask:
        """The ``count`` blocks of each row with the greatest scores: ``[rows, columns]`` of blocks, or with problems and heads."""
        array = scores.detach().float() if hasattr(scores, "detach") else scores
        patterns, per = patterns_of(_arrays.host(array).astype("<f4"))
        number = counted(count, "count")

        def of(scored: bytes) -> _Native:
            return _Native.top_k(_pair(sizes, "sizes"), _pair(block, "block"), scored, number)

        return cls._each(patterns, of, per, None)

    @classmethod
    def _each(cls, arrays: np.ndarray, of: Callable[[bytes], _Native], per: str, mask: str | None) -> AttentionMask:
        """The mask with a pattern of each array, which the native half makes."""
        built = [of(np.ascontiguousarray(array).tobytes()) for array in arrays]
        lists = [parts for one in built for parts in _lists(one)]
        return cls._listed(built[0].sizes, built[0].block, lists, per, mask)

    @classmethod
    def from_block_mask(cls, block_mask: Any, *, mask: str | None = None) -> AttentionMask:
        """The blocks of FlexAttention's ``BlockMask``: those of its ``kv`` lists are partial, those of ``full_kv`` are not.

        A ``mask_mod`` is a function of Python, which is not read: ``mask`` says in text what it says.
        """
        block, sizes = tuple(block_mask.BLOCK_SIZE), tuple(block_mask.seq_lengths)
        counts, indices = _arrays.host(block_mask.kv_num_blocks), _arrays.host(block_mask.kv_indices)
        rows, columns = grid_of(sizes, block)
        stored = np.zeros((*counts.shape[:-1], counts.shape[-1], max(columns, indices.shape[-1])), dtype=bool)
        partial = np.zeros_like(stored)
        mark(stored, counts, indices)
        mark(partial, counts, indices)
        if block_mask.full_kv_num_blocks is not None:
            mark(stored, _arrays.host(block_mask.full_kv_num_blocks), _arrays.host(block_mask.full_kv_indices))
        built = cls.from_blocks(
            stored[..., :rows, :columns], sizes, block, partial=partial[..., :rows, :columns], mask=mask
        )
        if mask is not None:
            from ._combined import holds_in

            holds_in(condition_of(mask), built, built.blocks() == 1)
        return built

    @classmethod
    def _listed(cls, sizes: Any, block: Any, lists: Sequence[tuple], per: str, mask: str | None) -> AttentionMask:
        indptr, indices, partial = (list(parts) for parts in zip(*lists))
        if per == "all":
            return cls(sizes, block, indptr[0], indices[0], partial[0], mask=mask)
        return cls(sizes, block, indptr, indices, partial, per=per, mask=mask)

    @classmethod
    def _of_blocks(cls, sizes: Any, block: Any, found: np.ndarray, per: str, mask: str | None) -> AttentionMask:
        """The mask of 0, 1 and 2 for blocks that are left out, whole and partial: patterns x rows x columns."""
        lists = []
        for kind in found:
            stored = kind > 0
            row_starts = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
            lists.append((row_starts, np.nonzero(stored)[1], kind[stored] > 1))
        return cls._listed(sizes, block, lists, per, mask)

    # The interface of a mask.

    @property
    def patterns(self) -> int:
        """Patterns: one, or one for each head, problem or both."""
        return len(self.indices)

    @property
    def stored(self) -> int:
        """Stored blocks of all patterns."""
        return sum(map(len, self.indices))

    @property
    def partial_blocks(self) -> int:
        """Blocks of all patterns in which only some pairs count."""
        return sum(int(flags.sum()) for flags in self.partial)

    @property
    def has_partial(self) -> bool:
        """Whether only some pairs count in any block."""
        return self.partial_blocks > 0

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of blocks."""
        return grid_of(self.sizes, self.block)

    def pairs(self, batch: int = 1, heads: int = 1) -> int:
        """Pairs of a query and a key in the stored blocks of all heads: what is executed."""
        return self._native.pairs(batch, heads)

    def blocks(self) -> np.ndarray:
        """Patterns x rows x columns of blocks: 0 where none is stored, 1 where a whole one is, 2 where a partial one is."""
        found = np.zeros((len(self.indices), *self.grid), dtype=np.int8)
        for pattern, (indptr, indices, partial) in zip(found, zip(self.indptr, self.indices, self.partial)):
            lengths = indptr[1:].astype(np.int64) - indptr[:-1].astype(np.int64)
            rows = np.repeat(np.arange(len(lengths)), lengths)
            pattern[rows, indices] = 1 + partial
        return found

    def scored(self) -> AttentionMask:
        """The same blocks, all of them partial: the score is computed everywhere."""
        if self._scored is None:
            lists = [(*pair, np.ones_like(flags)) for *pair, flags in zip(self.indptr, self.indices, self.partial)]
            self._scored = self._listed(self.sizes, self.block, lists, self.per, self.mask)
        return self._scored

    def __and__(self, other: Any) -> AttentionMask:
        from ._combined import combined

        if isinstance(other, str):
            return _named(combined("and", self.key, other))
        return _named(combined("&", self.key, other.key)) if isinstance(other, AttentionMask) else NotImplemented

    __rand__ = __and__

    def __or__(self, other: Any) -> AttentionMask:
        from ._combined import combined

        return _named(combined("|", self.key, other.key)) if isinstance(other, AttentionMask) else NotImplemented

    def picture(self, width: int = 32, height: int = 16) -> str:
        """The first pattern as text: each character shows several blocks, darker if more of them are stored."""
        places = np.nonzero(self.blocks()[0]) if self.indices else ()
        return picture(places, self.grid if self.indices else (0, 0), width, height)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttentionMask) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self):
        lists = (self.indptr, self.indices, self.partial)
        lists = tuple(one[0] for one in lists) if self.per == "all" else lists
        return functools.partial(AttentionMask, per=self.per, mask=self.mask), (self.sizes, self.block, *lists)

    def __repr__(self) -> str:
        (queries, keys), (bm, bk), grid = self.sizes, self.block, self.grid
        every = len(self.indices) * grid[0] * grid[1]
        per = "" if self.per == "all" else f", per {self.per}"
        return f"AttentionMask({queries} x {keys}, {self.stored} of {every} blocks of {bm} x {bk}{per})"


def _lists(native: _Native) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Row starts, block columns and flags of partial blocks of each pattern."""
    kinds = ("<u4", "<u4", bool)
    return [tuple(np.frombuffer(one, kind) for one, kind in zip(lists, kinds)) for lists in native.lists()]  # type: ignore[misc]


# PyTorch's compiler takes the keys that these functions return as constants: see `_attention_torch`.


def by_rule(rule: str, sizes: tuple, block: tuple, numbers: tuple, mask: str | None) -> str:
    """The key of a mask by a rule of the native half."""
    return AttentionMask._of(_Native.generated(rule, sizes, block, [float(number) for number in numbers]), mask).key


def _named(key: str) -> AttentionMask:
    """The mask with a key; within a graph no more than that is known of it."""
    if not _arrays.in_graph():
        return find(key, (0, 0))
    built = object.__new__(AttentionMask)
    built.key = key
    return built


def every(block: Any, mask: str | None, is_scored: bool) -> str:
    """The key of the mask of every block, and of a condition, for tensors of any length."""
    bm, bk = _pair(block, "block")
    return f"every:{bm}:{bk}:{int(is_scored)}:{mask or ''}"


@functools.lru_cache(maxsize=256)
def _every(key: str, sizes: tuple[int, int]) -> AttentionMask:
    _, bm, bk, is_scored, mask = key.split(":", 4)
    built = AttentionMask.full(sizes, (int(bm), int(bk)))
    built = built & mask if mask else built
    return built.scored() if is_scored == "1" else built


def find(key: str, sizes: tuple[int, int]) -> AttentionMask:
    """The mask with this key, for so many queries and keys."""
    if key.startswith("every:"):
        return _every(key, sizes)
    mask = _alive.get(key)
    if mask is None:
        raise Error(
            f"no mask of this process has the key {key}: it was freed, or belongs to another process\n"
            "  help: keep the mask alive while compiled code uses it"
        )
    return mask
