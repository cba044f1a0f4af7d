"""The dense library, through PyTorch: cuBLAS, or cuBLASLt for FP8."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from .case import Case
from .peer import DENSE, DENSE_ALL, Variant


def product(case: Case, a: torch.Tensor, b: torch.Tensor) -> Callable[[], torch.Tensor]:
    """a * b with f32 sums, as the library likes best; FP8 with its fast accumulation."""
    if case.row.dtype == "e4m3":
        one = torch.ones((), device=case.device)
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=case.out_dtype, use_fast_accum=True)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    c = torch.empty(a.shape[0], b.shape[1], dtype=case.out_dtype, device=case.device)
    return lambda: torch.mm(a, b, out=c)


class DenseEqual:
    """A dense product of as many operations as the sparse one executes: the ceiling, by which all are divided."""

    name = DENSE

    def __init__(self, case: Case) -> None:
        m, n, k = case.row.equal_dense(case.pattern.nnzb)
        self.flops = 2 * m * n * k
        self.words = f"{m} x {n} x {k}"
        a = case.normal(k, m).t() if case.row.op == "dsd_t" else case.normal(m, k)
        b = case.normal_b(k, n)
        self.run = product(case, a, b)
        got = self.run()[:32].double()
        want = a[:32].float().double() @ b.float().double()
        self.error = float(torch.linalg.norm(got - want) / torch.linalg.norm(want))


class DenseFull:
    """The same product with all its zeros: what a user without a sparse library has."""

    name = DENSE_ALL

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The only one."""
        del quick
        if case.row.op == "sdd":
            a, b = case.left, case.right
        elif case.row.op == "dds":
            a, b = case.left, case.to_dense()
        else:
            sparse = case.to_dense()
            a, b = (sparse.t() if case.row.op == "dsd_t" else sparse), case.right
        yield Variant(f"{a.shape[0]} x {b.shape[1]} x {a.shape[1]}", product(case, a, b))
