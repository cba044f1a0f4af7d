"""Solvers on GPUs, kept for the matrices that they solve with: kernels, vectors and CUDA graphs."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import torch

from . import _arrays, _gpu, _native
from ._matrix import BsrMatrix

#: Solvers that are kept, those that were used last. Each has the vectors of its method, of GMRES a basis.
KEPT = 8

_kept: OrderedDict[tuple, Kept] = OrderedDict()
_gpu.further_caches.append(_kept)


class Kept:
    """A solver of one method, and the tensors whose addresses its graph has."""

    def __init__(self, owner: Any, key: tuple, a: BsrMatrix, b: Any, method: tuple) -> None:
        # Freed with what the user has the matrix in.
        self.owner = weakref.ref(owner, lambda _: _kept.pop(key, None))
        self.residual, self.x = torch.empty_like(b), torch.empty_like(b)
        self.places = _arrays.index(_diagonal(a.pattern), b) if method[2] else None
        self.diagonal = None
        alive, values = _arrays.stored(a.values.detach(), a.pattern)
        vectors = _arrays.address_of(self.residual), _arrays.address_of(self.x), _arrays.kind_of(b)
        gpu = _gpu.gpu_of(b.device.index)
        self.solver = _native.Solver(gpu, a.pattern._native, values, vectors, method)
        del alive

    def run(self, a: BsrMatrix, vectors: tuple, limits: tuple, told: Any, seen: Any) -> tuple[Any, int, int]:
        b, x0 = vectors
        # The graph has their address, and is captured anew for another one.
        values, (address, _, _) = _arrays.stored(a.values.detach(), a.pattern)
        self.solver.set_values(address)
        if self.places is not None:
            self._precondition(values[self.places])
        self.residual.copy_(b)
        self.x.zero_() if x0 is None else self.x.copy_(x0)
        stream = torch.cuda.current_stream(b.device)
        # The solver has a stream of its own, and waits for it.
        stream.synchronize()
        ended = self.solver.run(limits, told, None if seen is None else lambda: self._seen(seen))
        del values
        return self.x.clone(), *ended

    def _precondition(self, diagonal: Any) -> None:
        """Inverts the diagonal blocks, unless they are those of the last solve."""
        if self.diagonal is None or not torch.equal(diagonal, self.diagonal):
            self.diagonal = None
            host = diagonal.cpu().contiguous()
            self.solver.set_diagonal(_arrays.address_of(host))
            self.diagonal = diagonal

    def _seen(self, seen: Any) -> None:
        copied = self.x.clone()
        # The solver writes to x next.
        torch.cuda.current_stream(self.x.device).synchronize()
        seen(copied)


def solve_on_gpu(owner: Any, a: BsrMatrix, vectors: tuple, how: tuple, told: Any, seen: Any) -> tuple[Any, int, int]:
    """A solve with the solver that is kept for this owner of the matrix, or with a new one: x, iterations and how it ended."""
    (method, limits), b = how, vectors[0]
    kinds = _arrays.kind_of(a.values), _arrays.kind_of(b)
    key = (b.device.index, id(owner), a.pattern.key, kinds, method)
    with _gpu.OnDevice(b.device.index):
        # A solver serves one solve at a time: those of another thread and of a callback have their own.
        kept = _kept.pop(key, None)
        if kept is None or kept.owner() is not owner:
            kept = Kept(owner, key, a, b, method)
        try:
            return kept.run(a, vectors, limits, told, seen)
        finally:
            _kept[key] = kept
            while len(_kept) > KEPT:
                _kept.popitem(last=False)


def _diagonal(pattern: Any) -> np.ndarray:
    """The stored blocks on the diagonal."""
    rows = np.repeat(np.arange(len(pattern.row_ptr) - 1), np.diff(pattern.row_ptr))
    return np.flatnonzero(rows == pattern.col_idx)
