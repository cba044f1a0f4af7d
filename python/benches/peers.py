"""Times block-sparse layers beside those of other libraries on a GPU: ``python benches/peers.py``.

Each row is one layer, ``y = x @ w.T`` in bf16 with the same matrix for everyone: this package, PyTorch's BSR tensors, torchao's
block-sparse weights, the Triton kernels of ``benches/peers`` in the repository (the fastest of their tiles) and the dense layer.
Everyone's result is compared with the dense layer's before it is timed; all are timed in turn, each from an L2 cache that
holds none of the operands; medians. PyTorch and the Triton kernels compute the transposed result, which is what they are made
for. Who is not installed, refuses or is wrong stands there with the reason.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from layers import gpu_time

import bsr_gemm as bsr

#: Inputs, outputs, tokens.
LAYERS = [(4096, 14336, 8192), (14336, 4096, 8192), (4096, 14336, 16)]
BLOCKS, KEEPS = (128, 64, 32, 16), (0.25, 0.1)
#: Greatest relative error: sums are rounded to bf16 once.
TOLERANCE = 1e-2

Run = Callable[[], torch.Tensor]


class Problem:
    """One layer: operands, and what the result must be."""

    def __init__(self, inputs: int, outputs: int, tokens: int, block: int, keep: float) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(tokens, inputs, device="cuda", dtype=torch.bfloat16)
        mask = torch.rand(outputs // block, inputs // block) < keep
        dense = torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16)
        self.w = bsr.from_dense(dense, (block, block), mask=mask)
        self.dense = self.w.to_dense()
        self.expected = torch.mm(self.x, self.dense.t())
        self.row = (inputs, outputs, tokens, block, keep)

    def error(self, found: torch.Tensor) -> float:
        """The relative error of a result or of its transposed one."""
        found = found if found.shape == self.expected.shape else found.t()
        return ((found.float() - self.expected.float()).norm() / self.expected.float().norm()).item()


def ours(problem: Problem) -> Iterator[Run]:
    yield lambda: bsr.linear(problem.x, problem.w)


def dense(problem: Problem) -> Iterator[Run]:
    yield lambda: torch.mm(problem.x, problem.dense.t())


def torch_bsr(problem: Problem) -> Iterator[Run]:
    stored = problem.w.to_torch()
    yield lambda: torch.mm(stored, problem.x.t())
    yield lambda: torch.nn.functional.linear(problem.x, stored)


def torchao(problem: Problem) -> Iterator[Run]:
    from torchao.sparsity.blocksparse import BlockSparseTensor

    weight = BlockSparseTensor.from_dense(problem.dense, problem.w.block[0])
    yield lambda: torch.nn.functional.linear(problem.x, weight, None)


def case_of(problem: Problem, b: torch.Tensor) -> Any:
    """The row as the repository's Triton kernels take it: C = A B of A = w and B = x.T."""
    from benches.peers.case import Case
    from benches.peers.rows import Row

    inputs, outputs, tokens, block, keep = problem.row
    case = Case(Row("layer", "dsd", outputs, tokens, inputs, (block, block), f"random:{keep}", ()))
    pattern, values = problem.w.pattern, problem.w.values
    case.pattern = type(case.pattern)(outputs, inputs, (block, block), pattern.row_ptr, pattern.col_idx)
    case.row_ptr, case.col_idx = (torch.tensor(index, device="cuda") for index in (pattern.row_ptr, pattern.col_idx))
    case.values, case.dtype, case.out_dtype = values, values.dtype, values.dtype
    case.b, case.c = b, torch.empty(outputs, tokens, device="cuda", dtype=values.dtype)
    return case


def triton_tma(problem: Problem) -> Iterator[Run]:
    from benches.peers.triton_peer import TritonTma

    for variant in TritonTma().variants(case_of(problem, problem.x.t()), quick=False):
        yield variant.run


def triton_gathered(problem: Problem) -> Iterator[Run]:
    from benches.peers.triton_peer import TritonGather

    # It reads rows of B; that x lies the other way is not counted against it.
    for variant in TritonGather().variants(case_of(problem, problem.x.t().contiguous()), quick=False):
        yield variant.run


PEERS = {"bsr": ours, "torch BSR": torch_bsr, "torchao": torchao, "Triton + TMA": triton_tma}
PEERS |= {"Triton, gathered": triton_gathered, "dense": dense}


def fastest(problem: Problem, make: Callable[[Problem], Iterator[Run]], most: int) -> Run | str:
    """The fastest variant that is right, or why there is none."""
    best: tuple[float, Run] | None = None
    why = "has no variant"
    try:
        for _, run in zip(range(most), make(problem)):
            try:
                error = problem.error(run())
                if not error < TOLERANCE:
                    why = f"is wrong: a relative error of {error:.2g}"
                    continue
                time = statistics.median(gpu_time([run], repeats=5))
            except Exception as refused:  # A peer may raise anything.
                why = f"refuses: {str(refused).splitlines()[0][:60] if str(refused) else type(refused).__name__}"
                continue
            if best is None or time < best[0]:
                best = time, run
    except ImportError as missing:
        why = f"is not here: {missing}"
    except Exception as refused:
        why = f"refuses: {str(refused).splitlines()[0][:60] if str(refused) else type(refused).__name__}"
    return why if best is None else best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="at most three variants of each peer")
    parser.add_argument("--blocks", type=int, nargs="*", default=BLOCKS)
    above = Path(__file__).resolve().parents
    here = next((folder for folder in above if (folder / "benches/peers/rows.py").exists()), above[0])
    parser.add_argument("--repository", type=Path, default=here, help="where benches/peers is")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*Sparse BSR tensor support is in beta.*")
    sys.path.append(str(arguments.repository))  # benches/peers
    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bsr_gemm {bsr.__version__}; us, and times ours"
    )
    reasons: dict[str, str] = {}
    with torch.no_grad():
        print("       layer        tokens  block  keep  " + "".join(f"{name:>18}" for name in PEERS))
        for inputs, outputs, tokens in LAYERS:
            for block in arguments.blocks:
                for keep in KEEPS:
                    problem = Problem(inputs, outputs, tokens, block, keep)
                    found = {
                        name: fastest(problem, make, 3 if arguments.quick else 100) for name, make in PEERS.items()
                    }
                    runs = {name: run for name, run in found.items() if not isinstance(run, str)}
                    times = dict(zip(runs, gpu_time(list(runs.values()))))
                    reasons |= {name: why for name, why in found.items() if isinstance(why, str)}
                    cells = [cell(times.get(name), times.get("bsr")) for name in PEERS]
                    print(
                        f"{inputs:6d} -> {outputs:<6d} {tokens:8d}   {block:4d}  {keep:4.2f}  {''.join(cells)}",
                        flush=True,
                    )
    for name, why in reasons.items():
        print(f"{name} {why}")


def cell(milliseconds: float | None, of_ours: float | None) -> str:
    """A time in microseconds, and how many times ours it is."""
    if milliseconds is None:
        return f"{'-':>18}"
    ratio = "" if not of_ours else f"{milliseconds / of_ours:7.2f}x"
    return f"{milliseconds * 1e3:10.1f}{ratio}"


if __name__ == "__main__":
    main()
