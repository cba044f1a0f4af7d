"""Matrices that scientific fields solve with, in their natural blocks."""

from __future__ import annotations

import numpy as np

from . import _native
from ._matrix import BsrMatrix
from ._native import Error
from ._patterns import of_native


def from_field(field: str, seed: int = 0) -> BsrMatrix:
    """The matrix of a field, of f64 in NumPy: ``from_field("elasticity:16x16x16")`` for instance, on 16 x 16 x 16 cells.

    ==================== ======= ==============================================================================
    ``elasticity:XxYxZ`` 3 x 3   an elastic body of unit cubes, clamped at x = 0; symmetric positive definite
    ``stokes:XxYxZ``     4 x 4   the slow flow through a channel; symmetric indefinite
    ``reservoir:XxYxZ``  3 x 3   an implicit step of a black-oil reservoir; unsymmetric
    ``euler:XxYxZ``      5 x 5   a step of compressible flow; unsymmetric
    ``shell:XxY``        6 x 6   a cylindrical shell, clamped at one end; symmetric positive definite
    ``graph:NxExF``      F x F   the Laplacian of a graph of N nodes with E edges each; symmetric semidefinite
    ==================== ======= ==============================================================================

    Permeabilities, states and graphs are drawn from ``seed``. Sizes and a seed give the same values on every machine.
    """
    if not 0 <= seed < 2**64:
        raise Error(f"seed = {seed} is no seed\n  help: 0 <= seed < 2^64")
    native, values = _native.field(str(field), seed)
    pattern = of_native(native)
    return BsrMatrix(np.frombuffer(values, dtype="<f8").reshape(pattern.nnzb, *pattern.block), pattern, check=False)
