"""Patterns: where the blocks of a matrix are."""

from __future__ import annotations

from collections import OrderedDict
from weakref import WeakValueDictionary

import numpy as np

from ._native import Error
from ._native import Pattern as _Native

#: Patterns that are kept although nobody holds them: a graph that was compiled names its patterns by their keys.
KEPT = 1024

_alive: WeakValueDictionary[str, Pattern] = WeakValueDictionary()
_recent: OrderedDict[str, Pattern] = OrderedDict()


class Pattern:
    """The shape of a block-sparse matrix and the places of its stored blocks. It never changes."""

    __slots__ = ("__weakref__", "_col_idx", "_native", "_row_ptr", "block", "key", "nnzb", "shape")

    #: Patterns whose places are tensors are another class.
    on_device = False

    def __init__(self, shape, block, row_ptr, col_idx) -> None:
        (rows, cols), (bm, bk) = _pair(shape, "shape"), _pair(block, "block")
        self._native = _Native(rows, cols, bm, bk, _integers(row_ptr, "row_ptr"), _integers(col_idx, "col_idx"))
        self._finish()

    def _finish(self) -> None:
        native = self._native
        self.shape = (native.rows, native.cols)
        self.block = native.block
        self.nnzb = native.nnzb
        self.key = native.key
        self._row_ptr = np.frombuffer(native.row_ptr(), dtype="<i4")
        self._col_idx = np.frombuffer(native.col_idx(), dtype="<i4")
        _alive[self.key] = self
        _recent[self.key] = self
        _recent.move_to_end(self.key)
        while len(_recent) > KEPT:
            _recent.popitem(last=False)

    @classmethod
    def from_mask(cls, mask, shape, block) -> Pattern:
        """The pattern with a block wherever ``mask`` (block rows x block columns) is true."""
        mask = np.asarray(mask, dtype=bool)
        (rows, cols), (bm, bk) = _pair(shape, "shape"), _pair(block, "block")
        if bm < 1 or bk < 1:
            raise Error(f"the block is {bm} x {bk}, but both sides must be at least 1")
        expected = (-(-rows // bm), -(-cols // bk))
        if mask.shape != expected:
            raise Error(
                f"the mask is {' x '.join(map(str, mask.shape))}, but {rows} x {cols} in blocks of {bm} x {bk} makes "
                f"{expected[0]} x {expected[1]} blocks\n  help: give one flag for each block"
            )
        row_ptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        return cls(shape, block, row_ptr, np.nonzero(mask)[1])

    @property
    def row_ptr(self) -> np.ndarray:
        """Where each block row starts among the blocks, and their number at the end."""
        return self._row_ptr

    @property
    def col_idx(self) -> np.ndarray:
        """The block column of each stored block."""
        return self._col_idx

    @property
    def row_idx(self) -> np.ndarray:
        """The block row of each stored block."""
        return np.repeat(np.arange(len(self._row_ptr) - 1, dtype=np.int32), np.diff(self._row_ptr))

    @property
    def grid(self) -> tuple[int, int]:
        """Block rows and block columns."""
        (rows, cols), (bm, bk) = self.shape, self.block
        return -(-rows // bm), -(-cols // bk)

    @property
    def density(self) -> float:
        """Stored blocks as a fraction of all."""
        return self._native.density

    def mask(self) -> np.ndarray:
        """Block rows x block columns: where blocks are stored."""
        mask = np.zeros(self.grid, dtype=bool)
        mask[self.row_idx, self.col_idx] = True
        return mask

    def transposed(self) -> tuple[Pattern, np.ndarray]:
        """The pattern of the transposed matrix, and for each of its blocks the number of the block here."""
        native, order = self._native.transposed()
        pattern = object.__new__(Pattern)
        pattern._native = native
        pattern._finish()
        return pattern, np.frombuffer(order, dtype="<i4")

    def picture(self, width: int = 32, height: int = 16) -> str:
        """The pattern in characters: each stands for blocks, and is the darker the more of them are stored."""
        mask = self.mask().astype(np.float64)
        if mask.size == 0:
            return "(no blocks)"
        high, wide = min(height, mask.shape[0]), min(width, mask.shape[1])
        lines = []
        for part in np.array_split(mask, high, axis=0):
            fractions = [piece.mean() for piece in np.array_split(part, wide, axis=1)]
            lines.append("".join(" ░▒▓█"[int(np.ceil(fraction * 4))] for fraction in fractions))
        return "\n".join(f"|{line}|" for line in lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self):
        return Pattern, (self.shape, self.block, self.row_ptr, self.col_idx)

    def __repr__(self) -> str:
        (rows, cols), (bm, bk) = self.shape, self.block
        all_blocks = self.grid[0] * self.grid[1]
        return f"Pattern({rows} x {cols}, {self.nnzb} of {all_blocks} blocks of {bm} x {bk})"


def find(key: str) -> Pattern:
    """The pattern with this key."""
    pattern = _alive.get(key)
    if pattern is None:
        raise Error(
            f"no pattern of this process has the key {key}: it was dropped, or is of another process\n  "
            "help: make the matrix again where it is used; a graph that was compiled keeps the keys of its patterns only"
        )
    return pattern


def _pair(pair, what: str) -> tuple[int, int]:
    try:
        first, second = (int(side) for side in pair)
    except (TypeError, ValueError):
        raise Error(f"{what} = {pair!r} is no pair of integers\n  help: write {what}=(64, 64)") from None
    if first < 0 or second < 0:
        raise Error(f"{what} = ({first}, {second}) has a negative side")
    return first, second


def _integers(array, what: str) -> bytes:
    array = np.asarray(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise Error(f"{what} has {array.ndim} dimensions of {array.dtype}, but it is a list of integers")
    narrow = array.astype("<i4")
    if not np.array_equal(narrow, array):
        at = int(np.nonzero(narrow != array)[0][0])
        raise Error(f"{what}[{at}] = {array[at]} is beyond 2^31 - 1, the limit of the device's 32-bit coordinates")
    return narrow.tobytes()
