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
Method = Literal["cg", "bicgstab", "gmres"]
#: What :func:`solve` takes as ``M``.
Preconditioner = Literal["block_jacobi"]
#: What :func:`solve` takes as ``callback_type``.
CallbackType = Literal["x", "pr_norm", "legacy"]

#: Iterations of a cycle of GMRES unless it is said.
RESTART = 20


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
    restart: int | None = None,
    maxiter: int | None = None,
    M: Preconditioner | None = "block_jacobi",  # noqa: N803
    callback: Callable[[Any], Any] | None = None,
    callback_type: CallbackType | None = None,
) -> tuple[Any, int]:
    """Solves ``a @ x = b``: ``x``, and 0 if the residual is small enough.

    ``a`` is a square matrix of :func:`bsr_gemm` in blocks of up to 8 x 8, and ``b`` a vector of f64 or f32 on the same device. The
    values are of f64, f32, f16 or bf16, no wider than ``b``. ``"cg"``, conjugate gradients, is for symmetric positive definite
    matrices, which is not checked; ``"bicgstab"`` and ``"gmres"`` for others. GMRES begins anew after ``restart`` iterations,
    1 to 256, 20 unless it is said.

    The conventions are those of ``scipy.sparse.linalg``: the solve begins at ``x0`` or 0 and ends when
    ``norm(b - a @ x) <= max(rtol * norm(b), atol)``, with the residual that the method updates, or after ``maxiter``
    iterations, ten times the number of rows unless it is said; of GMRES cycles are counted, and iterations with
    ``callback_type="legacy"``. ``M`` is the preconditioner: the inverses of the diagonal blocks, or None. Of GMRES it is on the
    right, so that its residual is that of ``x``.

    The second result is 0, the number of iterations (or cycles) that were not enough, or below zero if the method broke down, and
    ``x`` is then where it was: -1 for what is not finite, -2 for a matrix that is not positive definite (``"cg"``), -3 for a
    singular one (``"gmres"``), -10 and -11 for a residual that is orthogonal to the first one and for a step of zero.

    ``callback`` is called after each iteration, with the norm of the residual; with ``callback_type="pr_norm"`` or ``"legacy"``
    that is divided by the norm of ``b``. On a GPU all iterations stay there, and norms are told for some iterations at a time.
    With ``"x"`` it is called with a copy of ``x``, of GMRES after each cycle, and the GPU waits for it. An exception of it is
    raised when the solve is over. On the CPU vectors and sums are in f64.

    On a GPU the kernels, the vectors and the CUDA graph are kept for up to eight pairs of a matrix and a method, until the matrix
    is freed. Its values may be written to between two solves. No gradient is recorded.
    """
    if M not in ("block_jacobi", None):
        raise Error(f"M = {M!r} is no preconditioner\n  help: 'block_jacobi' or None")
    if callback_type not in ("x", "pr_norm", "legacy", None):
        raise Error(f"callback_type = {callback_type!r} is none\n  help: 'x', 'pr_norm', 'legacy' or None")
    owner, a = a, as_matrix(a, "the matrix")
    a, b = a.to_host() if a.pattern.on_device else a, _vector(a, b, "b")
    x0 = None if x0 is None else _vector(a, x0, "x0")
    if x0 is not None and _arrays.kind_of(x0) != _arrays.kind_of(b):
        raise Error(f"x0 is of {_arrays.kind_of(x0)}, and b of {_arrays.kind_of(b)}\n  help: convert one of them")
    cycle = _cycle(method, restart)
    # What `maxiter` counts: no cycle has more iterations than there are rows.
    counted = 1 if callback_type == "legacy" or method != "gmres" else min(cycle, max(a.shape[0], 1))
    limit = (10 * a.shape[0] if maxiter is None else _count(maxiter)) * counted
    how = (str(method), cycle, M is not None), (float(rtol), float(atol), min(limit, 2**63 - 1))
    told = None if callback is None or callback_type == "x" else _told(callback, callback_type, b)
    seen = callback if callback_type == "x" else None
    if _arrays.is_tensor(b) and b.device.type != "cpu":
        from ._solvers import solve_on_gpu

        x, iterations, ended = solve_on_gpu(owner, a, (b, x0), how, told, seen)
    else:
        x, iterations, ended = _on_host(a, (b, x0), how, told, seen)
    return x, iterations // counted if ended > 0 else ended


def _cycle(method: str, restart: int | None) -> int:
    """The iterations of a cycle of GMRES; the native half says which are too many."""
    if restart is not None and method != "gmres":
        raise Error(f"restart = {restart}, and method = {method!r} has no cycles\n  help: drop it, or method='gmres'")
    restart = RESTART if restart is None else int(restart)
    if not 0 < restart < 2**32:
        raise Error(f"restart = {restart} is no number of iterations\n  help: restart = {RESTART}")
    return restart


def _count(maxiter: int) -> int:
    if maxiter < 0:
        raise Error(f"maxiter = {maxiter} is no number of iterations\n  help: maxiter >= 0, or None")
    return int(maxiter)


def _told(callback: Callable[[Any], Any], callback_type: str | None, b: Any) -> Callable[[float], Any]:
    """What is called with the norm of a residual."""
    if callback_type is None:
        return callback
    # Of b = 0 no residual is told.
    size = float(b.double().norm() if _arrays.is_tensor(b) else np.linalg.norm(b.astype(np.float64)))
    return lambda norm: callback(norm / size)


def _vector(a: BsrMatrix, vector: Any, name: str) -> Any:
    """A vector of the matrix's rows, contiguous and of no narrower type."""
    vector, values = _arrays.as_array(vector), a.values
    if _arrays.is_tensor(vector) != _arrays.is_tensor(values):
        kinds = ["a tensor" if _arrays.is_tensor(array) else "an array of NumPy" for array in (vector, values)]
        raise Error(f"{name} is {kinds[0]}, and the matrix has {kinds[1]}\n  help: convert one of them")
    if tuple(vector.shape) == (a.shape[0], 1):
        vector = vector[:, 0]
    if tuple(vector.shape) != (a.shape[0],):
        found = " x ".join(map(str, vector.shape)) or "a number"
        raise Error(f"{name} is {found}, and the matrix is {a.shape[0]} x {a.shape[1]}\n  help: one vector of its rows")
    kind, of_values = _arrays.kind_of(vector), _arrays.kind_of(values)
    if kind not in ("f64", "f32"):
        raise Error(f"{name} is of {kind}\n  help: f64 or f32; the matrix may be of f32, f16 or bf16")
    if of_values not in ("f64", "f32", "f16", "bf16") or _arrays.BYTES[of_values] > _arrays.BYTES[kind]:
        raise Error(
            f"{name} is of {kind}, and the matrix of {of_values}\n"
            f"  help: values of f64, f32, f16 or bf16 that are no wider than {name}"
        )
    if _arrays.is_tensor(vector):
        if vector.device != values.device:
            raise Error(f"{name} is on {vector.device}, and the matrix on {values.device}\n  help: move one of them")
        vector = vector.detach()
    return _arrays.contiguous(vector)


def _on_host(a: BsrMatrix, vectors: tuple, how: tuple, told: Any, seen: Any) -> tuple[Any, int, int]:
    b, x0 = vectors
    x = _arrays.empty_like(b, tuple(b.shape))
    x[:] = 0 if x0 is None else x0
    alive, values = _arrays.stored(a.values.detach() if _arrays.is_tensor(a.values) else a.values, a.pattern)
    places = _arrays.address_of(b), _arrays.address_of(x), _arrays.kind_of(b)
    copied = (lambda: seen(x.clone() if _arrays.is_tensor(x) else x.copy())) if seen else None
    iterations, ended = _native.solve_on_host(a.pattern._native, values, places, *how, told, copied)
    del alive
    return x, iterations, ended
