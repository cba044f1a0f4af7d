"""Products of two block-sparse matrices in PyTorch: ``torch.ops.bsr_gemm.spgemm``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from . import _arrays, _gpu, _native
from ._arrays import result_kind
from ._blocks import dense_of, gather, padding_mask, transposed
from ._device_patterns import hosted, spread
from ._native import Error
from ._operands import values_of
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
    kernel = _kernel(left, right) if a.is_cuda else None
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


def loads_of_pair(high: int, wide: int, of_a: float, of_b: float) -> float:
    """Blocks that a tile of ``high`` x ``wide`` blocks of C loads for each pair that it multiplies, where parts ``of_a`` of A's
    blocks and ``of_b`` of B's are stored, anywhere. A tile of one block loads 2."""
    needed = high * of_a * (1 - (1 - of_b) ** wide) + wide * of_b * (1 - (1 - of_a) ** high)
    return needed / max(high * wide * of_a * of_b, 1e-9)


#: Tiles of several blocks are taken up to so many loads: in the measurements of `sss` in `benches/LOG.md`, 88, they are faster at
#: 1.75 and fewer, and slower at 1.88.
FEW_LOADS = 1.8


def specs(kind: str, block: tuple[int, int, int], densities: tuple[float, float]) -> list[str]:
    """The kernels for blocks of ``bm x bk`` times ``bk x bn``, the preferred one first: with `pack` where that saves enough loads."""
    bm, bk, bn = block
    spec = f"op = sss, bm = {bm}, bn = {bn}, bk = {bk}, dtype = {kind}"
    # 64 x 64 blocks share a tile in two columns, of up to three rows as fast as of four.
    high, wide = (3, 2) if (bm, bn) == (64, 64) else (2, 1)
    return [f"{spec}, pack = {high}"] * (loads_of_pair(high, wide, *densities) <= FEW_LOADS) + [spec]


def _kernel(a: Factor, b: Factor) -> Any:
    """The kernel of these factors on a's GPU; None where there is none of their blocks and type."""
    kind, index = _arrays.kind_of(a[0]), a[0].device.index
    if kind not in KINDS:
        return None
    wanted = specs(kind, (*a[1].block, b[1].block[1]), (a[1].density, b[1].density))
    # Lists of tiles of several blocks are made on the host.
    wanted = wanted[-1:] if a[1].on_device else wanted

    def load() -> Any:
        planned = next((planned for spec in wanted if (planned := _native.plan(spec)[0]) is not None), None)
        if planned is None or torch.cuda.get_device_capability(index)[0] != 9:
            return (None,)
        return (_gpu.gpu_of(index).load(planned),)

    return _gpu.cached(_ready, (index, wanted[0]), load)[0]


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


def launched(kernel: Any, factors: tuple[Factor, Factor], c: Pattern | None, result: tuple[int, int]) -> None:
    """Enqueues a product on the current stream of the GPU of its values. ``c`` is the pattern of a result in blocks, ``result`` its
    address and, of a dense one, elements from one line to the next."""
    (a, of_a), (b, of_b) = factors
    index = a.device.index

    def native(pattern: Any) -> Any:
        return pattern.on_gpu(index) if pattern.on_device else pattern._native

    patterns = [None if pattern is None else native(pattern) for pattern in (of_a, of_b, c)]
    key = (index, kernel.spec, of_a.key, of_b.key, None if c is None else c.key)
    ready = _gpu.cached(_ready, key, lambda: _native.ReadyPairs(kernel, *patterns))
    left, right = values_of(a), values_of(in_columns(b) if kernel.b_layout == "col" else b)
    ready.launch(left.data_ptr(), right.data_ptr(), *result, _stream(index))


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
