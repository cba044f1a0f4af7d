"""Launches on NVIDIA GPUs: what is kept of a pattern and of the kernels that were chosen for it."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch
from torch import Tensor

from . import _arrays, _native
from ._native import Error
from ._patterns import Pattern, find
from ._products import epilogue_of, result_kind

_lock = threading.RLock()
_gpus: dict[int, Any] = {}
_sparse: dict[tuple, Any] = {}
_loaded: dict[tuple, Any] = {}
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = bool(_gpus)


os.register_at_fork(after_in_child=_after_fork)


def refuse_fork() -> None:
    """Refuses a process that was forked from one that used a GPU, before PyTorch meets it."""
    if _forked:
        raise Error(
            "this process was forked from one that used a GPU, and CUDA does not work in such a process\n"
            "  help: start it with the method `spawn`: `torch.multiprocessing.set_start_method('spawn')`"
        )


def _gpu(index: int) -> Any:
    refuse_fork()
    gpu = _gpus.get(index)
    if gpu is None:
        with _lock:
            gpu = _gpus.get(index) or _native.Gpu(index)
            _gpus[index] = gpu
    return gpu


def _sparse_of(index: int, pattern: Pattern, kind: str) -> Any:
    key = (index, pattern.key, kind)
    found = _sparse.get(key)
    if found is None:
        with _lock:
            found = _sparse.get(key) or _gpu(index).sparse(pattern._native, kind)
            _sparse[key] = found
    return found


def _kernel_of(index: int, pattern: Pattern, facts: str, n: int, epilogue: str | None) -> Any:
    key = (index, pattern.key, facts, n.bit_length() if n & (n - 1) else n.bit_length() - 1, epilogue)
    found = _loaded.get(key)
    if found is None:
        with _lock:
            found = _loaded.get(key) or _gpu(index).choose(pattern._native, facts, n, epilogue)
            _loaded[key] = found
    return found


def forget() -> None:
    """Frees what is kept on GPUs of all patterns and kernels; graphs that were captured must not be replayed afterwards."""
    torch.cuda.synchronize()
    with _lock:
        _sparse.clear()
        _loaded.clear()


class _OnDevice:
    """The device of a tensor, where it is not the current one."""

    def __init__(self, index: int) -> None:
        refuse_fork()
        self.guard = None if torch.cuda.current_device() == index else torch.cuda.device(index)

    def __enter__(self) -> None:
        if self.guard is not None:
            self.guard.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.guard is not None:
            self.guard.__exit__(*error)


def _stream(index: int) -> int:
    return torch._C._cuda_getCurrentRawStream(index)


def _addressable(lines: int, line: int, stride: int, size: int, address: int) -> bool:
    """Whether TMA addresses a matrix of so many lines, and a store ends where its line does."""
    return address % 16 == 0 and (stride * size) % 16 == 0 and stride >= line


def _operand(x: Tensor) -> tuple[Tensor, tuple[int, int, int, bool, int]]:
    """A matrix as a kernel reads it, and the tensor that keeps it alive: a padded copy where TMA cannot address it."""
    rows, cols = x.shape
    is_col = x.stride(1) != 1 and x.stride(0) == 1
    size = x.element_size()
    lines, line = (cols, rows) if is_col else (rows, cols)
    stride = x.stride(1) if is_col else x.stride(0)
    stride = line if lines == 1 else stride
    if (is_col or x.stride(1) == 1 or cols == 1 and rows == 1) and _addressable(
        lines, line, stride, size, x.data_ptr()
    ):
        return x, (x.data_ptr(), rows, cols, is_col, stride)
    padded = -(-max(line, 1) * size // 16) * 16 // size
    copy = x.new_empty((lines, padded))
    copy[:, :line].copy_(x.t() if is_col else x)
    return copy, (copy.data_ptr(), rows, cols, is_col, padded)


def _vector(vector: Tensor) -> Tensor:
    vector = vector.contiguous()
    return vector if vector.data_ptr() % 16 == 0 else vector.clone()


class _Result:
    """Where a kernel writes a matrix: the tensor of the result, or a padded one that is copied there."""

    def __init__(self, out: Tensor) -> None:
        rows, cols = out.shape
        self.out = out
        self.is_col = out.stride(1) != 1 and out.stride(0) == 1
        lines, line = (cols, rows) if self.is_col else (rows, cols)
        padded = -(-max(line, 1) * out.element_size() // 16) * 16 // out.element_size()
        if padded == line:
            self.padded = None
            self.argument = (out.data_ptr(), rows, cols, self.is_col, line)
        else:
            self.padded = out.new_empty((lines, padded))
            self.argument = (self.padded.data_ptr(), rows, cols, self.is_col, padded)

    def finish(self) -> None:
        """Copies the result to where it belongs."""
        if self.padded is not None:
            line = self.padded[:, : self.out.shape[0 if self.is_col else 1]]
            self.out.copy_(line.t() if self.is_col else line)


def _laid(x: Tensor, layout: str) -> Tensor:
    """A matrix in the layout that a kernel reads: itself where it lies so."""
    return x.t().contiguous().t() if layout == "col" else x.contiguous()


def _transposed(argument: tuple[int, int, int, bool, int]) -> tuple[int, int, int, bool, int]:
    address, rows, cols, is_col, stride = argument
    return address, cols, rows, not is_col, stride


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, pattern: Pattern, transpose: bool, activation: str
) -> Tensor:
    """``out = activation(x @ w.T + bias)``, or with ``w`` where it is transposed: C = A B of C = out.T, A = w, B = x.T."""
    index = x.device.index
    kind = _arrays.kind_of(x)
    with _OnDevice(index):
        if pattern.nnzb == 0 or 0 in out.shape:
            return _without_blocks(out, bias, activation)
        held, dense = _operand(x)
        result = _Result(out)
        facts = _facts(pattern, kind, transpose, dense[3], result.is_col)
        bias = None if bias is None else _vector(bias)
        epilogue = epilogue_of(activation, None if bias is None else _arrays.kind_of(bias))
        kernel = _kernel_of(index, pattern, facts, x.shape[0], epilogue)
        inputs = []
        if bias is not None:
            inputs.append(("bias", "rows", bias.data_ptr(), _arrays.kind_of(bias), bias.shape[0], 1, 1, 0.0))
        values = weight.contiguous()
        values = values if values.data_ptr() % 16 == 0 else values.clone()
        sparse = _sparse_of(index, pattern, kind)
        stream = _stream(index)
        kernel.product(sparse, values.data_ptr(), _transposed(dense), _transposed(result.argument), stream, inputs)
        result.finish()
        del held
    return out


def _facts(pattern: Pattern, kind: str, transpose: bool, x_is_col: bool, out_is_col: bool) -> str:
    """What a product is, in the words of a spec: rows of x are columns of B."""
    if kind == "f32":
        raise Error(
            "tensor cores multiply f32 on no GPU as a CPU does\n"
            "  help: convert to bf16 or f16, or run under `torch.autocast('cuda', torch.bfloat16)`"
        )
    bm, bk = pattern.block
    layouts = f"b_layout = {'row' if x_is_col else 'col'}, c_layout = {'row' if out_is_col else 'col'}"
    return (
        f"bm = {bm}, bn = 64, bk = {bk}, dtype = {kind}, out = {result_kind(kind)}, "
        f"transpose = {'on' if transpose else 'off'}, {layouts}"
    )


def _without_blocks(out: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    from ._torch import activate

    zeros = torch.zeros_like(out)
    return out.copy_(activate(zeros if bias is None else zeros + bias, activation))


def sampled(a: Tensor, b: Tensor, out: Tensor, pattern: Pattern) -> Tensor:
    """``out`` = the stored blocks of ``a @ b``."""
    index = a.device.index
    kind = _arrays.kind_of(a)
    with _OnDevice(index):
        if pattern.nnzb == 0:
            return out
        if a.shape[1] == 0:
            return out.zero_()
        (held_a, left), (held_b, right) = _operand(a), _operand(b)
        bm, bk = pattern.block
        facts = (
            f"bm = {bm}, bn = 64, bk = {bk}, op = sdd, dtype = {kind}, out = {result_kind(kind)}, "
            f"a_layout = {'col' if left[3] else 'row'}, b_layout = {'col' if right[3] else 'row'}"
        )
        kernel = _kernel_of(index, pattern, facts, a.shape[1], None)
        kernel.sampled(
            _sparse_of(index, pattern, _arrays.kind_of(out)), out.data_ptr(), left, right, _stream(index), []
        )
        del held_a, held_b
    return out


def why(x: Tensor, pattern_key: str, transpose: bool = False) -> str:
    """Which kernel multiplies ``x``, and why."""
    pattern = find(pattern_key)
    _, dense = _operand(x)
    facts = _facts(pattern, _arrays.kind_of(x), transpose, dense[3], dense[3])
    return _kernel_of(x.device.index, pattern, facts, x.shape[0], None).why


def launch_kernel(kernel: Any, call: Any) -> Any:
    """A call of a kernel of the program's own."""
    index = call.a.device.index
    key = (index, kernel.spec)
    loaded = _loaded.get(key)
    if loaded is None:
        with _lock:
            loaded = _loaded.setdefault(key, _gpu(index).load(kernel._native))
    native = kernel._native
    with _OnDevice(index):
        out, second = call.empty()
        inputs, held = _inputs(call)
        last = None if second is None else (second.data_ptr(), second.shape[0])
        if native.op == "sdd":
            held_a, left = _operand(_laid(call.a, native.layouts[0]))
            held_b, right = _operand(_laid(call.b, native.layouts[1]))
            sparse = _sparse_of(index, call.pattern, _arrays.kind_of(out))
            loaded.sampled(sparse, out.data_ptr(), left, right, _stream(index), inputs, last)
        else:
            values, dense = (call.b, call.a) if native.op == "dds" else (call.a, call.b)
            held_a, right = _operand(_laid(dense, native.layouts[0 if native.op == "dds" else 1]))
            held_b = values.contiguous()
            result = _Result(out)
            sparse = _sparse_of(index, call.pattern, _arrays.kind_of(values))
            loaded.product(sparse, held_b.data_ptr(), right, result.argument, _stream(index), inputs, last)
            result.finish()
        del held, held_a, held_b
    return call.results(out, second)


def _inputs(call: Any) -> tuple[list[tuple], list[Any]]:
    described, held = [], []
    call.inputs()  # Refuses what does not fit.
    for name, kind in call.kernel._inputs:
        value = call.given[name]
        if kind == "f32":
            described.append((name, "scalar", 0, "f32", 0, 0, 0, float(value)))
            continue
        if kind.startswith("Bsr"):
            raise Error(
                f"`{name}: {kind}` reads values of blocks, which is not launched from Python yet\n"
                "  help: add them to the result, or run the kernel on the CPU"
            )
        if not _arrays.is_tensor(value) or value.device != call.a.device:
            where = f"on {value.device}" if _arrays.is_tensor(value) else f"a {type(value).__name__}"
            raise Error(f"`{name}` is {where}, and the operands are on {call.a.device}\n  help: move it there")
        if kind.startswith("Dense"):
            array, argument = _operand(_laid(value, call.kernel._native.layouts[2]))
            held.append(array)
            address, rows, cols, _, stride = argument
            described.append((name, "dense", address, _arrays.kind_of(value), rows, cols, stride, 0.0))
        else:
            vector = _vector(value)
            held.append(vector)
            described.append((name, "vector", vector.data_ptr(), _arrays.kind_of(vector), vector.shape[0], 1, 1, 0.0))
    return described, held
