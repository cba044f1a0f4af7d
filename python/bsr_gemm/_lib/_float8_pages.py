"""V of a cache in float8 as kernels read it: pages by columns."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _arrays
from ._float8_values import GROUP, KIND, by_column, by_row
from ._native import Error


class ValuePages:
    """V of a cache of :func:`paged_attention` in ``float8_e4m3fn``, laid out as kernels read it: each page by columns.

    It is made of a cache as it is, ``v``: pages x heads x keys of a page x columns, or with ``kv_layout="NHD"`` pages x keys of a page
    x heads x columns, which is copied once; ``ValuePages.zeros`` is an empty one. :meth:`write` puts new values into it. What a page has
    behind the last key of a problem must be finite, as zeros and older values are.

    ``shape`` is pages x heads x keys of a page x columns. ``data`` is pages x heads x columns x keys of a page, of which each 16 are in
    the order 0, 1, 8, 9, 2, 3, 10, 11, and so on.
    """

    __slots__ = ("_with_spare", "shape")

    shape: tuple[int, int, int, int]

    def __init__(self, v: Tensor, kv_layout: str = "HND") -> None:
        if kv_layout not in ("HND", "NHD"):
            raise Error(f"kv_layout = {kv_layout!r}\n  help: HND or NHD")
        _arrays.check_dimensions("v", v, "pages, heads, keys, columns")
        if v.dtype is not KIND:
            raise Error(f"v is of {v.dtype}\n  help: float8_e4m3fn")
        v = (v if kv_layout == "HND" else v.transpose(1, 2)).detach()
        self._allocate(tuple(v.shape), v.device)
        self.data.copy_(by_column(v))

    @classmethod
    def zeros(cls, pages: int, heads: int, page: int, columns: int, device: torch.device | str = "cuda") -> ValuePages:
        """One of so many pages of ``page`` keys, whose values are zeros."""
        found = object.__new__(cls)
        found._allocate((pages, heads, page, columns), device)
        return found

    def _allocate(self, shape: tuple[int, int, int, int], device: torch.device | str) -> None:
        pages, heads, page, columns = self.shape = shape
        if page == 0 or page % GROUP:
            raise Error(
                f"pages of {page} keys\n  keys of a column lie in groups of {GROUP}\n"
                "  help: pages of 32, 64, 128 or 256 keys, which kernels read"
            )
        #: One page more than there are, which takes what is written to no slot.
        self._with_spare = torch.zeros(pages + 1, heads, columns, page, dtype=torch.uint8, device=device)

    @property
    def data(self) -> Tensor:
        """The pages as kernels read them."""
        return self._with_spare[:-1].view(KIND)

    @property
    def dtype(self) -> torch.dtype:
        """``torch.float8_e4m3fn``."""
        return KIND

    @property
    def device(self) -> torch.device:
        """Where it is stored."""
        return self._with_spare.device

    def write(self, values: Tensor, slots: Tensor) -> None:
        """Writes the values of new keys: ``values``, keys x heads x columns of ``float8_e4m3fn``, and the slot of each key, which is the number
        of its page times the keys of a page, plus its place there. A negative slot is none, as in vLLM's ``slot_mapping``.

        Nothing synchronizes, and a CUDA graph may capture it.
        """
        pages, heads, page, columns = self.shape
        fits = _arrays.is_tensor(values) and values.dtype is KIND and tuple(values.shape[1:]) == (heads, columns)
        if not fits or not _arrays.is_tensor(slots) or slots.shape != values.shape[:1]:
            found = [
                f"{list(x.shape)} of {x.dtype}" if _arrays.is_tensor(x) else type(x).__name__ for x in (values, slots)
            ]
            raise Error(
                f"values are {found[0]} and slots {found[1]}\n"
                f"  help: keys x {heads} heads x {columns} columns of {KIND}, and an integer for each key"
            )
        # The last page is the spare one.
        slots = slots.long().clamp(min=-1)
        row = slots.remainder(page)
        # Of a key its half of a group, its thread and which of two; of a place the thread, the half and which of two.
        place = (row & ~(GROUP - 1)) | (row & 6) << 1 | (row & 8) >> 2 | (row & 1)
        at = slots.div(page, rounding_mode="floor")
        self._with_spare[at, :, :, place] = values.contiguous().view(torch.uint8)

    def to_rows(self) -> Tensor:
        """V again as pages x heads x keys of a page x columns."""
        return by_row(self.data, self.shape[2])

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, self.shape))
        return f"ValuePages({sizes}, of {self.dtype} on {self.device})"
