"""Times block-sparse attention beside that of other libraries on a GPU: ``python benches/attention.py``.

Each row is one attention in bf16 with the same tensors for everyone: this package with blocks of 128 and of 64, FlexAttention,
FlashAttention 4 and cuDNN's block-sparse attention where they can be imported, and PyTorch's dense attention. Everyone's result
is compared with this package's before it is timed, and this package's with FlexAttention's; all are timed in turn, each from an
L2 cache that holds none of the operands; medians. Rates are of the pairs in stored blocks: 4 operations for each and for every
column. Who is not installed, refuses or is wrong stands there with the reason. ``--gradients`` times the forward and backward
pass of those that have one, ``--host`` what a call costs the host, ``--soft-cap`` scores under a soft cap, here and in FlexAttention.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator

import numpy as np
import torch
from layers import gpu_time, host_time
from torch.nn.attention import flex_attention as flex

import bsr_gemm as bsr

Run = Callable[[], torch.Tensor]
#: Greatest relative difference between two results in bf16.
TOLERANCE = 2e-2

MASKS = ("causal", "window", "random", "block window", "triangle", "full")


class Problem:
    """One attention: tensors, the mask in blocks of a side, and the same as a function of PyTorch."""

    def __init__(self, kind: str, side: int, queries: int, heads: int, columns: int, cap: float | None) -> None:
        torch.manual_seed(0)
        self.kind, self.side, self.sizes, self.cap = kind, side, (queries, queries), cap
        self.tensors = [torch.randn(1, heads, queries, columns, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        make, block = bsr.AttentionMask, (side, side)
        self.before = queries // 16
        self.mask = {
            "causal": lambda: make.causal(self.sizes, block),
            "window": lambda: make.window(self.sizes, block, before=self.before),
            "random": lambda: make.random(self.sizes, block, density=0.25, seed=1),
            "block window": lambda: make.block_window(self.sizes, block, blocks=4 * 128 // side),
            "triangle": lambda: make.lower_triangle(self.sizes, block),
            "full": lambda: make.full(self.sizes, block),
        }[kind]()
        self.blocks = torch.from_numpy(self.mask.blocks()[0]).cuda()
        self.operations = 4 * columns * self.mask.pairs(1, heads)

    def lists(self, kind: int, by_key: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """The blocks of a kind as FlexAttention has them: how many in each row, or column, and where in it they are."""
        stored = (self.blocks.T if by_key else self.blocks) == kind
        columns = torch.argsort(stored.int(), dim=1, descending=True, stable=True)
        return stored.sum(1, dtype=torch.int32)[None, None], columns.int()[None, None].contiguous()

    def mask_mod(self) -> Callable:
        """Whether a pair in a partial block is attended to, in FlexAttention's form."""
        before = self.before
        if self.kind == "window":
            return lambda b, h, i, j: (i >= j) & (i - j <= before)
        if self.kind == "causal":
            return lambda b, h, i, j: i >= j
        return lambda b, h, i, j: i >= 0

    def score(self) -> dict:
        """The soft cap in this package's form."""
        if self.cap is None:
            return {}
        return {"score": "|cap: f32| cap * tanh(s * scale / cap)", "numbers": {"cap": self.cap}}

    def score_mod(self) -> Callable | None:
        """The same in FlexAttention's form."""
        cap = self.cap
        return None if cap is None else lambda s, b, h, i, j: cap * torch.tanh(s / cap)

    def block_mask(self) -> flex.BlockMask:
        """FlexAttention's."""
        (partial, partial_columns), (full, full_columns) = self.lists(2), self.lists(1)
        return flex.BlockMask.from_kv_blocks(
            partial, partial_columns, full, full_columns, (self.side, self.side), self.mask_mod(), self.sizes
        )


def ours(problem: Problem) -> Iterator[tuple[str, Run]]:
    q, k, v = problem.tensors
    yield "bsr_gemm", lambda: bsr.attention(q, k, v, problem.mask, **problem.score())


def flex_attention(problem: Problem) -> Iterator[tuple[str, Run]]:
    q, k, v = problem.tensors
    mask, score = problem.block_mask(), problem.score_mod()
    compiled = torch.compile(flex.flex_attention, dynamic=False)
    yield "FlexAttention", lambda: compiled(q, k, v, score_mod=score, block_mask=mask)


def flash_attention(problem: Problem) -> Iterator[tuple[str, Run]]:
    from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch
    from flash_attn.cute.interface import _flash_attn_fwd

    q, k, v = (x.transpose(1, 2).contiguous() for x in problem.tensors)
    if problem.kind == "causal":
        yield "FlashAttention 4, its causal", lambda: _flash_attn_fwd(q, k, v, causal=True)[0].transpose(1, 2)
    elif problem.kind == "window":
        before = problem.before
        yield (
            "FlashAttention 4, its window",
            lambda: _flash_attn_fwd(q, k, v, window_size_left=before, window_size_right=0)[0].transpose(1, 2),
        )
    else:
        (none, columns), (full, full_columns) = problem.lists(2), problem.lists(1)
        sparse = BlockSparseTensorsTorch(none, columns, full, full_columns, block_size=(problem.side, problem.side))
        yield "FlashAttention 4", lambda: _flash_attn_fwd(q, k, v, block_sparse_tensors=sparse)[0].transpose(1, 2)


def cudnn(problem: Problem) -> Iterator[tuple[str, Run]]:
    from cudnn.block_sparse_attention import block_sparse_attention_forward

    if problem.mask.has_partial:
        raise ValueError("it has no partial blocks")
    q, k, v = problem.tensors
    counts, columns = (x.expand(1, q.shape[1], *x.shape[2:]).contiguous() for x in problem.lists(1))

    def run() -> torch.Tensor:
        found = block_sparse_attention_forward(
            q, k, v, columns, q2k_block_nums=counts, sparse_block_size=problem.side, layout="bhsd"
        )
        return found["o_tensor"]

    yield "cuDNN, block-sparse", run


def dense(problem: Problem) -> Iterator[tuple[str, Run]]:
    q, k, v = problem.tensors
    if problem.kind in ("causal", "full"):
        is_causal = problem.kind == "causal"
        yield "PyTorch, dense", lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


PEERS = (ours, flex_attention, flash_attention, cudnn, dense)


def taking_part(problem: Problem, gradients: bool) -> tuple[dict[str, Run], dict[str, str]]:
    """Whose results agree, and why the others do not take part."""
    found: dict[str, Run] = {}
    reasons: dict[str, str] = {}
    results: dict[str, torch.Tensor] = {}
    peers = [ours, flex_attention] + ([dense] if gradients else [flash_attention, cudnn, dense])
    peers = peers if problem.cap is None else [ours, flex_attention]
    for peer in peers:
        try:
            for name, run in peer(problem):
                results[name] = run().detach()
                torch.cuda.synchronize()
                found[name] = run
        except Exception as error:  # whatever stops a peer is said beside its name
            reasons[peer.__name__] = (
                str(error).strip().splitlines()[-1][:100] if str(error).strip() else type(error).__name__
            )
    reference = results.get("FlexAttention", results["bsr_gemm"]).float()
    for name in list(found):
        error = ((results[name].float() - reference).norm() / reference.norm()).item()
        if not error < TOLERANCE:
            reasons[name] = f"a relative difference of {error:.1e}"
            del found[name]
    return found, reasons


def with_gradients(run: Run, problem: Problem) -> Callable[[], None]:
    dy = torch.randn_like(problem.tensors[0])

    def step() -> None:
        for tensor in problem.tensors:
            tensor.grad = None
        run().backward(dy)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=16384)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--columns", type=int, nargs="*", default=[128, 64])
    parser.add_argument("--sides", type=int, nargs="*", default=[128, 64])
    parser.add_argument("--masks", nargs="*", default=list(MASKS))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--gradients", action="store_true", help="forward and backward")
    parser.add_argument("--soft-cap", type=float, help="a bound of scores: cap * tanh(score / cap)")
    parser.add_argument("--host", action="store_true", help="only what a call costs the host")
    parser.add_argument("--json", help="a file for the times")
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bsr_gemm {bsr.__version__}")
    if arguments.host:
        q, k, v = (torch.randn(1, 4, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        mask = bsr.AttentionMask.causal((256, 256))
        bsr.attention(q, k, v, mask)
        op, sdpa = torch.ops.bsr_gemm.attention, torch.nn.functional.scaled_dot_product_attention
        given = (mask.key, "|| if i >= j { s * scale } else { -inf }", 0.125, [], False, None)
        with torch.no_grad():
            print(
                f"host time of a call: bsr.attention {host_time(lambda: bsr.attention(q, k, v, mask)):.1f} us", end=", "
            )
            print(f"the operator {host_time(lambda: op(q, k, v, *given)):.1f} us", end=", ")
            print(f"PyTorch's {host_time(lambda: sdpa(q, k, v, is_causal=True)):.1f} us")
        return
    rows = []
    for columns in arguments.columns:
        for side in arguments.sides:
            for kind in arguments.masks:
                torch.compiler.reset()
                problem = Problem(kind, side, arguments.queries, arguments.heads, columns, arguments.soft_cap)
                for tensor in problem.tensors:
                    tensor.requires_grad_(arguments.gradients)
                with torch.set_grad_enabled(arguments.gradients):
                    runs, reasons = taking_part(problem, arguments.gradients)
                    steps = [with_gradients(run, problem) if arguments.gradients else run for run in runs.values()]
                    times = dict(zip(runs, gpu_time(steps, arguments.repeats)))
                density = problem.mask.stored / np.prod(problem.mask.grid)
                print(
                    f"d {columns}, blocks of {side}, {kind} ({density:.2f} of the blocks), {arguments.queries} queries:"
                )
                for name, ms in times.items():
                    rate = "" if arguments.gradients else f" {problem.operations / ms * 1e-9:7.1f} TFLOP/s"
                    print(f"  {name:<30} {ms * 1e3:9.1f} us{rate}  {times[name] / times['bsr_gemm']:.2f} times ours")
                for name, reason in reasons.items():
                    print(f"  {name:<30} - {reason}")
                row = {"columns": columns, "side": side, "mask": kind, "queries": arguments.queries}
                rows.append(row | {"ms": times, "out": reasons})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
