"""Times the backward pass of attention alone, beside that of other libraries: ``python benches/attention_backward.py``.

Each row is one attention in bf16, with the same tensors and the same gradient of O for everyone: this package, FlexAttention,
FlashAttention 4 (deterministic, and with atomics) and cuDNN, dense and block-sparse, where they can be imported. Gradients of Q,
K and V are compared with this package's before anything is timed. All are timed in turn, each from an L2 cache that holds none of the
operands; medians. Rates are of the pairs in stored blocks: 10 operations for each and for every column. Who is not installed,
refuses or is wrong stands there with the reason.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator

import torch
from layers import gpu_time
from torch.nn import attention as dense_attention
from torch.nn.attention import flex_attention as flex

import bsr_gemm as bsr
from attention import MASKS, TOLERANCE, Problem

#: The gradients of Q, K and V, in the layout of this package.
Gradients = Callable[[], tuple[torch.Tensor, ...]]


def of(forward: Callable[[], torch.Tensor], tensors: list[torch.Tensor], dy: torch.Tensor) -> Gradients:
    """The backward pass of a forward pass that runs once."""
    out = forward()
    return lambda: torch.autograd.grad(out, tensors, dy, retain_graph=True)


def ours(problem: Problem, dy: torch.Tensor) -> Iterator[tuple[str, Gradients]]:
    q, k, v = problem.tensors
    yield "bsr_gemm", of(lambda: bsr.attention(q, k, v, problem.mask), problem.tensors, dy)


def flex_attention(problem: Problem, dy: torch.Tensor) -> Iterator[tuple[str, Gradients]]:
    q, k, v = problem.tensors
    mask, compiled = problem.block_mask(), torch.compile(flex.flex_attention, dynamic=False)
    yield "FlexAttention", of(lambda: compiled(q, k, v, block_mask=mask), problem.tensors, dy)


def flash_attention(problem: Problem, dy: torch.Tensor) -> Iterator[tuple[str, Gradients]]:
    from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch
    from flash_attn.cute.interface import flash_attn_func

    given = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in problem.tensors]
    dy = dy.transpose(1, 2).contiguous()
    how: dict = {}
    if problem.kind == "causal":
        how = {"causal": True}
    elif problem.kind == "window":
        how = {"window_size": (problem.before, 0)}
    elif problem.kind != "full":
        size = (problem.side, problem.side)
        by_query = problem.lists(2) + problem.lists(1)
        by_key = problem.lists(2, by_key=True) + problem.lists(1, by_key=True)
        how = {
            "block_sparse_tensors": BlockSparseTensorsTorch(*by_query, block_size=size),
            "block_sparse_tensors_bwd": BlockSparseTensorsTorch(*by_key, block_size=size),
        }

    def forward(deterministic: bool) -> torch.Tensor:
        out = flash_attn_func(*given, deterministic=deterministic, **how)
        return out[0] if isinstance(out, tuple) else out

    def back(gradients: Gradients) -> Gradients:
        return lambda: tuple(x.transpose(1, 2) for x in gradients())

    yield "FlashAttention 4, with atomics", back(of(lambda: forward(False), given, dy))
    if "block_sparse_tensors" not in how:
        yield "FlashAttention 4, deterministic", back(of(lambda: forward(True), given, dy))


def cudnn(problem: Problem, dy: torch.Tensor) -> Iterator[tuple[str, Gradients]]:
    from cudnn.block_sparse_attention import block_sparse_attention_backward, block_sparse_attention_forward

    if problem.mask.has_partial:
        raise ValueError("it has no partial blocks")
    q, k, v = (x.detach() for x in problem.tensors)
    counts, columns = (x.expand(1, q.shape[1], *x.shape[2:]).contiguous() for x in problem.lists(1))
    how = {"q2k_block_nums": counts, "sparse_block_size": problem.side, "layout": "bhsd"}
    found = block_sparse_attention_forward(q, k, v, columns, **how)
    o, lse = found["o_tensor"], found["lse_tensor"]

    def run() -> tuple[torch.Tensor, ...]:
        back = block_sparse_attention_backward(dy, q, k, v, o, lse, columns, **how)
        return back["dq_tensor"], back["dk_tensor"], back["dv_tensor"]

    yield "cuDNN, block-sparse", run


def dense(problem: Problem, dy: torch.Tensor) -> Iterator[tuple[str, Gradients]]:
    if problem.kind not in ("causal", "full"):
        return
    q, k, v = problem.tensors

    def forward() -> torch.Tensor:
        with dense_attention.sdpa_kernel(dense_attention.SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=problem.kind == "causal")

    yield "cuDNN, dense", of(forward, problem.tensors, dy)


def taking_part(problem: Problem) -> tuple[dict[str, Gradients], dict[str, str]]:
    """Whose gradients agree, and why the others do not take part."""
    dy = torch.randn_like(problem.tensors[0])
    found: dict[str, Gradients] = {}
    reasons: dict[str, str] = {}
    reference: list[torch.Tensor] = []
    for peer in (ours, flex_attention, flash_attention, cudnn, dense):
        try:
            for name, run in peer(problem, dy):
                gradients = [gradient.float() for gradient in run()]
                torch.cuda.synchronize()
                reference = reference or gradients
                error = max(((x - y).norm() / y.norm()).item() for x, y in zip(gradients, reference))
                if error < TOLERANCE:
                    found[name] = run
                else:
                    reasons[name] = f"a relative difference of {error:.1e}"
        except Exception as error:  # whatever stops a peer is said beside its name
            reasons[peer.__name__] = (str(error).strip().splitlines() or [type(error).__name__])[-1][:100]
    return found, reasons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=16384)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--columns", type=int, nargs="*", default=[128, 64])
    parser.add_argument("--sides", type=int, nargs="*", default=[128, 64])
    parser.add_argument("--masks", nargs="*", default=["random", "block window", "causal", "full"], choices=MASKS)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", help="a file for the times")
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bsr_gemm {bsr.__version__}")
    rows = []
    for columns in arguments.columns:
        for side in arguments.sides:
            for kind in arguments.masks:
                torch.compiler.reset()
                problem = Problem(kind, side, arguments.queries, arguments.heads, columns, None)
                for tensor in problem.tensors:
                    tensor.requires_grad_()
                runs, reasons = taking_part(problem)
                times = dict(zip(runs, gpu_time(list(runs.values()), arguments.repeats)))
                print(f"d {columns}, blocks of {side}, {kind}, {arguments.queries} queries:")
                for name, ms in times.items():
                    rate = 2.5 * problem.operations / ms * 1e-9
                    print(
                        f"  {name:<32} {ms * 1e3:9.1f} us {rate:7.1f} TFLOP/s {ms / times['bsr_gemm']:.2f} times ours"
                    )
                for name, reason in reasons.items():
                    print(f"  {name:<32} - {reason}")
                row = {"columns": columns, "side": side, "mask": kind, "queries": arguments.queries}
                rows.append(row | {"ms": times, "out": reasons})
                if arguments.json:
                    with open(arguments.json, "w") as file:
                        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
