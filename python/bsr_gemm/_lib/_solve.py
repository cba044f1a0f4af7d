"""Iterative solvers: on a GPU they stay there, on the CPU they are the same methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from . import _arrays, _native
from ._matrix import BsrMatrix, as_matrix
from ._native import Error

if TYPE_CHECKING:
    from torch import Tensor

#: What :func:`solve` takes as ``method``.
Method = Literal["cg", "bicgstab"]
#: What :func:`solve` takes as ``M``.
Preconditioner = Literal["block_jacobi"]


@overload
def solve(a: Any, b: np.ndarray, **options: Any) -> tuple[np.ndarray, int]: ...
@overload
def solve(a: Any, b: Tensor, **options: Any) -> tuple[Tensor, int]: ...
def solve(
    a: Any,
    b: Any,
    *,
    method: Method = "cg",
    x0: Any = None,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Preconditioner | None = "block_jacobi",  # noqa: N803
    callback: Callable[[float], Any] | None = None,
) -> tuple[Any, int]:
    """Solves ``a @ x = b``: ``x``, and 0 if the residual is small enough, otherwise the number of iterations.

    ``a`` is a square matrix of :func:`bsr_gemm`, of f64 or f32 values in blocks of up to 8 x 8, and ``b`` a vector of the same type
    and on the same device. ``"cg"``, conjugate gradients, is for symmetric positive definite matrices, which is not checked;
    ``"bicgstab"`` for others. The conventions are those of ``scipy.sparse.linalg``: the solve begins at ``x0`` or 0 and ends when
    ``norm(b - a @ x) <= max(rtol * norm(b), atol)``, with the residual that the method updates, or after ``maxiter``
    iterations, ten times the number of rows unless it is said. ``M`` is the preconditioner: the inverses of the diagonal blocks,
    or None.

    On a GPU all iterations stay there. ``callback`` is called with the norm of the residual of each iteration, in order, but for
    some iterations at a time; an exception of it is raised when the solve is over. On the CPU vectors and sums are in f64.

    :class:`Error` is raised if a method breaks down, with the iteration. No gradient is recorded.
    """
    if M not in ("block_jacobi", None):
        raise Error(f"M = {M!r} is no preconditioner\n  help: 'block_jacobi' or None")
    a = as_matrix(a, "the matrix")
    a, b = a.to_host() if a.pattern.on_device else a, _vector(a, b, "b")
    x = _arrays.empty_like(b, tuple(b.shape))
    x[:] = 0 if x0 is None else _vector(a, x0, "x0")
    how = (str(method), float(rtol), float(atol), None if maxiter is None else _count(maxiter))
    run = _on_gpu if _arrays.is_tensor(b) and b.device.type != "cpu" else _on_host
    iterations, converged = run(a, b, x, how, M is not None, callback)
    return x, 0 if converged else iterations


def _count(maxiter: int) -> int:
    if maxiter < 0:
        raise Error(f"maxiter = {maxiter} is no number of iterations\n  help: maxiter >= 0, or None")
    return int(maxiter)


def _vector(a: BsrMatrix, vector: Any, name: str) -> Any:
    """A vector of the matrix's rows, contiguous and of its type."""
    vector, values = _arrays.as_array(vector), a.values
    if _arrays.is_tensor(vector) != _arrays.is_tensor(values):
        kinds = ["a tensor" if _arrays.is_tensor(array) else "an array of NumPy" for array in (vector, values)]
        raise Error(f"{name} is {kinds[0]}, and the matrix has {kinds[1]}\n  help: convert one of them")
    if tuple(vector.shape) == (a.shape[0], 1):
        vector = vector[:, 0]
    if tuple(vector.shape) != (a.shape[0],):
        found = " x ".join(map(str, vector.shape)) or "a number"
        raise Error(f"{name} is {found}, and the matrix is {a.shape[0]} x {a.shape[1]}\n  help: one vector of its rows")
    kind, expected = _arrays.kind_of(vector), _arrays.kind_of(values)
    if kind != expected or kind not in ("f64", "f32"):
        raise Error(f"{name} is of {kind}, and the matrix of {expected}\n  help: f64, or f32, for both")
    if _arrays.is_tensor(vector):
        if vector.device != values.device:
            raise Error(f"{name} is on {vector.device}, and the matrix on {values.device}\n  help: move one of them")
        vector = vector.detach()
    return _arrays.contiguous(vector)


def _on_host(a: BsrMatrix, b: Any, x: Any, how: tuple, is_preconditioned: bool, callback: Any) -> tuple[int, bool]:
    alive, values = _arrays.stored(a.values, a.pattern)
    places = _arrays.address_of(b), _arrays.address_of(x)
    ended = _native.solve_on_host(a.pattern._native, values, *places, how, is_preconditioned, callback)
    del alive
    return ended


def _on_gpu(a: BsrMatrix, b: Any, x: Any, how: tuple, is_preconditioned: bool, callback: Any) -> tuple[int, bool]:
    import torch

    from ._gpu import gpu_of

    alive, values = _arrays.stored(a.values.detach(), a.pattern)
    diagonal = alive[_arrays.index(_diagonal(a.pattern), alive)].cpu().contiguous() if is_preconditioned else None
    residual = b.clone()
    # The solver has a stream of its own, and waits for it.
    torch.cuda.current_stream(b.device).synchronize()
    places = _arrays.address_of(residual), _arrays.address_of(x)
    at = None if diagonal is None else _arrays.address_of(diagonal)
    gpu = gpu_of(b.device.index)
    ended = _native.solve_on_gpu(gpu, a.pattern._native, values, *places, how, at, callback)
    del alive, diagonal, residual
    return ended


def _diagonal(pattern: Any) -> np.ndarray:
    """The stored blocks on the diagonal."""
    rows = np.repeat(np.arange(len(pattern.row_ptr) - 1), np.diff(pattern.row_ptr))
    return np.flatnonzero(rows == pattern.col_idx)
