"""Patterns as tensors of PyTorch, which may change between products: on a GPU the host never looks at them."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _arrays
from ._native import Error
from ._patterns import Fixed, Pattern, _alive, _pair

_numbers = itertools.count()
#: Patterns of products that a factor keeps.
PRODUCTS = 4


class DevicePattern(Fixed):
    """The places of blocks as tensors: row pointers and block columns of 32 or 64 bits, or a mask.

    ``capacity`` is the most blocks that are ever stored, and the number of blocks that ``values`` of a matrix have; without it
    the columns have as many places. A program that has written into the tensors calls :meth:`changed`; the next product checks
    them, and lists its work, in kernels of its own. A block row that is wrong has no blocks, and :meth:`check` tells what is
    wrong. On a GPU nothing of this synchronizes but ``check`` and ``to_pattern``.
    """

    __slots__ = (
        "__weakref__",
        "_host",
        "_mask",
        "_on_gpu",
        "_products",
        "_wrong",
        "block",
        "capacity",
        "col_idx",
        "key",
        "row_ptr",
        "shape",
    )

    #: Patterns of the host are another class.
    on_device = True

    row_ptr: Tensor | None
    col_idx: Tensor | None

    def __init__(self, shape: Any, block: Any, row_ptr: Tensor, col_idx: Tensor, capacity: int | None = None) -> None:
        self._start(shape, block, len(col_idx) if capacity is None else capacity)
        check_lists({"row_ptr": row_ptr, "col_idx": col_idx}, self.grid[0], self.capacity)
        self.row_ptr, self.col_idx = row_ptr, col_idx
        self._mask: Tensor | None = None

    @classmethod
    def from_mask(cls, mask: Tensor, shape: Any, block: Any, capacity: int) -> DevicePattern:
        """The blocks where ``mask`` (block rows x block columns, booleans or bytes) is not zero, at most ``capacity``."""
        built = object.__new__(cls)
        built._start(shape, block, capacity)
        if mask.dtype not in (torch.bool, torch.uint8) or tuple(mask.shape) != built.grid or not mask.is_contiguous():
            raise Error(
                f"the mask is {' x '.join(map(str, mask.shape))} of {mask.dtype}\n  help: a contiguous tensor of "
                f"{built.grid[0]} x {built.grid[1]} booleans"
            )
        built.row_ptr, built.col_idx, built._mask = None, None, mask
        return built

    @classmethod
    def from_torch(cls, tensor: Tensor) -> DevicePattern:
        """The places of a tensor of layout ``torch.sparse_bsr``, which are not copied; the same for the same tensor."""
        if tensor.layout is not torch.sparse_bsr or tensor.dim() != 2:
            raise Error(
                f"a tensor of layout {tensor.layout} with {tensor.dim()} dimensions has no blocks\n"
                "  help: `tensor.to_sparse_bsr((64, 64))`"
            )
        row_ptr, col_idx = tensor.crow_indices(), tensor.col_indices()
        known = getattr(tensor, "_bsr_gemm_pattern", None)
        if known is None or (known.row_ptr.data_ptr(), known.col_idx.data_ptr()) != (
            row_ptr.data_ptr(),
            col_idx.data_ptr(),
        ):
            known = cls(tuple(tensor.shape), tuple(tensor.values().shape[1:]), row_ptr, col_idx)
            # What kernels need of a pattern is allocated once for a tensor.
            tensor._bsr_gemm_pattern = known  # type: ignore[attr-defined]
        return known

    @classmethod
    def from_pattern(cls, pattern: Pattern, device: Any = None, capacity: int | None = None) -> DevicePattern:
        """A copy of a pattern on a device, with room for ``capacity`` blocks."""
        places = np.zeros(max(pattern.nnzb, capacity or 0), dtype=np.int32)
        places[: pattern.nnzb] = pattern.col_idx
        row_ptr, col_idx = (torch.tensor(index, device=device) for index in (pattern.row_ptr, places))
        return cls(pattern.shape, pattern.block, row_ptr, col_idx)

    def _start(self, shape: Any, block: Any, capacity: int) -> None:
        self.shape, self.block, self.capacity = _pair(shape, "shape"), _pair(block, "block"), int(capacity)
        if min(self.block) < 1 or self.capacity < 0:
            raise Error(
                f"blocks of {self.block[0]} x {self.block[1]}, at most {self.capacity}\n  help: sizes of at least 1"
            )
        self.key = f"device:{next(_numbers)}"
        self._host: tuple[Pattern, np.ndarray] | None = None
        self._on_gpu: Any = None
        self._wrong: str | None = None
        #: Patterns of products with others, which live as long as this one: a product that is computed again allocates nothing.
        self._products: dict[tuple[str, int], ProductPattern] = {}
        known: Any = _alive
        known[self.key] = self

    @property
    def nnzb(self) -> int:
        """Room for so many blocks: how many there are is known where the pattern is."""
        return self.capacity

    @property
    def density(self) -> float:
        """The capacity as a fraction of all blocks."""
        return self.capacity / max(1, self.grid[0] * self.grid[1])

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self._tensors()[0].device

    def _tensors(self) -> list[Tensor]:
        return [tensor for tensor in (self.row_ptr, self.col_idx, self._mask) if tensor is not None]

    def changed(self) -> None:
        """Says that the tensors have changed, or will have when the next product runs."""
        self._host = None
        if self._on_gpu is not None:
            self._on_gpu.changed()

    def check(self) -> None:
        """Waits for the device, and raises what the last product has found to be wrong, once."""
        if self._on_gpu is not None:
            return self._on_gpu.check()
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise Error(wrong)

    def to_pattern(self) -> Pattern:
        """The pattern as it is now, on the host, after all work on the device; a wrong row has no blocks."""
        return self.host()[0]

    def host(self) -> tuple[Pattern, np.ndarray]:
        """The pattern on the host, and the place of each of its blocks among the values."""
        if self._host is None or self.device.type != "cpu":
            self._host = self._read()
        known: tuple[Pattern, np.ndarray] = self._host
        return known

    def _lists(self) -> tuple[np.ndarray, np.ndarray]:
        """Row pointers and columns, which may be wrong."""
        if self._mask is not None:
            mask = self._mask.cpu().numpy() != 0
            return np.concatenate([[0], np.cumsum(mask.sum(axis=1))]), np.nonzero(mask)[1]
        row_ptr, col_idx = (tensor.cpu().numpy().astype(np.int64) for tensor in self._tensors())
        return row_ptr, col_idx

    def _read(self) -> tuple[Pattern, np.ndarray]:
        rows, columns = self.grid
        row_ptr, col_idx = self._lists()
        places, lengths = [], []
        for row in range(rows):
            wrong = self._fault(row, int(row_ptr[row]), int(row_ptr[row + 1]), col_idx, columns)
            if wrong is None:
                places.append(np.arange(row_ptr[row], row_ptr[row + 1]))
            elif self._wrong is None:
                self._wrong = wrong
            lengths.append(0 if wrong is not None else int(row_ptr[row + 1] - row_ptr[row]))
        order = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
        return Pattern(self.shape, self.block, np.cumsum([0, *lengths]), col_idx[order]), order

    def _fault(self, row: int, first: int, end: int, col_idx: np.ndarray, columns: int) -> str | None:
        """What is wrong with a block row, in the words of the check on a GPU."""
        help_ = "columns count blocks, not elements"
        if row == 0 and first != 0:
            what, help_ = f"the first row pointer is {first}, not 0", "subtract it from all row pointers"
        elif first < 0:
            what, help_ = f"its row pointer is {first} < 0", "row pointers count stored blocks from 0"
        elif end < first:
            what, help_ = f"the row pointer after it, {end}, is smaller than its own", "row pointers ascend"
        elif end > self.capacity:
            what = f"the row pointer after it is {end} > {self.capacity}, the capacity"
            help_ = "store fewer blocks, or make the pattern with more room"
        else:
            of_row = col_idx[first:end]
            beyond = (of_row < 0) | (of_row >= columns)
            steps = np.diff(of_row)
            if beyond.any():
                what = f"it has a block in column {of_row[beyond][0]}, and the columns are 0 to {columns - 1}"
            elif (steps < 0).any():
                what = f"its column {of_row[1:][steps < 0][0]} stands behind a larger one"
                help_ = "sort the columns of each row, and the blocks with them"
            elif (steps == 0).any():
                what, help_ = f"its column {of_row[1:][steps == 0][0]} occurs twice", "store each block once, as a sum"
            else:
                return None
        return (
            f"block row {row} of a pattern is wrong: {what}\n  nothing was computed for this row, nor for others that are "
            f"wrong\n  help: {help_}; then call `changed`"
        )

    def product(self, other: DevicePattern, capacity: int | None = None) -> DevicePattern:
        """The pattern of the product with a matrix of another pattern on the device, with at most ``capacity`` blocks; without it
        with room for every block that the product can have. It is computed there, and again whenever one of the two has changed."""
        return ProductPattern.of(self, other, capacity)

    def on_gpu(self, index: int) -> Any:
        """The view of the tensors that kernels read."""
        if self._on_gpu is None:
            from . import _gpu

            if self.device.type != "cuda" or self.device.index != index:
                raise Error(
                    f"the pattern is on {self.device}, and the values on cuda:{index}\n  help: move them to one device"
                )
            self._on_gpu = self._viewed(index)
            weakref.finalize(self, _gpu.forget_pattern, self.key)
        return self._on_gpu

    def _viewed(self, index: int) -> Any:
        from . import _gpu

        tensors = self._tensors()
        addresses = [tensor.data_ptr() for tensor in tensors]
        arrays = (addresses[0], addresses[1] if len(addresses) > 1 else 0)
        wide = tensors[0].dtype == torch.int64
        return _gpu._native.DevicePattern(_gpu.gpu_of(index), self.shape, self.block, self.capacity, wide, arrays)

    @property
    def _native(self) -> Any:
        raise Error(
            "the pattern is on a device, and this needs one on the host\n  help: `pattern.to_pattern()`, which waits for it"
        )

    def __reduce__(self):
        if self._mask is not None:
            return DevicePattern.from_mask, (self._mask, self.shape, self.block, self.capacity)
        return DevicePattern, (self.shape, self.block, self.row_ptr, self.col_idx, self.capacity)

    def __repr__(self) -> str:
        (rows, cols), (bm, bk) = self.shape, self.block
        return f"DevicePattern({rows} x {cols}, up to {self.capacity} blocks of {bm} x {bk}, on {self.device})"


class ProductPattern(DevicePattern):
    """The pattern of the product of two others, ``factors``. It has no tensors of its own."""

    __slots__ = ("factors",)

    factors: tuple[DevicePattern, DevicePattern]

    @classmethod
    def of(cls, a: DevicePattern, b: DevicePattern, capacity: int | None) -> DevicePattern:
        """The same for the same factors and capacity: the first one keeps the last few."""
        if not (a.on_device and b.on_device) or a.device != b.device:
            places = [str(of.device) if of.on_device else "the host" for of in (a, b)]
            raise Error(
                f"the patterns of a product are on {places[0]} and {places[1]}\n"
                "  help: `bsr_gemm.DevicePattern.from_pattern(pattern, device)`, or `to_pattern()` of the other one"
            )
        rows, columns = a.grid[0], b.grid[1]
        if a.shape[1] != b.shape[0] or a.block[1] != b.block[0]:
            raise Error(f"{a!r} and {b!r} have no product\n  help: a's columns and b's rows, in blocks as long")
        most = min(rows * columns, a.capacity * columns, b.capacity * rows)
        capacity = most if capacity is None else min(int(capacity), most)
        known = a._products.get((b.key, capacity))
        if known is None:
            known = object.__new__(cls)
            known._start((a.shape[0], b.shape[1]), (a.block[0], b.block[1]), capacity)
            known.row_ptr, known.col_idx, known._mask, known.factors = None, None, None, (a, b)
            if len(a._products) >= PRODUCTS:
                del a._products[next(iter(a._products))]
            a._products[(b.key, capacity)] = known
        return known

    def _tensors(self) -> list[Tensor]:
        return self.factors[0]._tensors()

    def _lists(self) -> tuple[np.ndarray, np.ndarray]:
        a, b = (factor.host()[0] for factor in self.factors)
        found = a.product(b)
        return found.row_ptr.astype(np.int64), found.col_idx.astype(np.int64)

    def host(self) -> tuple[Pattern, np.ndarray]:
        """The pattern on the host: factors may have changed since it was read."""
        return self._read()

    def _viewed(self, index: int) -> Any:
        from . import _gpu

        a, b = (factor.on_gpu(index) for factor in self.factors)
        return _gpu._native.DevicePattern.product(a, b, self.capacity)

    def __reduce__(self):
        return ProductPattern.of, (*self.factors, self.capacity)


def check_lists(lists: dict[str, Any], rows: int, capacity: int) -> None:
    """Looks at the tensors of row starts and of block columns, which their names stand before."""
    (start_name, starts), (column_name, columns) = lists.items()
    for name, tensor in lists.items():
        if not isinstance(tensor, Tensor) or tensor.dtype not in (torch.int32, torch.int64) or tensor.dim() != 1:
            found = f"{tensor.dtype}, {tensor.dim()}-D" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise Error(f"{name} is {found}\n  help: a tensor of int32 or int64 with one dimension")
    if starts.dtype != columns.dtype or starts.device != columns.device:
        raise Error(
            f"{start_name} is of {starts.dtype} on {starts.device}, {column_name} of {columns.dtype} on {columns.device}\n"
            "  help: both of one type on one device"
        )
    if len(starts) != rows + 1 or len(columns) < capacity:
        raise Error(
            f"{len(starts)} row pointers and {len(columns)} columns\n  help: {rows} block rows have {rows + 1} row pointers, "
            f"and the capacity is {capacity} blocks"
        )
    if not (starts.is_contiguous() and columns.is_contiguous()):
        raise Error(f"{start_name} and {column_name} must be contiguous: they are not copied\n  help: `.contiguous()`")


def hosted(pattern: Any, values: Tensor) -> tuple[Pattern, Tensor]:
    """A pattern of the host and the values of its blocks."""
    if not pattern.on_device:
        return pattern, values
    found, order = pattern.host()
    return found, values[_arrays.index(order, values)]


def spread(pattern: Any, values: Tensor) -> Tensor:
    """Values of the host's blocks at their places among those that a pattern has room for; the others are zero."""
    if not pattern.on_device:
        return values
    order = _arrays.index(pattern.host()[1], values)
    return values.new_zeros((pattern.capacity, *pattern.block)).index_copy(0, order, values)
