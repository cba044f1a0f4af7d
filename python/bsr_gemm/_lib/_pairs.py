"""Products of two block-sparse matrices in PyTorch: ``torch.ops.bsr_gemm.spgemm``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from . import _arrays, _gpu, _native
from ._arrays import result_kind
from ._blocks import dense_of, gather, padding_mask, transposed
from ._device_patterns import hosted, spread
from ._native import Error
from ._operands import further_of, values_of
from ._operators import once, operator
from ._patterns import Pattern, find
from ._torch import _cast

_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
#: Products that lack only their addresses.
_ready: dict[tuple, Any] = {}
_gpu.further_caches.append(_ready)
#: Element types of kernels on pairs of blocks, and those whose tensor cores read both factors along K alone.
KINDS = ("f16", "bf16", "e4m3", "e5m2")
ALONG_K = ("e4m3", "e5m2")
#: The values of blocks column by column, of tensors that were a second factor: the version that was arranged, and the copy.
_columns: Any = WeakTensorKeyDictionary()


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
    # Places without a block are not written.
    new = a.new_zeros if c.on_device else a.new_empty
    return new((c.nnzb, *c.block), dtype=_arrays.torch_dtype(result_kind(_arrays.kind_of(a))))


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
    kernel = _kernel(left, right, c) if a.is_cuda else None
    if c.on_device and kernel is None:
        if a.is_cuda:
            raise Error(
                f"no kernel multiplies blocks of {left[1].block} and {right[1].block} in {a.dtype} whose patterns live on the GPU\n"
                "  help: f16, bf16 or float8 in blocks whose rows are a multiple of 64; or `to_host()` of both"
            )
        (found, _), left, right = c.host(), hosted_factor(left), hosted_factor(right)
        return spread(c, _by_dense(left, right, found))
    values = _by_dense(left, right, c) if kernel is None else _launched(kernel, left, right, c)
    mask = padding_mask(c) if transpose_a or transpose_b else None
    # What a gradient has beyond the edge, its products have, too.
    return values if mask is None else values.masked_fill_(_arrays.index(mask, values), 0)


def hosted_factor(factor: Factor) -> Factor:
    """The same with its pattern on the host."""
    return hosted(factor[1], factor[0])[::-1]


def facts_of(kind: str, a: Pattern, b: Pattern) -> str:
    """What the product of two patterns is to a kernel."""
    return f"op = sss, bm = {a.block[0]}, bn = {b.block[1]}, bk = {a.block[1]}, dtype = {kind}"


def _kind_of_pattern(pattern: Pattern) -> tuple[int, ...]:
    """Patterns that agree in this have one kernel: grid, and stored blocks to within a fifth."""
    return (*pattern.grid, round(4 * math.log2(max(1, pattern.nnzb))))


def _place(pattern: Any, index: int) -> Any:
    return pattern.on_gpu(index) if pattern.on_device else pattern._native


def _kernel(a: Factor, b: Factor, c: Pattern) -> Any:
    """The kernel of these factors on a's GPU, chosen now or for others like them; None where there is none of their blocks and type."""
    kind, index = _arrays.kind_of(a[0]), a[0].device.index
    if kind not in KINDS:
        return None
    facts, patterns = facts_of(kind, a[1], b[1]), (a[1], b[1], c)

    def choose() -> Any:
        if _native.plan(facts)[0] is None or torch.cuda.get_device_capability(index)[0] != 9:
            return (None,)
        return (_gpu.gpu_of(index).choose_pairs(*(_place(pattern, index) for pattern in patterns), facts),)

    key = (index, facts, c.on_device, *map(_kind_of_pattern, patterns))
    return _gpu.cached(_ready, key, choose)[0]


def in_columns(values: Tensor) -> Tensor:
    """The values of blocks with the elements of each block column by column: made once for each tensor and what it holds."""
    version = None if values.is_inference() else values._version
    known = _columns.get(values)
    if known is not None and version is not None and known[0] == version:
        return known[1]
    arranged = values.detach().transpose(1, 2).contiguous()
    if version is not None:
        _columns[values] = version, arranged
    return arranged


def launched(
    kernel: Any,
    factors: tuple[Factor, Factor],
    c: Pattern | None,
    result: tuple[int, int],
    further: Sequence[tuple[str, Any]] = (),
    second: Tensor | None = None,
    is_col: bool = False,
) -> None:
    """Enqueues a product on the current stream of the GPU of its values. ``c`` is the pattern of a result in blocks, ``result`` its
    address and, of a dense one, elements from one line to the next; ``further`` is what an epilogue reads, by its name, of matrices as
    C lies."""
    (a, of_a), (b, of_b) = factors
    index = a.device.index
    described, places, alive = further_of(further, second, is_col)
    length = None if second is None else len(second)
    key = (index, kernel.spec, of_a.key, of_b.key, None if c is None else c.key, described, length)

    def make() -> Any:
        patterns = [None if pattern is None else _place(pattern, index) for pattern in (of_a, of_b, c)]
        return _native.ReadyPairs(kernel, *patterns, list(described), length)

    ready = _gpu.cached(_ready, key, make)
    # Of a factor without blocks nothing is read, but a launch has an address.
    a, b = (values if len(values) else values.new_zeros(1, *values.shape[1:]) for values in (a, b))
    left, right = values_of(a), values_of(in_columns(b) if kernel.b_layout == "col" else b)
    ready.launch(left.data_ptr(), right.data_ptr(), *result, _stream(index), *places)
    del alive


def _launched(kernel: Any, a: Factor, b: Factor, c: Pattern) -> Tensor:
    out = _empty(a[0], c)
    with _gpu.OnDevice(a[0].device.index):
        launched(kernel, (a, b), c, (out.data_ptr(), 0))
    return out


def _by_dense(a: Factor, b: Factor, c: Pattern) -> Tensor:
    """The same by way of a dense B and a dense C, in any type and blocks of any size."""
    right = dense_of(*b).t()
    # Tensor cores read 8-bit operands along K.
    right = right.contiguous() if right.element_size() == 1 else right
    product = torch.ops.bsr_gemm.linear(right, a[0], None, a[1].key)
    return gather(product.t(), c)


def _keep(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, *keys = inputs[:5]
    ctx.keys, ctx.held = keys, [find(key) for key in keys]
    ctx.save_for_backward(a, b)


def _backward(ctx: Any, dc: Tensor) -> tuple:
    (a, b), (of_a, of_b, of_c), needs = ctx.saved_tensors, ctx.keys, ctx.needs_input_grad
    if ctx.held[0].on_device:
        raise Error(
            "a product of two matrices whose patterns live on a device computes no gradient\n"
            "  help: `to_host()` of both, or call it under `torch.no_grad()`"
        )
    if a.element_size() == 1:
        raise Error(f"a product of {a.dtype} computes no gradient\n  help: call it under `torch.no_grad()`")
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
