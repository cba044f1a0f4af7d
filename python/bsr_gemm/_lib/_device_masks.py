"""Masks of attention as tensors of PyTorch, which may change between calls: on a GPU the host never looks at them."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._block_flags import Derivation, of_lists, of_scores
from ._conditions import CAUSAL, condition_of
from ._device_patterns import DevicePattern, check_lists
from ._mask_arrays import counted, per_of
from ._masks import AttentionMask, _alive
from ._native import Error
from ._patterns import _pair, grid_of

_numbers = itertools.count()


class DeviceMask:
    """The blocks of Q K^T that an attention computes, as tensors: lists of 32 or 64 bits, or a byte for every block.

    ``sizes``, ``block``, ``per`` and ``mask`` are those of an :class:`AttentionMask`. The patterns lie one below the other:
    ``indptr`` is where each row of blocks of the first pattern begins, then of the second, and where the last one ends;
    ``indices`` are the block columns. ``partial`` has a boolean for each of them: whether only those pairs count there for which ``mask`` holds;
    where nothing says it, ``mask`` counts in every stored block.
    ``capacity`` is the most blocks that are ever stored; without it ``indices`` have as many places.

    A program that has written into the tensors calls :meth:`changed`; the next attention checks them, and lists its work, in
    kernels of its own. A row of blocks that is wrong has no blocks, and :meth:`check` tells what is wrong. On a GPU nothing of
    this synchronizes but ``check`` and ``to_mask``.
    """

    __slots__ = (
        "__weakref__",
        "_bytes",
        "_derivation",
        "_host",
        "_is_scored",
        "_partial",
        "_pattern",
        "_scored",
        "_view",
        "block",
        "calls",
        "generation",
        "key",
        "mask",
        "patterns",
        "per",
        "sizes",
    )

    #: Masks of the host are another class.
    on_device = True

    def __init__(
        self,
        sizes: Any,
        block: Any,
        indptr: Tensor,
        indices: Tensor,
        partial: Tensor | None = None,
        *,
        per: str = "all",
        mask: str | None = None,
        capacity: int | None = None,
    ) -> None:
        self._start(sizes, block, mask)
        rows, columns = self.grid
        starts = len(indptr) - 1 if isinstance(indptr, Tensor) and indptr.dim() == 1 else rows
        patterns = starts // max(1, rows)
        if (
            per not in ("all", "head", "problem", "both")
            or (per == "all" and starts != rows)
            or starts != patterns * rows
        ):
            raise Error(
                f"{starts + 1} row starts and per = {per!r}, of {rows} rows of blocks\n"
                "  help: one more than all patterns have rows; per = all, head, problem or both says whose they are"
            )
        capacity = len(indices) if capacity is None else int(capacity)
        check_lists({"indptr": indptr, "indices": indices}, starts, capacity)
        if partial is not None and not _is_flags(partial, indices.device, 1, capacity):
            raise Error(
                f"partial is {_described(partial)}\n  help: a contiguous tensor of {capacity} booleans on {indices.device}"
            )
        (bm, bk), self.per, self.patterns, self._partial = self.block, per, patterns, partial
        self._is_scored = mask is not None and partial is None
        self._pattern = DevicePattern((starts * bm, columns * bk), self.block, indptr, indices, capacity)

    _bytes: Tensor | None
    _derivation: Derivation | None
    _partial: Tensor | None
    block: tuple[int, int]
    sizes: tuple[int, int]

    @classmethod
    def from_blocks(
        cls,
        blocks: Tensor,
        sizes: Any,
        block: Any = (128, 128),
        *,
        mask: str | None = None,
        capacity: int | None = None,
    ) -> DeviceMask:
        """The blocks where ``blocks`` is not zero, read where it lies: booleans, or bytes, of which 1 is a whole block and 2 a
        partial one.

        It is ``[rows, columns]`` of blocks, or ``[problems, heads, rows, columns]``, where 1 stands for all.
        """
        built = object.__new__(cls)
        built._start(sizes, block, mask)
        shape = tuple(blocks.shape) if isinstance(blocks, Tensor) else ()
        if len(shape) not in (2, 4) or shape[-2:] != built.grid or not _is_flags(blocks, blocks.device, len(shape), 0):
            rows, columns = built.grid
            raise Error(
                f"blocks is {_described(blocks)}\n  help: a contiguous tensor of {rows} x {columns} booleans or bytes, or of "
                "problems x heads x them"
            )
        (rows, columns), (bm, bk) = built.grid, built.block
        built.per = per_of(*shape[:-2]) if len(shape) == 4 else "all"
        flat = blocks.flatten(0, -2)
        built.patterns, built._bytes = len(flat) // max(1, rows), blocks
        built._is_scored = mask is not None and blocks.dtype == torch.bool
        room = blocks.numel() if capacity is None else int(capacity)
        built._pattern = DevicePattern.from_mask(flat, (len(flat) * bm, columns * bk), built.block, room)
        return built

    @classmethod
    def from_block_mask(cls, block_mask: Any, *, mask: str | None = None, capacity: int | None = None) -> DeviceMask:
        """The blocks of FlexAttention's ``BlockMask``, which is not copied to the host: those of its ``kv`` lists are partial,
        those of ``full_kv`` are not. An entry that is no block is left out.

        A ``mask_mod`` is a function of Python, which is not read: ``mask`` says in text what it says. After the lists have
        changed, :meth:`changed` has the next attention read them again.
        """
        sizes, block = tuple(block_mask.seq_lengths), tuple(block_mask.BLOCK_SIZE)
        lists = [(block_mask.kv_num_blocks, block_mask.kv_indices, 2)]
        if block_mask.full_kv_num_blocks is not None:
            # A block of both lists is partial.
            lists.insert(0, (block_mask.full_kv_num_blocks, block_mask.full_kv_indices, 1))
        return cls._derived(functools.partial(of_lists, lists, grid_of(sizes, block)), sizes, block, mask, capacity)

    @classmethod
    def top_k(
        cls,
        scores: Tensor,
        sizes: Any,
        block: Any = (128, 128),
        *,
        count: int,
        threshold: float | None = None,
        causal: bool = False,
        capacity: int | None = None,
    ) -> DeviceMask:
        """The ``count`` blocks of each row of blocks with the greatest ``scores``, of equal ones the first: ``[rows, columns]`` of
        blocks, or ``[problems, heads, rows, columns]``, where 1 stands for all.

        Blocks whose score is not above ``threshold``, is minus infinity or NaN are not stored. With ``causal`` only keys up to
        their query count, and only blocks that have such keys are chosen. After the scores have changed in place,
        :meth:`changed` has the next attention choose again, where the scores are.
        """
        grid, number = grid_of(_pair(sizes, "sizes"), _pair(block, "block")), counted(count, "count")
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else ()
        if len(shape) not in (2, 4) or shape[-2:] != grid or not scores.dtype.is_floating_point:
            raise Error(
                f"scores is {_described(scores)}\n  help: floating-point numbers for {grid[0]} x {grid[1]} blocks, or for problems x "
                "heads x them"
            )
        limits = (_pair(sizes, "sizes"), _pair(block, "block")) if causal else None
        compute = functools.partial(of_scores, scores, number, threshold, limits)
        room = scores.numel() // max(1, grid[1]) * min(number, grid[1]) if capacity is None else capacity
        return cls._derived(compute, sizes, block, CAUSAL if causal else None, room)

    @classmethod
    def _derived(
        cls, compute: Callable[[], Tensor], sizes: Any, block: Any, mask: str | None, capacity: int | None
    ) -> DeviceMask:
        """The mask of flags that are computed of other tensors, now and after every change."""
        flags = compute().contiguous()
        built = cls.from_blocks(flags, sizes, block, mask=mask, capacity=capacity)
        built._derivation = Derivation(compute, flags)
        return built

    def _start(self, sizes: Any, block: Any, mask: str | None) -> None:
        self.sizes, self.block = _pair(sizes, "sizes"), _pair(block, "block")
        self.mask = None if mask is None else condition_of(mask).text
        if min(self.block) < 1:
            raise Error(f"blocks of {self.block[0]} x {self.block[1]}\n  help: sizes of at least 1")
        self._partial, self._bytes, self._derivation, self._is_scored = None, None, None, False
        self._registered(f"device-mask:{next(_numbers)}")

    def _registered(self, key: str) -> None:
        self.key = key
        self._host: AttentionMask | None = None
        self._view: Any = None
        self._scored: DeviceMask | None = None
        #: How often the tensors have changed.
        self.generation = 0
        #: What calls of attention are with this mask.
        self.calls: dict[tuple, tuple] = {}
        known: Any = _alive
        known[key] = self

    # The interface of a mask.

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of blocks of a pattern."""
        return grid_of(self.sizes, self.block)

    @property
    def capacity(self) -> int:
        """The most blocks that all patterns store in total."""
        return self._pattern.capacity

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self._pattern.device

    @property
    def has_partial(self) -> bool:
        """Whether only some pairs may count in any block."""
        has_bytes = self._bytes is not None and self._bytes.dtype == torch.uint8
        return self._is_scored or self._partial is not None or has_bytes

    def changed(self) -> None:
        """Says that the tensors have changed, or will have when the next attention runs."""
        self._host = None
        self.generation += 1
        self._pattern.changed()
        if self._derivation is not None:
            self._derivation.is_current = False
        if self._view is not None:
            self._view.changed()
        if self._scored is not None:
            self._scored.changed()

    def check(self) -> None:
        """Waits for the device, and raises what the attentions so far have found to be wrong, once."""
        if self._view is not None:
            self._view.check()
        if self._scored is not None:
            self._scored.check()
        self._pattern.check()

    def to_mask(self) -> AttentionMask:
        """The mask as it is now, on the host, after all work on the device; a wrong row has no blocks."""
        if self._host is None or self.device.type != "cpu":
            self._host = self._read()
        return self._host

    def _read(self) -> AttentionMask:
        if self._derivation is not None:
            self._derivation.refresh()
        pattern, order = self._pattern.host()
        if self._is_scored:
            partial = np.ones(len(order), dtype=bool)
        elif self._bytes is not None:
            partial = self._bytes.flatten(0, -2).cpu().numpy()[pattern.row_idx, pattern.col_idx] > 1
        elif self._partial is not None:
            partial = self._partial.cpu().numpy()[order] != 0
        else:
            partial = np.zeros(len(order), dtype=bool)
        rows, starts = self.grid[0], pattern.row_ptr.astype(np.int64)
        lists = []
        for at in range(self.patterns):
            of_rows = starts[at * rows : (at + 1) * rows + 1]
            blocks = slice(of_rows[0], of_rows[-1])
            lists.append((of_rows - of_rows[0], pattern.col_idx[blocks], partial[blocks]))
        return AttentionMask._listed(self.sizes, self.block, lists, self.per, self.mask)

    def scored(self) -> DeviceMask:
        """The same blocks, all of them partial: the score is computed everywhere."""
        if self._is_scored:
            return self
        if self._scored is None:
            built = object.__new__(DeviceMask)
            for name in ("sizes", "block", "mask", "per", "patterns", "_bytes", "_derivation", "_pattern"):
                setattr(built, name, getattr(self, name))
            built._partial, built._is_scored = None, True
            built._registered(f"{self.key}:scored")
            self._scored = built
        return self._scored

    @property
    def _native(self) -> Any:
        return self.to_mask()._native

    # On a GPU.

    def on_gpu(self, index: int) -> Any:
        """The view of the tensors that kernels read."""
        if self._view is None:
            from . import _gpu

            if self.device.type != "cuda" or self.device.index != index:
                raise Error(f"the mask is on {self.device}, and q on cuda:{index}\n  help: move them to one device")
            tensors = self._pattern._tensors()
            wide = tensors[0].dtype == torch.int64
            places = [tensor.data_ptr() for tensor in tensors]
            flags = 0 if self._partial is None else self._partial.data_ptr()
            arrays = (places[0], places[1] if len(places) > 1 else 0, flags)
            self._view = _gpu._native.DeviceMask(
                _gpu.gpu_of(index),
                self.sizes,
                self.block,
                (self.per, self.patterns),
                self.capacity,
                wide,
                arrays,
                self._is_scored,
            )
            weakref.finalize(self, _gpu.forget_mask, self.key)
        return self._view

    def launching(self, launch: Callable) -> Callable:
        """A launch with this mask: where its bytes are made of lists, they are made ahead of it."""
        return launch if self._derivation is None else functools.partial(_refreshed, self._derivation, launch)

    def __reduce__(self):
        how = {"mask": self.mask, "capacity": self.capacity}
        if self._derivation is not None:
            self._derivation.refresh()
        if self._bytes is not None:
            return functools.partial(DeviceMask.from_blocks, **how), (self._bytes, self.sizes, self.block)
        lists = (self._pattern.row_ptr, self._pattern.col_idx, self._partial)
        return functools.partial(DeviceMask, per=self.per, **how), (self.sizes, self.block, *lists)

    def __repr__(self) -> str:
        (queries, keys), (bm, bk) = self.sizes, self.block
        per = "" if self.per == "all" else f", per {self.per}"
        return f"DeviceMask({queries} x {keys}, up to {self.capacity} blocks of {bm} x {bk}{per}, on {self.device})"


def _refreshed(derivation: Derivation, launch: Callable, *places: int) -> None:
    derivation.refresh()
    launch(*places)


def _is_flags(tensor: Any, device: torch.device, dims: int, least: int) -> bool:
    fits = isinstance(tensor, Tensor) and tensor.dtype in (torch.bool, torch.uint8) and tensor.dim() == dims
    return fits and tensor.device == device and len(tensor) >= least and tensor.is_contiguous()


def _described(tensor: Any) -> str:
    if not isinstance(tensor, Tensor):
        return f"a {type(tensor).__name__}"
    strided = "" if tensor.is_contiguous() else ", not contiguous"
    return f"{' x '.join(map(str, tensor.shape))} of {tensor.dtype} on {tensor.device}{strided}"
