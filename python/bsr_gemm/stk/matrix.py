"""Matrices of ``stk``: values of square blocks, and tensors with their places."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from .._lib._device_patterns import DevicePattern
from .._lib._native import Error
from .._lib._patterns import Pattern
from .._lib._places import version_of

#: Patterns by the tensor of their block columns, with what else they were made of.
_patterns = WeakTensorKeyDictionary()


class Matrix:
    """A matrix of square blocks: ``data`` is blocks x rows x columns, ``offsets`` where each block row begins among them.

    ``row_indices`` and ``column_indices`` are the place of each block, ascending within a block row. ``column_indices_t``, ``offsets_t`` and
    ``block_offsets_t`` are those of the transposed matrix and the order of its blocks; they are computed where they are asked for
    unless they are given. :meth:`t` copies nothing. Dimensions before the last one are rows.
    """

    def __init__(
        self,
        size: Any,
        data: Tensor,
        row_indices: Tensor,
        column_indices: Tensor,
        offsets: Tensor,
        column_indices_t: Tensor | None = None,
        offsets_t: Tensor | None = None,
        block_offsets_t: Tensor | None = None,
    ) -> None:
        self._size, self.data = torch.Size(size), data
        self.row_indices, self.column_indices, self.offsets = row_indices, column_indices, offsets
        given = column_indices_t, offsets_t, block_offsets_t
        self._of_transposed: tuple | None = None if any(tensor is None for tensor in given) else given
        self._transposed = False
        if not column_indices.dtype.is_floating_point:
            most = torch.iinfo(column_indices.dtype).max
            if max(self._stored_size()) > most * self.blocking:
                raise Error(
                    f"a matrix of {self._words()} has more than {most} blocks of {self.blocking} in a dimension\n"
                    f"  help: indices of more bits than {column_indices.dtype}"
                )

    def validate(self) -> None:
        """Raises an error where tensors do not fit each other. On a GPU the values of the indices are not looked at."""
        data, (rows, columns) = self.data, self._stored_size()
        if data.dim() != 3 or data.shape[1] != data.shape[2] or rows % data.shape[1] or columns % data.shape[1]:
            raise Error(
                f"data is {' x '.join(map(str, data.shape))} for a matrix of {self._words()}\n"
                "  help: blocks x side x side, and sides that divide rows and columns"
            )
        indices, offsets = {"row_indices": self.row_indices, "column_indices": self.column_indices}, self.offsets
        for name, tensor in indices.items():
            if tuple(tensor.shape) != (len(data),) or tensor.dtype.is_floating_point:
                raise Error(
                    f"{name} is {list(tensor.shape)} of {tensor.dtype}\n  help: {len(data)} integers, one for each block"
                )
        if tuple(offsets.shape) != (rows // data.shape[1] + 1,) or offsets.dtype not in (torch.int32, torch.int64):
            raise Error(
                f"offsets is {list(offsets.shape)} of {offsets.dtype}\n  help: {rows // data.shape[1] + 1} of int32 or int64, one for each "
                "block row and the end"
            )
        places = {tensor.device for tensor in (*indices.values(), offsets)}
        if len(places) > 1 or data.device.type not in ("meta", offsets.device.type):
            raise Error(
                f"data is on {data.device}, and indices on {', '.join(map(str, places))}\n  help: `.to(device)`"
            )
        if offsets.device.type == "cpu":
            self.pattern()

    def pattern(self) -> Any:
        """The pattern of the matrix that is not transposed, made once for its tensors: on a GPU nothing is copied to the host."""
        columns, offsets = self.column_indices, self.offsets
        versions = version_of(offsets), version_of(columns)
        state = offsets, versions, self._stored_size(), self.blocking
        known = _patterns.get(columns)
        if known is None or None in versions or known[0][0] is not offsets or known[0][1:] != state[1:]:
            of_blocks = state[2], (self.blocking, self.blocking)
            # Another tensor of the same elements: the pattern must not keep the one by which it is found.
            lists = [offsets.int().detach(), columns.int().detach()]
            if offsets.is_cuda:
                known = state, DevicePattern(*of_blocks, *lists)
            else:
                known = state, Pattern(*of_blocks, *(index.numpy() for index in lists))
            _patterns[columns] = known
        return known[1]

    def _stored_size(self) -> tuple[int, int]:
        """Rows and columns of the matrix whose blocks are stored."""
        rows, columns = math.prod(self._size[:-1]), self._size[-1]
        return (columns, rows) if self._transposed else (rows, columns)

    def _words(self) -> str:
        return " x ".join(map(str, self._size))

    def _transpose(self) -> tuple[Tensor, Tensor, Tensor]:
        if self._of_transposed is None:
            columns = self.column_indices.long()
            order = columns.argsort(stable=True)
            counts = torch.zeros(self._stored_size()[1] // self.blocking + 1, dtype=torch.int32, device=columns.device)
            counts.scatter_add_(0, columns + 1, torch.ones_like(columns, dtype=torch.int32))
            ends = counts.cumsum(0, dtype=torch.int32)
            self._of_transposed = self.row_indices[order], ends, order.int()
        return self._of_transposed

    @property
    def column_indices_t(self) -> Tensor:
        return self._transpose()[0]

    @property
    def offsets_t(self) -> Tensor:
        return self._transpose()[1]

    @property
    def block_offsets_t(self) -> Tensor:
        return self._transpose()[2]

    def with_data(self, data: Tensor) -> Matrix:
        """A matrix with the same places and other values."""
        return self._mapped(lambda tensor: tensor, data)

    def _mapped(self, change: Any, data: Tensor | None) -> Matrix:
        built = Matrix.__new__(Matrix)
        built._size, built._transposed = self._size, self._transposed
        built.data = change(self.data) if data is None else data
        for name in ("row_indices", "column_indices", "offsets"):
            setattr(built, name, change(getattr(self, name)))
        built._of_transposed = None if self._of_transposed is None else tuple(map(change, self._of_transposed))
        return built

    def clone(self) -> Matrix:
        return self._mapped(torch.clone, None)

    def to(self, device: Any) -> Matrix:
        """Moves the matrix itself, as ``stk`` does."""
        self.__dict__.update(self._mapped(lambda tensor: tensor.to(device), None).__dict__)
        return self

    def cuda(self) -> Matrix:
        return self.to("cuda")

    def t(self) -> Matrix:
        if self.dim() != 2:
            raise Error(f"a matrix of {self._words()} has no transposed one\n  help: `x.view(rows, columns)` first")
        built = self.with_data(self.data)
        built._size, built._transposed = torch.Size(self._size[::-1]), not self._transposed
        return built

    def contiguous(self) -> Matrix:
        """The matrix itself; of a transposed one a copy whose blocks are stored in the order of its rows."""
        if not self._transposed:
            return self
        columns, offsets, order = self._transpose()
        rows = self.column_indices[order.long()]
        data = self.data[order.long()].transpose(1, 2).contiguous()
        return Matrix(self._size, data, rows, columns, offsets)

    def is_contiguous(self) -> bool:
        return not self._transposed

    def view(self, *shape: int) -> Matrix:
        if self._transposed or shape[-1] != self._size[-1] or math.prod(shape) != math.prod(self._size):
            raise Error(
                f"a matrix of {self._words()} is not viewed as {' x '.join(map(str, shape))}\n"
                "  help: the same columns and as many rows, of a matrix that is not transposed"
            )
        built = self.with_data(self.data)
        built._size = torch.Size(shape)
        return built

    def size(self) -> torch.Size:
        return self._size

    def dim(self) -> int:
        return len(self._size)

    def requires_grad_(self, requires_grad: bool = True) -> Matrix:
        self.data.requires_grad_(requires_grad)
        return self

    @property
    def shape(self) -> torch.Size:
        return self._size

    @property
    def nnz(self) -> int:
        return self.data.numel()

    @property
    def blocking(self) -> int:
        """Rows and columns of a block."""
        return self.data.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.data.dtype

    @property
    def device(self) -> torch.device:
        return self.data.device

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    @property
    def requires_grad(self) -> bool:
        return self.data.requires_grad

    @property
    def grad(self) -> Matrix | None:
        return None if self.data.grad is None else self.with_data(self.data.grad)

    def __repr__(self) -> str:
        transposed = ", transposed" if self._transposed else ""
        return f"Matrix({self._words()} of {self.dtype}, {len(self.data)} blocks of {self.blocking}{transposed}, {self.device})"
