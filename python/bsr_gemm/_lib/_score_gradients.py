"""Gradients of the numbers and vectors of a score.

The kernels of an attention's gradient leave sums over the pairs of each query or key, which are added here to what a number or a
vector has of them, always in the same order. Where no kernels compute the gradient, it is that of products: on the CPU, of other
types than f16 and bf16, and of blocks, heads and functions that the kernels are not planned for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _attention_gradient
from ._score import score_of


def gradients(given: tuple, mask: Any, how: tuple, vectors: Sequence[Tensor], wanted: Sequence[Tensor | None]) -> tuple:
    """The gradients of Q, K and V, then of vectors and numbers of the score: of each of ``wanted`` that is not None.

    ``given`` are dO, the gradient of LSE or None, Q, K, V, O and LSE; ``wanted`` are the vectors, then the numbers.
    """
    _, _, q, _, v, *_ = given
    if q.is_cuda and (mask.on_device or mask.stored) and 0 not in (*q.shape, *v.shape):
        found = of_kernels(given, mask, how, vectors, wanted)
        if found is not None:
            return found
    return of_products(given, mask, how, vectors, wanted)


def of_kernels(
    given: tuple, mask: Any, how: tuple, vectors: Sequence[Tensor], wanted: Sequence[Tensor | None]
) -> tuple | None:
    """The same as the kernels compute them; None where there are none."""
    from . import _attention_launch

    do, dlse, q, k, v, o, lse = given
    tensors, kind = (q, k, v, o, do), _attention_launch.WITH_SCORE
    found = _attention_launch.direct_gradient(tensors, lse, dlse, how, vectors, kind)
    if found is None:
        found = _attention_launch.gradient(tensors, lse, dlse, mask, how, vectors, kind)
    if found is None:
        return None
    *of_tensors, sums = found
    kinds = [kind for _, kind, _ in score_of(how[1]).parameters]
    numbers = [at for at, kind in enumerate(kinds) if kind == "f32"]
    order = [at for at in range(len(kinds)) if at not in numbers] + numbers

    def of_parameter(at: int, of: Tensor | None) -> Tensor | None:
        if of is None:
            return None
        line = sums.get(at)
        return torch.zeros_like(of) if line is None else line.sum_to_size(of.shape).to(of)

    return *of_tensors, *map(of_parameter, order, wanted)


def of_products(
    given: tuple, mask: Any, how: tuple, vectors: Sequence[Tensor], wanted: Sequence[Tensor | None]
) -> tuple:
    """The same as products."""
    (_, score, scale, numbers), q = how, given[2]
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    of_vectors, of_numbers = wanted[: len(vectors)], wanted[len(vectors) :]
    held = [vector.detach().requires_grad_(of is not None) for vector, of in zip(vectors, of_vectors)]
    leaves = [torch.tensor(number, dtype=dtype, device=q.device, requires_grad=True) for number in numbers]
    read = [leaf if of is not None else number for leaf, number, of in zip(leaves, numbers, of_numbers)]
    read = read or list(numbers)
    each = [leaf for leaf, of in zip([*held, *leaves], wanted) if of is not None]
    dq, dk, dv, *found = _attention_gradient.gradients(*given, mask, score, scale, read, held, wanted=each)
    gradient = iter(found)
    return dq, dk, dv, *(None if of is None else next(gradient).to(of).reshape(of.shape) for of in wanted)
