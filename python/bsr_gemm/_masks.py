"""Masks of attention: which blocks of Q K^T are computed, and in which of them the score tells pairs apart."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ._native import AttentionMask as _Native
from ._native import Error
from ._patterns import KEPT, _pair

#: The score under which a query attends to keys up to itself.
CAUSAL = "if i >= j { s * scale } else { -inf }"

_alive: WeakValueDictionary[str, AttentionMask] = WeakValueDictionary()
_recent: OrderedDict[str, AttentionMask] = OrderedDict()


class AttentionMask:
    """The blocks of Q K^T that an attention computes: one pattern for all heads, or one for each head or problem.

    ``sizes`` are queries and keys, ``block`` those of a block. ``indptr`` and ``indices`` are where each row of blocks begins,
    and the block column of each stored block; ``partial`` says of each block whether the score is computed in it. ``per`` is
    ``all``, ``head``, ``problem`` (the first dimension of Q) or ``both``; other than for ``all`` the lists are sequences of
    arrays, one for each pattern. ``score`` is what :func:`bsr_gemm.attention` computes in partial blocks unless it is told
    another one. A mask never changes.
    """

    __slots__ = (
        "__weakref__",
        "_anchor",
        "_derived",
        "_native",
        "block",
        "indices",
        "indptr",
        "key",
        "partial",
        "per",
        "score",
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
        score: str | None = None,
    ) -> None:
        if per == "all":
            indptr, indices, partial = [indptr], [indices], None if partial is None else [partial]
        columns = [_unsigned(list_, "indices") for list_ in indices]
        flags = [np.zeros(len(c), dtype=bool) for c in columns] if partial is None else [_flags(p) for p in partial]
        starts = [_unsigned(list_, "indptr") for list_ in indptr]
        if not len(starts) == len(columns) == len(flags):
            raise Error(
                f"{len(starts)} lists of row starts, {len(columns)} of block columns and {len(flags)} of flags\n"
                "  help: one of each for every pattern"
            )
        lists = [(start.tobytes(), c.tobytes(), p.tobytes()) for start, c, p in zip(starts, columns, flags)]
        self._take(_Native(_pair(sizes, "sizes"), _pair(block, "block"), per, lists), score)

    #: Masks whose lists are tensors are another class.
    on_device = False

    score: str | None
    sizes: tuple[int, int]
    block: tuple[int, int]
    per: str
    key: str
    indptr: list[np.ndarray]
    indices: list[np.ndarray]
    partial: list[np.ndarray]

    @classmethod
    def _of(cls, native: _Native, score: str | None = None) -> AttentionMask:
        made = object.__new__(cls)
        made._take(native, score)
        return made

    def _take(self, native: _Native, score: str | None) -> None:
        self._native, self.score = native, score
        self.sizes, self.block, self.per = native.sizes, native.block, native.sharing
        lists = native.lists()
        self.indptr, self.indices = ([np.frombuffer(list_[at], dtype="<u4") for list_ in lists] for at in (0, 1))
        self.partial = [np.frombuffer(list_[2], dtype=bool) for list_ in lists]
        digest = hashlib.blake2b(repr((self.sizes, self.block, self.per, len(lists))).encode(), digest_size=16)
        for list_ in lists:
            for part in list_:
                digest.update(part)
        self.key = digest.hexdigest()
        self._derived: dict[str, AttentionMask] = {}
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
        return cls._generated("causal", sizes, block, score=CAUSAL)

    @classmethod
    def window(cls, sizes: Any, block: Any = (128, 128), *, before: int, after: int = 0) -> AttentionMask:
        """Keys within ``before`` places before the query and ``after`` places after it; blocks at its edges are partial."""
        before, after = _count(before, "before"), _count(after, "after")
        score = f"if j > i + {after} {{ -inf }} else if i > j + {before} {{ -inf }} else {{ s * scale }}"
        return cls._generated("window", sizes, block, before, after, score=score)

    @classmethod
    def block_window(cls, sizes: Any, block: Any = (128, 128), *, blocks: int) -> AttentionMask:
        """Whole blocks within ``blocks`` block columns of the diagonal on either side."""
        return cls._generated("block_window", sizes, block, _count(blocks, "blocks"))

    @classmethod
    def lower_triangle(cls, sizes: Any, block: Any = (128, 128)) -> AttentionMask:
        """Whole blocks on and below the diagonal."""
        return cls._generated("lower_triangle", sizes, block)

    @classmethod
    def strided(cls, sizes: Any, block: Any = (128, 128), *, local: int, stride: int) -> AttentionMask:
        """Whole blocks within ``local`` block columns of the diagonal, and every ``stride``-th block column."""
        return cls._generated("strided", sizes, block, _count(local, "local"), _count(stride, "stride", 1))

    @classmethod
    def big_bird(
        cls, sizes: Any, block: Any = (128, 128), *, local: int, first: int, random: int, seed: int = 0
    ) -> AttentionMask:
        """``local`` block columns on either side of the diagonal, the ``first`` rows and columns of blocks, and ``random``
        further blocks in every row."""
        numbers = [_count(local, "local"), _count(first, "first"), _count(random, "random"), _count(seed, "seed")]
        return cls._generated("big_bird", sizes, block, *numbers)

    @classmethod
    def random(cls, sizes: Any, block: Any = (128, 128), *, density: float, seed: int = 0) -> AttentionMask:
        """Each block with a probability of ``density``, and those of the diagonal."""
        if not 0.0 <= density <= 1.0:
            raise Error(f"density = {density}\n  help: a number from 0 to 1")
        return cls._generated("random", sizes, block, density, _count(seed, "seed"))

    @classmethod
    def _generated(cls, rule: str, sizes: Any, block: Any, *numbers: float, score: str | None = None) -> AttentionMask:
        made = _Native.generated(rule, _pair(sizes, "sizes"), _pair(block, "block"), [float(n) for n in numbers])
        return cls._of(made, score)

    # Masks of arrays.

    @classmethod
    def from_blocks(
        cls, blocks: Any, sizes: Any, block: Any = (128, 128), *, partial: Any = None, score: str | None = None
    ) -> AttentionMask:
        """The blocks where ``blocks`` is true, and of ``partial`` likewise those in which the score is computed.

        Both are ``[rows, columns]`` of blocks, or have further dimensions before: ``[problems, heads, rows, columns]``, where
        1 stands for all.
        """
        stored, per = _patterns_of(_boolean(blocks, "blocks"))
        flags = np.zeros_like(stored) if partial is None else _patterns_of(_boolean(partial, "partial"))[0]
        rows, columns = (-(-size // max(1, side)) for size, side in zip(_pair(sizes, "sizes"), _pair(block, "block")))
        for array, what in ((stored, "blocks"), (flags, "partial")):
            if array.shape != (len(stored), rows, columns):
                raise Error(
                    f"{what} is {' x '.join(map(str, array.shape))} for {rows} x {columns} blocks\n"
                    "  help: a flag for each block"
                )
        lists = []
        for kept, partly in zip(stored, flags):
            row_starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
            lists.append((row_starts, np.nonzero(kept)[1], partly[kept]))
        return cls._listed(sizes, block, lists, per, score)

    @classmethod
    def from_pairs(cls, pairs: Any, block: Any = (128, 128), *, score: str | None = None) -> AttentionMask:
        """The blocks with a pair where ``pairs`` is true: ``[queries, keys]``, or ``[problems, heads, queries, keys]``.

        Blocks whose pairs are not all true are partial: ``score`` must tell their pairs apart.
        """
        patterns, per = _patterns_of(_boolean(pairs, "pairs"))
        sizes = patterns.shape[1:]
        lists = []
        for pattern in patterns:
            made = _Native.from_pairs(sizes, _pair(block, "block"), np.ascontiguousarray(pattern).tobytes())
            ((indptr, indices, partial),) = made.lists()
            lists.append((np.frombuffer(indptr, "<u4"), np.frombuffer(indices, "<u4"), np.frombuffer(partial, bool)))
        return cls._listed(sizes, block, lists, per, score)

    @classmethod
    def top_k(cls, scores: Any, sizes: Any, block: Any = (128, 128), *, count: int) -> AttentionMask:
        """The ``count`` blocks of each row with the greatest scores: ``[rows, columns]`` of blocks, or with problems and heads."""
        array = scores.detach().float().cpu().numpy() if hasattr(scores, "detach") else np.asarray(scores)
        patterns, per = _patterns_of(array.astype("<f4"))
        lists = []
        for pattern in patterns:
            scored = np.ascontiguousarray(pattern).tobytes()
            made = _Native.top_k(_pair(sizes, "sizes"), _pair(block, "block"), scored, _count(count, "count"))
            ((indptr, indices, partial),) = made.lists()
            lists.append((np.frombuffer(indptr, "<u4"), np.frombuffer(indices, "<u4"), np.frombuffer(partial, bool)))
        return cls._listed(sizes, block, lists, per, None)

    @classmethod
    def from_block_mask(cls, block_mask: Any, *, score: str | None = None) -> AttentionMask:
        """The blocks of FlexAttention's ``BlockMask``: those of its ``kv`` lists are partial, those of ``full_kv`` are not.

        A ``mask_mod`` is a function of Python, which is not read: ``score`` says in text what it says, where a block is partial.
        """
        block, sizes = tuple(block_mask.BLOCK_SIZE), tuple(block_mask.seq_lengths)
        counts, indices = (
            tensor.detach().cpu().numpy() for tensor in (block_mask.kv_num_blocks, block_mask.kv_indices)
        )
        full = (block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
        full_counts, full_indices = (None if tensor is None else tensor.detach().cpu().numpy() for tensor in full)
        rows, columns = (-(-size // side) for size, side in zip(sizes, block))
        stored = np.zeros((*counts.shape[:-1], counts.shape[-1], max(columns, indices.shape[-1])), dtype=bool)
        partial = np.zeros_like(stored)
        _mark(stored, counts, indices)
        _mark(partial, counts, indices)
        if full_counts is not None and full_indices is not None:
            _mark(stored, full_counts, full_indices)
        return cls.from_blocks(
            stored[..., :rows, :columns], sizes, block, partial=partial[..., :rows, :columns], score=score
        )

    @classmethod
    def _listed(cls, sizes: Any, block: Any, lists: Sequence[tuple], per: str, score: str | None) -> AttentionMask:
        indptr, indices, partial = (list(parts) for parts in zip(*lists))
        if per == "all":
            return cls(sizes, block, indptr[0], indices[0], partial[0], score=score)
        return cls(sizes, block, indptr, indices, partial, per=per, score=score)

    # What is asked of a mask.

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
        """Blocks of all patterns in which the score is computed."""
        return sum(int(flags.sum()) for flags in self.partial)

    @property
    def has_partial(self) -> bool:
        """Whether the score is computed in any block."""
        return self.partial_blocks > 0

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of blocks."""
        return -(-self.sizes[0] // self.block[0]), -(-self.sizes[1] // self.block[1])

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
        return self._derive("scored", [np.ones_like(flags) for flags in self.partial])

    def below_diagonal(self) -> AttentionMask:
        """The blocks with keys up to their queries; those that the diagonal crosses are partial, under the causal score."""
        made = self._derived.get("below")
        if made is None:
            if self.has_partial:
                raise Error(
                    "the mask has partial blocks under a score of its own, and `causal=True` is another\n"
                    "  help: write both conditions into `score`"
                )
            (bm, bk), blocks = self.block, self.blocks() > 0
            first_query = np.arange(self.grid[0])[:, None] * bm
            last_query = np.minimum(first_query + bm, self.sizes[0]) - 1
            first_key = np.arange(self.grid[1])[None, :] * bk
            last_key = np.minimum(first_key + bk, self.sizes[1]) - 1
            kept = blocks & (first_key <= last_query)
            partial = kept & (last_key > first_query)
            lists = [
                (np.concatenate([[0], np.cumsum(k.sum(axis=1))]), np.nonzero(k)[1], p[k]) for k, p in zip(kept, partial)
            ]
            made = self._derived.setdefault("below", self._listed(self.sizes, self.block, lists, self.per, CAUSAL))
        return made

    def _derive(self, name: str, partial: list[np.ndarray]) -> AttentionMask:
        made = self._derived.get(name)
        if made is None:
            lists = list(zip(self.indptr, self.indices, partial))
            made = self._derived.setdefault(name, self._listed(self.sizes, self.block, lists, self.per, self.score))
        return made

    def picture(self, width: int = 32, height: int = 16) -> str:
        """The first pattern in characters: each stands for blocks, and is the darker the more of them are stored."""
        mask = (self.blocks()[0] > 0).astype(np.float64) if self.indices else np.zeros((0, 0))
        if mask.size == 0:
            return "(no blocks)"
        lines = []
        for part in np.array_split(mask, min(height, mask.shape[0]), axis=0):
            fractions = [piece.mean() for piece in np.array_split(part, min(width, mask.shape[1]), axis=1)]
            lines.append("".join(" ░▒▓█"[int(np.ceil(fraction * 4))] for fraction in fractions))
        return "\n".join(f"|{line}|" for line in lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttentionMask) and (self.key, self.score) == (other.key, other.score)

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self):
        if self.per == "all":
            lists = (self.indptr[0], self.indices[0], self.partial[0])
        else:
            lists = (self.indptr, self.indices, self.partial)
        return _unpickled, (self.sizes, self.block, *lists, self.per, self.score)

    def __repr__(self) -> str:
        (queries, keys), (bm, bk), grid = self.sizes, self.block, self.grid
        every = len(self.indices) * grid[0] * grid[1]
        per = "" if self.per == "all" else f", per {self.per}"
        return f"AttentionMask({queries} x {keys}, {self.stored} of {every} blocks of {bm} x {bk}{per})"


def _unpickled(sizes, block, indptr, indices, partial, per, score) -> AttentionMask:
    return AttentionMask(sizes, block, indptr, indices, partial, per=per, score=score)


def find(key: str) -> AttentionMask:
    """The mask with this key."""
    mask = _alive.get(key)
    if mask is None:
        raise Error(
            f"no mask of this process has the key {key}: it was dropped, or is of another process\n"
            "  help: keep the mask as long as what was compiled with it"
        )
    return mask


def _mark(to: np.ndarray, counts: np.ndarray, indices: np.ndarray) -> None:
    """Marks the blocks of FlexAttention's lists, whose rows have entries beyond their counts that mean nothing."""
    counted = np.arange(indices.shape[-1]) < counts[..., None]
    places = np.nonzero(counted)
    to[(*places[:-1], indices[places])] = True


def _patterns_of(array: np.ndarray) -> tuple[np.ndarray, str]:
    """Patterns x rows x columns, and which heads have which."""
    if array.ndim == 2:
        return array[None], "all"
    if array.ndim != 4:
        raise Error(
            f"an array of {array.ndim} dimensions is no mask\n  help: rows x columns, or problems x heads x rows x columns"
        )
    return array.reshape(-1, *array.shape[2:]), per_of(*array.shape[:2])


def per_of(batch: int, heads: int) -> str:
    """Which heads have patterns of their own, where there are so many of problems and heads."""
    return "both" if batch > 1 and heads > 1 else "problem" if batch > 1 else "head" if heads > 1 else "all"


def _boolean(array: Any, what: str) -> np.ndarray:
    array = array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)
    if array.dtype != bool:
        raise Error(f"{what} is of {array.dtype}\n  help: an array of booleans, `x > 0` for instance")
    return array


def _flags(array: Any) -> np.ndarray:
    return np.ascontiguousarray(_boolean(array, "partial"))


def _count(number: Any, what: str, least: int = 0) -> int:
    if int(number) != number or number < least:
        raise Error(f"{what} = {number}\n  help: an integer of at least {least}")
    return int(number)


def _unsigned(array: Any, what: str) -> np.ndarray:
    array = array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise Error(
            f"{what} has {array.ndim} dimensions of {array.dtype}, but it is a list of integers\n"
            "  help: where there are several patterns, `per` says which heads have which"
        )
    if array.size and (array.min() < 0 or array.max() >= 1 << 32):
        wrong = int(np.nonzero((array < 0) | (array >= 1 << 32))[0][0])
        raise Error(f"{what}[{wrong}] = {array[wrong]}\n  help: block columns and row starts count from 0")
    return np.ascontiguousarray(array.astype("<u4"))
