"""Patterns: where the blocks of a matrix are."""

from __future__ import annotations

import operator
from collections import OrderedDict
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from . import _arrays
from ._native import Error
from ._native import Pattern as _Native

#: No side of a matrix or a block is as long: kernels count in 32 bits.
SIDES = 2**31
#: What scipy, attention's masks and PyTorch call the two lists of a pattern.
NAMES = {"row_ptr": ("indptr", "crow_indices"), "col_idx": ("indices", "col_indices")}

#: Patterns that stay alive without a reference: a compiled graph names its patterns by their keys.
KEPT = 1024

_alive: WeakValueDictionary[str, Pattern] = WeakValueDictionary()
_recent: OrderedDict[str, Pattern] = OrderedDict()


def grid_of(shape: Any, block: Any) -> tuple[int, int]:
    """Rows and columns of blocks."""
    return -(-shape[0] // block[0]), -(-shape[1] // block[1])


class Fixed:
    """Where blocks of ``block`` are in a matrix of ``shape``. It stays as it was made: kernels and lists of work are cached for it."""

    __slots__ = ()

    block: tuple[int, int]
    shape: tuple[int, int]

    @property
    def grid(self) -> tuple[int, int]:
        """Block rows and block columns."""
        return grid_of(self.shape, self.block)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and hasattr(self, name):
            raise AttributeError(
                f"`{name}` of a {type(self).__name__} cannot be changed\n  help: make a new one; write into the tensors of a "
                "DevicePattern and call its `changed`"
            )
        object.__setattr__(self, name, value)


class Pattern(Fixed):
    """The shape of a block-sparse matrix and the places of its stored blocks. It never changes.

    ``row_ptr`` says where each block row starts among the stored blocks, and how many there are; ``col_idx`` is the block
    column of each, ascending within a block row. They may be called ``indptr`` and ``indices``, as scipy does, or
    ``crow_indices`` and ``col_indices``, as PyTorch does. They are copied, from a GPU too.
    """

    __slots__ = ("__weakref__", "_col_idx", "_native", "_row_ptr", "block", "key", "nnzb", "shape")

    #: Patterns whose places are tensors are another class.
    on_device = False

    def __init__(self, shape: Any, block: Any, row_ptr: Any = None, col_idx: Any = None, **lists: Any) -> None:
        row_ptr, col_idx = _named("row_ptr", row_ptr, lists), _named("col_idx", col_idx, lists)
        if lists:
            raise Error(
                f"`{next(iter(lists))}` is no list of a pattern\n  help: row_ptr and col_idx, or indptr and indices"
            )
        (rows, cols), (bm, bk) = _pair(shape, "shape"), _pair(block, "block")
        self._native = _Native(
            rows, cols, bm, bk, _integers(row_ptr, "row_ptr", "<i8"), _integers(col_idx, "col_idx", "<i4")
        )
        self._finish()

    def _finish(self) -> None:
        native = self._native
        self.shape = (native.rows, native.cols)
        self.block = native.block
        self.nnzb = native.nnzb
        self.key = native.key
        # As SciPy has them: 64 bits where 32 do not count the blocks.
        self._row_ptr = np.frombuffer(native.row_ptr(), dtype="<i8").astype(pointer_type(self.nnzb), copy=False)
        self._col_idx = np.frombuffer(native.col_idx(), dtype="<i4")
        _alive[self.key] = self
        _recent[self.key] = self
        _recent.move_to_end(self.key)
        while len(_recent) > KEPT:
            _recent.popitem(last=False)

    @classmethod
    def from_mask(cls, mask, shape, block) -> Pattern:
        """The pattern with a block wherever ``mask`` (block rows x block columns) is true."""
        mask = _arrays.host(mask).astype(bool)
        (rows, cols), (bm, bk) = _pair(shape, "shape"), _pair(block, "block")
        if bm < 1 or bk < 1:
            raise Error(f"the block is {bm} x {bk}, but both sides must be at least 1")
        expected = grid_of((rows, cols), (bm, bk))
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

    #: In scipy's words.
    indptr, indices = row_ptr, col_idx

    @property
    def row_idx(self) -> np.ndarray:
        """The block row of each stored block."""
        return np.repeat(np.arange(len(self._row_ptr) - 1, dtype=np.int32), np.diff(self._row_ptr))

    @property
    def density(self) -> float:
        """Stored blocks as a fraction of all."""
        return self._native.density

    def mask(self) -> np.ndarray:
        """Block rows x block columns: where blocks are stored."""
        _arrays.ask_for("the mask of all blocks", self.grid, None, "i8")
        mask = np.zeros(self.grid, dtype=bool)
        mask[self.row_idx, self.col_idx] = True
        return mask

    def transposed(self) -> tuple[Pattern, np.ndarray]:
        """The pattern of the transposed matrix, and for each of its blocks the number of the block here."""
        native, order = self._native.transposed()
        return of_native(native), np.frombuffer(order, dtype="<i4")

    def product(self, other: Pattern) -> Pattern:
        """The pattern of the product with a matrix of another pattern: the blocks that a pair of stored blocks adds to."""
        return of_native(self._native.product(other._native))

    def picture(self, width: int = 32, height: int = 16) -> str:
        """The pattern as text: each character shows several blocks, darker if more of them are stored."""
        return picture((self.row_idx, self.col_idx), self.grid, width, height)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self):
        # Plain numbers, which `torch.load` reads with `weights_only=True`.
        return Pattern, (self.shape, self.block, self.row_ptr.tolist(), self.col_idx.tolist())

    def __repr__(self) -> str:
        (rows, cols), (bm, bk) = self.shape, self.block
        all_blocks = self.grid[0] * self.grid[1]
        return f"Pattern({rows} x {cols}, {self.nnzb} of {all_blocks} blocks of {bm} x {bk})"


def of_native(native: Any) -> Pattern:
    """A pattern that the native half made."""
    pattern = object.__new__(Pattern)
    pattern._native = native
    pattern._finish()
    return pattern


def find(key: str) -> Pattern:
    """The pattern with this key."""
    pattern = _alive.get(key)
    if pattern is None:
        raise Error(
            f"no pattern of this process has the key {key}: it was freed, or belongs to another process\n  "
            "help: keep the matrix alive while compiled code uses it: a compiled graph has only the keys of its patterns"
        )
    return pattern


def _named(name: str, given: Any, lists: dict[str, Any]) -> Any:
    """A list of a pattern by whichever of its names it is given."""
    for word in NAMES[name]:
        if word in lists:
            if given is not None:
                raise Error(f"`{word}` is `{name}`, and both are given\n  help: drop one of them")
            given = lists.pop(word)
    if given is None:
        raise Error(f"`{name}` is not given\n  help: `Pattern(shape, block, row_ptr, col_idx)`")
    return given


def picture(places: Any, grid: tuple[int, int], width: int, height: int) -> str:
    """Places in a grid in characters."""
    if 0 in grid:
        return "(no blocks)"
    (row, high), (col, wide) = (_cells(of, count, most) for of, count, most in zip(places, grid, (height, width)))
    stored = np.bincount(row * len(wide) + col, minlength=len(high) * len(wide)).reshape(len(high), len(wide))
    levels = np.ceil(stored / np.outer(high, wide) * 4).astype(int)
    return "\n".join("|" + "".join(" ░▒▓█"[level] for level in line) + "|" for line in levels)


def _cells(places: np.ndarray, count: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The cell of a picture that each place of ``count`` is in, and how many places each cell has."""
    cells = min(most, count)
    small, larger = divmod(count, cells)
    sizes = np.full(cells, small, dtype=np.int64)
    sizes[:larger] += 1
    return np.searchsorted(np.cumsum(sizes), places, side="right"), sizes


def _pair(pair: Any, what: str) -> tuple[int, int]:
    try:
        first, second = (operator.index(side) for side in pair)
    except (TypeError, ValueError):
        side = pair if isinstance(pair, int) and pair > 0 else 64
        raise Error(f"{what} = {pair!r} is no pair of integers\n  help: write {what}=({side}, {side})") from None
    if first < 0 or second < 0:
        raise Error(f"{what} = ({first}, {second}) has a negative side")
    if max(first, second) >= SIDES:
        raise Error(
            f"{what} = ({first}, {second}) has a side that is not below 2^31, the limit of the device's 32-bit coordinates\n"
            "  help: split the matrix and multiply the parts"
        )
    return first, second


def pointer_type(nnzb: int) -> str:
    """The type of the row pointers of so many blocks."""
    return "<i4" if nnzb < 2**31 else "<i8"


def _integers(array: Any, what: str, kind: str) -> bytes:
    array = _arrays.host(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise Error(f"{what} has {array.ndim} dimensions of {array.dtype}, but it is a list of integers")
    narrow = array.astype(kind, copy=False)
    if not np.array_equal(narrow, array):
        at = int(np.nonzero(narrow != array)[0][0])
        bits = np.iinfo(kind).bits
        raise Error(f"{what}[{at}] = {array[at]} is beyond 2^{bits - 1} - 1, the limit of {bits}-bit integers")
    return narrow.tobytes()
