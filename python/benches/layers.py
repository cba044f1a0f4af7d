"""Times layers on a GPU against dense ones: ``python benches/layers.py``.

Each row is measured in turn with its dense twin, A B A B, from an L2 cache that holds neither; medians of 30. Every result
was compared with that of the masked dense layer first. ``--breakdown`` says which kernels a step of training runs, and how
long each takes; ``--separate`` takes two layers in the place of a ``BlockSparseMLP``, whose gradients are fewer passes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import bsr_gemm as bsr
from bsr_gemm import nn

TOKENS, FEATURES, HIDDEN = 8192, 4096, 14336


def gpu_time(functions: list[Callable[[], None]], repeats: int = 30) -> list[float]:
    """Median milliseconds of each function, in turn."""
    flush, read = (torch.zeros(64 << 20, dtype=torch.float32, device="cuda") for _ in range(2))
    for function in functions:
        for _ in range(3):
            function()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, samples in zip(functions, times):
            flush.add_(1)
            read.sum()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            function()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end))
    return [statistics.median(samples) for samples in times]


def host_time(function: Callable[[], object], rounds: int = 7, calls: int = 200) -> float:
    """Microseconds that a call takes on the host, while the GPU has little to do."""
    for _ in range(calls):
        function()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


SEPARATE = False


def networks(block: tuple[int, int], keep: float) -> tuple[torch.nn.Module, torch.nn.Module]:
    linears = torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Linear(HIDDEN, FEATURES)
    up, down = (nn.BlockSparseLinear.from_linear(linear, block, keep) for linear in linears)
    sparse = nn.BlockSparseMLP(up, down, "gelu").to("cuda", torch.bfloat16)
    dense = torch.nn.Sequential(up.to_linear(), torch.nn.GELU("tanh"), down.to_linear())
    if SEPARATE:
        up.activation = "gelu"
        return torch.nn.Sequential(up, down), dense
    return sparse, dense


def training_step(model: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        # Within a network this gradient goes on to the layer before; a leaf would add it to that of the last step.
        x.grad = None
        model(x).backward(dy)

    return step


def compare(found: torch.Tensor, expected: torch.Tensor) -> None:
    error = ((found.float() - expected.float()).norm() / expected.float().norm()).item()
    assert error < 2e-2, f"a relative error of {error}"


def feed_forward(block: tuple[int, int], keep: float) -> None:
    sparse, dense = networks(block, keep)
    x = torch.randn(TOKENS, FEATURES, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    dy = torch.randn_like(x)
    gradients = []
    for model in (sparse, dense):
        x.grad = None
        training_step(model, x, dy)()
        gradients.append(x.grad)
    compare(*gradients)
    compare(sparse(x), dense(x))
    ours, theirs = gpu_time([training_step(model, x, dy) for model in (sparse, dense)])
    with torch.no_grad():
        ours_forward, theirs_forward = gpu_time([lambda: sparse(x), lambda: dense(x)])
        few = torch.randn(16, FEATURES, device="cuda", dtype=torch.bfloat16)
        graphs = []
        for model in (sparse, dense):
            model(few)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model(few)
            graphs.append(graph)
        ours_few, theirs_few = gpu_time([graph.replay for graph in graphs])
    print(
        f"{block[0]:4d} x {block[1]:<4d} {keep:5.2f} {ours:10.3f} {theirs / ours:7.2f} "
        f"{ours_forward:10.3f} {theirs_forward / ours_forward:7.2f} {ours_few * 1e3:10.1f} {theirs_few / ours_few:7.2f}"
    )


def breakdown(block: tuple[int, int], keep: float, steps: int = 10) -> None:
    """Prints the kernels of a training step, those that take the longest first."""
    for name, model in zip(("block-sparse", "dense"), networks(block, keep)):
        x = torch.randn(TOKENS, FEATURES, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        step = training_step(model, x, torch.randn_like(x))
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
        kernels: dict[str, list[float]] = {}
        for event in profile.events():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                kernels.setdefault(event.name, []).append(event.time_range.elapsed_us())
        total = sum(map(sum, kernels.values())) / steps
        print(f"{name}, {block[0]} x {block[1]}, {keep}: {total:.1f} us a step")
        for kernel, times in sorted(kernels.items(), key=lambda item: -sum(item[1])):
            print(f"{sum(times) / steps:10.1f} us {len(times) / steps:5.1f} times  {kernel[:150]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--breakdown", action="store_true", help="only the kernels of a step of training")
    parser.add_argument("--separate", action="store_true", help="two layers, not a BlockSparseMLP")
    arguments = parser.parse_args()
    global SEPARATE
    SEPARATE = arguments.separate
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bsr_gemm {bsr.__version__}")
    if arguments.breakdown:
        for block in ((128, 128), (64, 64)):
            for keep in (0.25, 0.1):
                breakdown(block, keep)
        return
    w = bsr.from_dense(torch.randn(512, 512, device="cuda", dtype=torch.bfloat16), (64, 64), keep=0.25)
    x, dense = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16), w.to_dense()
    with torch.no_grad():
        print(f"host time of a call: bsr.linear {host_time(lambda: bsr.linear(x, w)):.1f} us", end=", ")
        op = torch.ops.bsr_gemm.linear
        print(f"the operator {host_time(lambda: op(x, w.values, None, w.key)):.1f} us", end=", ")
        print(f"torch.mm {host_time(lambda: torch.mm(x, dense)):.1f} us")
    print(f"FFN {FEATURES} -> {HIDDEN} -> {FEATURES}, bf16; ms and ratio to dense; decode of 16 tokens in a graph, us")
    print("      block  keep  fwd + bwd   ratio    forward   ratio     decode   ratio")
    for block in ((128, 128), (64, 64)):
        for keep in (0.25, 0.1):
            feed_forward(block, keep)


if __name__ == "__main__":
    main()
