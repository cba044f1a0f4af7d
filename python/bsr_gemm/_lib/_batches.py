"""Products of different matrices in one launch."""

from __future__ import annotations

from collections import deque
from typing import Any

from . import _arrays
from ._matrix import BsrMatrix, as_matrix
from ._native import Error
from ._products import linear

#: Batches that were launched and whose work may not be done, with what says that it is.
_pending: deque[tuple[Any, Batch]] = deque()


class Batch:
    """``x @ w.T`` of many pairs, prepared once: a launch computes all of them on a GPU at once.

    Matrices of one batch have blocks of one size and one element type; their shapes, patterns and numbers of rows differ.
    ``launch`` writes to the same ``results`` each time, and reads what the operands hold then. On a GPU nothing is allocated
    and nothing synchronizes in a launch, so that CUDA graphs capture it. There are no gradients.
    """

    def __init__(self, xs: Any, ws: Any) -> None:
        self.xs, self.ws = [_arrays.as_array(x) for x in xs], _matrices(ws)
        _check(self.xs, self.ws)
        first = self.ws[0].values
        self.results: list[Any]
        self._prepared: tuple | None = None
        self.on_gpu = _arrays.is_tensor(first) and first.is_cuda
        if self.on_gpu:
            from . import _launch

            self.results, self._prepared = _launch.prepare_batch(self.xs, self.ws)
        else:
            self.results = [linear(x, w) for x, w in zip(self.xs, self.ws)]

    def launch(self) -> list[Any]:
        """Computes all products; the results, each time the same arrays."""
        if self._prepared is not None:
            from . import _launch

            _launch.launch_batch(self._prepared, self.xs[0].device.index)
        else:
            for result, x, w in zip(self.results, self.xs, self.ws):
                result[...] = linear(x, w)
        return self.results


def linear_batch(xs: Any, ws: Any) -> list[Any]:
    """``x @ w.T`` of many pairs, on a GPU in one launch: experts of a mixture, for instance.

    While a gradient is recorded they are computed one after the other, as :func:`linear` does. Where the same tensors are
    multiplied again, a :class:`Batch` prepares them once.
    """
    xs, ws = [_arrays.as_array(x) for x in xs], _matrices(ws)
    _check(xs, ws)
    first = ws[0].values
    if not (_arrays.is_tensor(first) and first.is_cuda) or _is_more_than_a_launch(xs, ws):
        return [linear(x, w) for x, w in zip(xs, ws)]
    import torch

    while _pending and _pending[0][0].query():
        _pending.popleft()
    batch = Batch(xs, ws)
    batch.launch()
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(first.device))
    _pending.append((done, batch))
    return batch.results


def _is_more_than_a_launch(xs: list[Any], ws: list[BsrMatrix]) -> bool:
    import torch

    if torch.is_autocast_enabled(xs[0].device.type):
        return True  # The operators know its types.
    return torch.is_grad_enabled() and any(x.requires_grad or w.values.requires_grad for x, w in zip(xs, ws))


def _matrices(ws: Any) -> list[BsrMatrix]:
    return [as_matrix(w, f"matrix {at}") for at, w in enumerate(ws)]


def _check(xs: list[Any], ws: list[Any]) -> None:
    if len(xs) != len(ws) or not ws:
        raise Error(
            f"{len(xs)} operands and {len(ws)} matrices\n  help: give one matrix for each operand, and at least one"
        )
    for at, (x, w) in enumerate(zip(xs, ws)):
        _arrays.check_stored(w.values, w.pattern)
        if len(x.shape) != 2 or x.shape[1] != w.shape[1]:
            shape = " x ".join(map(str, x.shape))
            raise Error(
                f"operand {at} is {shape}, and its matrix is {w.shape[0]} x {w.shape[1]}\n  help: x is rows x inputs"
            )
        if w.block != ws[0].block or w.dtype != ws[0].dtype:
            (bm, bk), (first_bm, first_bk) = w.block, ws[0].block
            raise Error(
                f"matrix {at} has blocks of {bm} x {bk} of {w.dtype}, and matrix 0 of {first_bm} x {first_bk} of "
                f"{ws[0].dtype}\n  help: matrices of one batch have one size of blocks and one type"
            )
        if x.dtype != w.dtype or _arrays.is_tensor(x) != _arrays.is_tensor(w.values):
            raise Error(
                f"operand {at} is a {type(x).__name__} of {x.dtype}, and its matrix of {w.dtype}\n  help: convert it"
            )
        devices = {str(array.device) for array in (x, w.values, ws[0].values) if _arrays.is_tensor(array)}
        if len(devices) > 1:
            raise Error(
                f"the operands of product {at} are on {' and '.join(sorted(devices))}\n  help: move them to one"
            )
