"""Kernels that are functions of Python."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _command, _kernel_pairs, _native
from ._kernel_inputs import inputs_of, named
from ._matrix import BsrMatrix, as_matrix
from ._native import Error
from ._patterns import Pattern
from ._products import pattern_like
from ._syntax import KernelError, Problem, Signature, Source, Text, read, setting

__all__ = ["Bsr", "Cols", "Dense", "Kernel", "KernelError", "Rows", "Simulation", "kernel", "simulate"]


class _Annotation:
    """The type of a kernel's parameter: `Bsr["bf16"]`. It is read from the source of the function."""

    def __class_getitem__(cls, element: str) -> type:
        return cls


class Bsr(_Annotation):
    """A block-sparse matrix; as a further operand of an SDDMM, values of the result's blocks."""


class Dense(_Annotation):
    """A dense matrix."""


class Rows(_Annotation):
    """A vector with a value for every row of the result."""


class Cols(_Annotation):
    """A vector with a value for every column of the result."""


def kernel(**settings: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Makes a kernel of a function: its types say what is sparse, its body is the epilogue, ``acc`` the sum.

    The settings are the keys of a spec: ``bm``, ``bn`` and ``bk`` must be given.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        text, signature = read(function, settings)
        built = Kernel._of(text.text.decode(), signature, text)
        functools.update_wrapper(built, function)
        return built

    return decorate


class Kernel:
    """A kernel: a spec that was planned. ``Kernel("bm = 64, bn = 128, bk = 64")`` makes one of a spec in text."""

    def __init__(self, spec: str) -> None:
        self._make(spec, None, None)

    @classmethod
    def _of(cls, spec: str, signature: Signature, text: Text) -> Kernel:
        built = object.__new__(cls)
        built._make(spec, signature, text)
        return built

    def _make(self, spec: str, signature: Signature | None, text: Text | None) -> None:
        native, problems = _planned(spec)
        if native is None:
            raise _refusal(spec, problems, text)
        self._native = native
        self._inputs: list[tuple[str, str]] = native.inputs
        further = [name for name, _ in self._inputs]
        self._signature = signature or Signature("a", "b", further, {})

    @property
    def spec(self) -> str:
        """The spec, with every key that differs from its default."""
        return self._native.spec

    @property
    def plan(self) -> str:
        """Every number of the kernel, with its arithmetic."""
        return self._native.table

    @property
    def ptx(self) -> str:
        """The kernel's text."""
        return self._native.ptx

    @property
    def entry(self) -> str:
        """The kernel's name in its text."""
        return self._native.entry

    @property
    def epilogue(self) -> str | None:
        """What becomes of a sum before it is written."""
        return self._native.epilogue

    def __repr__(self) -> str:
        return f"Kernel({self.spec!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The product of two operands: ``kernel(a, b, bias=bias, alpha=0.5)``; of a result in blocks ``like=`` is its pattern,
        which an SDDMM must be given.

        The result is an array of the library that the operands are of, a ``BsrMatrix`` where it is an SDDMM, and a pair of
        it and a vector where the kernel has a second result.
        """
        if self._native.op in _kernel_pairs.OPS:
            pairs = _kernel_pairs.PairsCall.of(self, args, kwargs)
            _refuse_gradients(pairs.a.values, pairs.b.values, *pairs.arguments.values())
            return pairs.run()
        call = _Call.of(self, args, kwargs)
        if call.device == "cpu":
            return call.on_cpu()
        from . import _kernel_launch

        return _kernel_launch.launch_kernel(self, call)

    def explain(self, m: int, n: int, k: int, pattern: str = "random:0.25") -> str:
        """Which kernel the tuner would take for a product with the block and the types of this one, and why."""
        return _command.output("explain", _without_epilogue(self), *_problem(m, n, k, pattern))

    def bench(self, m: int, n: int, k: int, pattern: str = "random:0.25") -> str:
        """The kernel's time on this machine's GPU, in turn with the dense library on as many operations."""
        return _command.output("bench", self.spec, *_problem(m, n, k, pattern))


@functools.lru_cache(maxsize=4096)
def _planned(spec: str) -> tuple[Any, list]:
    return _native.plan(spec)


def first_planned(specs: Sequence[str]) -> Kernel:
    """The kernel of the first of some specs that is planned; the refusal of the last where none is."""
    return Kernel(next((spec for spec in specs if _planned(spec)[0] is not None), specs[-1]))


def _refusal(spec: str, problems: list, text: Text | None) -> KernelError:
    if text is None:
        source = Source("<spec>", spec, 1, 0)
        text = Text(source)
        places = [_within_spec(spec, start, end) for *_, start, end in problems]
    else:
        source = text.source
        places = [text.place(start, end) for *_, start, end in problems]
    return KernelError([Problem(place, fact, help) for place, (fact, help, *_) in zip(places, problems)], source)


def _within_spec(spec: str, start: int, end: int) -> Any:
    from ._syntax import Place

    before = len(spec.encode()[:start].decode(errors="replace"))
    return Place(1, before, 1, before + max(1, end - start))


def _problem(m: int, n: int, k: int, pattern: str) -> list[str]:
    return ["--m", str(m), "--n", str(n), "--k", str(k), "--pattern", pattern]


def _without_epilogue(kernel: Kernel) -> str:
    native = kernel._native
    (bm, bk), (a, b, out), (a_layout, b_layout, c_layout) = native.block, native.dtypes, native.layouts
    facts = {"bm": bm, "bk": bk, "op": native.op, "a": a, "b": b, "out": out, "transpose": native.transpose}
    facts |= {"a_layout": a_layout} if native.op != "dsd" else {}
    facts |= {"b_layout": b_layout} if native.op != "dds" else {}
    facts |= {"c_layout": c_layout} if native.op != "sdd" else {}
    return ", ".join(f"{key} = {setting(value)}" for key, value in facts.items())


@dataclass
class _Call:
    """The operands of one call, checked."""

    kernel: Kernel
    a: Any
    b: Any
    pattern: Pattern
    arguments: dict[str, Any]
    device: str

    @classmethod
    def of(cls, kernel: Kernel, args: tuple, kwargs: dict[str, Any]) -> _Call:
        native, signature = kernel._native, kernel._signature
        like = kwargs.pop("like", None)
        arguments = named(signature, args, kwargs)
        a, b = arguments.pop(signature.a), arguments.pop(signature.b)
        if native.op == "sdd":
            pattern = pattern_like(like)
        else:
            name = signature.a if native.op == "dsd" else signature.b
            stored = as_matrix(a if native.op == "dsd" else b, f"`{name}`")
            pattern = stored.pattern
            _arrays.check_stored(stored.values, pattern)
            a, b = (stored, b) if native.op == "dsd" else (a, stored)
        if pattern.block != native.block:
            bm, bk = native.block
            raise Error(
                f"the matrix has blocks of {pattern.block[0]} x {pattern.block[1]}, and the kernel multiplies blocks of {bm} x {bk}\n"
                f"  help: bm = {pattern.block[0]}, bk = {pattern.block[1]}"
            )
        a, b = (
            _arrays.contiguous(operand.values) if isinstance(operand, BsrMatrix) else _arrays.as_array(operand)
            for operand in (a, b)
        )
        for name, operand, kind in zip((signature.a, signature.b), (a, b), native.dtypes):
            if _arrays.kind_of(operand) != kind:
                raise Error(
                    f"`{name}` is of {_arrays.kind_of(operand)}, and the kernel multiplies {kind}\n  help: convert it"
                )
        if _arrays.is_tensor(a) != _arrays.is_tensor(b):
            raise Error(
                "one operand is an array of NumPy and one a tensor\n  help: `torch.from_numpy` makes a tensor of an array"
            )
        _refuse_gradients(a, b, *arguments.values())
        if _arrays.is_tensor(a) and a.device != b.device:
            raise Error(f"one operand is on {a.device} and the other on {b.device}\n  help: move one of them")
        call = cls(kernel, a, b, pattern, arguments, a.device.type if _arrays.is_tensor(a) else "cpu")
        call._check_shapes()
        return call

    @property
    def op(self) -> str:
        return self.kernel._native.op

    def _check_shapes(self) -> None:
        rows, cols = self.pattern.shape
        stored = (cols, rows) if self.kernel._native.transpose else (rows, cols)
        dense = {"dsd": (self.b, 0, stored[1]), "dds": (self.a, 1, stored[0])}.get(self.op)
        for operand in {"dsd": [self.b], "dds": [self.a], "sdd": [self.a, self.b]}[self.op]:
            if len(operand.shape) != 2:
                raise Error(
                    f"a dense operand has {len(operand.shape)} dimensions\n  help: a kernel multiplies matrices"
                )
        if dense is not None and dense[0].shape[dense[1]] != dense[2]:
            shape = " x ".join(map(str, dense[0].shape))
            raise Error(f"the shapes do not fit: a dense {shape} and a sparse {stored[0]} x {stored[1]} matrix")
        if self.op == "sdd" and (self.a.shape[0], self.b.shape[1], self.a.shape[1]) != (*stored, self.b.shape[0]):
            shapes = [" x ".join(map(str, operand.shape)) for operand in (self.a, self.b)]
            raise Error(f"the shapes do not fit: {shapes[0]} times {shapes[1]} at blocks of a {rows} x {cols} matrix")

    @property
    def result_shape(self) -> tuple[int, int]:
        """Rows and columns of C; of an SDDMM those of the stored matrix."""
        rows, cols = self.pattern.shape
        outer = (cols, rows) if self.kernel._native.transpose else (rows, cols)
        return {"dsd": (outer[0], self.b.shape[-1]), "dds": (self.a.shape[0], outer[1]), "sdd": (rows, cols)}[self.op]

    def inputs(self, is_transposed: bool = False) -> tuple[list[tuple[str, _arrays.Matrix]], list[Any]]:
        """The arguments of the epilogue's parameters, and the objects to keep alive; ``mirrored`` for the transposed result."""
        operands = (self.a, self.pattern, self.result_shape)
        return inputs_of(self.kernel._inputs, self.arguments, operands, is_transposed)

    def empty(self) -> tuple[Any, Any]:
        """Places for the result and the second one."""
        native = self.kernel._native
        m, n = self.result_shape
        kind, like = native.dtypes[2], self.a
        if self.op == "sdd":
            out = _arrays.empty_like(like, (self.pattern.nnzb, *self.pattern.block), kind)
            # Places without a block are not written.
            out = out.zero_() if self.pattern.on_device else out
        elif native.layouts[2] == "col":
            out = _arrays.empty_like(like, (n, m), kind).T
        else:
            out = _arrays.empty_like(like, (m, n), kind)
        return out, _arrays.empty_like(like, (m,), "f32") if native.second else None

    def results(self, out: Any, second: Any) -> Any:
        """As the caller gets them."""
        out = BsrMatrix(out, self.pattern, check=False) if self.op == "sdd" else out
        return out if second is None else (out, second)

    def on_cpu(self) -> Any:
        native = self.kernel._native
        if self.op == "dds" and native.second:
            return self._on_cpu_as_sddmm()
        out, second = self.empty()
        is_transposed = self.op == "dds"
        inputs, alive = self.inputs(is_transposed)
        epilogue = None if native.epilogue is None else (native.epilogue, inputs)
        last = None if second is None else _arrays.rows(second, len(second))
        pattern = self.pattern._native
        if self.op == "sdd":
            # What is stored of the transposed product is that of the operands exchanged, each transposed.
            a, b = (self.b.T, self.a.T) if native.transpose else (self.a, self.b)
            _native.multiply_sddmm(pattern, _arrays.matrix(a), _arrays.matrix(b), _arrays.values(out), epilogue, last)
        else:
            # B sparse: the transposed problem, in which it is the first factor.
            values, dense, result = (self.b, self.a.T, out.T) if is_transposed else (self.a, self.b, out)
            kept, blocks = _arrays.stored(values, self.pattern)
            alive.append(kept)
            _native.multiply(
                pattern,
                native.transpose != is_transposed,
                blocks,
                _arrays.matrix(dense),
                _arrays.matrix(result),
                epilogue,
                last,
            )
        del alive
        return self.results(out, second)

    def _on_cpu_as_sddmm(self) -> Any:
        """Rows that are collected lie across the transposed problem: the product is an SDDMM of one block instead."""
        native = self.kernel._native
        out, second = self.empty()
        dense = BsrMatrix(self.b, self.pattern, check=False).to_dense()
        dense = dense.T if native.transpose else dense
        (m, n), inputs = self.result_shape, self.inputs()
        whole = Pattern((m, n), (m, n), [0, 1], [0])
        blocks = _arrays.empty_like(self.a, (1, m, n), native.dtypes[2])
        last = _arrays.rows(second, m)
        epilogue = (native.epilogue, inputs[0])
        _native.multiply_sddmm(
            whole._native, _arrays.matrix(self.a), _arrays.matrix(dense), _arrays.values(blocks), epilogue, last
        )
        out[...] = blocks[0]
        return self.results(out, second)


def _refuse_gradients(*operands: Any) -> None:
    if any(_arrays.is_tensor(operand) and operand.requires_grad for operand in operands):
        import torch

        if torch.is_grad_enabled():
            raise Error(
                "an operand of the kernel requires a gradient, and your own kernels have none\n"
                "  help: call it under `torch.no_grad()`, or use `bsr_gemm.linear`, whose gradients are products too"
            )


@dataclass
class Simulation:
    """What a kernel did on the simulator."""

    result: Any
    """The product, as the kernel's PTX computed it."""
    rows: np.ndarray | None
    """The second result, where there is one."""
    findings: list[str]
    """Every race, missing fence and misused barrier; empty for a kernel without defects."""
    steps: int
    """Warp instructions that were executed."""
    flops: int
    """Multiplications and additions."""
    bytes_copied: int
    """Bytes that asynchronous copies moved."""
    cycles: int
    """Cycles of the longest-running cluster, by a rough model."""


def _refuse_gpu(operand: Any) -> None:
    if _arrays.is_tensor(operand) and operand.device.type != "cpu":
        raise Error(f"the operands are on {operand.device}, and the simulator is on the CPU\n  help: `x.cpu()`")


def simulate(kernel: Kernel, *args: Any, seed: int = 0, **kwargs: Any) -> Simulation:
    """Runs a kernel's PTX on the CPU, instruction by instruction, and looks for its defects.

    The operands are those of a call of the kernel, on the CPU.
    """
    if not 0 <= seed < 2**64:
        raise Error(f"seed = {seed}\n  help: a number from 0 on, below 2^64")
    if kernel._native.op in _kernel_pairs.OPS:
        pairs = _kernel_pairs.PairsCall.of(kernel, args, kwargs)
        _refuse_gpu(pairs.a.values)
        result, rows, findings, cost = pairs.simulated(seed)
        return Simulation(result, None if rows is None else np.array(rows, dtype=np.float32), findings, *cost)
    call = _Call.of(kernel, args, kwargs)
    _refuse_gpu(call.a)
    native = kernel._native
    a = _arrays.values(call.a) if native.op == "dsd" else _arrays.matrix(call.a)
    b = _arrays.values(call.b) if native.op == "dds" else _arrays.matrix(call.b)
    inputs, alive = call.inputs()
    data, rows, findings, cost = _native.simulate(native, call.pattern._native, a, b, inputs, seed)
    del alive
    out, _ = call.empty()
    shape = tuple(out.shape)
    if _arrays.is_tensor(call.a):
        import torch

        result = torch.frombuffer(bytearray(data), dtype=out.dtype).reshape(shape) if data else out
    else:
        result = np.frombuffer(bytearray(data), dtype=out.dtype).reshape(shape)
    result = BsrMatrix(result, call.pattern, check=False) if native.op == "sdd" else result
    return Simulation(result, None if rows is None else np.array(rows, dtype=np.float32), findings, *cost)
