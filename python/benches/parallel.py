"""Times a feed-forward network on several GPUs beside one: ``torchrun --nproc-per-node 2 python/benches/parallel.py``.

Forward and backward pass of 8192 -> 28672 -> 8192 features on 8192 tokens in bf16, 128 x 128 blocks of which a quarter is
stored. Results and gradients of the divided network are compared with those of the whole one first. Both are measured in turn,
as is the divided one without its sums over the GPUs, which says what part of the time they take. Prints a line of JSON last.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
from collections.abc import Callable

import torch
import torch.distributed as dist

from bsr_gemm import Pattern, nn
from bsr_gemm._lib import _parallel_ops


class Nothing:
    """A sum that is not computed."""

    def wait(self) -> None:
        pass


def network(features: int, hidden: int, block: int, keep: float) -> nn.BlockSparseMLP:
    """The same on every rank."""
    torch.manual_seed(0)
    layers = []
    for outputs, inputs in ((hidden, features), (features, hidden)):
        mask = torch.rand(outputs // block, inputs // block) < keep
        pattern = Pattern.from_mask(mask.numpy(), (outputs, inputs), (block, block))
        layers.append(nn.BlockSparseLinear(inputs, outputs, pattern, device="cuda", dtype=torch.bfloat16))
    return nn.BlockSparseMLP(*layers, "gelu")


def step(model: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor) -> None:
    for parameter in model.parameters():
        parameter.grad = None
    x.grad = None
    model(x).backward(dy)


def median_of(runs: list[Callable[[], None]], rounds: int, steps: int = 4) -> list[float]:
    """Milliseconds of each, in turn; the slowest rank counts."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds + 1):
        for run, samples in zip(runs, times):
            dist.barrier()
            torch.cuda.synchronize()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(steps):
                run()
            end.record()
            end.synchronize()
            slowest = torch.tensor([start.elapsed_time(end) / steps], device="cuda")
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if turn > 0:
                samples.append(slowest.item())
    return [statistics.median(samples) for samples in times]


def without_sums(run: Callable[[], None]) -> Callable[[], None]:
    def silent() -> None:
        held = _parallel_ops.sum_over_ranks
        _parallel_ops.sum_over_ranks = lambda tensor, group: Nothing()
        try:
            run()
        finally:
            _parallel_ops.sum_over_ranks = held

    return silent


def relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    return ((found.double() - exact.double()).norm() / exact.double().norm()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=28672)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--keep", type=float, default=0.25)
    parser.add_argument("--rounds", type=int, default=15)
    settings = parser.parse_args()

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    say = print if rank == 0 else (lambda *_: None)
    whole = network(settings.features, settings.hidden, settings.block, settings.keep)
    x = torch.randn(settings.tokens, settings.features, device="cuda", dtype=torch.bfloat16)
    dy = torch.randn_like(x) / 64
    for tensor in (x, dy):
        dist.broadcast(tensor, 0)
    x.requires_grad_()
    step(whole, x, dy)
    y, dx = whole(x).detach(), x.grad.clone()

    rows, runs = [], [lambda: step(whole, x, dy)]
    for chunks, free in ((1, 0), (1, 16), (1, 32), (1, 48), (2, 32), (4, 32)):
        model = nn.parallelize_(torch.nn.Sequential(copy.deepcopy(whole)), chunks=chunks)
        model[0].free = free
        step(model, x, dy)
        errors = relative(model(x).detach(), y), relative(x.grad, dx)
        if not max(errors) < 1e-2:
            raise SystemExit(f"the divided network computes something else: relative errors {errors}")
        rows.append((chunks, free, max(errors)))
        runs += [lambda model=model: step(model, x, dy), without_sums(lambda model=model: step(model, x, dy))]
        if free == 0:
            say(model[0].extra_repr())
    one, *times = median_of(runs, settings.rounds)
    flops = 3 * 2 * settings.tokens * (whole.up.weight.numel() + whole.down.weight.numel())
    ranks = dist.get_world_size()
    say(
        f"\n{settings.features} -> {settings.hidden} -> {settings.features}, {settings.tokens} tokens, forward and backward"
    )
    say(f"one {torch.cuda.get_device_name()}: {one:.3f} ms, {flops / one / 1e9:.0f} TFLOP/s\n")
    say("| GPUs | chunks | left free | ms | to one GPU | without sums | share of the sums | error |")
    say("|---|---|---|---|---|---|---|---|")
    best = 0.0
    for at, (chunks, free, error) in enumerate(rows):
        time, silent = times[2 * at], times[2 * at + 1]
        best = max(best, one / time)
        share = f"{100 * (time - silent) / time:.1f} %"
        say(f"| {ranks} | {chunks} | {free} | {time:.3f} | {one / time:.2f} | {silent:.3f} | {share} | {error:.1e} |")
    say(json.dumps({"gpus": ranks, "one_ms": one, "best_ratio": best}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
