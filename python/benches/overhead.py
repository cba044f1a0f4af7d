"""What a call costs the host, layer by layer: ``python benches/overhead.py``.

The product is small, so that the GPU is never behind. Each line is the median of rounds of calls, in microseconds; between
rounds the GPU is waited for. ``--profile`` adds where the time of a call goes by cProfile.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Callable

import torch
from layers import host_time

import bsr_gemm as bsr
from bsr_gemm import nn
from bsr_gemm._lib import _gpu, _launch, _torch


def calls(x: torch.Tensor, w: bsr.BsrMatrix, bias: torch.Tensor) -> list[tuple[str, Callable[[], object]]]:
    """What is measured, from the driver's launch up to the layer."""
    dense, values, key = w.to_dense(), w.values, w.key
    layer = nn.BlockSparseLinear.from_matrix(w, bias)
    bsr.linear(x, w)
    bsr.linear(x, w, bias)
    (found,) = (kept for name, kept in _gpu._layers.items() if name[0] == key and len(name) == 7)
    launch, out, stream = found[0], torch.empty_like(bsr.linear(x, w)), torch.cuda.current_stream().cuda_stream
    places = (values.data_ptr(), x.data_ptr(), out.data_ptr(), stream)
    operator = torch.ops.bsr_gemm.linear
    return [
        ("nothing: the loop", lambda: None),
        ("the launch alone, in Rust", lambda: launch(*places)),
        ("torch.empty_like", lambda: torch.empty_like(out)),
        (
            "bsr.linear without the checks of PyTorch's state",
            lambda: _launch.direct(x, values, None, key, False, "none"),
        ),
        ("bsr.linear without the checks of the matrix", lambda: _torch.linear(x, values, None, key)),
        ("bsr.linear", lambda: bsr.linear(x, w)),
        ("bsr.linear with a bias", lambda: bsr.linear(x, w, bias)),
        ("w @ x.t()", lambda: w @ x.t()),
        ("the layer, with a bias", lambda: layer(x)),
        ("the operator", lambda: operator(x, values, None, key)),
        ("torch.mm", lambda: torch.mm(x, dense)),
        ("torch.nn.functional.linear, with a bias", lambda: torch.nn.functional.linear(x, dense, bias)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="where the time of a call of bsr.linear goes")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bsr_gemm {bsr.__version__}")
    w = bsr.from_dense(torch.randn(512, 512, device="cuda", dtype=torch.bfloat16), (64, 64), keep=0.25)
    x, bias = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in [(64, 512), (512,)])
    with torch.no_grad():
        for name, function in calls(x, w, bias):
            print(f"{host_time(function, rounds=25):8.2f} us  {name}")
        if arguments.profile:
            profile = cProfile.Profile()
            profile.enable()
            for _ in range(4000):
                bsr.linear(x, w)
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(15)
    x = x.requires_grad_()
    print(f"{host_time(lambda: bsr.linear(x, w), rounds=25):8.2f} us  bsr.linear, while a gradient is recorded")


if __name__ == "__main__":
    main()
