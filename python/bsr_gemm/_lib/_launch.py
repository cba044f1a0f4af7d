"""Launches on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from . import _arrays, _gpu, _native
from ._arrays import result_kind
from ._epilogues import derivative_of, epilogue_of
from ._gpu import _layers
from ._gradients import activate
from ._native import Error
from ._operands import Result, further_of, lies_whole, operand_of, transposed, values_of
from ._patterns import Pattern

# A PyTorch without CUDA has neither; nothing is launched there.
_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_device: Any = getattr(torch._C, "_cuda_getDevice", None)


def _arithmetic(dtype: torch.dtype) -> Any:
    """What a product is computed in, of operands of a type: of f32 PyTorch's setting decides whether in TF32."""
    return dtype if dtype is not torch.float32 else torch.get_float32_matmul_precision()


def direct(
    x: Tensor, weight: Tensor, bias: Tensor | None, pattern: str, transpose: bool, activation: str
) -> Tensor | None:
    """``activation(x @ w.T + bias)`` where operands of these shapes were multiplied before; None where they were not.

    The operands are plain tensors. Nothing here is looked at twice: a call costs the host little more than the launch.
    """
    where = x.get_device()
    dtype = x.dtype
    # As `_arithmetic`, without a call.
    how = dtype if dtype is not torch.float32 else torch.get_float32_matmul_precision()
    if bias is None:
        ready = _layers.get((pattern, transpose, activation, where, how, x.shape, x.stride()))
    else:
        ready = _layers.get((pattern, transpose, activation, where, how, x.shape, x.stride(), bias.dtype))
    if ready is None:
        return None
    launch, shape, stride, blocks, outputs = ready
    if weight.dtype is not dtype or weight.shape != blocks or weight.get_device() != where or _device() != where:
        return None
    if x.is_neg() or weight.is_neg() or (bias is not None and bias.is_neg()):
        return None
    values, dense = weight.data_ptr(), x.data_ptr()
    if bias is None:
        if (values | dense) & 15 or not weight.is_contiguous():
            return None
        out = x.new_empty_strided(shape, stride)
        launch(values, dense, out.data_ptr(), _stream(where))
    else:
        added = bias.data_ptr()
        if (values | dense | added) & 15 or bias.shape != outputs or bias.get_device() != where:
            return None
        if not (weight.is_contiguous() and bias.is_contiguous()):
            return None
        out = x.new_empty_strided(shape, stride)
        launch(values, dense, out.data_ptr(), _stream(where), added)
    return out


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, pattern: Pattern, transpose: bool, activation: str
) -> Tensor:
    """``out = activation(x @ w.T + bias)``, or with ``w`` where it is transposed: C = A B of C = out.T, A = w, B = x.T."""
    with _gpu.OnDevice(x.device.index):
        if pattern.nnzb == 0 or 0 in out.shape:
            return without_blocks(out, bias, activation)
        if _arrays.kind_of(x) in _arrays.WIDE:
            return _wide(x, weight, bias, out, pattern, transpose, activation)
        further = [] if bias is None else [("bias", bias)]
        epilogue = epilogue_of(activation, None if bias is None else _arrays.kind_of(bias))
        ready = _product(x, weight, out, pattern, transpose, epilogue, further)
        if ready is not None:
            _remember(x, out, bias, pattern, (transpose, activation), ready)
    return out


def _wide(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, pattern: Pattern, transpose: bool, activation: str
) -> Tensor:
    """The same of f32 and f64: what follows the product is computed by PyTorch, and larger blocks take copies that lie by rows of B and C, but in TF32."""
    whole, kind = out, _arrays.kind_of(x)
    is_rounded = (
        kind == "f32"
        and not pattern.on_device
        and _arrays.in_tf32(kind, pattern.block, _gpu.capability_of(x.device.index))
    )
    if _arrays.by_rows(kind, pattern.block) and not is_rounded:
        # A single row would lie either way.
        x = x if len(x) > 1 else x.expand(2, -1)
        x, whole = x.t().contiguous().t(), x.new_empty((out.shape[1], len(x))).t()
    ready = _product(x, weight, whole, pattern, transpose, None, [], is_rounded=is_rounded)
    whole = whole[: len(out)]
    result = activate(whole if bias is None else whole + bias, activation)
    if result.data_ptr() != out.data_ptr():
        return out.copy_(result)
    if ready is not None:
        _remember(x, out, bias, pattern, (transpose, activation), ready)
    return out


def _remember(x: Tensor, out: Tensor, bias: Tensor | None, pattern: Pattern, how: tuple, ready: Any) -> None:
    """Lets calls with operands of the same shapes find their product."""
    if x.dtype is not out.dtype:
        return
    key = (pattern.key, *how, x.get_device(), _arithmetic(x.dtype), x.shape, x.stride())
    saved = (ready.launch, tuple(out.shape), out.stride(), (pattern.nnzb, *pattern.block), (out.shape[1],))
    with _gpu._lock:
        if len(_layers) >= _gpu.READY:
            _layers.clear()
        _layers[key if bias is None else (*key, bias.dtype)] = saved


def remember_as(x: Tensor, flat: Tensor, out: Tensor, bias: Tensor | None, how: tuple) -> None:
    """Lets calls with more dimensions than two find the product of the matrix that they are."""
    if not x.is_contiguous() or flat.data_ptr() != x.data_ptr():
        return
    end = () if bias is None else (bias.dtype,)
    place = (*how, x.get_device(), _arithmetic(x.dtype))
    found = _layers.get((*place, flat.shape, flat.stride(), *end))
    if found is not None:
        key = (*place, x.shape, x.stride(), *end)
        _layers[key] = (found[0], tuple(out.shape), out.stride(), *found[3:])


def _product(
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    pattern: Pattern,
    transpose: bool,
    epilogue: str | None,
    further: list[tuple[str, Tensor]],
    second: Tensor | None = None,
    is_rounded: bool = False,
) -> Any:
    """Enqueues ``out = epilogue(x @ w.T)``, of f32 that may be rounded to TF32; what it was, where every operand was multiplied where it lies.

    What the epilogue reads are vectors with an element for each output or for each row of ``x``, and matrices of C = out.T.
    """
    kind = _arrays.kind_of(x)
    seen, result = operand_of(x), Result(out, elements=_arrays.stores_elements(kind, pattern.block))
    (address, *lies), (place, *goes) = seen[1], result.argument
    facts = _facts(pattern, kind, transpose, lies[2], result.is_col, _arrays.kind_of(out))
    facts += ", tf32 = on" if is_rounded else ""
    loaded = _gpu.kernel_of(x.device.index, pattern, facts, x.shape[0], epilogue)
    matrices = (address, *transposed(*lies)), (place, *transposed(*goes))
    ready = enqueue(loaded, pattern, values_of(weight), matrices, further, second)
    result.finish()
    return ready if seen[0] is x and result.padded is None else None


def enqueue(
    loaded: Any, pattern: Pattern, stored: Tensor, matrices: tuple, further: Iterable = (), second: Tensor | None = None
) -> Any:
    """Enqueues a product of the values of stored blocks and two matrices, where they lie and how; what it was.

    What the epilogue reads are names with numbers, vectors, matrices that lie as the kernel's C does, and values of blocks.
    """
    index = stored.device.index
    described, places, alive = further_of(further, second, matrices[1][3])
    sparse = _gpu.sparse_of(index, pattern, _arrays.kind_of(stored))
    shapes = tuple(matrix[1:] for matrix in matrices)
    ready = _gpu.ready_of(loaded, sparse, pattern, shapes, described, None if second is None else len(second))
    ready.launch(stored.data_ptr(), *(matrix[0] for matrix in matrices), _stream(index), *places)
    del alive
    return ready


def fused(
    x: Tensor, weight: Tensor, out: Tensor, pattern: Pattern, epilogue: str, further: list[tuple[str, Tensor]]
) -> Tensor:
    """``out = epilogue(x @ w.T)``; what the epilogue reads are vectors with an element for each output or row of ``x``."""
    if 0 in out.shape:
        return out
    with _gpu.OnDevice(x.device.index):
        _product(x, weight, out, pattern, False, epilogue, further)
    return out


def gradient(
    dy: Tensor, weight: Tensor, saved: Tensor, pattern: Pattern, transpose: bool, activation: str
) -> tuple[Tensor, Tensor] | None:
    """``(dy @ w) * activation'`` and the sums of its columns, in one kernel; None where there is none for the block.

    ``kept`` is the activation's input, or its result if the derivative is a function of that.
    """
    outputs = pattern.shape[0] if transpose else pattern.shape[1]
    if pattern.nnzb == 0 or dy.shape[0] == 0 or not lies_whole(saved, outputs):
        return None
    epilogue = derivative_of(activation, _arrays.kind_of(saved))
    with _gpu.OnDevice(dy.device.index):
        out = dy.new_empty((dy.shape[0], outputs))
        lies = operand_of(dy)[1][1:]
        facts = _facts(pattern, _arrays.kind_of(dy), not transpose, lies[2], False, _arrays.kind_of(dy))
        if not _gpu.has_kernel(dy.device.index, pattern, facts, dy.shape[0], epilogue):
            return None
        sums = dy.new_empty(outputs, dtype=torch.float32)
        further = [] if activation == "none" else [("u", saved.t())]
        _product(dy, weight, out, pattern, not transpose, epilogue, further, sums)
    return out, sums


def _facts(pattern: Pattern, kind: str, transpose: bool, x_is_col: bool, out_is_col: bool, out: str) -> str:
    """What a product is, in the words of a spec: rows of x are columns of B."""
    bm, bk = pattern.block
    if transpose and max(bm, bk) > _arrays.SMALL:
        refuse_wide(kind, "`x @ w`, or the gradient of `w @ x`, with blocks of more than 8 rows or columns of")
    layouts = f"b_layout = {'row' if x_is_col else 'col'}, c_layout = {'row' if out_is_col else 'col'}"
    return (
        f"bm = {bm}, bn = 64, bk = {bk}, dtype = {kind}, out = {out}, "
        f"transpose = {'on' if transpose else 'off'}, {layouts}"
    )


def refuse_wide(kind: str, what: str) -> None:
    """Refuses what kernels on tensor cores alone compute."""
    if kind in _arrays.WIDE:
        raise Error(
            f"no kernel on a GPU computes {what} {kind}\n"
            f"  kernels of {kind} compute `w @ x` and `linear` alone, and `x @ w` in blocks of up to 8 x 8\n"
            "  help: convert to bf16 or f16, or run under `torch.autocast('cuda', torch.bfloat16)`"
        )


def without_blocks(out: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """The result of a pattern that stores nothing."""
    zeros = torch.zeros_like(out)
    return out.copy_(activate(zeros if bias is None else zeros + bias, activation))


def sddmm(
    a: Tensor,
    b: Tensor,
    out: Tensor,
    pattern: Pattern,
    epilogue: str | None = None,
    inputs: dict[str, Any] | None = None,
) -> Tensor:
    """``out`` = the stored blocks of ``epilogue(a @ b)``.

    What the epilogue reads are numbers, vectors with an element for each row, and values of blocks.
    """
    index = a.device.index
    kind = _arrays.kind_of(a)
    with _gpu.OnDevice(index):
        if pattern.nnzb == 0:
            return out
        if a.shape[1] == 0:
            return out.zero_()
        refuse_wide(kind, "the stored blocks of a product, or the gradient of `w`, of")
        (a_operand, left), (b_operand, right) = operand_of(a), operand_of(b)
        bm, bk = pattern.block
        facts = (
            f"bm = {bm}, bn = 64, bk = {bk}, op = sdd, dtype = {kind}, out = {_arrays.kind_of(out)}, "
            f"a_layout = {'col' if left[3] else 'row'}, b_layout = {'col' if right[3] else 'row'}"
        )
        loaded = _gpu.kernel_of(index, pattern, facts, a.shape[1], epilogue)
        enqueue(loaded, pattern, out, (left, right), (inputs or {}).items())
        del a_operand, b_operand
    return out


def prepare_batch(xs: list[Tensor], ws: list[Any]) -> tuple[list[Tensor], tuple]:
    """Places for the results of ``x @ w.T`` of each pair, and what a launch of all needs."""
    index, kind = xs[0].device.index, _arrays.kind_of(xs[0])
    _gpu.refuse_fork()
    results, problems, copies, padded, alive = [], [], [], [], []
    with _gpu.OnDevice(index):
        for x, w in zip(xs, ws):
            out = x.new_empty((x.shape[0], w.shape[0]), dtype=_arrays.torch_dtype(result_kind(kind)))
            results.append(out)
            if 0 in x.shape or w.nnzb == 0:
                out.zero_()
                continue
            row_major = x if x.stride(1) == 1 else x.contiguous()
            operand, argument = operand_of(row_major)
            if operand is not x:
                copies.append((operand[:, : x.shape[1]], x))
            result, values = Result(out), values_of(w.values)
            if values is not w.values:
                copies.append((values, w.values))
            if result.padded is not None:
                padded.append(result)
            dense, product = ((lies[0], transposed(*lies[1:])) for lies in (argument, result.argument))
            problems.append((w.pattern._native, values.data_ptr(), dense, product))
            alive += [operand, values, result, w]
        if not problems:
            return results, (None, copies, padded, alive)
        largest = max((w for w in ws if w.nnzb), key=lambda w: w.nnzb)
        facts = _facts(largest.pattern, kind, False, False, False, _arrays.kind_of(results[0]))
        loaded = _gpu.kernel_of(index, largest.pattern, facts, max(x.shape[0] for x in xs), is_list=True)
        return results, (_native.Batch(loaded, problems), copies, padded, alive)


def launch_batch(prepared: tuple, index: int) -> None:
    """Enqueues all products of a batch."""
    batch, copies, padded, _ = prepared
    _gpu.refuse_fork()
    with _gpu.OnDevice(index):
        for copy, source in copies:
            copy.copy_(source)
        if batch is not None:
            batch.launch(_stream(index))
        for result in padded:
            result.finish()
