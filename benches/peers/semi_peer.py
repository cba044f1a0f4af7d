"""2:4 sparsity through cuSPARSELt, as PyTorch calls it: the other way to store half of a layer's weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from .case import Case, raw, wide
from .peer import SEMI, Refused, Run, Variant, lazy


class Semi:
    """Weights of the row's size of which 2:4 keeps half, whatever the row's pattern stores: another matrix, with a
    reference of its own."""

    name = SEMI

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """B and C in either order that the type allows, captured in a graph and called each time."""
        del quick
        if case.row.op != "dsd":
            raise Refused("the weights stand on the left")
        if not torch.backends.cusparselt.is_available():
            raise Refused("this PyTorch has no cuSPARSELt")
        weights = prune(case.normal(case.row.m, case.row.k))
        expected = wide(weights[case.sample]) @ wide(case.right)
        packed = torch.sparse.to_sparse_semi_structured(weights).packed
        assert packed is not None
        b = padded(case.right)
        orders = {"B and C column-major": (b.t().contiguous().t(), True)}
        if case.row.dtype == "f16":
            orders["B and C row-major"] = (b.contiguous(), False)
        for how, make in (("in a CUDA graph", captured), ("called", called)):
            for words, (operand, transposed) in orders.items():
                product = Product(packed, operand, transposed, case)
                error = partial(case.error_against, expected)
                yield Variant(f"{words}, {how}", lazy(partial(make, product)), error)


def prune(weights: torch.Tensor) -> torch.Tensor:
    """The two of each four along a row that are greatest in magnitude; the others are zero."""
    sizes = weights.float().abs().view(-1, 4)
    kept = torch.zeros_like(sizes, dtype=torch.bool).scatter_(1, sizes.topk(2, dim=1, sorted=False).indices, True)
    return raw(weights).masked_fill(~kept.view(weights.shape), 0).view(weights.dtype)


def padded(b: torch.Tensor) -> torch.Tensor:
    """With columns of zeros up to what the library takes, a multiple of 16 bytes: PyTorch's own product adds them at
    each call, a program that is written for speed once."""
    columns = 16 // b.dtype.itemsize
    more = -b.shape[1] % columns
    if not more:
        return b
    return torch.cat([raw(b), raw(b).new_zeros(b.shape[0], more)], dim=1).view(b.dtype)


@dataclass(frozen=True)
class Product:
    """What PyTorch's semi-structured tensors call, with the library's first algorithm as they do. `transposed`: C is
    column-major."""

    packed: torch.Tensor
    b: torch.Tensor
    transposed: bool
    case: Case

    def run(self) -> torch.Tensor:
        """Enqueues it; the columns that the row has."""
        # PyTorch wants to be told for 8 bits alone.
        told = self.case.out_dtype if self.case.out_dtype != self.b.dtype else None
        c: torch.Tensor = torch._cslt_sparse_mm(self.packed, self.b, out_dtype=told, transpose_result=self.transposed)
        return (c.t() if self.transposed else c)[:, : self.case.row.n]


def called(product: Product) -> Run:
    """As `torch.mm` does it, which plans every product."""
    return product.run


def captured(product: Product) -> Run:
    """Planned once, so that the time is the GPU's."""
    product.run()  # What is made at the first call cannot be captured.
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = product.run()

    def replay() -> torch.Tensor:
        graph.replay()
        return c

    return replay
