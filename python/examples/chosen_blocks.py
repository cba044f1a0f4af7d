"""Attention to blocks that are chosen by the means of queries and keys: on a GPU the whole way is one captured CUDA graph.

Means of blocks, scores of every pair of blocks, the best blocks of each row, the lists of a mask, attention: none of it waits for the
host, and each replay chooses the blocks of the tensors that are there then. On a CPU the same steps run one after the other.

    python chosen_blocks.py [--tokens N] [--heads N] [--kept N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

import bsr_gemm as bsr

SIDE, COLUMNS = 64, 128


class Chosen:
    """The attention of Q, K and V, which are written in place, to the ``kept`` best blocks of 64 x 64 in each row."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, kept: int) -> None:
        self.given, (problems, heads, tokens, _) = (q, k, v), q.shape
        blocks = tokens // SIDE
        self.scores = torch.zeros(problems, heads, blocks, blocks, device=q.device)
        self.mask = bsr.DeviceMask.top_k(self.scores, (tokens, tokens), (SIDE, SIDE), count=kept)
        self.out = torch.empty_like(q)

    @torch.no_grad()
    def step(self) -> None:
        """Everything from the means to the result."""
        means = [x.unflatten(2, (-1, SIDE)).float().mean(3) for x in self.given[:2]]
        torch.matmul(means[0], means[1].mT, out=self.scores)
        self.mask.changed()
        bsr.attention(*self.given, self.mask, out=self.out)


def replayed(step: Callable[[], None]) -> Callable[[], None]:
    """A step as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main() -> None:
    parser = argparse.ArgumentParser()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--tokens", type=int, default=8192 if device == "cuda" else 512)
    parser.add_argument("--heads", type=int, default=8 if device == "cuda" else 2)
    parser.add_argument("--kept", type=int, default=32 if device == "cuda" else 3)
    args = parser.parse_args()
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    q, k, v = (torch.randn(1, args.heads, args.tokens, COLUMNS, device=device, dtype=dtype) for _ in range(3))
    chosen = Chosen(q, k, v, args.kept)
    run = replayed(chosen.step) if device == "cuda" else chosen.step
    for number in range(3):
        for tensor in (q, k, v):
            tensor.normal_()
        run()
        sizes = (args.tokens, args.tokens)
        mask = bsr.AttentionMask.top_k(chosen.scores, sizes, (SIDE, SIDE), count=args.kept)
        expected = bsr.attention(q, k, v, mask)
        error = ((chosen.out - expected).float().norm() / expected.float().norm()).item()
        print(f"{number}: {mask.stored} blocks of {args.tokens} tokens, relative difference {error:.1e}")
        assert error < 1e-6
    if device == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(100):
            run()
        end.record()
        torch.cuda.synchronize()
        print(f"{begin.elapsed_time(end) * 10:.1f} us for each replay, from means to the result")


if __name__ == "__main__":
    main()
