"""Launches of Triton to capture: a sum of vectors, and one whose mask is too wide.

    CUDA_INJECTION64_PATH=$PWD/capture_gpu.so CAPTURE_AFTER=1 PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 captured.py FOLDER

Triton loads machine code: the PTX of each kernel is written to FOLDER/NAME.ptx.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def captured_sum(x, y, out, n, BLOCK: tl.constexpr):
    """Adds two vectors."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def captured_wide(x, y, out, n, BLOCK: tl.constexpr):
    """Loads ten elements too many."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=at < n + 10) + tl.load(y + at, mask=inside), mask=inside)


def main() -> None:
    """Launches both."""
    n, block = 700, 256
    x, y = (torch.arange(n, device="cuda", dtype=torch.float32) * step for step in (1, 3))
    for kernel in (captured_sum, captured_wide):
        out = torch.zeros_like(x)
        compiled = kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
        if not torch.equal(out, x + y):
            sys.exit(f"{kernel.__name__} is wrong")
        (Path(sys.argv[1]) / f"{kernel.__name__}.ptx").write_text(compiled.asm["ptx"])


if __name__ == "__main__":
    main()
