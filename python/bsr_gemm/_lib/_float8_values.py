"""V of an attention in float8 as kernels read it: by columns."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _arrays
from ._native import Error

#: The type of Q, K and V.
KIND = torch.float8_e4m3fn
#: Keys whose order in V is that of the products of a thread, and bytes of a line of V.
GROUP = 16


class ValuesByColumn:
    """V of an attention in ``float8_e4m3fn``, laid out once as the kernels read it.

    In the place of ``v`` of :func:`attention` no call copies it. ``v`` is problems x heads x keys x columns, or with
    ``layout="bshd"`` problems x keys x heads x columns; ``shape`` is the former. What ``v`` is changed to later is not seen.
    ``data`` is problems x heads x columns x keys, up to a multiple of 16 keys, of which each 16 are in the order
    0, 1, 8, 9, 2, 3, 10, 11, and so on.
    """

    __slots__ = ("data", "shape")

    data: Tensor
    shape: tuple[int, int, int, int]

    def __init__(self, v: Tensor, layout: str = "bhsd") -> None:
        if layout not in ("bhsd", "bshd"):
            raise Error(f"layout = {layout!r}\n  help: bhsd or bshd")
        _arrays.check_dimensions("v", v, layout)
        if v.dtype is not KIND:
            raise Error(f"v is of {v.dtype}\n  help: float8_e4m3fn, which `quantise_attention` makes")
        v = (v if layout == "bhsd" else v.transpose(1, 2)).detach()
        self.data, self.shape = by_column(v), tuple(v.shape)

    @property
    def dtype(self) -> torch.dtype:
        """``torch.float8_e4m3fn``."""
        return self.data.dtype

    @property
    def device(self) -> torch.device:
        """Where it is stored."""
        return self.data.device

    def to_rows(self) -> Tensor:
        """V again as problems x heads x keys x columns."""
        return by_row(self.data, self.shape[2])

    def stand_in(self, layout: str) -> Tensor:
        """A tensor of V's sizes in the order of a layout, which takes no memory."""
        seen = self.data.new_empty(1).expand(self.shape)
        return seen if layout == "bhsd" else seen.transpose(1, 2)

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, self.shape))
        return f"ValuesByColumn({sizes}, of {self.dtype} on {self.device})"


def by_column(v: Tensor) -> Tensor:
    """V as kernels of 8 bits read it: problems x heads x columns x keys, up to a whole number of groups of 16 keys, in which the
    keys of a thread's products follow each other."""
    problems, heads, keys, columns = v.shape
    places = -(-max(keys, 1) // GROUP) * GROUP
    bytes_ = v.contiguous().view(torch.uint8)
    bytes_ = torch.nn.functional.pad(bytes_, (0, 0, 0, places - keys))
    # Of a key its group, half, thread and which of two; of a place the group, thread, half and which of two.
    of_keys = bytes_.reshape(problems, heads, places // GROUP, 2, 4, 2, columns)
    return of_keys.permute(0, 1, 6, 2, 4, 3, 5).reshape(problems, heads, columns, places).view(v.dtype)


def by_row(data: Tensor, keys: int) -> Tensor:
    """Of what :func:`by_column` returns so many keys again: problems x heads x keys x columns."""
    problems, heads, columns, _ = data.shape
    bytes_ = data.view(torch.uint8).reshape(problems, heads, columns, -1, 4, 2, 2)
    by_rows = bytes_.permute(0, 1, 3, 5, 4, 6, 2).reshape(problems, heads, -1, columns)
    return by_rows[:, :, :keys].contiguous().view(data.dtype)
