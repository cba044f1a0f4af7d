"""Tensors as kernels address them: 16 bytes are the unit of TMA."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from . import _arrays


def _addressable(lines: int, line: int, stride: int, size: int, address: int) -> bool:
    """Whether TMA addresses a matrix of so many lines, and a store ends where its line does."""
    return address % 16 == 0 and (stride * size) % 16 == 0 and stride >= line


def _padded(line: int, size: int) -> int:
    """The elements of a line up to the next 16 bytes."""
    return -(-max(line, 1) * size // 16) * 16 // size


def _is_col(x: Tensor, asked: bool | None) -> bool:
    """Whether columns are contiguous. Of one row or one column the strides do not say it: then it is what is asked for."""
    return asked if asked is not None and 1 in x.shape else x.stride(1) != 1 and x.stride(0) == 1


def operand_of(x: Tensor, asked: bool | None = None) -> tuple[Tensor, tuple[int, int, int, bool, int]]:
    """A matrix as a kernel reads it, and the tensor that keeps it alive: a padded copy where TMA cannot address it. A kernel that
    reads columns asks for them."""
    x = x.resolve_neg()
    rows, cols = x.shape
    is_col = _is_col(x, asked)
    size = x.element_size()
    lines, line = (cols, rows) if is_col else (rows, cols)
    stride = x.stride(1) if is_col else x.stride(0)
    # No line follows a single one: what a kernel may read behind it are the 16 bytes that its last element lies in.
    stride = _padded(line, size) if lines == 1 else stride
    is_whole = line == 1 or x.stride(0 if is_col else 1) == 1
    if is_whole and _addressable(lines, line, stride, size, x.data_ptr()):
        return x, (x.data_ptr(), rows, cols, is_col, stride)
    padded = _padded(line, size)
    copy = x.new_empty((lines, padded))
    copy[:, :line].copy_(x.t() if is_col else x)
    return copy, (copy.data_ptr(), rows, cols, is_col, padded)


def vector_of(vector: Tensor) -> Tensor:
    """A vector as a kernel reads it: itself, or a copy."""
    vector = vector.resolve_neg().contiguous()
    return vector if vector.data_ptr() % 16 == 0 else vector.clone()


def further_of(
    further: Iterable[tuple[str, Any]], second: Tensor | None, is_col: bool
) -> tuple[tuple, list[float], list[Tensor]]:
    """What an epilogue reads - names with numbers, vectors, matrices that lie as the kernel's C does, and values of blocks - as it is
    described to a launch; the places of it and of a second result; and what keeps these alive."""
    described, places, alive = [], [], []
    for name, value in further:
        if not isinstance(value, Tensor):
            described.append((name, "scalar", "f32", 0, 0, 0))
            places.append(float(value))
            continue
        what, lies, array = "blocks", (0, 0, 0), value
        if value.dim() == 1:
            what, lies, array = "vector", (len(value), 1, 1), vector_of(value)
        elif value.dim() == 2:
            array, (_, rows, cols, _, stride) = operand_of(value, is_col)
            what, lies = "dense", (rows, cols, stride)
        else:
            array = values_of(value)
        described.append((name, what, _arrays.kind_of(value), *lies))
        places.append(array.data_ptr())
        alive.append(array)
    if second is not None:
        places.append(second.data_ptr())
    return tuple(described), places, alive


class Result:
    """Where a kernel writes a matrix: the tensor of the result, or a padded one that is copied there.

    A kernel that stores by TMA writes up to the next 16 bytes of each line, one that stores `elements` does not: a single line
    then lies where it is.
    """

    def __init__(self, out: Tensor, asked: bool | None = None, *, elements: bool = False) -> None:
        rows, cols = out.shape
        self.out = out
        self.is_col = _is_col(out, asked)
        lines, line = (cols, rows) if self.is_col else (rows, cols)
        padded = _padded(line, out.element_size())
        if padded == line or (elements and lines == 1):
            self.padded = None
            self.argument = (out.data_ptr(), rows, cols, self.is_col, padded)
        else:
            self.padded = out.new_empty((lines, padded))
            self.argument = (self.padded.data_ptr(), rows, cols, self.is_col, padded)

    def finish(self) -> None:
        """Copies the result to where it belongs."""
        if self.padded is not None:
            line = self.padded[:, : self.out.shape[0 if self.is_col else 1]]
            self.out.copy_(line.t() if self.is_col else line)


def laid(x: Tensor, layout: str) -> Tensor:
    """A matrix in the layout that a kernel reads: itself if it already has it."""
    return x.t().contiguous().t() if layout == "col" else x.contiguous()


def transposed(rows: int, cols: int, is_col: bool, stride: int) -> tuple[int, int, bool, int]:
    """The shape of the same memory, seen as the transposed matrix."""
    return cols, rows, not is_col, stride


def values_of(weight: Tensor) -> Tensor:
    """The values of stored blocks as a kernel reads them: themselves, or a copy."""
    values = weight.resolve_neg().contiguous()
    return values if values.data_ptr() % 16 == 0 else values.clone()


def lies_whole(kept: Tensor, line: int) -> bool:
    """Whether the rows of a matrix are whole vectors of 16 bytes, one after the other."""
    return kept.is_contiguous() and kept.data_ptr() % 16 == 0 and line * kept.element_size() % 16 == 0
