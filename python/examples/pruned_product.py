"""Multiplies two pruned weight matrices into one: ``python examples/pruned_product.py``.

Two linear layers without anything between them, as a bottleneck has them, are one layer of the product of their weights. Where both are
pruned to blocks the product is sparse times sparse, and has the blocks that a pair of stored blocks adds to. It is held against
the dense product of the same pruned weights, and beside the product before pruning. Runs on a CPU, and on a GPU where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch

import bsr_gemm as bsr


def weights(rows: int, cols: int, block: int) -> torch.Tensor:
    """A weight matrix whose blocks have very different norms, as those of trained layers do."""
    norms = torch.exp(1.5 * torch.randn(rows // block, cols // block))
    return norms.repeat_interleave(block, 0).repeat_interleave(block, 1) * torch.randn(rows, cols) * cols**-0.5


def product(
    size: int = 512, block: int = 32, keep: float = 0.15, report: Callable[[str], None] = print
) -> dict[str, float]:
    """The errors of the product, relative and in Frobenius norms, and the share of blocks that it stores."""
    torch.manual_seed(0)
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    whole = [weights(size, 2 * size, block), weights(2 * size, size, block)]
    up, down = (bsr.from_dense(w, block=(block, block), keep=keep).to(dtype).to(device) for w in whole)
    folded = bsr.matmul(up, down)
    report(f"{up!r}".splitlines()[0])
    report(f"times {down!r}".splitlines()[0])
    report(f"is    {folded!r}")

    def error(found: torch.Tensor, expected: torch.Tensor) -> float:
        return float((found - expected).norm() / expected.norm())

    dense = up.to_dense().double() @ down.to_dense().double()
    found = folded.to_dense().double()
    outside = torch.from_numpy(~np.kron(folded.pattern.mask(), np.ones((block, block), dtype=bool))).to(device)
    x = torch.randn(size, 16, device=device, dtype=dtype)
    results = {
        "rounding": error(found, dense),
        "outside": float((dense * outside).abs().max()),
        "applied": error((folded @ x).double(), (up @ (down @ x)).double()),
        "pruning": error(found, (whole[0].double() @ whole[1].double()).to(device)),
        "density": folded.density,
    }
    report(
        f"against the dense product of the same weights {results['rounding']:.1e}; of one layer against two "
        f"{results['applied']:.1e}; against the weights before pruning {100 * results['pruning']:.0f} %"
    )
    return results


def right(found: dict[str, float]) -> bool:
    """Whether the product is that of the pruned matrices, and sparse."""
    most = 0.02 if torch.cuda.is_available() else 1e-5
    return max(found["rounding"], found["applied"]) < most and found["outside"] == 0.0 and found["density"] < 1.0


if __name__ == "__main__":
    sys.exit(0 if right(product()) else "the result is wrong")
