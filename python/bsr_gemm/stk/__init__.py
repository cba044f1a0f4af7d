"""The names of ``stk``, the library of block-sparse products that MegaBlocks uses, over this package's products.

>>> import bsr_gemm.stk as stk
>>> h = stk.ops.sdd(x, w1.t(), topology)
>>> y = stk.ops.dsd(h, w2)

Blocks are square and of any size, elements of any type that products take. Lists of blocks on a GPU are read there.
"""

from __future__ import annotations

import importlib
import sys

from . import ops, random
from .matrix import Matrix

__all__ = ["Matrix", "install", "ops", "random"]


def install() -> None:
    """Makes ``import stk`` find this package in this process: called before the import of a program that names ``stk``."""
    for name in ("", ".matrix", ".ops", ".random", ".backend", ".backend.autocast", ".backend.triton_kernels"):
        sys.modules[f"stk{name}"] = importlib.import_module(f"{__name__}{name}")
