"""Products of two block-sparse matrices in PyTorch: ``torch.ops.bsr_gemm.spgemm``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _arrays, _gpu, _native
from ._arrays import result_kind
from ._blocks import dense_of, gather, padding_mask, transposed
from ._native import Error
from ._operators import once, operator
from ._patterns import Pattern, find
from ._torch import _cast

_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
#: Products that lack only their addresses.
_ready: dict[tuple, Any] = {}
_gpu.further_caches.append(_ready)


def spgemm(a: Tensor, b: Tensor, of_a: Pattern, of_b: Pattern, of_c: Pattern) -> Tensor:
    """The values of the blocks of a pattern in the product of two block-sparse matrices."""
    a, b = _cast(a.device.type, a, b)
    return torch.ops.bsr_gemm.spgemm(a, b, of_a.key, of_b.key, of_c.key)


#: Values of blocks and their pattern.
Factor = tuple[Tensor, Pattern]


def _operand(values: Tensor, key: str, transpose: bool) -> Factor:
    pattern = find(key)
    return transposed(values, pattern) if transpose else (values, pattern)


def _empty(a: Tensor, c: Pattern) -> Tensor:
    return a.new_empty((c.nnzb, *c.block), dtype=_arrays.torch_dtype(result_kind(_arrays.kind_of(a))))


def _fake(a, b, of_a, of_b, of_c, transpose_a=False, transpose_b=False):
    return _empty(a, find(of_c))


def _run(a, b, of_a, of_b, of_c, transpose_a=False, transpose_b=False):
    if a.device != b.device or a.dtype != b.dtype:
        raise Error(
            f"the operands are of {a.dtype} on {a.device} and {b.dtype} on {b.device}\n  help: convert one of them"
        )
    c = find(of_c)
    if 0 in (len(a), len(b), c.nnzb):
        return _empty(a, c).zero_()
    left, right = _operand(a, of_a, transpose_a), _operand(b, of_b, transpose_b)
    kernel = _kernel(left, right) if a.is_cuda else None
    values = _by_dense(left, right, c) if kernel is None else _launched(kernel, left, right, c)
    mask = padding_mask(c) if transpose_a or transpose_b else None
    # What a gradient has beyond the edge, its products have, too.
    return values if mask is None else values.masked_fill_(_arrays.index(mask, values), 0)


def _kernel(a: Factor, b: Factor) -> Any:
    """The kernel of these blocks on a's GPU; None where there is none of their sizes and type."""
    kind, (bm, bk), index = _arrays.kind_of(a[0]), a[1].block, a[0].device.index
    if kind not in ("f16", "bf16"):
        return None
    spec = f"op = sss, bm = {bm}, bn = {b[1].block[1]}, bk = {bk}, dtype = {kind}"

    def load() -> Any:
        planned, _ = _native.plan(spec)
        if planned is None or torch.cuda.get_device_capability(index)[0] != 9:
            return (None,)
        return (_gpu.gpu_of(index).load(planned),)

    return _gpu.cached(_ready, (index, spec), load)[0]


def _launched(kernel: Any, a: Factor, b: Factor, c: Pattern) -> Tensor:
    out, index, patterns = _empty(a[0], c), a[0].device.index, (a[1], b[1], c)

    def make() -> Any:
        return _native.ReadyPairs(kernel, *(pattern._native for pattern in patterns))

    with _gpu.OnDevice(index):
        ready = _gpu.cached(_ready, (index, kernel.spec, *(pattern.key for pattern in patterns)), make)
        left, right = a[0].contiguous(), b[0].contiguous()
        ready.launch(left.data_ptr(), right.data_ptr(), out.data_ptr(), _stream(index))
    return out


def _by_dense(a: Factor, b: Factor, c: Pattern) -> Tensor:
    """The same by way of a dense B and a dense C, in any type and blocks of any size."""
    product = torch.ops.bsr_gemm.linear(dense_of(*b).t(), a[0], None, a[1].key)
    return gather(product.t(), c)


def _keep(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, *keys = inputs[:5]
    ctx.keys, ctx.held = keys, [find(key) for key in keys]
    ctx.save_for_backward(a, b)


def _backward(ctx: Any, dc: Tensor) -> tuple:
    (a, b), (of_a, of_b, of_c), needs = ctx.saved_tensors, ctx.keys, ctx.needs_input_grad
    product = torch.ops.bsr_gemm.spgemm
    with torch.no_grad():
        da = product(dc.contiguous(), b, of_c, of_b, of_a, False, True) if needs[0] else None
        db = product(a, dc.contiguous(), of_a, of_c, of_b, True, False) if needs[1] else None
    return *once((da, db), dc, a, b), None, None, None, None, None


operator(
    "spgemm(Tensor a, Tensor b, str a_pattern, str b_pattern, str c_pattern, bool transpose_a=False, bool transpose_b=False)"
    " -> Tensor",
    _fake,
    _run,
    backward=_backward,
    keep=_keep,
)
