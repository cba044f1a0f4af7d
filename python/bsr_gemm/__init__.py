"""Block-sparse matrix products and attention for NumPy and PyTorch.

>>> import numpy as np, bsr_gemm as bsr
>>> w = bsr.from_dense(np.random.randn(256, 256).astype(np.float32), block=(64, 64), keep=0.5)
>>> y = w @ np.random.randn(256, 8).astype(np.float32)

Matrices    from_dense, from_field, BsrMatrix, Pattern, DevicePattern
Products    w @ x, matmul, bsr_gemm, linear, ffn, sddmm, linear_batch, Batch
Systems     solve: conjugate gradients, BiCGStab and GMRES
Attention   attention, block_sparse_attention, flex_attention, AttentionMask, DeviceMask, simulate_attention
            attention_varlen, attention_workspace, paged_attention, PageTable, quantise_attention, ValuesByColumn, ValuePages
Layers      nn.BlockSparseLinear, nn.BlockSparseMLP, nn.sparsify_ (with PyTorch)
Models      bsr_gemm.transformers, bsr_gemm.stk: names of other libraries (with these, or with PyTorch)
Kernels     kernel, Kernel, Bsr, Dense, Rows, Cols, simulate
Choices     explain, tune, sweep, set_tuning
Sanitizer   sanitize, TensorMap, SanitizeReport, SanitizeError: Triton's kernels and PTX of any origin on the simulator

Modules whose names begin with an underscore are not for import.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ._lib._attention import attention, attention_workspace, simulate_attention
from ._lib._batches import Batch, linear_batch
from ._lib._epilogues import ACTIVATIONS
from ._lib._fields import from_field
from ._lib._kernels import Bsr, Cols, Dense, Kernel, KernelError, Rows, Simulation, kernel, simulate
from ._lib._masks import AttentionMask
from ._lib._matrix import BsrMatrix, from_dense
from ._lib._native import Error, __version__
from ._lib._patterns import Pattern
from ._lib._products import bsr_gemm, ffn, linear, matmul, product_pattern, sampled, sddmm
from ._lib._shards import Sharding, shard_cols, shard_hidden, shard_rows
from ._lib._solve import solve
from ._lib._tuned import set_tuning
from ._lib._tuning import Choice, Sweep, explain, sweep, tune

if TYPE_CHECKING:
    from . import nn
    from ._lib._attention_float8 import quantise_attention
    from ._lib._block_sparse import block_sparse_attention
    from ._lib._device_masks import DeviceMask
    from ._lib._device_patterns import DevicePattern
    from ._lib._flex import flex_attention
    from ._lib._float8_pages import ValuePages
    from ._lib._float8_values import ValuesByColumn
    from ._lib._pages import PageTable, paged_attention
    from ._lib._sanitize import SanitizeError, SanitizeReport, TensorMap, sanitize
    from ._lib._sequences import attention_varlen

__all__ = [
    "ACTIVATIONS",
    "AttentionMask",
    "Batch",
    "Bsr",
    "BsrMatrix",
    "Choice",
    "Cols",
    "Dense",
    "DeviceMask",
    "DevicePattern",
    "Error",
    "Kernel",
    "KernelError",
    "PageTable",
    "Pattern",
    "Rows",
    "SanitizeError",
    "SanitizeReport",
    "Sharding",
    "Simulation",
    "TensorMap",
    "Sweep",
    "ValuePages",
    "ValuesByColumn",
    "__version__",
    "attention",
    "attention_varlen",
    "attention_workspace",
    "block_sparse_attention",
    "bsr_gemm",
    "empty_cache",
    "explain",
    "ffn",
    "flex_attention",
    "from_dense",
    "from_field",
    "kernel",
    "linear",
    "linear_batch",
    "matmul",
    "nn",
    "paged_attention",
    "product_pattern",
    "quantise_attention",
    "sampled",
    "sanitize",
    "sddmm",
    "set_tuning",
    "shard_cols",
    "shard_hidden",
    "shard_rows",
    "simulate",
    "simulate_attention",
    "solve",
    "sweep",
    "tune",
]


if "torch" in sys.modules:
    # `torch.load` makes matrices and patterns by their constructors, which check what they are given.
    sys.modules["torch"].serialization.add_safe_globals([BsrMatrix, Pattern])


def empty_cache() -> None:
    """Frees what is kept on GPUs of patterns and kernels, after everything that was launched is done.

    It is made again where it is needed. Graphs that were captured must not be replayed afterwards.
    """
    gpu = sys.modules.get(f"{__name__}._lib._gpu")
    if gpu is not None:
        gpu.empty_cache()


#: What is imported where it is asked for: layers and patterns of tensors, which need PyTorch, and the sanitizer.
_LATER = {
    "nn": ".nn",
    "DeviceMask": "._lib._device_masks",
    "DevicePattern": "._lib._device_patterns",
    "attention_varlen": "._lib._sequences",
    "block_sparse_attention": "._lib._block_sparse",
    "quantise_attention": "._lib._attention_float8",
    "ValuePages": "._lib._float8_pages",
    "ValuesByColumn": "._lib._float8_values",
    "flex_attention": "._lib._flex",
    "PageTable": "._lib._pages",
    "paged_attention": "._lib._pages",
    "SanitizeError": "._lib._sanitize",
    "SanitizeReport": "._lib._sanitize",
    "TensorMap": "._lib._sanitize",
    "sanitize": "._lib._sanitize",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_LATER[name], __name__)
    return module if name == "nn" else getattr(module, name)


if "torch" in sys.modules:
    # Exported programs find their operators, and PyTorch's compiler what it takes as constants.
    for _name in ("_block_sparse", "_float8", "_ranges"):
        importlib.import_module(f"._lib.{_name}", __name__)
