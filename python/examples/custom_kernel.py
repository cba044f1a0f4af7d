"""A kernel of your own: its plan, its PTX, a run on the simulator, and on a GPU where there is one."""

from __future__ import annotations

import numpy as np

import bsr_gemm as bsr
from bsr_gemm import Bsr, Dense, Rows


@bsr.kernel(bm=64, bn=64, bk=32)
def ffn_up(a: Bsr["f16"], b: Dense["f16"], bias: Rows["f32"], alpha: float = 1.0) -> Dense["f16"]:  # noqa: F821
    return gelu(alpha * acc + bias)  # noqa: F821


def main() -> None:
    print(ffn_up.plan)
    rng = np.random.default_rng(0)
    w = bsr.from_dense(rng.standard_normal((128, 96)).astype(np.float16), block=(64, 32), keep=0.5)
    x, bias = rng.standard_normal((96, 48)).astype(np.float16), rng.standard_normal(128).astype(np.float32)
    run = bsr.simulate(ffn_up, w, x, bias, 0.5)
    difference = np.abs(run.result.astype(np.float32) - ffn_up(w, x, bias, 0.5).astype(np.float32)).max()
    print(
        f"\nsimulated: {run.steps} warp instructions, {len(run.findings)} findings, differs by {difference} from the CPU"
    )
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        v = bsr.BsrMatrix(torch.from_numpy(w.values).cuda(), w.pattern)
        result = ffn_up(v, torch.from_numpy(x).cuda(), torch.from_numpy(bias).cuda(), 0.5)
        print(f"on the GPU: differs by {np.abs(result.float().cpu().numpy() - run.result.astype(np.float32)).max()}")


if __name__ == "__main__":
    main()
